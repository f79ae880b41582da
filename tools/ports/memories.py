"""What the operations ask of the bank: memory items and the search among them. No adapter is known here."""

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
    """Every one must be there."""
    agent_id: str | None = None
    """What tasks of this agent taught."""


ANY = SearchFilter()


class View(NamedTuple):
    """Another vector that candidates are compared with: of a part of the query, or of another embedder."""

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
    """Candidates of each leg, of passages in each scope and kind."""
    only: SearchFilter = ANY
    views: tuple[View, ...] = ()
    """They bring no candidates."""


class Candidate(NamedTuple):
    """What a search gives of one item: enough to score it; the item and its vector are read of the few that count."""

    id: str
    project: str
    confidence: float
    usage_count: int
    created_at: datetime
    priority: Priority
    cosine: float | None
    """Given for every candidate that has a vector in the query's space, whichever leg found it."""
    keyword: float | None
    """How well its words are those of the query, better is higher: BM25 or another. None: they share none."""
    words: frozenset[str]
    """Those of the query's tokens that stand in it."""
    is_strategy: bool
    """True: it surely is of use at every prompt. False: the item itself says what it is of use for."""
    read_item: Callable[[], MemoryItem]
    """Raises `StoreDamaged` for one that is not what was written."""
    read_vector: Callable[[], Sequence[float] | None]
    """Its vector in the query's space, as it is kept: of any length."""
    views: tuple[float | None, ...] = ()
    """Its cosines to the views of the query, in their order; None where it has no such vector."""


C = TypeVar("C")


class Pools(NamedTuple, Generic[C]):
    """What one search gave: the union of both legs' pools."""

    candidates: tuple[C, ...]
    legs: tuple[Leg, ...]
    documents: int
    """Active items in the scopes, or passages in the scopes and kinds that were searched."""
    document_frequency: Mapping[str, int]
    """Of each query token: in how many of those it stands."""
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
    """Whether the task is held out and did not get what was found."""
    via: str | None = None
    """For which way of a hook: `server`, that was asked, or `hook`, that did it itself, for a prompt; `call` or
    `failure`, beside those; None without a hook."""
    failure: str | None = None
    """The signature of the error that it was made for."""
    person_id: str | None = None
    """Who asked; None: the bank's own user."""
    gone: Mapping[str, str] = MappingProxyType({})
    """Of memories that would have been shown, or were shown lower: what they name that is no more in the project."""
    rested: tuple[str, ...] = ()
    """Ids of what fits and was not shown, since it is on trial."""
    read: tuple[str, ...] = ()
    """Of what fits, the ids of what the agent of a hook reads in files: the task had it, held out or not."""


class StoredMemory(NamedTuple):
    """A memory item with all that its indexes hold."""

    item: MemoryItem
    vector: Vector | None
    """None: no embedder answered; found by keywords until one does."""
    title_tokens: tuple[str, ...]
    description_tokens: tuple[str, ...]
    content_tokens: tuple[str, ...]


class KnownFix(NamedTuple):
    """A memory that ended an error, as often as tasks showed it."""

    signature: str
    memory_id: str
    worked: int
    """Tasks in which it did."""
    tried: int
    """Tasks in which it was tried; 0: nobody counted."""
    people: int | None = None
    """Of what a team shares: for how many people that was; None: it is one's own."""


class MemoryFilter(NamedTuple):
    """Which memories `list_memories` gives, newest first."""

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
    """What forgetting took away, and what stayed."""

    ids: tuple[str, ...]
    """The memories that were there."""
    records: int
    """Trajectories whose text was taken out."""
    resting: tuple[str, ...] = ()
    """Memories for whose sake the record of a task stayed, since they were distilled from it too."""
    alike: tuple[str, ...] = ()
    """Memories that hold the title of one, or were archived as its duplicates."""
