"""What the tool memory needs from a store, as a Protocol: calls, evaluations, summaries, and a search of past calls."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from swarm_memory.schema.tool_memory import Evaluation, KeptCall


class Neighbour(NamedTuple):
    """A call as it stands beside others in its session."""

    seq: int
    tool_name: str
    session_id: str | None
    input: str
    success: bool
    at: datetime


class PendingCalls(NamedTuple):
    """Calls that wait for an evaluation, with what was around them."""

    calls: tuple[KeptCall, ...]
    """By arrival."""
    after: tuple[Neighbour, ...]
    """Calls of the scope from the first of `calls` on, by arrival."""
    corrections: Mapping[str, tuple[datetime, ...]]
    """When the user corrected what was done, by session."""


class EvaluatedCall(NamedTuple):
    """An evaluation to be written, with the words by which the call is found."""

    seq: int
    evaluation: Evaluation
    tokens: tuple[str, ...]


class FailedEvaluation(NamedTuple):
    """A call that could not be evaluated now."""

    seq: int
    reason: str
