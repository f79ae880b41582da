"""What benchmarks take and return: datasets, figures, tables, runs."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from swarm_memory.schema.base import Model, Timestamp

BenchmarkStatus = Literal["running", "completed", "interrupted", "cancelled", "failed"]
"""interrupted: by Ctrl-C; cancelled: along with its job. Both keep what had been measured until then."""


def _in_utc(value: object) -> object:
    """Read a moment without a zone, as datasets have them, as UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


Moment = Annotated[Timestamp, BeforeValidator(_in_utc)]


class BenchmarkDocument(Model):
    """One document that can be found."""

    id: str = Field(min_length=1)
    content: str = Field(min_length=1)
    group: str = Field(default="", max_length=400)
    """Items of one group are searched together and apart from all others; they keep the order of the file."""
    part: str = ""
    """The larger unit that the item is part of, such as the session of a turn."""
    time: Moment | None = None


class BenchmarkQuestion(Model):
    """One query and the items that answer it."""

    query: str = Field(min_length=1)
    gold: tuple[str, ...] = ()
    """Ids of the relevant items in its group; empty where there is no answer (abstention)."""
    group: str = ""
    answer: str | None = None
    category: str | None = None
    now: Moment | None = None
    """When it was asked."""


class Dataset(Model):
    """Items and questions in the one form that every retrieval suite takes."""

    name: str = Field(min_length=1)
    items: tuple[BenchmarkDocument, ...]
    questions: tuple[BenchmarkQuestion, ...]


class DatasetInfo(Model):
    """The data that a run was made with."""

    name: str
    hash: str
    """SHA-256 of the items and questions that were used: those left after the split and the limit."""
    items: int
    questions: int


class MetricValue(Model):
    """One number that was measured."""

    subject: str
    """What was measured: a system, an arm, an operation."""
    measure: str
    """`recall_any@5`, `p50_ms`, `success_rate` …: the name includes the unit where there is one."""
    part: str = ""
    """A category, an epoch, a size; empty for the whole."""
    value: float
    low: float | None = None
    high: float | None = None
    """Bounds of the 95 % interval."""
    n: int | None = None
    better: Literal["higher", "lower", "neither"] = "higher"


class Table(Model):
    """Rows to show to people; every cell is already text, and untrusted."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


class SuiteResults(Model, extra="ignore"):
    """Everything that a suite reports. After part of the work it has the same form as after all of it."""

    # Runs of earlier versions, in files and banks, also hold plots and the values of single cases.
    dataset: DatasetInfo | None = None
    figures: tuple[MetricValue, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out or reduced, and why."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """Whatever else the suite wants in its file."""


class BenchmarkRun(Model):
    """One run of a suite, as a file that describes itself."""

    run_id: str
    suite: str
    status: BenchmarkStatus
    options: dict[str, JsonValue]
    settings: dict[str, JsonValue]
    """The settings that affect the results; no path, endpoint or key."""
    seed: int
    versions: dict[str, str]
    machine: dict[str, str]
    """The kind of machine, not which one it was."""
    started_at: Timestamp
    ended_at: Timestamp | None = None
    results: SuiteResults = Field(default_factory=SuiteResults)
    error: str | None = None
