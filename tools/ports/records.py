"""What operations exchange with the store beside memories: trajectories and what came of them; the journal (sessions
of hosts, the audit trail, calls to models and of tools); what upkeep reads and writes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp
from swarm_memory.schema.memory import MemoryItem, MemoryLink, MemoryStatus, Priority
from swarm_memory.schema.outcome import RecordedTask, UseMethod
from swarm_memory.schema.rollout import MattsRun
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import ChatUsage

if TYPE_CHECKING:
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


Retained = Literal["trajectories", "events", "metrics", "tool_calls"]
"""`events` are the audit trail and jobs that ended."""

RETAINED: tuple[Retained, ...] = get_args(Retained)

FINISHED = "consolidation.finished"
"""The event of a run that ended."""


class UpkeepItem(NamedTuple):
    """What upkeep needs of one active item: enough to rank, age and compare it; texts are fetched by id."""

    position: int
    """In the order of arrival."""
    id: str
    confidence: float
    usage_count: int
    created_at: datetime
    last_used: datetime | None
    status_reason: str | None
    version: str
    """Changes whenever the item is written, but for a use."""
    priority: Priority
    direction: bytes | None
    """Its vector as the store keeps it: of any length above 0, only its direction means something. None: no vector."""


class Aging(Model):
    """How far the items of a scope have been aged."""

    at: Timestamp
    """The moment of the last pass."""
    through: int | None = None
    """The position that an unfinished pass has reached; None: it went over all."""
    since: Timestamp | None = None
    """Of an unfinished pass: the moment of the pass before, None for the first."""


class UpkeepState(NamedTuple):
    """How the upkeep of a scope stands."""

    consolidated: int
    """Items up to this position were compared with the bank."""
    last: int
    """Position of the newest item; 0 for an empty scope."""
    active: int
    aging: Aging | None


class UpkeepChange(NamedTuple):
    """One item as it is to be; it is written only where the item is still as it was seen."""

    seen: UpkeepItem
    confidence: float
    status: MemoryStatus = "active"
    reason: str | None = None
    """The status' reason; that of the item seen when it stays active."""
    needs: str | None = None
    """Id of an item that must still be active, such as the kept one of a duplicate."""
    unless_used: bool = False
    """Whether a use meanwhile forbids the change too."""


class UpkeepBatch(NamedTuple):
    """What one short transaction of a run writes."""

    run_id: str
    at: datetime
    changes: tuple[UpkeepChange, ...] = ()
    links: tuple[MemoryLink, ...] = ()
    """A link is written where both its items exist, and that of a duplicate where its item was changed."""
    aging: tuple[Aging | None, Aging] | None = None
    """The state as it was read, and the one to write. Where it is no longer so, nothing of the batch is written."""
    origins: tuple[Mapping[str, JsonValue], ...] = ()
    """How links were found, for the audit trail."""


class UpkeepWritten(NamedTuple):
    """What became of a batch."""

    changed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    refused: bool = False
    """Another run aged the same items: nothing was written."""


class Showing(NamedTuple):
    """One time that a memory was shown, or kept from a task that is held out."""

    at: datetime
    withheld: bool
    at_failure: bool
    """Whether it was shown beside a failed call; else for a prompt or a query."""
    query: str
    via: str | None
    score: float | None
    task_id: str | None
    session_id: str | None
    task: str
    """The beginning of the task's words; empty where its trajectory is not kept."""
    label: Label | None = None
    """What came of the task; None while nobody knows."""
    use: UseMethod | None = None
    change: float | None = None
    """What that changed the memory's confidence by."""


class Redone(NamedTuple):
    """One memory as a person saw it, and as it is to be."""

    before: MemoryItem
    after: MemoryItem
    stored: StoredMemory | None
    """`after` with its indexes, where its texts or its trust are other ones; None: at most status or scope are."""
    reason: str
    """For the history, beside its former words."""
    event: Event
    """That it was decided, or taken back."""


class TriedFix(NamedTuple):
    """What a task showed of a memory that fixes an error."""

    signature: str
    """The digest of the error's; empty where the task did not meet it."""
    memory_id: str
    worked: bool = True
    """False: it was done, and the error came again; or the task did without."""


class LearnRecord(NamedTuple):
    """All that one run of the loop writes, in one transaction."""

    scope: Scope
    run_id: str
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    embedder: str
    memories: tuple[StoredMemory, ...]
    reinforced: tuple[str, ...]
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float
    at: datetime
    tried_fixes: tuple[TriedFix, ...] = ()
    """Of memories new and known."""
    new_per_day: int | None = None
    """At most this many may be added in a day; None: it is not counted."""
    failures: int | None = None
    """Calls of tools that failed."""
    replaces: str | None = None
    """The run that learned from the same trajectory under another verdict."""


class LearnedBefore(NamedTuple):
    """What is known of a trajectory that was learned from."""

    trajectory_id: str
    task_id: str
    """Another one's where a forked session repeats what was done in the one before it."""
    run_id: str
    verdict: Verdict
    memory_ids: tuple[str, ...]


class TaskFilter(NamedTuple):
    """Which tasks `list_tasks` gives, and in which order."""

    source: str | None = None
    label: str | None = None
    text: str | None = None
    """Part of the task as it was asked, whatever the case of its ASCII letters."""
    taught: bool = False
    """Only those from which a memory came."""
    week: str | None = None
    """The day (UTC) with which the week begins in which they ended, in ISO 8601."""
    sort: str = ""
    """Those first that `taught` most or `took` longest; else, and of equals, the one that ended last."""
    limit: int = 50
    offset: int = 0


class KeptTask(NamedTuple):
    """All that is kept of a task by one trajectory."""

    row: RecordedTask
    trajectory: Trajectory
    verdict: Verdict | None
    later: int
    """Trajectories of the same task that came later."""


class Revision(NamedTuple):
    """Another verdict on a trajectory, with what that does to memories, in one transaction."""

    scope: Scope
    id: str
    row: RecordedTask
    verdict: Verdict
    run_id: str | None
    """The run whose memories the trajectory stands for now."""
    event: Mapping[str, JsonValue]
    at: datetime
    archived: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class RunEnd(NamedTuple):
    """All that the end of a MaTTS run writes, in one transaction; `run` has its last status and summary."""

    run: MattsRun
    embedder: str
    memories: tuple[StoredMemory, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float = 0.0
    new_per_day: int | None = None
    """At most this many may be added in a day; None: it is not counted."""


class TaskInjections(NamedTuple):
    """What was retrieved for a task, by its recorded retrievals."""

    given: Mapping[str, datetime]
    """When a memory was given first, by its id."""
    withheld: tuple[str, ...]
    """Ids that the task did not get, because it is held out."""
    held_out: bool
    beside: Mapping[str, datetime] = MappingProxyType({})
    """What it had before it by another way, held out or not: in its session's briefing, or in a file."""
    rested: tuple[str, ...] = ()
    """Ids that fitted and were not shown, since they are on trial."""


class Trials(NamedTuple):
    """Which memories of a scope are suspected."""

    resting: frozenset[str] = frozenset()
    """Ids that are not shown to every other task."""
    doubted: Mapping[str, str] = MappingProxyType({})
    """Why the user's own word is to be put before the user, by id."""
