"""What `memory_status` and `doctor` say: how everything is made, and how it stands."""

from pydantic import JsonValue

from swarm_memory.schema.base import Model, Scope, counted
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


class ChatDay(Model):
    """What calls to chat models took on one day, by every process on the database."""

    day: str
    """In UTC, as `2026-01-31`."""
    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """Of the calls whose cost is known."""

    @property
    def says(self) -> str:
        """All of it in one line."""
        cost = "" if self.cost_usd is None else f", {self.cost_usd:.4f} USD"
        return f"{self.day} {self.tokens:,} tokens{cost}"


class ChatStatus(Model):
    """The chat models, and what they cost."""

    models: tuple[str, ...]
    """`provider:model`, in the order in which they are asked."""
    days: tuple[ChatDay, ...] = ()
    """Of the last week, the newest first."""
    calls_today: int
    """Since 00:00 UTC, by every process on the database."""
    tokens_today: int
    cost_usd_today: float | None
    """Of the calls whose cost is known."""
    daily_token_budget: int | None

    @property
    def spent(self) -> str:
        """What was used today, as text."""
        limit = "no limit" if self.daily_token_budget is None else f"{self.daily_token_budget:,}"
        cost = "" if self.cost_usd_today is None else f", {self.cost_usd_today:.4f} USD"
        return f"{self.tokens_today:,} tokens of {limit} in {counted(self.calls_today, 'call')}{cost}"

    @property
    def says(self) -> str:
        """All of it in one line."""
        days = "; ".join(day.says for day in self.days) or "nothing"
        models = ", ".join(self.models) or "none"
        return f"{models}; today {self.spent}; by day: {days}"


class MemoryStatus(Model):
    """The answer of `memory_status`."""

    version: str
    storage: StorageHealth
    statistics: BankStatistics
    embedder: str
    judge: str
    """Who judges now: `evidence`, or the chat models in the order in which they are asked."""
    learning: str = "by rules"
    """Who learns from finished tasks in the background, in one line."""
    chat: ChatStatus | None = None
    """None: no chat model is set."""
    tools: str = "no calls logged"
    """The tool memory in one line."""
    sources: str = "none indexed"
    """Documents, code, APIs and tools of the project in one line."""
    effect: Effect | None = None
    """What memories did for the tasks so far; None before the first outcome."""
    consolidation: str
    """How much is new since the last one, and how the next one stands, in one line."""
    retention: str
    """After how many days what is no memory is removed, and when the oldest goes, in one line."""
    settings: dict[str, JsonValue]
    notices: tuple[str, ...] = ()
