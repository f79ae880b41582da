"""What operations exchange with the store besides memories: trajectories and what came of them; the journal (sessions
of hosts, the audit trail, calls to models, calls of tools); what maintenance reads and writes.
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
"""A person decided about a memory (with all that is needed to take it back), or took a decision back."""


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


class BankEvent(NamedTuple):
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
    """Calls that wait for an evaluation, with what happened around them."""

    calls: "tuple[KeptCall, ...]"
    """In the order of arrival."""
    after: "tuple[KeptCall, ...]"
    """Calls of the scope from the first of `calls` on, in the order of arrival."""
    corrections: Mapping[str, Sequence[datetime]]
    """When the user corrected what was done, by session."""


class EvaluatedCall(NamedTuple):
    """An evaluation to write, with the tokens by which the call is found."""

    seq: int
    evaluation: "Evaluation"
    tokens: tuple[str, ...]


Retained = Literal["trajectories", "events", "metrics", "tool_calls"]
"""`events` are the audit trail and jobs that ended."""

RETAINED: tuple[Retained, ...] = get_args(Retained)

FINISHED = "consolidation.finished"
"""The event of a consolidation run that ended."""


class UpkeepItem(NamedTuple):
    """What maintenance needs of one active item: enough to rank, age and compare it; texts are fetched by id."""

    position: int
    """Its place in the order of arrival."""
    id: str
    confidence: float
    usage_count: int
    created_at: datetime
    last_used: datetime | None
    status_reason: str | None
    version: str
    """Changes whenever the item is written, except for a use."""
    priority: Priority
    direction: bytes | None
    """Its vector as the store keeps it, of any length above 0: only its direction matters. None: no vector."""


class Aging(Model):
    """How far the items of a scope have been aged."""

    at: Timestamp
    """The moment of the last pass."""
    through: int | None = None
    """The position that an unfinished pass has reached; None: the pass covered all items."""
    since: Timestamp | None = None
    """For an unfinished pass, the moment of the pass before it; None for the first pass."""


class UpkeepState(NamedTuple):
    """The state of a scope's maintenance."""

    consolidated: int
    """Items up to this position were compared with the bank."""
    last: int
    """Position of the newest item; 0 for an empty scope."""
    active: int
    aging: Aging | None


class UpkeepChange(NamedTuple):
    """The new state of one item; it is written only where the item is unchanged since it was seen."""

    seen: UpkeepItem
    confidence: float
    status: MemoryStatus = "active"
    reason: str | None = None
    """The reason for the status; an item that stays active keeps the reason it was seen with."""
    needs: str | None = None
    """Id of another item that must still be active, such as the one that is kept of two duplicates."""
    unless_used: bool = False
    """Whether a use of the item in the meantime prevents the change too."""


class UpkeepBatch(NamedTuple):
    """What one short transaction of a run writes."""

    run_id: str
    at: datetime
    changes: tuple[UpkeepChange, ...] = ()
    links: tuple[MemoryLink, ...] = ()
    """A link is written where both its items exist; that of a duplicate, where the duplicate's change was written."""
    aging: tuple[Aging | None, Aging] | None = None
    """The state as it was read, and the state to write. Where it has changed since, nothing of the batch is written."""
    origins: tuple[Mapping[str, JsonValue], ...] = ()
    """How links were found, for the audit trail."""


class UpkeepWritten(NamedTuple):
    """What became of a batch."""

    changed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    refused: bool = False
    """Another run aged the same items: nothing was written."""


class Showing(NamedTuple):
    """One occasion on which a memory was shown, or withheld from a task that is held out."""

    at: datetime
    withheld: bool
    at_failure: bool
    """Whether it was shown next to a failed call, and not for a prompt or a query."""
    query: str
    via: str | None
    score: float | None
    task_id: str | None
    session_id: str | None
    task: str
    """The beginning of the task's words; empty where its trajectory is not kept."""
    label: Label | None = None
    """What came of the task; None while that is unknown."""
    use: UseMethod | None = None
    change: float | None = None
    """By how much that changed the memory's confidence."""


class ReviewChange(NamedTuple):
    """One memory as a person saw it, and as it is to become."""

    before: MemoryItem
    after: MemoryItem
    stored: StoredMemory | None
    """`after` with its indexes, where its texts or its trust change; None: at most its status or scope change."""
    reason: str
    """For the history, where it is kept with the former words."""
    event: BankEvent
    """Records that this was decided, or taken back."""


class TriedFix(NamedTuple):
    """What a task showed about a memory that fixes an error."""

    signature: str
    """The digest of the error's signature; empty where the task did not meet the error."""
    memory_id: str
    worked: bool = True
    """False: the fix was done and the error came again, or the task did without the fix."""


class LearnRecord(NamedTuple):
    """All that one run of the learning loop writes, in one transaction."""

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
    """For new memories and for known ones."""
    new_per_day: int | None = None
    """At most this many may be added in a day; None: there is no limit."""
    failures: int | None = None
    """How many tool calls failed."""
    replaces: str | None = None
    """Id of the run that learned from the same trajectory under another verdict, and is replaced by this one."""


class LearnedBefore(NamedTuple):
    """What is known of a trajectory that was learned from before."""

    trajectory_id: str
    task_id: str
    """The id of another task, where a forked session repeats what was done in the session before it."""
    run_id: str
    verdict: Verdict
    memory_ids: tuple[str, ...]


class TaskFilter(NamedTuple):
    """Which tasks `list_tasks` returns, and in which order."""

    source: str | None = None
    label: str | None = None
    text: str | None = None
    """Part of the task's words, whatever the case of its ASCII letters."""
    taught: bool = False
    """Only tasks from which a memory came."""
    week: str | None = None
    """The first day (UTC, in ISO 8601) of the week in which the tasks ended."""
    sort: str = ""
    """`taught` or `took`: tasks that taught most or took longest come first; else, and among equals, the latest one."""
    limit: int = 50
    offset: int = 0


class KeptTask(NamedTuple):
    """All that is kept of one trajectory of a task."""

    row: RecordedTask
    trajectory: Trajectory
    verdict: Verdict | None
    later: int
    """How many trajectories of the same task came later."""


class VerdictRevision(NamedTuple):
    """A new verdict on a trajectory, with what that does to memories, written in one transaction."""

    scope: Scope
    id: str
    row: RecordedTask
    verdict: Verdict
    run_id: str | None
    """The run that the trajectory's memories come from now."""
    event: Mapping[str, JsonValue]
    at: datetime
    archived: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class MattsRunEnd(NamedTuple):
    """All that the end of a MaTTS run writes, in one transaction; `run` has its final status and summary."""

    run: MattsRun
    embedder: str
    memories: tuple[StoredMemory, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float = 0.0
    new_per_day: int | None = None
    """At most this many may be added in a day; None: there is no limit."""
    session_id: str | None = None


class TaskInjections(NamedTuple):
    """What was retrieved for a task, by its recorded retrievals."""

    given: Mapping[str, datetime]
    """When each memory was first shown, by its id."""
    withheld: tuple[str, ...]
    """Ids of memories withheld from the task, because it is held out."""
    held_out: bool
    beside: Mapping[str, datetime] = MappingProxyType({})
    """The same for memories that it had in another way, held out or not: in its session's briefing, or in a file."""
    rested: tuple[str, ...] = ()
    """Ids of memories that fitted but were not shown, because they are on trial."""


class Trials(NamedTuple):
    """Which memories of a scope are suspected of doing harm."""

    resting: frozenset[str] = frozenset()
    """Ids of memories on trial, which are hidden in one session of two."""
    doubted: Mapping[str, str] = MappingProxyType({})
    """Why memories that are the user's own word should be reviewed by the user, by id."""
