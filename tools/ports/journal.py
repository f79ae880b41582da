"""What is noted of what happened: sessions of hosts, the audit trail, calls to models and of tools."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp
from swarm_memory.tools.ports.models import ChatUsage

if TYPE_CHECKING:  # not before a hook needs it: a person waits
    from swarm_memory.schema.tool_memory import Evaluation, KeptCall

CORRECTED = "tool_call.corrected"
"""The user said that a session's last call was wrong; the subject is the session."""

DECIDED, TAKEN_BACK = "reasoning_memory.decided", "reasoning_memory.taken_back"
"""What a person decided about a memory, with all that is needed to take it back; that it was taken back."""


class HostSession(Model):
    """One row for each session of a coding agent."""

    session_id: str = Field(min_length=1, max_length=200)
    scope: Scope
    transcript_path: str | None = None
    task_id: str | None = None
    """The task that is being worked on."""
    task: str = ""
    """Its first prompt, redacted."""
    task_number: int = Field(default=0, ge=0)
    """How many tasks the session has begun."""
    updated_at: Timestamp


class Event(NamedTuple):
    """One line of the audit trail."""

    kind: str
    at: datetime
    subject_id: str | None = None
    data: Mapping[str, JsonValue] = MappingProxyType({})


class ChatRecord(NamedTuple):
    """One call to a chat model as it is written to `performance_metrics`."""

    scope: Scope
    purpose: str
    model: str
    """`provider:model`."""
    outcome: str
    """Answered, invalid, unavailable or cancelled: tokens count whatever became of it."""
    usage: ChatUsage
    latency_ms: float
    at: datetime


class PendingCalls(NamedTuple):
    """Calls that wait for an evaluation, with what was around them."""

    calls: "tuple[KeptCall, ...]"
    """By arrival."""
    after: "tuple[KeptCall, ...]"
    """Calls of the scope from the first of `calls` on, by arrival."""
    corrections: Mapping[str, Sequence[datetime]]
    """When the user corrected what was done, by session."""


class EvaluatedCall(NamedTuple):
    """An evaluation to be written, with the words by which the call is found."""

    seq: int
    evaluation: "Evaluation"
    tokens: tuple[str, ...]
