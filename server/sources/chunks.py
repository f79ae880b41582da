"""A text cut into passages by its structure: blocks in, ranges of characters out. Of formats it knows Markdown only.

A chunk is a slice of the text, so that no word of it is lost, changed or put elsewhere. What is counted is words, as
white space divides them; where there is none (Chinese, base64) two, or 24, characters count as one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

MAX_WORDS = 500
OVERLAP_WORDS = 50
MIN_WORDS = 80
"""A section with fewer words shares its chunk with the next one, where that fits as a whole."""

BlockKind: TypeAlias = Literal["heading", "paragraph", "code", "table"]

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNIT = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]{{1,2}}|[^\s{_UNSPACED}\U00020000-\U0003ffff]{{1,24}}")
_SENTENCE = re.compile(r"[.!?][)\]\"'\u2019\u201d]{0,3}\s+|[\u3002\uff01\uff1f]|\n")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#*)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,}|~{3,}|\^{3,})[ \t]*$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_Test: TypeAlias = Callable[[int], bool]

_MAX_LINE = 2000
"""A longer line is no heading, fence, table rule or list item: what looks for them need not read it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the text that is one thing: `text[start:end]`, white space behind it included."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    """Of a heading: 1 is the highest."""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`text[start:end]`, the headings it stands under, and those of sections that were taken in whole."""

    start: int
    end: int
    headings: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def word_count(text: str, start: int = 0, end: int | None = None) -> int:
    """Return how many words `text[start:end]` counts."""
    return sum(1 for _ in _UNIT.finditer(text, start, len(text) if end is None else end))


def markdown_blocks(text: str) -> list[Block]:
    """Return the blocks of a Markdown (or plain) text in order; together they are the whole text.

    CommonMark's ATX and setext headings, fences and front matter, and the tables of GitHub; a list item is a paragraph.
    Linear in the length.
    """
    return list(_Blocks(text).read())


def chunks(text: str, blocks: Sequence[Block]) -> list[Chunk]:
    """Return the chunks in order: at most `MAX_WORDS` each, cut where the structure is weakest.

    Before a heading first, else between blocks, else between sentences, lines, words. A code block or table that fits
    into a chunk is never cut. A chunk that goes on with the same section repeats up to `OVERLAP_WORDS` of whole
    sentences (of words where a sentence is longer) of the one before; after code or a table nothing is repeated.
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


class _Blocks:
    """Reads a text line by line into blocks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [(match.start(), match.end()) for match in re.finditer(r"[^\n]*\n|[^\n]+", text)]
        self.at = 0

    def line(self, at: int) -> str:
        start, end = self.lines[at]
        return "" if end - start > _MAX_LINE else self.text[start:end].rstrip("\n")

    def is_blank(self, at: int) -> bool:
        start, end = self.lines[at]
        return self.text[start:end].isspace()

    def read(self) -> Iterator[Block]:
        if self.lines and self.line(0).rstrip() == "---" and (front := self._front_matter()):
            yield self._block("paragraph", front)
        while self.at < len(self.lines):
            yield self._next()

    def _next(self) -> Block:
        line = self.line(self.at)
        if fence := _FENCE.match(line):
            return self._block("code", self._fence_end(fence[1]))
        if atx := _ATX.match(line):
            return self._block("heading", self.at + 1, len(atx[1]), (atx[2] or "").strip())
        if self._is_table(self.at):
            return self._block("table", self._run_end(lambda at: "|" in self._whole(at)))
        if level := self._underlined():
            return self._block("heading", self.at + 2, level, line.strip())
        return self._block("paragraph", self._run_end(self._goes_on))

    def _block(self, kind: BlockKind, until: int, level: int = 0, heading: str = "") -> Block:
        """Close a block before line `until`; blank lines behind it belong to it."""
        start = self.lines[self.at][0]
        while until < len(self.lines) and self.is_blank(until):
            until += 1
        self.at = until
        return Block(kind, start, self.lines[until - 1][1], level, " ".join(heading.split()))

    def _whole(self, at: int) -> str:
        start, end = self.lines[at]
        return self.text[start:end]

    def _run_end(self, goes_on: _Test) -> int:
        at = self.at + 1
        while at < len(self.lines) and goes_on(at):
            at += 1
        return at

    def _goes_on(self, at: int) -> bool:
        """Tell whether a line continues the paragraph before it."""
        line = self.line(at)
        begins = _FENCE.match(line) or _ATX.match(line) or _LIST_ITEM.match(line) or self._is_table(at)
        return not (begins or self.is_blank(at))

    def _front_matter(self) -> int:
        """Return the line after the front matter, 0 when there is none."""
        for at in range(1, min(len(self.lines), 200)):
            if self.line(at).rstrip() in ("---", "..."):
                return at + 1
        return 0

    def _fence_end(self, mark: str) -> int:
        closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
        at = self.at + 1
        while at < len(self.lines):
            if closing.match(self.line(at)):
                return at + 1
            at += 1
        return at

    def _is_table(self, at: int) -> bool:
        if at + 1 >= len(self.lines) or "|" not in self.line(at):
            return False
        rule = self.line(at + 1)
        return "-" in rule and bool(_TABLE_RULE.match(rule))

    def _underlined(self) -> int:
        """Return the level of a heading that the next line underlines (setext, reStructuredText), 0 for none."""
        following, line = self.at + 1, self.line(self.at).strip()
        if not line or following >= len(self.lines) or _LIST_ITEM.match(line) or len(line) > 200:
            return 0
        rule = _UNDERLINE.match(self.line(following))
        if rule is None or (rule[1][0] != "=" and len(rule[1]) < min(len(line), 3)):
            return 0
        return {"=": 1, "-": 2, "~": 3, "^": 4}[rule[1][0]]


def _sections(blocks: Sequence[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    """Yield a heading (none before the first one) with the blocks under it, behind the path of headings to it."""
    path: list[tuple[int, str]] = []
    current: list[Block] = []
    for block in blocks:
        if block.kind == "heading":
            if current:
                yield tuple(name for _, name in path if name), current
            current = []
            path = [(level, name) for level, name in path if level < block.level]
            path.append((block.level, block.heading))
        current.append(block)
    if current:
        yield tuple(name for _, name in path if name), current


class _Builder:
    """Collects blocks into chunks. `words` is what the open chunk has, what it repeats included."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.chunks: list[Chunk] = []
        self.words = 0
        self._start = self._end = 0
        self._headings: tuple[str, ...] = ()
        self._also: tuple[str, ...] = ()
        self._pieces: list[tuple[int, int, int]] = []
        """Start, end and words of the prose at the open chunk's end: what the next one may repeat."""

    def open(self, headings: tuple[str, ...]) -> None:
        """Begin a section, in the open chunk when it has something in it."""
        if self.words == 0 or headings[: len(self._headings)] == self._headings:
            self._headings = headings
        elif headings:
            self._also = (*self._also, headings[-1])

    def close(self) -> None:
        """End the chunk; the next one repeats nothing."""
        if self.words:
            self.chunks.append(Chunk(self._start, self._end, self._headings, self._also))
        self._start, self._also, self._pieces, self.words = self._end, (), [], 0

    def add(self, block: Block) -> None:
        """Take a block in, beginning new chunks where it has no room."""
        words = word_count(self.text, block.start, block.end)
        is_whole = block.kind in ("code", "table")
        if self.words + words > MAX_WORDS and (is_whole or self.words >= MAX_WORDS // 2):
            self._cut(room_for=words)
        if self.words + words <= MAX_WORDS and is_whole:
            self._take(block.start, block.end, words, may_repeat=False)
            return
        for start, end, count in _pieces(self.text, block, MAX_WORDS - OVERLAP_WORDS):
            if self.words and self.words + count > MAX_WORDS:
                self._cut(room_for=count)
            self._take(start, end, count, may_repeat=not is_whole)

    def _take(self, start: int, end: int, words: int, *, may_repeat: bool) -> None:
        self._end = end
        self.words += words
        if may_repeat:
            self._pieces.append((start, end, words))
        else:
            self._pieces.clear()

    def _cut(self, room_for: int) -> None:
        """End the chunk and begin the next with the last sentences of it, as many as leave room for what follows."""
        repeated = self._tail(min(OVERLAP_WORDS, MAX_WORDS - room_for))
        begun, limit = self._start, self._end
        self.close()
        if repeated is not None and begun < repeated < limit:
            self._start = repeated
            self.words = word_count(self.text, repeated, limit)
            self._pieces = [(repeated, limit, self.words)]

    def _tail(self, limit: int) -> int | None:
        """Return where the last sentences with at most `limit` words begin; within a sentence that has more."""
        begin, left = None, limit
        for start, end, words in reversed(self._pieces):
            if words > left:
                return _last_words(self.text, start, end, limit) if begin is None and limit > 0 else begin
            begin, left = start, left - words
        return begin


def _last_words(text: str, start: int, end: int, limit: int) -> int | None:
    """Return where the last at most `limit` words of a piece begin, at a white space; None when there is none."""
    starts = [match.start() for match in _UNIT.finditer(text, start, end)]
    return next((at for at in starts[-limit:] if at == start or text[at - 1].isspace()), None)


def _pieces(text: str, block: Block, max_words: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and words of what may not be divided further: sentences, or lines of code and tables."""
    start = block.start
    for match in _SENTENCE.finditer(text, block.start, block.end):
        if block.kind in ("code", "table") and text[match.end() - 1] != "\n":
            continue
        yield from _runs(text, start, match.end(), max_words)
        start = match.end()
    if start < block.end:
        yield from _runs(text, start, block.end, max_words)


def _runs(text: str, start: int, end: int, max_words: int) -> Iterator[tuple[int, int, int]]:
    """Yield a sentence as it is, or cut at white space (at any character where there is none) when it is too long."""
    begin, count, space, since = start, 0, None, 0
    for match in _UNIT.finditer(text, start, end):
        at = match.start()
        if at > begin and text[at - 1].isspace():
            space, since = at, 0
        if count == max_words:
            cut = at if space is None else space
            yield begin, cut, count - (0 if space is None else since)
            begin, count, space = cut, 0 if space is None else since, None
        count += 1
        since += 1
    if begin < end:
        yield begin, end, count
