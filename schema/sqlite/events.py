"""Kinds of events in the audit trail. Hook commands import this: the standard library alone."""

from collections.abc import Container, Mapping
from typing import NamedTuple

RETRIEVED = "reasoning_memory.retrieved"
"""Memories were found for a query; the subject is the retrieval."""

INJECTED, WITHHELD = "task.injected", "task.withheld"
"""What a task was given, and what was found for it and kept from it; the subject is the task."""

BRIEFING, FILE = "briefing", "file"
"""Ways by which a task had memories before it that were not retrieved for it: told as its session began, or read by the
agent in a file that they were promoted to."""

DRAWN = "task.drawn"
"""Lots were drawn for the memories that a task would be told, with a `Draw`; the subject is the task."""

TOLD_AT_FAILURE = "failure.told"
"""A way out of an error that a session was told, or that was kept from it; the subject is the session."""

TRIED = "reasoning_memory.tried"
"""A way out was tried in a task, and worked there or did not; the subject is the memory."""

ASKED = "agent.asked"
"""The agent was asked what a task taught; the subject is the task."""

VERDICT = "task.verdict"
"""The verdict on a task was changed, or asked for once more; the subject is the task."""

PROMOTED, DEMOTED = "reasoning_memory.promoted", "reasoning_memory.demoted"
"""A memory was written into a file that agents read by themselves, or taken out of it; the subject is the memory."""


class Draw(NamedTuple):
    """The lots that were drawn for the memories that a task would be told, at its beginning or on its way."""

    rate: float
    """The probability with which each was left out, but for `rates`."""
    told: tuple[str, ...]
    left_out: tuple[str, ...]
    tokens: int
    """About how many the notes have that it was told, also those that no lot was drawn for."""
    rates: Mapping[str, float] | None = None
    """Of those that were left out with another probability, by id."""

    @classmethod
    def of(cls, by_lot: Mapping[str, float], gone: Container[str], rate: float, notes: str) -> "Draw":
        """Return the lots of some memories, given with their rates; the notes leave out those that are `gone`."""
        told, left_out = ([each for each in by_lot if (each in gone) is is_out] for is_out in (False, True))
        others = {each: own for each, own in by_lot.items() if own != rate} or None
        return cls(rate, tuple(told), tuple(left_out), -(-len(notes.encode("utf-8", "replace")) // 3), others)
