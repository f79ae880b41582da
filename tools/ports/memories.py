"""What operations need from the bank: memory items and the search for them. No adapter is known here."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Leg, MemoryItem, MemoryStatus, Outcome, Priority
from swarm_memory.tools.ports.models import Vector


class SearchFilter(NamedTuple):
    """Which items may be found; all of them by default."""

    domain: str | None = None
    tags: tuple[str, ...] = ()
    """All of them must be present."""
    agent_id: str | None = None
    """Only what tasks of this agent taught."""


ANY = SearchFilter()


class View(NamedTuple):
    """Another vector that candidates are compared with: for a part of the query, or from another embedder."""

    embedder: str
    vector: Vector


class SearchQuery(NamedTuple):
    """One search, of memories or of passages. Archived and quarantined items never match."""

    scopes: tuple[Scope, ...]
    embedder: str
    """Name of the space of `vector`."""
    vector: Vector | None
    """None: keywords only."""
    tokens: tuple[str, ...]
    """Made by `tools.text.tokenize`; distinct, in order."""
    pool: int
    """The number of candidates from each leg; for passages, in each scope and kind."""
    only: SearchFilter = ANY
    views: tuple[View, ...] = ()
    """They add no candidates."""


class Candidate(NamedTuple):
    """What a search returns of one item: enough to score it. Item and vector are read only for the few that count."""

    id: str
    project: str
    confidence: float
    usage_count: int
    created_at: datetime
    priority: Priority
    cosine: float | None
    """Given for every candidate that has a vector in the query's space, whichever leg found it."""
    keyword: float | None
    """How well its words match the query's, higher is better: BM25 or another measure. None: they share no word."""
    words: frozenset[str]
    """The query's tokens that occur in it."""
    is_strategy: bool
    """True: it certainly is a strategy, useful at every prompt. False: the item itself must be read (`use`) to know."""
    read_item: Callable[[], MemoryItem]
    """Returns the item. Raises `StoreDamaged` where it is not what was written."""
    read_vector: Callable[[], Sequence[float] | None]
    """Returns its vector in the query's space, as it is kept: of any length."""
    views: tuple[float | None, ...] = ()
    """Its cosines to the views of the query, in the order of those; None where it has no such vector."""


C = TypeVar("C")


class Pools(NamedTuple, Generic[C]):
    """What one search found: the union of both legs' pools."""

    candidates: tuple[C, ...]
    legs: tuple[Leg, ...]
    documents: int
    """Active items in the scopes, or passages in the scopes and kinds that were searched."""
    document_frequency: Mapping[str, int]
    """For each token of the query, in how many of those documents it occurs."""
    notices: tuple[str, ...] = ()


SearchResult: TypeAlias = Pools[Candidate]


class RetrievalRecord(NamedTuple):
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
    """Whether the task is held out, so that it was not shown what was found."""
    via: str | None = None
    """How a hook retrieved it. For a prompt: `server`, or `hook` where the hook did the work itself. To show next to a
    call or a failure: `call` or `failure`. None: it was not for a hook."""
    failure: str | None = None
    """The signature of the error that it was made for."""
    person_id: str | None = None
    """Who asked; None: the bank's own user."""
    gone: Mapping[str, str] = MappingProxyType({})
    """For memories that were left out or ranked lower for it: what they name that is no longer in the project."""
    rested: tuple[str, ...] = ()
    """Ids of memories that fit but were not shown, because they are on trial."""
    read: tuple[str, ...] = ()
    """Ids of memories that fit and that the hook's agent reads in files: the task had them, held out or not."""


class StoredMemory(NamedTuple):
    """A memory item with all that its indexes hold."""

    item: MemoryItem
    vector: Vector | None
    """None: no embedder answered; keywords find the memory until one does."""
    title_tokens: tuple[str, ...]
    description_tokens: tuple[str, ...]
    content_tokens: tuple[str, ...]


class KnownFix(NamedTuple):
    """A memory that ended an error, and how often tasks showed that it does."""

    signature: str
    memory_id: str
    worked: int
    """How many tasks it ended the error in."""
    tried: int
    """How many tasks it was tried in; 0: that was not counted."""
    people: int | None = None
    """For a memory that a team shares: how many people these counts come from; None: it is the user's own."""


class MemoryFilter(NamedTuple):
    """Which memories `list_memories` returns, newest first."""

    statuses: tuple[MemoryStatus, ...] = ("active",)
    domain: str | None = None
    tags: tuple[str, ...] = ()
    task_id: str | None = None
    text: str | None = None
    """Case-insensitive part of the title or content."""
    limit: int = 50
    offset: int = 0
    outcome: Outcome | None = None
    agent_id: str | None = None


class Forgotten(NamedTuple):
    """What forgetting removed, and what stayed."""

    ids: tuple[str, ...]
    """Ids of the memories that existed and are forgotten now."""
    records: int
    """How many trajectories had their text removed."""
    resting: tuple[str, ...] = ()
    """Ids of other memories that were distilled from the same task, so that the task's record stayed."""
    alike: tuple[str, ...] = ()
    """Ids of other memories that contain the title of a forgotten one, or were archived as its duplicates."""
