"""What `memory_status` and `doctor` say: how everything is made, and how it stands."""

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.outcome import Effect


class StorageHealth(Model):
    """The database as this process sees it."""

    path: str
    driver: str
    """One of `pysqlite3`, `stdlib` or `scan`."""
    driver_reason: str
    sqlite_version: str
    sqlite_vec_version: str | None
    vector_search: str
    """`vec0` or `exact_scan`."""
    wal_reset_safe: bool
    """Whether this SQLite has the fix of the WAL-reset bug; the writer lock guards either way."""
    schema_version: int
    read_only: bool = False
    size_bytes: int
    notices: tuple[str, ...] = ()


class BankStatistics(Model):
    """Counts of one scope."""

    scope: Scope
    memories: dict[str, int]
    """By status: active, quarantined, archived, candidate."""
    projects: dict[str, int]
    """Active memories by the tenant's projects; the global one and the team's are among them."""
    trajectories: int
    verdicts: dict[str, int]
    retrievals: int
    jobs: dict[str, int]
    """By status."""
    embedded: dict[str, int]
    """Active memories by the embedder that has their vector."""
    not_embedded: int
    """Active memories without a vector of the current embedder; only keywords find them."""
    new_since_consolidation: int


class ChatDay(Model):
    """What calls to chat models took on one day, by every process on the database."""

    day: str
    """In UTC, as `2026-01-31`."""
    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """Of the calls whose cost is known."""
    answers: int = 0
    unusable: int = 0
    """Of the answers: not in the form that was asked for."""


class BankStatus(Model):
    """The answer of `memory_status`; each text is a line."""

    sentence: str
    version: str
    storage: StorageHealth
    statistics: BankStatistics
    embedder: str
    judge: str
    """Who judges now: `evidence`, or the chat models in the order in which they are asked."""
    learning: str = "by rules"
    chat: str | None = None
    """The chat models in one line: what they cost, and how far they agree with the evidence. None: none is set."""
    tools: str = "no calls logged"
    sources: str = "none indexed"
    effect: Effect | None = None
    """What memories did for the tasks so far; None before the first outcome."""
    consolidation: str
    """How much is new since the last one, and how the next one stands, in one line."""
    retention: str
    """After how many days what is no memory is removed, and when the oldest goes, in one line."""
    notices: tuple[str, ...] = ()
