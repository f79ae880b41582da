"""Long text cut to its head and tail, with a line between that says how much was left out; streams too."""

import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from swarm_memory.tools.text.tokens import count_tokens

MAX_TOKENS = 12_000

_CHARS_PER_TOKEN = 16
"""Blank text counts too, so that nothing can be long without many tokens."""
_PIECE_CHARS = 4096
_NOTE_TOKENS = 40
_SEEN_CHARS = 64
"""So far from where it may be cut a text is searched for a whole character, …"""
_LINE_SHARE = 4
"""… and for a line's end within a fourth of what is kept."""


def estimate(text: str) -> int:
    """Return the tokens of a text: those of `count_tokens`, and not less than one for each 16 characters."""
    return max(count_tokens(text), -(-len(text) // _CHARS_PER_TOKEN))


def cap(text: str, max_tokens: int = MAX_TOKENS) -> str:
    """Return a text as it is, or its head and tail where it has more tokens than that."""
    return "".join(cap_stream((text,), max_tokens))


def cap_stream(parts: Iterable[str], max_tokens: int = MAX_TOKENS) -> Iterator[str]:
    """Yield a text as it is, or its head, a line that says what was left out, and its tail.

    What is yielded has at most `max_tokens`, or the line alone where that is more. Of the text never more than what
    is yielded and a few thousand characters are kept.
    """
    pieces = _pieces(parts)
    begun, is_short = _begin(pieces, max_tokens)
    if is_short:
        yield begun
        return
    room = max(0, max_tokens - _NOTE_TOKENS)
    head = _head(begun, room // 2)
    yield head
    left = _Tail(room - room // 2)
    left.add(begun[len(head) :])
    for piece in pieces:
        left.add(piece)
    tail = left.text()
    before = "" if not head or head.endswith("\n") else "\n"
    lines = f" ({left.lines:,} lines)" if left.lines > 1 else ""
    yield f"{before}[… {left.left_out:,} tokens{lines} left out by swarm-memory cap …]\n"
    yield tail


def _pieces(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        for start in range(0, len(part), _PIECE_CHARS):
            yield part[start : start + _PIECE_CHARS]


def _begin(pieces: Iterator[str], max_tokens: int) -> tuple[str, bool]:
    """Return the text up to where it has more tokens than that, and whether it ends before."""
    begun, tokens = "", 0
    for piece in pieces:
        begun += piece
        tokens += estimate(piece)
        if tokens > max_tokens:
            tokens = estimate(begun)  # a word that was cut in two was counted twice
            if tokens > max_tokens:
                return begun, False
    return begun, True


class _Tail:
    """The end of a text that grows, and what went before it."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._pieces: deque[tuple[str, int]] = deque()
        self._tokens = 0
        self.left_out = 0
        self.lines = 0

    def add(self, text: str) -> None:
        for piece in _pieces((text,)):
            self._pieces.append((piece, estimate(piece)))
            self._tokens += self._pieces[-1][1]
            while self._tokens - self._pieces[0][1] > self._max_tokens:
                self._leave_out(*self._pieces.popleft())

    def _leave_out(self, text: str, tokens: int) -> None:
        self._tokens -= tokens
        self.left_out += tokens
        self.lines += text.count("\n")

    def text(self) -> str:
        """Return what is kept, once the text has ended."""
        joined = "".join(piece for piece, _ in self._pieces)
        kept = _tail(joined, self._max_tokens)
        gone = joined[: len(joined) - len(kept)]
        self._leave_out(gone, estimate(gone))
        return kept


def _head(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, of at most so many tokens, up to the end of a line where one is near."""
    length = _most(len(text), lambda size: estimate(text[:size]) <= max_tokens)
    if length == len(text):
        return text
    line = text.rfind("\n", length - length // _LINE_SHARE, length) + 1
    return text[: line or _whole(text, length, -1)]


def _tail(text: str, max_tokens: int) -> str:
    """Return the end of a text, as `_head` does its beginning."""
    length = _most(len(text), lambda size: estimate(text[len(text) - size :]) <= max_tokens)
    if length == len(text):
        return text
    start = len(text) - length
    line = text.find("\n", max(0, start - 1), start + length // _LINE_SHARE) + 1
    return text[line if 0 < line < len(text) else _whole(text, start, 1) :]


def _most(size: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number up to `size` that fits, where all smaller ones do."""
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _whole(text: str, at: int, step: int) -> int:
    """Return the nearest place in one direction at which no character is taken from its marks or joined ones."""
    for place in range(at, at + step * _SEEN_CHARS, step):
        if place <= 0 or place >= len(text) or not _belongs(text[place - 1], text[place]):
            return min(max(place, 0), len(text))
    return at


def _belongs(former: str, sign: str) -> bool:
    joined = "\u200d" in (former, sign) or (former, sign) == ("\r", "\n")
    return joined or unicodedata.category(sign).startswith("M") or "\U0001f3fb" <= sign <= "\U0001f3ff"
