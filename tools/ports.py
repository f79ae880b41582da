"""What the operations need from outside, as Protocols: storage, embedding, time. No adapter is known here."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.chat import ChatAnswer, ChatRequest, ChatUsage
from swarm_memory.schema.host_session import HostSession
from swarm_memory.schema.job import Job, JobStatus, Progress
from swarm_memory.schema.memory import Leg, MemoryItem, MemoryStatus
from swarm_memory.schema.outcome import Arm, OutcomeRecord, TaskFigures
from swarm_memory.schema.status import BankStatistics, StorageHealth
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.schema.verdict import Label, Verdict
from swarm_memory.tools.benchmark_ports import BenchmarkStore
from swarm_memory.tools.rollout_ports import RolloutStore
from swarm_memory.tools.source_ports import SourceStore
from swarm_memory.tools.tool_memory_ports import ToolMemoryStore
from swarm_memory.tools.upkeep_ports import Upkeep

if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array  # takes no parameter at run time before Python 3.12
"""An `array('f')` of the embedder's dimensions, of unit length, every number finite."""


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...


class Embedder(Protocol):
    """Turns text into vectors of one space."""

    @property
    def name(self) -> str:
        """Stable id of the space: it changes whenever the vectors would."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quantization(self) -> Literal["int8", "float32"]:
        """How the store keeps the vectors."""
        ...

    @property
    def fusion_weight(self) -> float:
        """Calibrated share of the vector leg in the convex fusion, 0…1."""
        ...

    @property
    def min_cosine(self) -> float:
        """Calibrated relevance floor: below it the vector leg alone does not make an item fit."""
        ...

    @property
    def duplicate_cosine(self) -> float:
        """Calibrated cosine from which two memories may say the same, if their words do not speak against it."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Embed one query. Raises `ModelError` when an endpoint fails, `InputError` for text without content."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, in order. Raises as `embed_query`."""
        ...


class ChatModel(Protocol):
    """A model that answers one question at a time."""

    @property
    def name(self) -> str:
        """`provider:model`, or the names of a chain in their order."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether it costs nothing and has no rate limit to be careful of."""
        ...

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer within `request.timeout_s`.

        Raises `ModelUnavailable` (not reached, budget spent) or `ModelAnswerInvalid` (unusable, even after one repair).
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One search of the bank. Archived and quarantined items never match."""

    scopes: tuple[Scope, ...]
    embedder: str
    """Name of the space of `vector`."""
    vector: Vector | None
    """None: keywords only."""
    tokens: tuple[str, ...]
    """Made by `tools.text.tokenize`; distinct, in order."""
    pool: int
    """Candidates of each leg."""
    domain: str | None = None
    tags: tuple[str, ...] = ()
    """Every one must be there."""
    exclude_task: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a search gives of one item: enough to score it; the winners are fetched by id."""

    id: str
    project: str
    confidence: float
    created_at: datetime
    cosine: float | None
    """Given for every candidate that has a vector in the query's space, whichever leg found it."""
    keyword: float | None
    """BM25 over title, description and content, higher is better; None: not in the keyword pool."""
    tokens: str
    """The indexed tokens, joined by spaces."""
    decode_vector: Callable[[], Vector] | None = None

    @property
    def vector(self) -> Vector | None:
        """The item's vector in the query's space; it is decoded anew each time, so ask only for the few that count."""
        return None if self.decode_vector is None else self.decode_vector()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The union of the legs' pools."""

    candidates: tuple[Candidate, ...]
    legs: tuple[Leg, ...]
    documents: int
    """Active items in the scopes."""
    document_frequency: Mapping[str, int]
    """Of each query token: in how many of those items it stands."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalRecord:
    """One retrieval as it is written to `events` and `performance_metrics`."""

    retrieval_id: str
    scope: Scope
    query: str
    """Redacted."""
    scores: Mapping[str, float]
    """By memory id, in the order of the answer."""
    latency_ms: float
    at: datetime
    task_id: str | None = None
    session_id: str | None = None
    withheld: bool = False
    """Whether the task is held out and did not get what was found."""


@dataclass(frozen=True, slots=True)
class ChatRecord:
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


@dataclass(frozen=True, slots=True)
class ChatSpending:
    """What calls to chat models cost together."""

    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """Of the calls whose cost is known; None where that is none."""


@dataclass(frozen=True, slots=True)
class TaskInjections:
    """What was retrieved for a task, by its recorded retrievals."""

    given: Mapping[str, datetime]
    """When a memory was given first, by its id."""
    withheld: tuple[str, ...]
    """Ids that the task did not get, because it is held out."""
    held_out: bool


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What is counted of one task's outcome."""

    task_id: str
    label: Label
    arm: Arm
    randomised: bool
    figures: TaskFigures
    injected: int
    used: int
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory item with all that its indexes hold."""

    item: MemoryItem
    vector: Vector | None
    """None: no embedder answered; found by keywords until `reembed`."""
    title_tokens: tuple[str, ...]
    description_tokens: tuple[str, ...]
    content_tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LearnRecord:
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
    new_per_day: int | None = None
    """So much may be added in a day; None: it is not counted."""

    @property
    def counted(self) -> int:
        """What of the day's quota it takes: a task that taught nothing new takes room too."""
        return max(1, len(self.memories))


@dataclass(frozen=True, slots=True)
class LearnedBefore:
    """What is known of a trajectory that was learned from."""

    trajectory_id: str
    run_id: str
    verdict: Verdict
    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories `list_memories` gives, newest first."""

    statuses: tuple[MemoryStatus, ...] = ("active",)
    domain: str | None = None
    tags: tuple[str, ...] = ()
    task_id: str | None = None
    text: str | None = None
    """Case-insensitive part of the title or content."""
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit trail."""

    kind: str
    at: datetime
    subject_id: str | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class DayLimit(NamedTuple):
    """How much may be added to a project on the day (UTC) of a moment."""

    new_per_day: int
    at: datetime


class Forgotten(NamedTuple):
    """What forgetting took away, and what stayed."""

    ids: tuple[str, ...]
    """The memories that were there."""
    records: int
    """Trajectories whose text was taken out."""
    resting: tuple[str, ...] = ()
    """Memories for whose sake the record of a task stayed, since they were drawn from it too."""
    alike: tuple[str, ...] = ()
    """Memories that hold the title of one, or were archived as its duplicates."""


class MemoryStore(Protocol):
    """The bank: memory items and their indexes. All errors are `StorageError`s."""

    async def search(self, query: SearchQuery) -> SearchResult: ...

    async def get_memories(self, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
        """Return those that exist in the scopes, in the order of `ids`, whatever their status."""
        ...

    async def list_memories(self, scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]: ...

    async def add_memories(
        self, memories: Sequence[StoredMemory], embedder: str, limit: DayLimit | None = None
    ) -> list[str]:
        """Write items with all their indexes in one transaction; return the ids that were new.

        Raises `QuotaReached` for more than `limit` allows: then none was written.
        """
        ...

    async def added_on(self, scope: Scope, at: datetime) -> int:
        """Return how much of the quota of that moment's day (UTC) was taken, by all processes together."""
        ...

    async def replace_memory(self, memory: StoredMemory, embedder: str, reason: str) -> None:
        """Write the changed item and its indexes; the former text is kept in `events`."""
        ...

    async def set_status(self, scopes: Sequence[Scope], ids: Sequence[str], status: MemoryStatus, reason: str) -> int:
        """Change the status; return how many changed."""
        ...

    async def forget(
        self, scopes: Sequence[Scope], ids: Sequence[str], *, with_trajectories: bool = False
    ) -> Forgotten:
        """Delete for good: rows, indexes, the records of their tasks, quotes in other texts, free pages, backups.

        A record that memories rest on which stay, stays too; `with_trajectories` takes the text out of it nevertheless.
        """
        ...

    async def nearest(self, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int) -> list[tuple[str, float]]:
        """Return (id, cosine) of the nearest active items, nearest first."""
        ...

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        """Queue the record and return at once; the store writes it behind, at the latest when it closes."""
        ...

    async def memory_history(self, scopes: Sequence[Scope], memory_id: str) -> list[Event]: ...

    async def memory_histories(
        self, scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
    ) -> dict[str, list[Event]]:
        """Return what of these kinds happened to each, by id, oldest first; empty for one that is not there."""
        ...


class TrajectoryStore(Protocol):
    """What was done, and what was learned from it."""

    async def learned_before(self, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
        """Return what was learned from exactly this trajectory of this task."""
        ...

    async def save_learning(self, record: LearnRecord) -> tuple[str, ...]:
        """Write trajectory, verdict, items and events in one transaction.

        Items that an earlier version of the same task gave, and that this one did not give again or reinforce, are
        archived as superseded; their ids are returned.
        """
        ...

    async def save_verdict(
        self, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict
    ) -> None: ...

    async def get_trajectory(self, scope: Scope, trajectory_id: str) -> tuple[Trajectory, Verdict | None] | None:
        """Look up by trajectory id, or by task id for the newest of that task."""
        ...


class JobQueue(Protocol):
    """Durable work. A queued job of the same scope, kind and key is replaced by a later one."""

    async def enqueue(self, job: Job) -> str:
        """Write it and return its id: the id of the queued job that it replaced, where there was one."""
        ...

    async def release(self, scope: Scope, key_prefix: str, run_after: datetime) -> int:
        """Bring queued jobs whose key starts with `key_prefix` forward; return how many."""
        ...

    async def claim(self, worker: str, now: datetime, lease_s: float, kinds: Sequence[str]) -> Job | None:
        """Take the oldest due job, or one whose worker was not heard of for `lease_s`; None when there is none."""
        ...

    async def heartbeat(self, job_id: str, worker: str, now: datetime) -> bool:
        """Renew the lease; False when the job was taken over or cancelled."""
        ...

    async def finish(
        self,
        job_id: str,
        worker: str,
        status: JobStatus,
        result: Mapping[str, JsonValue] | None,
        error: str | None,
        run_after: datetime | None = None,
    ) -> bool:
        """End the job (or put it back with status `queued`, not to be taken before `run_after`); False when it is no
        longer this worker's."""
        ...

    async def report(self, job_id: str, worker: str, progress: Progress) -> bool:
        """Note how far a running job is; False when it is no longer this worker's."""
        ...

    async def get_job(self, scope: Scope, job_id: str) -> Job | None: ...

    async def find_job(self, scope: Scope, kind: str, key: str) -> Job | None:
        """Return the latest job of a kind and key."""
        ...

    async def cancel_job(self, scope: Scope, job_id: str) -> bool:
        """Cancel a job that is queued or running; its worker stops at its next heartbeat or report."""
        ...

    async def list_jobs(self, scope: Scope, statuses: Sequence[JobStatus], limit: int) -> list[Job]: ...

    async def next_due(self, kinds: Sequence[str], lease_s: float) -> datetime | None:
        """Return when the next job may be taken, for one that runs when its lease ends; None where there is none."""
        ...


class Journal(Protocol):
    """Sessions of hosts, events, figures."""

    async def get_session(self, scope: Scope, session_id: str) -> HostSession | None: ...

    async def put_session(self, session: HostSession) -> None: ...

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

    async def statistics(self, scope: Scope, embedder: str) -> BankStatistics: ...

    async def health(self) -> StorageHealth: ...


class Credits(Protocol):
    """Outcomes of tasks, and what they changed in the memories that the tasks had."""

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        """Return what was retrieved for a task; what this store has queued is written first."""
        ...

    async def get_outcome(self, scope: Scope, task_id: str) -> OutcomeRecord | None: ...

    async def save_outcome(self, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        """Write the outcome of a task of the first scope and change the memories of all, in one transaction.

        The same outcome a second time changes nothing (`already_credited`); another one of the same task takes back
        what the former one changed before it is applied. Return it with what was really applied.
        """
        ...

    async def list_outcomes(self, scope: Scope) -> list[TaskOutcome]:
        """Return what is counted of every task, oldest first."""
        ...

    async def item_times(self, scope: Scope) -> list[datetime]:
        """Return when each memory was made, whatever became of it, oldest first."""
        ...


class Store(MemoryStore, TrajectoryStore, JobQueue, Journal, Credits, RolloutStore, Upkeep, Protocol):
    """All of it, in one database."""

    @property
    def tool_memory(self) -> ToolMemoryStore: ...

    @property
    def sources(self) -> SourceStore: ...

    @property
    def benchmarks(self) -> BenchmarkStore: ...

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close."""
        ...
