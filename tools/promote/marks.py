"""The mark at the end of each of our skills: which memories it holds, and whether somebody changed it since.

The mark is the only record: when the file is gone, or is of another branch, its memories are shown like all others.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

PREFIX = "learned-"
"""Begins the name of each of our skills; the rest comes from our own list of subjects or a number, never a memory."""

_OPEN = "<!-- swarm-memory promote: "
_MARK = re.compile(
    f"^{_OPEN}"
    r"(?P<ids>rm_[0-9A-HJKMNP-TV-Z]{26}(?: rm_[0-9A-HJKMNP-TV-Z]{26})*)"
    r" of (?P<source>[0-9a-f]{12}) text (?P<text>[0-9a-f]{12})(?: after 0)? -->[ \t]*(?=\r?$)",
    re.MULTILINE,
)
"""Earlier versions wrote `after 0`."""

_DIGEST_CHARS = 12


class MarkedSkill(NamedTuple):
    """One of our skills as a file holds it, with what its mark says."""

    ids: tuple[str, ...]
    source: str
    """Digest of the texts that it was written from."""
    body: str
    """The text before the mark. Line ends are `\\n`."""
    is_edited: bool
    """Whether somebody changed it since."""


def marked(ids: Sequence[str], source: str, body: str) -> str:
    """Return a body with its mark."""
    return f"{body}\n{_OPEN}{' '.join(ids)} of {source} text {digest(body)} -->\n"


def find_skill(text: str) -> MarkedSkill | None:
    """Return the skill if a whole file is one of ours, else None."""
    found = _marks(text)
    if len(found) != 1:
        return None
    (mark,) = found
    body = text[: mark.start()].replace("\r\n", "\n").removesuffix("\n")
    is_edited = digest(body) != mark["text"] or bool(text[mark.end() :].strip())
    return MarkedSkill(tuple(mark["ids"].split()), mark["source"], body, is_edited)


def _marks(text: str) -> list[re.Match[str]]:
    """Return the marks in a text; most texts have none."""
    return list(_MARK.finditer(text)) if _OPEN in text else []


def ids_in(text: str) -> tuple[str, ...]:
    """Return the ids of the memories that the marks within `text` name, in order."""
    return tuple(dict.fromkeys(memory_id for mark in _marks(text) for memory_id in mark["ids"].split()))


def digest(*texts: str) -> str:
    """Return a digest of texts, 12 hex digits long."""
    whole = "".join(f"{len(text)}\n{text}" for text in texts)
    return sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]
