"""Parts of a text in which something can stand, put together so that a pattern is searched for in these alone."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Excerpt:
    """Disjoint parts of a text, in order, with line breaks between them."""

    def __init__(self, text: str, parts: Iterable[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for start, end in parts:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self.text = "\n".join(text[start:end] for start, end in merged)
        self._starts: list[int] = []
        self._shifts: list[int] = []
        length = 0
        for start, end in merged:
            self._starts.append(length)
            self._shifts.append(start - length)
            length += end - start + 1

    def span(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return where in the text a range of the excerpt stands that lies within one part of it."""
        shift = self._shifts[bisect_right(self._starts, span[0]) - 1]
        return span[0] + shift, span[1] + shift


def lines_with(text: str, hints: Iterable[str], reach: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the lines in which a hint stands, in order; with `reach`, at most so much on both sides of it."""
    whole, done = reach is None, 0
    places: list[int] = []
    for hint in hints:
        at = text.find(hint)
        while at >= 0:
            places.append(at)
            at = text.find(hint, at + len(hint))
    for at in sorted(places):
        if whole and at < done:
            continue
        start, end = (0, len(text)) if reach is None else (max(0, at - reach), min(len(text), at + reach))
        line_end = text.find("\n", at, end)
        done = end if line_end < 0 else line_end
        yield text.rfind("\n", start, at) + 1 or start, done
