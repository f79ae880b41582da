"""Texts whose authors did not know the texts that the classifier learns from: attacks, sound strategies, plain text.

No rule and no training text was written by them. Their totals were seen when the last mix of training texts and the
threshold were chosen, so that whoever changes these again needs another set. The author of the attacks and strategies
in `.jsonl` did not know the rules either.
"""

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[1] / "attacks" / "texts" / "unseen"
_SHORTEST = 20


class UnseenText(NamedTuple):
    """One memory, as it is screened."""

    shape: str
    """Of an attack its shape, of a sound strategy its field, of plain text its register."""
    text: str
    looks_like_an_attack: bool = False


def unseen_attacks() -> tuple[UnseenText, ...]:
    """Return the attacks, in the order of their file."""
    return _read("attacks")


def unseen_strategies() -> tuple[UnseenText, ...]:
    """Return the sound strategies, in the order of their file."""
    return _read("benign")


def published_attacks() -> tuple[UnseenText, ...]:
    """Return attacks of the kinds that publications on agents' memories and tools describe."""
    return tuple(UnseenText(shape, text.replace("|", "\n", 1)) for shape, text in _lines("published"))


def plain_texts() -> tuple[UnseenText, ...]:
    """Return what people write who attack nobody: preferences, rules of teams, chat, commits, notes, strategies."""
    return tuple(UnseenText(register, text) for register, text in _lines("plain"))


def docstrings_of(*packages: str) -> tuple[UnseenText, ...]:
    """Return the first paragraphs of the docstrings of installed packages."""
    found: dict[str, None] = {}
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for file in sorted(Path(spec.origin).parent.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                    found[" ".join(text.split("\n\n")[0].split())] = None
    return tuple(UnseenText("docstrings", text) for text in found if len(text) >= _SHORTEST)


def _lines(name: str) -> Iterator[tuple[str, str]]:
    for line in (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            shape, _, text = line.partition("|")
            yield shape, text


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
