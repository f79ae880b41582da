"""What the upkeep of the bank reads and writes, by consolidation and by a person. No adapter is known here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, get_args

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, MemoryLink, MemoryStatus, Standing
from swarm_memory.schema.outcome import UseMethod
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import SearchQuery, SearchResult, StoredMemory
from swarm_memory.tools.ports.models import Vector

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
    standing: Standing
    direction: bytes | None
    """Its vector as the store keeps it: of any length above 0, only its direction means something. None: no vector."""


class Aging(NamedTuple):
    """How far the items of a scope have been aged."""

    at: datetime
    """The moment of the last pass."""
    through: int | None = None
    """The position that an unfinished pass has reached; None: it went over all."""
    since: datetime | None = None
    """Of an unfinished pass: the moment of the pass before, None for the first."""


class UpkeepState(NamedTuple):
    """How the upkeep of a scope stands."""

    consolidated: int
    """Items up to this position were compared with the bank."""
    last: int
    """Position of the newest item; 0 for an empty scope."""
    active: int
    aging: Aging | None


class UpkeepEnd(NamedTuple):
    """How a run ended."""

    run_id: str
    at: datetime
    consolidated: int
    """Items up to this position are compared."""
    took_ms: float
    summary: Mapping[str, JsonValue]


class PendingUpkeep(NamedTuple):
    """What in a scope waits for upkeep."""

    new: int
    """Active items that no consolidation has compared yet, counted up to a number."""
    not_embedded: int
    """Active items without a vector of the embedder."""


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


class UpkeepUndone(NamedTuple):
    """What taking back one batch restored."""

    restored: tuple[str, ...]
    skipped: tuple[str, ...]
    links_removed: int


class Retention(Protocol):
    """What is removed once it is old; memories are not, nor what happened to them. All errors are `StorageError`s."""

    async def oldest(self, scope: Scope) -> dict[Retained, datetime]:
        """Return when the oldest of each kind that may go was written; a call of a tool: when it was made."""
        ...

    async def expired(self, scope: Scope, before: Mapping[Retained, datetime]) -> list[Retained]:
        """Return the kinds of which something is older than a moment; what has just become so, an hour later."""
        ...

    async def remove(self, scope: Scope, kind: Retained, before: datetime, limit: int) -> int:
        """Remove about `limit` of the oldest before a moment, in one short transaction; return how many: 0 when done.

        Of a trajectory the words go, and a line that says so stands there: that it was learned from stays known.
        """
        ...


class Vectors(Protocol):
    """The vectors of all that is searched together, memories or passages, of every scope."""

    async def without_vector(self, embedder: str, dimensions: int, limit: int, after: int) -> list[tuple[int, str]]:
        """Return (position, text to embed) of what has no vector of the embedder, by position, after one."""
        ...

    async def put_vectors(self, embedder: str, vectors: Mapping[int, Vector]) -> int:
        """Write vectors by position, with their index; return how many of the items were there."""
        ...


class Upkeep(Protocol):
    """The upkeep of the bank: what a consolidation reads and writes. All errors are `StorageError`s."""

    async def upkeep_state(self, scope: Scope) -> UpkeepState: ...

    async def pending_upkeep(self, scope: Scope, embedder: str, most: int) -> PendingUpkeep:
        """Return what waits; new items are counted up to `most`. As fast in a large bank as in a small one."""
        ...

    async def upkeep_items(
        self, scope: Scope, embedder: str, dimensions: int, *, after: int, limit: int
    ) -> list[UpkeepItem]:
        """Return active items after a position, by position."""
        ...

    async def upkeep_items_of(
        self, scope: Scope, embedder: str, dimensions: int, ids: Sequence[str]
    ) -> list[UpkeepItem]:
        """Return those of the items that are active in the scope, in any order."""
        ...

    async def memory_links(self, scope: Scope, ids: Sequence[str]) -> list[MemoryLink]:
        """Return every link from or to one of the items."""
        ...

    async def write_upkeep(self, scope: Scope, batch: UpkeepBatch) -> UpkeepWritten:
        """Write a batch in one transaction; items that were changed since they were seen are skipped."""
        ...

    async def finish_upkeep(self, scope: Scope, end: UpkeepEnd) -> None:
        """Write that a run ended (an event with what it did, a figure with how long it took), and tidy the indexes."""
        ...

    async def unembedded(self, scope: Scope, limit: int, after: int) -> list[tuple[int, str]]:
        """Return (position, text to embed) of items of any status without a vector, but for one of a light embedder."""
        ...

    async def put_first_vectors(self, embedder: str, vectors: Mapping[int, Vector]) -> int:
        """Write vectors by position, with their index, of those that `unembedded` would give; return how many."""
        ...

    async def drop_other_spaces(self, embedder: str, dimensions: int) -> list[str]:
        """Delete the vectors of every other embedder, those of passages too; return their names."""
        ...

    async def reindex(self) -> None:
        """Make the keyword index and the vector indexes again from the rows."""
        ...

    async def upkeep_batches(self, scope: Scope, run_id: str) -> list[int]:
        """Return the numbers of a run's batches that were not undone, the latest first. Raises `NotFoundError`."""
        ...

    async def undo_upkeep(self, scope: Scope, run_id: str, batch: int, at: datetime) -> UpkeepUndone:
        """Restore what a batch changed, in one transaction, wherever it is still as the batch left it."""
        ...


class Telling(NamedTuple):
    """One time that a memory was told, or kept from a task that is held out."""

    at: datetime
    withheld: bool
    at_failure: bool
    """Whether it was told beside a failed call; else for a prompt or a query."""
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


class Facets(NamedTuple):
    """What active memories can be told apart by, with how many have each, the most frequent first."""

    domains: Mapping[str, int]
    tags: Mapping[str, int]
    agents: Mapping[str, int]
    projects: Mapping[str, int]
    """All of the tenant, by name, with their active memories."""


class Redone(NamedTuple):
    """One memory as a person saw it, and as it is to be."""

    before: MemoryItem
    after: MemoryItem
    stored: StoredMemory | None
    """`after` with its indexes, where its texts or its trust are other ones; None: at most status or scope are."""
    told: Mapping[str, JsonValue]
    """For the audit trail."""


class Decision(NamedTuple):
    """What a person decided, or took back, about some memories."""

    kind: str
    """Of its events: `journal.DECIDED` or `TAKEN_BACK`."""
    changes: tuple[Redone, ...]
    at: datetime
    reason: str
    links: tuple[MemoryLink, ...] = ()
    unlinked: tuple[MemoryLink, ...] = ()


class Review(Protocol):
    """What a person reads who looks after memories, and what is decided. All errors are `StorageError`s."""

    async def search_aside(self, query: SearchQuery, found: SearchResult) -> SearchResult:
        """Return the nearest of what no search of these scopes finds, counted as `found`; none without a vector.

        That is what is quarantined or archived in them, and what is active in other projects of the tenant.
        """
        ...

    async def tellings(self, scopes: Sequence[Scope], memory_id: str, limit: int) -> list[Telling]:
        """Return when a memory was told in the scopes, or kept from a task, newest first."""
        ...

    async def contradicting(self, scopes: Sequence[Scope], limit: int) -> list[MemoryLink]:
        """Return the links between active memories that contradict each other, newest first."""
        ...

    async def idle(self, scope: Scope, before: datetime, below: float, limit: int) -> list[UpkeepItem]:
        """Return active memories, none that the user said, without use since a moment and at most so sure.

        The least sure first; without their directions.
        """
        ...

    async def most_told(self, scopes: Sequence[Scope], limit: int) -> list[MemoryItem]:
        """Return the active memories that were told most often, none that never was."""
        ...

    async def quarantined(self, scopes: Sequence[Scope]) -> int:
        """Return how many memories are in quarantine."""
        ...

    async def decisions(self, scopes: Sequence[Scope]) -> list[Event]:
        """Return what was decided about memories and what of it taken back, oldest first."""
        ...

    async def facets(self, scopes: Sequence[Scope]) -> Facets: ...

    async def write_decision(self, decision: Decision, embedder: str) -> bool:
        """Write all of it in one transaction; False, and nothing is written, where a memory is not as it was seen."""
        ...
