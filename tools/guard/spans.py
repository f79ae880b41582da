"""A piece of text that has to go; shared by everything that finds such pieces."""

from typing import NamedTuple


class Span(NamedTuple):
    """The half-open range `start` … `end` of a text, and the mark that takes its place."""

    start: int
    end: int
    mark: str
