"""A text cut into passages by its structure: blocks in, ranges of characters out. Markdown is the only format it knows.

A chunk is a slice of the text, so that no word is lost, changed or moved. Lengths are counted in words, as divided by
white space; where there is none, 2 characters (Chinese) or 24 (base64) count as one word.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

MAX_WORDS = 500
OVERLAP_WORDS = 50
MIN_WORDS = 80
"""A section with fewer words shares its chunk with the next one, where that fits as a whole."""

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]{{1,2}}|[^\s{_UNSPACED}\U00020000-\U0003ffff]{{1,24}}")
_SENTENCE = re.compile(r"[.!?][)\]\"'\u2019\u201d]{0,3}\s+|[\u3002\uff01\uff1f]|\n")
_LINE = re.compile(r"\n")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,}|~{3,}|\^{3,})[ \t]*$")
_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4}
_TABLE_RULE = re.compile(r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S")

_MAX_LINE = 2000
"""A longer line is no heading, fence, table rule or list item: the patterns for these need not read it."""

Kind: TypeAlias = Literal["heading", "paragraph", "code", "table"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the text that is one unit: `text[start:end]`, including the white space after it."""

    kind: Kind
    start: int
    end: int
    level: int = 0
    """The level of a heading: 1 is the highest."""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`text[start:end]`, the headings it is under, and `also` those of further sections that it contains whole."""

    start: int
    end: int
    headings: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def word_count(text: str, start: int = 0, end: int | None = None) -> int:
    """Return how many words `text[start:end]` counts."""
    return sum(1 for _ in _WORD.finditer(text, start, len(text) if end is None else end))


def markdown_blocks(text: str) -> list[Block]:
    """Return the blocks of a Markdown (or plain) text in order; together they are the whole text.

    Known are CommonMark's ATX and setext headings (also reStructuredText's), fences, and the tables of GitHub; what is
    between blank lines and list items is a paragraph. Linear in the length.
    """
    starts = [0, *(match.end() for match in re.finditer(r"\n(?!\Z)", text)), len(text)]
    lines = ["" if end - start > _MAX_LINE else text[start:end].rstrip("\n") for start, end in pairwise(starts)]
    blocks: list[Block] = []
    at = 0
    while at < len(lines) and text:
        kind, until, level, heading = _block_at(lines, at)
        while until < len(lines) and text[starts[until] : starts[until + 1]].isspace():
            until += 1
        blocks.append(Block(kind, starts[at], starts[until], level, " ".join(heading.split())))
        at = until
    return blocks


def _block_at(lines: Sequence[str], at: int) -> tuple[Kind, int, int, str]:
    """Return the kind of the block that begins at a line, the line after the block, and a heading's level and words."""
    line, until = lines[at], at + 1
    if fence := _FENCE.match(line):
        closing = re.compile(rf" {{0,3}}{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
        until = next((end + 1 for end in range(until, len(lines)) if closing.match(lines[end])), len(lines))
        return "code", until, 0, ""
    if atx := _ATX.match(line):
        return "heading", until, len(atx[1]), re.sub(r"(?:^|[ \t])#+$", "", (atx[2] or "").rstrip(" \t"))
    if _is_table(lines, at):
        return "table", next((end for end in range(until, len(lines)) if "|" not in lines[end]), len(lines)), 0, ""
    under = _UNDERLINE.match(lines[until]) if until < len(lines) and line.strip() and len(line) <= 200 else None
    if under is not None and line.strip() != "---" and not _LIST_ITEM.match(line):
        return "heading", until + 1, _LEVELS[under[1][0]], line
    while until < len(lines) and lines[until].strip() and not _is_table(lines, until):
        if any(pattern.match(lines[until]) for pattern in (_FENCE, _ATX, _LIST_ITEM)):
            break
        until += 1
    return "paragraph", until, 0, ""


def _is_table(lines: Sequence[str], at: int) -> bool:
    rule = lines[at + 1] if at + 1 < len(lines) else ""
    return "|" in lines[at] and "-" in rule and _TABLE_RULE.match(rule) is not None


def chunks(text: str, blocks: Sequence[Block]) -> list[Chunk]:
    """Return the chunks in order: at most `MAX_WORDS` each, cut where the text hangs together least.

    Cuts are made before a heading, else between blocks, else between sentences, lines or words. A code block or table
    that fits into a chunk is never cut. A chunk that continues a section repeats up to `OVERLAP_WORDS` words of the
    chunk before, in whole sentences; after code or a table nothing is repeated.
    """
    builder = _Builder(text)
    for headings, section in _sections(blocks):
        words = sum(word_count(text, block.start, block.end) for block in section)
        if not (0 < builder.words < MIN_WORDS and builder.words + words <= MAX_WORDS):
            builder.close()
        builder.open(headings)
        for block in section:
            builder.add(block)
    builder.close()
    return builder.chunks


def _sections(blocks: Sequence[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    """Yield for each section the path of headings to it, and its blocks: its heading (if any) and what is under it."""
    path: list[tuple[int, str]] = []
    current: list[Block] = []
    for block in (*blocks, None):
        if current and (block is None or block.kind == "heading"):
            yield tuple(name for _, name in path if name), current
            current = []
        if block is None:
            return
        if block.kind == "heading":
            path = [*((level, name) for level, name in path if level < block.level), (block.level, block.heading)]
        current.append(block)


class _Piece(NamedTuple):
    """A part of a block that is not divided further."""

    start: int
    end: int
    words: int


class _Builder:
    """Collects blocks into chunks. `words` counts the words of the open chunk, including those it repeats."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.chunks: list[Chunk] = []
        self.words = 0
        self._start = self._end = 0
        self._headings: tuple[str, ...] = ()
        self._also: tuple[str, ...] = ()
        self._prose: list[_Piece] = []
        """The sentences at the open chunk's end, which the next chunk may repeat."""

    def open(self, headings: tuple[str, ...]) -> None:
        """Begin a section, within the open chunk where that has something in it."""
        if self.words == 0 or headings[: len(self._headings)] == self._headings:
            self._headings = headings
        elif headings:
            self._also = (*self._also, headings[-1])

    def close(self) -> None:
        """End the chunk; the next one repeats nothing."""
        if self.words:
            self.chunks.append(Chunk(self._start, self._end, self._headings, self._also))
        self._start, self._also, self._prose, self.words = self._end, (), [], 0

    def add(self, block: Block) -> None:
        """Take in a block, beginning new chunks where there is no room for it."""
        is_prose = block.kind in ("heading", "paragraph")
        whole = _Piece(block.start, block.end, word_count(self.text, block.start, block.end))
        if self.words + whole.words > MAX_WORDS and (not is_prose or self.words >= MAX_WORDS // 2):
            self._cut(room_for=whole.words)
        fits = self.words + whole.words <= MAX_WORDS and not is_prose
        for piece in [whole] if fits else _pieces(self.text, whole, _SENTENCE if is_prose else _LINE):
            if self.words and self.words + piece.words > MAX_WORDS:
                self._cut(room_for=piece.words)
            self._end = piece.end
            self.words += piece.words
            self._prose = [*self._prose, piece][-OVERLAP_WORDS:] if is_prose else []

    def _cut(self, room_for: int) -> None:
        """End the chunk and begin the next with its last sentences, as many as leave room for what follows."""
        room, begun, repeated = min(OVERLAP_WORDS, MAX_WORDS - room_for), self._start, list[_Piece]()
        for piece in reversed(self._prose):
            room -= piece.words
            if room < 0 or piece.start <= begun:
                break
            repeated.insert(0, piece)
        self.close()
        if repeated:
            self._start, self._prose = repeated[0].start, repeated
            self.words = word_count(self.text, self._start, self._end)


def _pieces(text: str, whole: _Piece, ends: re.Pattern[str]) -> Iterator[_Piece]:
    """Yield a block cut after each match of `ends`; what is still too long for a chunk is cut between words too."""
    most = MAX_WORDS - OVERLAP_WORDS
    bounds = [whole.start, *(match.end() for match in ends.finditer(text, whole.start, whole.end)), whole.end]
    for start, end in pairwise(bounds):
        words = [match.start() for match in _WORD.finditer(text, start, end)]
        begun = 0
        while len(words) - begun > most:
            spaced = (at for at in range(begun + most, begun, -1) if text[words[at] - 1].isspace())
            cut = next(spaced, begun + most)
            yield _Piece(start, words[cut], cut - begun)
            start, begun = words[cut], cut
        if start < end:
            yield _Piece(start, end, len(words) - begun)
