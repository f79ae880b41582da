"""What the upkeep of the bank reads and writes, by consolidation and by a person. No adapter is known here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from pydantic import JsonValue

from swarm_memory.schema.base import Model, Timestamp
from swarm_memory.schema.memory import MemoryItem, MemoryLink, MemoryStatus, Standing
from swarm_memory.schema.outcome import UseMethod
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import StoredMemory

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
