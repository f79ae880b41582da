"""The performance suite: its options, made memories, an embedder without a model, and times as figures and tables."""

import hashlib
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.tools.benchmark.figures import Column, by_size, figure, figures, late, table
from swarm_memory.tools.benchmark.measures import percentile
from swarm_memory.tools.benchmark.suite import SuiteOptions, comma_list

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

ITEMS, DIMENSIONS = 2431, 1024
"""Size of the bank and of its vectors in the ReasoningBank report."""

PerformancePart = Literal["operations", "growth", "http"]


class PerformanceOptions(SuiteOptions):
    """What is asked of the performance suite."""

    parts: Annotated[tuple[PerformancePart, ...], BeforeValidator(comma_list)] = Field(
        default=("operations", "growth", "http"), min_length=1, description="What is measured"
    )
    items: int = Field(default=ITEMS, ge=100, le=100_000, description="operations: items in the bank")
    dimensions: int = Field(default=DIMENSIONS, ge=8, le=4096, description="operations: of the made vectors")
    repeats: int = Field(default=100, ge=3, le=10_000, description="operations, growth: how often each is timed")
    inserts: int = Field(default=1000, ge=1, le=100_000, description="operations: insertions of the twelfth")
    max_items: int = Field(default=10_000, ge=1000, le=1_000_000, description="growth: where it ends")
    clients: Annotated[tuple[Annotated[int, Field(ge=1, le=256)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 4, 16), description="http: clients at the same time"
    )
    requests: int = Field(default=20, ge=1, le=1000, description="http: calls of each client")


class Measurement(NamedTuple):
    """One operation that is timed."""

    key: str
    name: str
    per: str
    """What a time is for."""
    what: str
    """What is done in it."""


MEASUREMENTS = (
    Measurement("open", "Database Connection", "call", "opening the file: checks, schema, indexes, and closing it"),
    Measurement(
        "configuration", "Configuration Loading", "call", "reading files and environment, checking every value"
    ),
    Measurement(
        "insert",
        "Memory Insertion (Single)",
        "memory",
        "embedding, tokens, row, vector and keyword index, one durable transaction",
    ),
    Measurement(
        "batch", "Batch Insertion (100)", "100 memories", "100 memories embedded and written in one durable transaction"
    ),
    Measurement(
        "retrieve",
        "Memory Retrieval (No Filter)",
        "call",
        "all of it: embedding, two legs, fusion, diversity, the record",
    ),
    Measurement(
        "retrieve_domain",
        "Memory Retrieval (Domain Filter)",
        "call",
        "the same within a domain that a quarter of the items has",
    ),
    Measurement(
        "usage",
        "Usage Increment",
        "call",
        "recording a retrieval of three: event, figures, three counts, written durably",
    ),
    Measurement("metric", "Metrics Logging", "call", "one event of the audit trail, durably"),
    Measurement(
        "cosine", "Cosine Similarity (1024-dim)", "pair", "one pair as the index computes it, of a block of 1,000"
    ),
    Measurement("statistics", "View Queries", "call", "all counts of the bank's status"),
    Measurement("all_active", "Get All Active Memories", "call", "every item, checked as a model"),
    Measurement(
        "insert_1000", "Scalability Test (1000)", "memory", "1,000 single durable insertions, one after the other"
    ),
)
"""Those of the ReasoningBank report (2025-10-10, version 1.0.0), in its order."""

DOMAINS = ("shop", "billing", "search", "mobile")
"""Each has a quarter of the items."""

_SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za".split()  # noqa: SIM905 - shorter so
_VERBS = (
    "check", "read", "retry", "split", "cache", "validate", "rebuild", "pin", "quote", "escape", "log", "lock", "sort",
    "merge", "batch",
)  # fmt: skip
_VOCABULARY = 6000
_DAYS = 200


class MadeMemories:
    """Memories without end: words by Zipf's law, three to six steps each, of the last 200 days."""

    def __init__(self, seed: int, scope: Scope, now: datetime) -> None:
        self._draw, self._scope, self._now = Random(seed), scope, now
        self._words = ["".join(self._draw.choice(_SYLLABLES) for _ in range(3)) for _ in range(_VOCABULARY)]
        self._weights = [1 / (rank + 10) for rank in range(_VOCABULARY)]

    def take(self, count: int) -> list[MemoryItem]:
        """Return the next `count` of them."""
        return [self._item() for _ in range(count)]

    def query(self, item: MemoryItem) -> str:
        """Return a question that an item is found by: some of its words."""
        words = [*item.title.split(), *item.content.split()]
        return " ".join(self._draw.sample(words, min(18, len(words))))

    def _item(self) -> MemoryItem:
        steps = [f"{at}. {self._phrase(self._draw.randint(6, 14))}" for at in range(1, self._draw.randint(4, 7))]
        return MemoryItem(
            id=new_id(MEMORY),
            scope=self._scope,
            title=self._phrase(5),
            content="\n".join(steps),
            domain=self._draw.choice(DOMAINS),
            confidence=self._draw.random(),
            provenance=Provenance(distiller="user"),
            created_at=self._now - timedelta(days=self._draw.random() * _DAYS),
        )

    def _phrase(self, length: int) -> str:
        return " ".join([self._draw.choice(_VERBS), *self._draw.choices(self._words, self._weights, k=length)])


class HashedEmbedder:
    """Sums a random vector for each word: as fast as adding, and near for texts that share words.

    It measures a store with vectors of a published size where no model of that size is at hand; it says nothing of how
    well anything is found.
    """

    quantization: Literal["int8", "float32"] = "float32"
    fusion_weight = 0.5
    min_cosine = 0.0
    duplicate_cosine = 0.95

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.name = f"benchmark-hashed-{dimensions}"
        self._known: dict[str, Vector] = {}

    async def embed_query(self, text: str) -> "Vector":
        return self.embed(text)

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector]":
        return [self.embed(text) for text in texts]

    def embed(self, text: str) -> "Vector":
        """Return the unit vector of a text. Raises `InputError` for one without a word."""
        import numpy

        words = re.findall(r"\w+", text.lower())
        if not words:
            raise InputError("the text holds nothing to embed: give it at least one word")
        summed = numpy.sum([numpy.asarray(self._word(word)) for word in words], axis=0)
        return array("f", (summed / numpy.linalg.norm(summed)).astype("f4").tobytes())

    def _word(self, word: str) -> "Vector":
        import numpy

        if word not in self._known:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            drawn = numpy.random.default_rng(seed).standard_normal(self.dimensions)
            self._known[word] = array("f", drawn.astype("f4").tobytes())
        return self._known[word]


def steps_to(limit: int) -> Iterator[int]:
    """Yield the sizes that are measured on the way: 1,000, 3,000, 10,000 … and the limit itself."""
    for size in (factor * 10**power for power in range(3, 7) for factor in (1, 3)):
        if size < limit:
            yield size
    yield limit


@dataclass(frozen=True, slots=True)
class Size:
    """A bank of one size."""

    items: int
    insert_s: float
    """To bring it here from the size before."""
    inserted: int
    retrieve_ms: tuple[float, ...]
    size_bytes: int
    resident_mb: float | None
    """Memory of the process; None where the system does not tell."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of clients that call at the same time over HTTP."""

    clients: int
    latencies_ms: tuple[float, ...]
    seconds: float
    failed: int


def operation_results(items: int, times: Mapping[str, Mapping[str, Sequence[float]]]) -> SuiteResults:
    """Return mean, p50, p95 of each operation in ms, and a table with one column for each embedder."""
    found = [
        figure(subject, f"{key}_{name}", value, n=len(each), better="lower")
        for subject, of in times.items()
        for key, each in of.items()
        if each
        for name, value in zip(("mean_ms", "p50_ms", "p95_ms"), _middles(each), strict=True)
    ]
    columns: list[Column[tuple[int, Measurement]]] = [
        Column("#", lambda row: str(row[0])),
        Column("measurement", lambda row: row[1].name),
        Column("unit", lambda row: f"ms per {row[1].per}"),
        *(
            Column(f"{name}: mean (p50; p95; most)", lambda row, of=of: _shown(of.get(row[1].key)))
            for name, of in times.items()
        ),
        Column("what is measured", lambda row: row[1].what),
    ]
    shown = table(f"Operations on {items:,} items", columns, enumerate(MEASUREMENTS, start=1))
    return SuiteResults(figures=tuple(found), tables=(shown,))


def _middles(times: Sequence[float]) -> tuple[float, float, float]:
    return fmean(times), percentile(times, 0.5), percentile(times, 0.95)


def _shown(times: Sequence[float] | None) -> str | None:
    return "{:.3g} ({:.3g}; {:.3g}; {:.3g})".format(*_middles(times), max(times)) if times else None


def growth_results(subject: str, sizes: Sequence[Size]) -> SuiteResults:
    """Return what each size gave, and how latency, size on disk and rate grow with it."""
    items = Column[Size]("items", lambda size: size.items, ",d")
    rate = Column[Size](
        "inserts/s", lambda size: size.inserted / size.insert_s, ",.0f", "inserts_per_s", lambda size: size.inserted,
        "higher",
    )  # fmt: skip
    p50: Column[Size] = late("retrieve p50, ms", "retrieve_p50_ms", 0.5, lambda size: size.retrieve_ms, ".2f")
    p95: Column[Size] = late("p95, ms", "retrieve_p95_ms", 0.95, lambda size: size.retrieve_ms, ".2f")
    disk = Column[Size]("MB on disk", lambda size: size.size_bytes / 1e6, ".1f")
    each = Column[Size]("bytes/item", lambda size: size.size_bytes / size.items, ",.0f", "bytes_per_item")
    memory = Column[Size]("MB of memory", lambda size: size.resident_mb, ".0f", "resident_mb")
    columns = (items, rate, p50, p95, disk, each, memory)
    note = "inserts in batches of 500; memory: of the whole process"
    return SuiteResults(
        figures=tuple(found for size in sizes for found in figures(subject, columns, size, f"{size.items} items")),
        tables=(table("Growth", columns, sizes, note),),
        plots=(
            by_size("Retrieve by size", items, {"p50": p50, "p95": p95}, sizes, y_label="ms"),
            by_size("Size on disk", items, {"MB on disk": disk}, sizes, y_label="MB"),
            by_size("Insert rate by size", items, {"inserts/s": rate}, sizes, y_label="items/s", log_y=False),
        ),
    )


def load_results(loads: Sequence[Load]) -> SuiteResults:
    """Return what each number of clients gave that was answered at all."""
    sound = [load for load in loads if load.latencies_ms]
    clients = Column[Load]("clients", lambda load: load.clients)
    p50: Column[Load] = late("p50, ms", "p50_ms", 0.5, lambda load: load.latencies_ms, ".1f")
    p95: Column[Load] = late("p95, ms", "p95_ms", 0.95, lambda load: load.latencies_ms, ".1f")
    columns = (
        clients,
        Column[Load]("answered", _answered),
        Column[Load]("failed", lambda load: load.failed),
        Column[Load](
            "requests/s", lambda load: _answered(load) / load.seconds, ".1f", "requests_per_s", _answered, "higher"
        ),
        p50,
        p95,
    )
    note = "retrieve_memories by the MCP client, each with a session of its own; server and clients share the machine"
    plot = by_size("Clients over HTTP", clients, {"p50": p50, "p95": p95}, sound, y_label="ms")
    return SuiteResults(
        figures=tuple(found for load in sound for found in figures("http", columns, load, f"{load.clients} clients")),
        tables=(table("Clients over HTTP", columns, sound, note),),
        plots=(plot,) if sound else (),
    )


def _answered(load: Load) -> int:
    return len(load.latencies_ms)
