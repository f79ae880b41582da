"""What `memory_status` and `doctor` say: how everything is made, and how it stands."""

from pydantic import JsonValue

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.metrics import Effect


class StorageHealth(Model):
    """The database as this process sees it."""

    path: str
    driver: str
    """The rung: `pysqlite3`, `stdlib`, `ctypes` or `scan`."""
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
    """By status: active, quarantined, archived."""
    by_outcome: dict[str, int]
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
    consolidation_due: bool
    oldest: str | None = None
    newest: str | None = None
    mean_confidence: float | None = None


class MemoryStatus(Model):
    """The answer of `memory_status`."""

    version: str
    storage: StorageHealth
    statistics: BankStatistics
    embedder: str
    judge: str
    """Who judges now: `evidence`, or the chat model's name."""
    effect: Effect | None = None
    """What memories did for the tasks so far; None before the first outcome."""
    settings: dict[str, JsonValue]
    notices: tuple[str, ...] = ()
