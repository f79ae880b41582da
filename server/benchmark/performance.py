"""The performance suite: ten published measurements, on a bank of generated memories."""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

from pydantic import Field

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.benchmark import SuiteResults, Table
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.server.config import resolve_settings
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.tools.benchmark.figures import Column, figure, percentile, table
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord, SearchFilter
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

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
    """Generates memories without end: words by Zipf's law, three to six steps each, of the last 200 days."""

    def __init__(self, seed: int, scope: Scope, now: datetime) -> None:
        self._draw, self._scope, self._now = Random(seed), scope, now
        self._words = ["".join(self._draw.choice(_SYLLABLES) for _ in range(3)) for _ in range(_VOCABULARY)]
        self._weights = [1 / (rank + 10) for rank in range(_VOCABULARY)]

    def take(self, count: int) -> list[MemoryItem]:
        """Return the next `count` of them."""
        return [self._item() for _ in range(count)]

    def query(self, item: MemoryItem) -> str:
        """Return a query by which an item can be found: some of its words."""
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
            provenance=Provenance(judge="evidence"),
            created_at=self._now - timedelta(days=self._draw.random() * _DAYS),
        )

    def _phrase(self, length: int) -> str:
        return " ".join([self._draw.choice(_VERBS), *self._draw.choices(self._words, self._weights, k=length)])


BATCH = 500
_WARM = 5
_EVERYTHING = 1_000_000

ITEMS = 2431
"""Size of the bank in the ReasoningBank report."""


class PerformanceOptions(SuiteOptions):
    """Options of the performance suite."""

    items: int = Field(default=ITEMS, ge=100, le=1_000_000, description="Items in the bank")
    repeats: int = Field(default=100, ge=3, le=10_000, description="How often each is timed")


class TimedOperation(NamedTuple):
    """One operation that is timed."""

    key: str
    name: str
    per: str
    """The unit that a time is measured for."""
    what: str
    """What is done in that time."""


MEASUREMENTS = (
    TimedOperation("open", "Database Connection", "call", "opening the file: checks, schema, indexes, and closing it"),
    TimedOperation("configuration", "Configuration Loading", "call", "reading files and environment, checking values"),
    TimedOperation("insert", "Memory Insertion (Single)", "memory", "embedding, row, both indexes, one durable commit"),
    TimedOperation("batch", "Batch Insertion (100)", "100 memories", "100 memories, embedded, in one durable commit"),
    TimedOperation("retrieve", "Memory Retrieval (No Filter)", "call", "embedding, two legs, fusion, the record"),
    TimedOperation(
        "retrieve_domain", "Memory Retrieval (Domain Filter)", "call", "the same over a quarter of the items"
    ),
    TimedOperation("usage", "Usage Increment", "call", "recording a retrieval of three, durably"),
    TimedOperation("metric", "Metrics Logging", "call", "one event of the audit trail, durably"),
    TimedOperation("statistics", "View Queries", "call", "all counts in the bank's status"),
    TimedOperation("all_active", "Get All Active Memories", "call", "every item, checked as a model"),
)
"""The measurements of the ReasoningBank report (2025-10-10, version 1.0.0), in its order."""

Operation = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class _Run:
    """One run of the suite in progress."""

    bench: SuiteContext
    options: PerformanceOptions
    operations: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0

    def results(self) -> SuiteResults:
        """Return the results so far."""
        name = self.bench.toolbox.embedder.name
        middles = [
            figure(name, f"{key}_{middle}", value, n=len(times), better="lower")
            for key, times in self.operations.items()
            for middle, value in zip(("mean_ms", "p50_ms", "p95_ms"), _middles(times), strict=True)
        ]
        tables = (self._table(name),) if self.operations else ()
        return SuiteResults(figures=tuple(middles), tables=tables, notes=tuple(self.notes))

    def _table(self, name: str) -> Table:
        columns: list[Column[tuple[int, TimedOperation]]] = [
            Column("#", lambda row: str(row[0])),
            Column("measurement", lambda row: row[1].name),
            Column("unit", lambda row: f"ms per {row[1].per}"),
            Column("mean (p50; p95; max)", lambda row: _shown(self.operations.get(row[1].key))),
            Column("what is measured", lambda row: row[1].what),
        ]
        return table(f"Operations on {self.options.items:,} items, {name}", columns, enumerate(MEASUREMENTS, start=1))

    async def time(self, key: str, operation: Operation, repeats: int, *, warm: int = _WARM) -> None:
        """Record the milliseconds of each call of an operation; the first `warm` calls are not counted."""
        found: list[float] = []
        for _ in range(warm + repeats):
            started = time.perf_counter()
            await operation()
            found.append((time.perf_counter() - started) * 1000)
        self.operations[key] = found[warm:]
        await self.report(key)

    async def report(self, message: str) -> None:
        """Keep the results so far and report the progress."""
        self.done += 1
        self.bench.keep(self.results())
        await self.bench.report(Progress(done=self.done, total=len(MEASUREMENTS) + 1, message=message))


async def measure(bench: SuiteContext, options: PerformanceOptions) -> SuiteResults:
    """Time each measurement on a bank of the requested size; insertions come last, so that the others see that size.

    Raises `ConfigError`, `StorageError`, and what the embedder raises.
    """
    run, toolbox = _Run(bench, options), bench.toolbox
    if hasattr(os, "getloadavg"):
        run.notes.append(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    async with bench.open_store(toolbox.embedder) as store:
        bank = replace(toolbox, store=store, scope=Scope(project="performance"), chat=None)
        made = MadeMemories(options.seed, bank.scope, bank.clock.now())
        kept = await _fill(bank, made, options.items)
        run.notes.append(f"{(await store.health()).size_bytes / options.items:,.0f} bytes per item on disk")
        await run.report(f"{options.items:,} items")
        for key, operation in (await _readings(run, bank, made, kept)).items():
            await run.time(key, operation, options.repeats)
        one = made.take(options.repeats + _WARM)
        await run.time("insert", lambda: _insert(bank, [one.pop()]), options.repeats)
        batches = [made.take(100) for _ in range(max(3, options.repeats // 10) + 1)]
        await run.time("batch", lambda: _insert(bank, batches.pop()), len(batches) - 1, warm=1)
    return run.results()


async def _readings(run: _Run, bank: Toolbox, made: MadeMemories, kept: list[MemoryItem]) -> dict[str, Operation]:
    """Return the operations that do not change the number of items."""
    asked = [made.query(kept[at % len(kept)]) for at in range(2 * (run.options.repeats + _WARM))]
    ids, numbers = [each.id for each in kept], count(1)
    path = Path((await bank.store.health()).path)

    async def opened() -> None:
        await (await open_store(path, sqlite=bank.settings.storage.sqlite, embedder=bank.embedder)).close()

    async def configured() -> None:
        resolve_settings(run.bench.root)

    async def used() -> None:
        at, now = next(numbers), bank.clock.now()
        scores = dict.fromkeys(ids[at % (len(ids) - 3) :][:3], 0.5)
        record = RetrievalRecord(f"retrieval_{at}", bank.scope, "query", scores, 1.0, now, task_id="task")
        await bank.store.record_retrieval(record)
        await bank.store.injections(bank.scope, "task")

    return {
        "retrieve": lambda: retrieve(bank, asked.pop()),
        "retrieve_domain": lambda: retrieve(bank, asked.pop(), only=SearchFilter(DOMAINS[0])),
        "open": opened,
        "configuration": configured,
        "usage": used,
        "metric": lambda: bank.store.add_event(bank.scope, BankEvent("benchmark.measured", bank.clock.now())),
        "statistics": lambda: bank.store.statistics(bank.scope, bank.embedder.name),
        "all_active": lambda: bank.store.list_memories([bank.scope], MemoryFilter(limit=_EVERYTHING)),
    }


async def _fill(bank: Toolbox, made: MadeMemories, count: int) -> list[MemoryItem]:
    """Write `count` items in batches; return the last ones, at most 1,000."""
    kept: list[MemoryItem] = []
    for at in range(0, count, BATCH):
        items = made.take(min(BATCH, count - at))
        await _insert(bank, items)
        kept = [*kept, *items][-1000:]
    return kept


async def _insert(bank: Toolbox, items: list[MemoryItem]) -> None:
    await bank.store.add_memories(await prepare(bank, items), bank.embedder.name)


def _middles(times: Sequence[float]) -> tuple[float, float, float]:
    return fmean(times), percentile(times, 0.5), percentile(times, 0.95)


def _shown(times: Sequence[float] | None) -> str | None:
    return "{:.3g} ({:.3g}; {:.3g}; {:.3g})".format(*_middles(times), max(times)) if times else None


SUITE = Suite(
    "performance",
    "how long each operation takes with a given number of items",
    "minutes at full load: nothing else should run; fewer items or repeats take less",
    PerformanceOptions,
    measure,
)
