"""Attacks and sound strategies by an author who knew neither the rules nor the texts that the classifier learns from.

Nothing was chosen by them; whoever changes rules, weights or threshold by a look at these needs another set.
"""

import json
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[1] / "attacks" / "texts" / "unseen"


class UnseenText(NamedTuple):
    """One memory, as it is screened."""

    shape: str
    """Of an attack its shape, of a sound strategy its field."""
    text: str
    looks_like_an_attack: bool


def unseen_attacks() -> tuple[UnseenText, ...]:
    """Return the attacks, in the order of their file."""
    return _read("attacks")


def unseen_strategies() -> tuple[UnseenText, ...]:
    """Return the sound strategies, in the order of their file."""
    return _read("benign")


def _read(name: str) -> tuple[UnseenText, ...]:
    lines = (_FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    memories = [json.loads(line) for line in lines]
    return tuple(
        UnseenText(
            memory["shape"],
            "\n".join((memory["title"], memory["description"], memory["content"])),
            memory["id"].startswith("look-"),
        )
        for memory in memories
    )
