"""What `memory_status` and `doctor` report: how everything is set up, and what state it is in."""

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
    """Whether this SQLite has the fix for the WAL-reset bug; the writer lock protects the bank either way."""
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
    """Active memories by project of the tenant, including the global project and the team's."""
    trajectories: int
    verdicts: dict[str, int]
    retrievals: int
    jobs: dict[str, int]
    """By status."""
    embedded: dict[str, int]
    """Active memories by the embedder whose vector they have."""
    not_embedded: int
    """Active memories without a vector of the current embedder; only keywords find them."""
    new_since_consolidation: int


class ChatDay(Model):
    """What calls to chat models took on one day, counted over every process that uses the database."""

    day: str
    """In UTC, as `2026-01-31`."""
    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """The cost of those calls whose cost is known."""
    answers: int = 0
    unusable: int = 0
    """How many of the answers did not have the requested form."""


class BankStatus(Model):
    """The answer of `memory_status`; each text is a line."""

    sentence: str
    version: str
    storage: StorageHealth
    statistics: BankStatistics
    embedder: str
    judge: str
    """What judges now: `evidence`, or the chat models in the order in which they are asked."""
    learning: str = "by rules"
    chat: str | None = None
    """The chat models and what they cost, in one line. None: none may be asked, and none was within the week."""
    tools: str = "no calls logged"
    sources: str = "none indexed"
    effect: Effect | None = None
    """What memories did for the tasks so far; None before the first outcome."""
    consolidation: str
    """How much is new since the last consolidation, when that ran, and any job that is not completed, in one line."""
    retention: str
    """After how many days each kind of data other than memories is removed, in one line."""
    notices: tuple[str, ...] = ()
