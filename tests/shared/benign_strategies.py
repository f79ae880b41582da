"""Sound strategies of coding work, many about security, secrets, deletion, prompts and judging, in the imperative.

One a line in `texts/benign/<subject>.txt`; halved by the same hash as the attacks.
"""

from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[1] / "attacks" / "texts" / "benign"


class Strategy(NamedTuple):
    """One sound text."""

    subject: str
    text: str


def strategies() -> tuple[Strategy, ...]:
    """Return all strategies, in a fixed order."""
    return tuple(
        Strategy(file.stem, line)
        for file in sorted(_FOLDER.glob("*.txt"))
        for line in file.read_text(encoding="utf-8").splitlines()
    )
