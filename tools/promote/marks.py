"""The mark that a promoted text ends with: which memories it holds, and whether somebody changed it since.

The mark is the only record: where the file is gone, or is of another branch, its memories are shown as all others.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

Place = Literal["skill", "agents-md", "claude-md"]
PLACES: tuple[Place, ...] = get_args(Place)
"""Where memories are promoted to."""

PREFIX = "learned-"
"""Begins the name of each of our skills; the rest is of our own list of subjects or a number, never of a memory."""

BEGIN = "<!-- swarm-memory promote: begin; `swarm-memory promote` writes this block again -->"
"""Before a block in a file of rules; the block ends with its mark."""

_OPEN = "<!-- swarm-memory promote: "
_MARK = re.compile(
    f"^{_OPEN}"
    r"(?P<ids>rm_[0-9A-HJKMNP-TV-Z]{26}(?: rm_[0-9A-HJKMNP-TV-Z]{26})*)"
    r" of (?P<source>[0-9a-f]{12}) text (?P<text>[0-9a-f]{12}) after (?P<after>[0-2]) -->[ \t]*(?=\r?$)",
    re.MULTILINE,
)
_DIGEST_CHARS = 12


class Marked(NamedTuple):
    """A text of ours as it is in a file, with what its mark says."""

    ids: tuple[str, ...]
    source: str
    """Digest of the texts that it was written from."""
    body: str
    """What stands before the mark; of a block after its begin. Line ends are `\\n`."""
    is_edited: bool
    """Whether somebody changed it since."""
    after: int
    """Line ends that were put before a block."""
    span: tuple[int, int]
    """Where in the file it stands, its begin and its mark included."""


def marked(ids: Sequence[str], source: str, body: str, after: int = 0) -> str:
    """Return a body with its mark."""
    return f"{body}\n{_OPEN}{' '.join(ids)} of {source} text {digest(body)} after {after} -->"


def find_document(text: str) -> Marked | None:
    """Return the text of ours that a whole file is; None where it is none."""
    found = _marks(text)
    if len(found) != 1:
        return None
    rest = text[found[0].end() :].strip()
    read = _read(found[0], text[: found[0].start()], (0, len(text)))
    return read._replace(is_edited=True) if rest else read


def find_block(text: str) -> Marked | None:
    """Return the block of ours in a file. Raises `ValueError` where its marks are torn apart or stand there twice."""
    span = span_of(text, re.compile(re.escape(BEGIN)), _MARK)
    if span is None:
        return None
    (mark,) = _marks(text)
    return _read(mark, text[span[0] + len(BEGIN) : mark.start()], span)


def span_of(text: str, begin: re.Pattern[str], end: re.Pattern[str]) -> tuple[int, int] | None:
    """Return where a block stands, its begin and its end included; None where there is neither.

    Raises `ValueError` where one of them is missing, or stands there twice.
    """
    begins, ends = list(begin.finditer(text)), list(end.finditer(text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].start():
        raise ValueError("our marks are torn apart or stand there twice")
    return begins[0].start(), ends[0].end()


def _read(mark: re.Match[str], body: str, span: tuple[int, int]) -> Marked:
    body = body.replace("\r\n", "\n").removeprefix("\n").removesuffix("\n")
    ids = tuple(mark["ids"].split())
    return Marked(ids, mark["source"], body, digest(body) != mark["text"], int(mark["after"]), span)


def _marks(text: str) -> list[re.Match[str]]:
    """Return the marks in a text; most have none."""
    return list(_MARK.finditer(text)) if _OPEN in text else []


def ids_in(text: str) -> tuple[str, ...]:
    """Return the ids of the memories that promoted texts within `text` hold, in order."""
    return tuple(dict.fromkeys(memory_id for mark in _marks(text) for memory_id in mark["ids"].split()))


def digest(*texts: str) -> str:
    """Return 12 hex digits of texts."""
    whole = "".join(f"{len(text)}\n{text}" for text in texts)
    return sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]
