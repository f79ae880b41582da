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
from swarm_memory.schema.benchmark import Figure, Plot, Series, Table
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.tools.benchmark.metrics import percentile
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
    resident_bytes: int | None
    """Memory of the process; None where the system does not tell."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of clients that call at the same time over HTTP."""

    clients: int
    latencies_ms: tuple[float, ...]
    seconds: float
    failed: int


def operation_figures(subject: str, times: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Return mean, p50, p95 of each operation in ms."""
    return [
        _time(subject, f"{key}_{name}", value, len(each))
        for key, each in times.items()
        if each
        for name, value in (
            ("mean_ms", fmean(each)),
            ("p50_ms", percentile(each, 0.5)),
            ("p95_ms", percentile(each, 0.95)),
        )
    ]


def operation_table(items: int, times: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return the times of each operation, one column for each embedder."""
    rows = tuple(
        (str(number), each.name, f"ms per {each.per}", *(_shown(of.get(each.key)) for of in times.values()), each.what)
        for number, each in enumerate(MEASUREMENTS, start=1)
    )
    headings = ("#", "measurement", "unit", *(f"{name}: mean (p50; p95; most)" for name in times), "what is measured")
    return Table(title=f"Operations on {items:,} items", headings=headings, rows=rows)


def growth_figures(subject: str, sizes: Sequence[Size]) -> list[Figure]:
    """Return what each size gave."""
    found: list[Figure] = []
    for each in sizes:
        part = f"{each.items} items"
        rate = each.inserted / each.insert_s
        found += [
            Figure(subject=subject, measure="inserts_per_s", part=part, value=rate, n=each.inserted),
            *(
                _time(subject, f"retrieve_p{share}_ms", percentile(each.retrieve_ms, share / 100), n, part)
                for share in (50, 95)
                if (n := len(each.retrieve_ms))
            ),
            Figure(
                subject=subject, measure="bytes_per_item", part=part, value=each.size_bytes / each.items, better="lower"
            ),
        ]
        if each.resident_bytes is not None:
            memory = each.resident_bytes / 1e6
            found.append(Figure(subject=subject, measure="resident_mb", part=part, value=memory, better="lower"))
    return found


def growth_table(sizes: Sequence[Size]) -> Table:
    """Return a row for each size."""
    rows = tuple(
        (
            f"{each.items:,}",
            f"{each.inserted / each.insert_s:,.0f}",
            f"{percentile(each.retrieve_ms, 0.5):.2f}",
            f"{percentile(each.retrieve_ms, 0.95):.2f}",
            f"{each.size_bytes / 1e6:.1f}",
            f"{each.size_bytes / each.items:,.0f}",
            "-" if each.resident_bytes is None else f"{each.resident_bytes / 1e6:.0f}",
        )
        for each in sizes
    )
    headings = ("items", "inserts/s", "retrieve p50, ms", "p95, ms", "MB on disk", "bytes/item", "MB of memory")
    note = "inserts in batches of 500; memory: of the whole process"
    return Table(title="Growth", headings=headings, rows=rows, note=note)


def growth_plots(sizes: Sequence[Size]) -> list[Plot]:
    """Return latency and size by number of items, on logarithmic axes."""
    x = tuple(float(each.items) for each in sizes)
    latency = tuple(
        Series(name=f"p{share}", x=x, y=tuple(percentile(each.retrieve_ms, share / 100) for each in sizes))
        for share in (50, 95)
    )
    disk = Series(name="MB on disk", x=x, y=tuple(each.size_bytes / 1e6 for each in sizes))
    rate = Series(name="inserts/s", x=x, y=tuple(each.inserted / each.insert_s for each in sizes))
    return [
        Plot(title="Retrieve by size", x_label="items", y_label="ms", log_x=True, log_y=True, series=latency),
        Plot(title="Size on disk", x_label="items", y_label="MB", log_x=True, log_y=True, series=(disk,)),
        Plot(title="Insert rate by size", x_label="items", y_label="items/s", log_x=True, series=(rate,)),
    ]


def load_figures(loads: Sequence[Load]) -> list[Figure]:
    """Return what each number of clients gave."""
    return [
        figure
        for each in loads
        if each.latencies_ms
        for figure in (
            Figure(
                subject="http", measure="requests_per_s", part=f"{each.clients} clients",
                value=len(each.latencies_ms) / each.seconds, n=len(each.latencies_ms),
            ),
            *(
                _time(
                    "http", f"p{share}_ms", percentile(each.latencies_ms, share / 100), len(each.latencies_ms),
                    f"{each.clients} clients",
                )
                for share in (50, 95)
            ),
        )
    ]  # fmt: skip


def load_table(loads: Sequence[Load]) -> Table:
    """Return a row for each number of clients."""
    rows = tuple(
        (
            str(each.clients),
            str(len(each.latencies_ms)),
            str(each.failed),
            f"{len(each.latencies_ms) / each.seconds:.1f}",
            *(f"{percentile(each.latencies_ms, share):.1f}" for share in (0.5, 0.95)),
        )
        for each in loads
        if each.latencies_ms
    )
    headings = ("clients", "answered", "failed", "requests/s", "p50, ms", "p95, ms")
    note = "retrieve_memories by the MCP client, each with a session of its own; server and clients share the machine"
    return Table(title="Clients over HTTP", headings=headings, rows=rows, note=note)


def load_plot(loads: Sequence[Load]) -> Plot:
    """Return latency by number of clients."""
    sound = [each for each in loads if each.latencies_ms]
    x = tuple(float(each.clients) for each in sound)
    series = tuple(
        Series(name=f"p{int(share * 100)}", x=x, y=tuple(percentile(each.latencies_ms, share) for each in sound))
        for share in (0.5, 0.95)
    )
    return Plot(title="Clients over HTTP", x_label="clients", y_label="ms", log_x=True, log_y=True, series=series)


def _time(subject: str, measure: str, value: float, n: int, part: str = "") -> Figure:
    return Figure(subject=subject, measure=measure, part=part, value=value, n=n, better="lower")


def _shown(times: Sequence[float] | None) -> str:
    if not times:
        return "-"
    middle, late = percentile(times, 0.5), percentile(times, 0.95)
    return f"{fmean(times):.3g} ({middle:.3g}; {late:.3g}; {max(times):.3g})"
