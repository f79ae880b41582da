"""What is noted of what happened: sessions of hosts, the audit trail, figures, runs of benchmarks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp
from swarm_memory.tools.ports.models import ChatUsage

if TYPE_CHECKING:  # not before a hook needs it: a person waits
    from swarm_memory.schema.benchmark import BenchmarkRun
    from swarm_memory.schema.status import BankStatistics, ChatDay, StorageHealth

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


class ChatSpending(NamedTuple):
    """What calls to chat models cost together."""

    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """Of the calls whose cost is known; None where that is none."""


class Journal(Protocol):
    """Sessions of hosts, events, figures."""

    async def get_session(self, scope: Scope, session_id: str) -> HostSession | None: ...

    async def put_session(self, session: HostSession) -> None: ...

    async def shown_in(self, scope: Scope, session_id: str, task_ids: Sequence[str]) -> frozenset[str]:
        """Return the memories that tasks of a host's session were shown since its context was last cleared."""
        ...

    async def add_event(self, scope: Scope, event: Event) -> None: ...

    async def events_of_kind(self, scope: Scope, kind: str, limit: int) -> list[Event]:
        """Return the newest lines of the audit trail of one kind, newest first."""
        ...

    def record_chat(self, record: ChatRecord) -> None:
        """Queue the record and return at once; the store writes it behind, at the latest when it closes."""
        ...

    async def chat_spending(self, since: datetime) -> ChatSpending:
        """Return what was spent since then by every process and in every scope of the database."""
        ...

    async def chat_days(self, since: datetime) -> "list[ChatDay]":
        """Return the days (UTC) since then on which models were asked, as `chat_spending` counts, the newest first."""
        ...

    async def statistics(self, scope: Scope, embedder: str) -> "BankStatistics": ...

    async def health(self) -> "StorageHealth": ...


class BenchmarkStore(Protocol):
    """Runs of benchmarks, newest first; the values of single cases stand only in a run's file."""

    async def save_benchmark(self, scope: Scope, run: "BenchmarkRun") -> None:
        """Write a run, new or as it stands now."""
        ...

    async def get_benchmark(self, scope: Scope, run_id: str) -> "BenchmarkRun | None": ...

    async def list_benchmarks(self, scope: Scope, limit: int) -> "list[BenchmarkRun]": ...
