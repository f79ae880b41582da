"""The suite of performance: the twelve published measurements, growth, and clients over HTTP, on banks of its own."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.benchmark.http_load import load_over_http
from swarm_memory.server.config import resolve_settings
from swarm_memory.server.storage.search.vectors import cosines, encode
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.benchmark.figures import together
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.suites.performance import (
    DOMAINS,
    MEASUREMENTS,
    HashedEmbedder,
    Load,
    MadeMemories,
    PerformanceOptions,
    Size,
    growth_results,
    load_results,
    operation_results,
    steps_to,
)
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord, SearchFilter
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

BATCH = 500
_BLOCK = 1000
_WARM = 5
_EVERYTHING = 1_000_000

Operation = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class _Run:
    """One run of the suite while it goes on."""

    bench: SuiteContext
    options: PerformanceOptions
    operations: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    sizes: list[Size] = field(default_factory=list[Size])
    loads: list[Load] = field(default_factory=list[Load])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0

    @property
    def total(self) -> int:
        """Steps of all parts."""
        operations, growth, http = (part in self.options.parts for part in ("operations", "growth", "http"))
        return (
            operations * 2 * (len(MEASUREMENTS) + 1)
            + growth * len(list(steps_to(self.options.max_items)))
            + http * len(self.options.clients)
        )

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        parts = [operation_results(self.options.items, self.operations)] if self.operations else []
        parts += [growth_results(self.bench.toolbox.embedder.name, self.sizes)] if self.sizes else []
        parts += [load_results(self.loads)] if self.loads else []
        return together([*parts, SuiteResults(notes=tuple(self.notes))])

    async def tell(self, message: str) -> None:
        """Keep what there is and pass on how far it is."""
        self.done += 1
        self.bench.keep(self.results())
        await self.bench.report(Progress(done=self.done, total=self.total, message=message))


async def measure(bench: SuiteContext, options: PerformanceOptions) -> SuiteResults:
    """Measure the parts that are asked for. Raises `ConfigError`, `StorageError`, and what the embedder raises."""
    run = _Run(bench, options)
    if hasattr(os, "getloadavg"):
        run.notes.append(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    if "operations" in options.parts:
        for embedder in (HashedEmbedder(options.dimensions), bench.toolbox.embedder):
            await _operations(run, embedder)
    if "growth" in options.parts:
        await _growth(run)
    if "http" in options.parts:
        for clients in options.clients:
            run.loads.append(await load_over_http(bench.folder, clients, options.requests, options.seed))
            await run.tell(f"{clients} clients over HTTP")
    return run.results()


@asynccontextmanager
async def _bank(run: _Run, embedder: Embedder) -> AsyncGenerator[Toolbox]:
    async with run.bench.open_store(embedder) as store:
        scope = Scope(project="performance")
        yield replace(run.bench.toolbox, store=store, embedder=embedder, scope=scope, chat=None)


async def _operations(run: _Run, embedder: Embedder) -> None:
    """Time each of the twelve on a bank of the wanted size; insertions come last, so that the others see that size."""
    options = run.options
    times = run.operations[embedder.name] = {}
    async with _bank(run, embedder) as bank:
        made = MadeMemories(options.seed, bank.scope, bank.clock.now())
        kept, _ = await _fill(bank, made, options.items)
        await run.tell(f"{embedder.name}: {options.items:,} items")
        for key, operation in (await _readings(run, bank, made, kept)).items():
            times[key] = await _timed(operation, options.repeats)
            await run.tell(f"{embedder.name}: {key}")
        times["cosine"] = await anyio.to_thread.run_sync(_cosine_times, bank, kept, options.repeats)
        await run.tell(f"{embedder.name}: cosine")
        one, many = made.take(options.repeats + _WARM), options.inserts
        times["insert"] = await _timed(lambda: _insert(bank, [one.pop()]), options.repeats)
        await run.tell(f"{embedder.name}: insert")
        batches = [made.take(100) for _ in range(max(3, options.repeats // 10) + 1)]
        times["batch"] = await _timed(lambda: _insert(bank, batches.pop()), len(batches) - 1, warm=1)
        await run.tell(f"{embedder.name}: batch of 100")
        others = made.take(many)
        times["insert_1000"] = await _timed(lambda: _insert(bank, [others.pop()]), many, warm=0)
        await run.tell(f"{embedder.name}: {many:,} inserts")


async def _readings(run: _Run, bank: Toolbox, made: MadeMemories, kept: list[MemoryItem]) -> dict[str, Operation]:
    """Return the operations that leave the number of items as it is."""
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
        "metric": lambda: bank.store.add_event(bank.scope, Event("benchmark.measured", bank.clock.now())),
        "statistics": lambda: bank.store.statistics(bank.scope, bank.embedder.name),
        "all_active": lambda: bank.store.list_memories([bank.scope], MemoryFilter(limit=_EVERYTHING)),
    }


async def _timed(operation: Operation, repeats: int, *, warm: int = _WARM) -> list[float]:
    """Return the ms of each call; what is measured first is not counted."""
    found: list[float] = []
    for _ in range(warm + repeats):
        started = time.perf_counter()
        await operation()
        found.append((time.perf_counter() - started) * 1000)
    return found[warm:]


def _cosine_times(bank: Toolbox, kept: list[MemoryItem], repeats: int) -> list[float]:
    """Return the ms of one pair, each from a block of 1,000 pairs."""
    made = HashedEmbedder(bank.embedder.dimensions)
    quantization = bank.embedder.quantization
    blobs = [encode(made.embed(kept[at % len(kept)].title), quantization) for at in range(_BLOCK)]
    found: list[float] = []
    for at in range(repeats):
        started = time.perf_counter()
        cosines(blobs[at % _BLOCK], blobs, quantization)
        found.append((time.perf_counter() - started) * 1000 / _BLOCK)
    return found


async def _growth(run: _Run) -> None:
    """Fill one bank step by step with the embedder of the settings, and measure it at each."""
    async with _bank(run, run.bench.toolbox.embedder) as bank:
        made = MadeMemories(run.options.seed, bank.scope, bank.clock.now())
        there = 0
        for size in steps_to(run.options.max_items):
            kept, seconds = await _fill(bank, made, size - there)
            asked = [made.query(kept[at % len(kept)]) for at in range(run.options.repeats + _WARM)]
            times = await _timed(lambda asked=asked: retrieve(bank, asked.pop()), run.options.repeats)
            on_disk = (await bank.store.health()).size_bytes
            run.sizes.append(Size(size, seconds, size - there, tuple(times), on_disk, _resident_mb()))
            there = size
            await run.tell(f"{size:,} items")


async def _fill(bank: Toolbox, made: MadeMemories, count: int) -> tuple[list[MemoryItem], float]:
    """Write so many items in batches; return the last ones, at most 1,000, and the seconds of writing."""
    kept: list[MemoryItem] = []
    seconds = 0.0
    for at in range(0, count, BATCH):
        items = made.take(min(BATCH, count - at))
        started = time.perf_counter()
        await _insert(bank, items)
        seconds += time.perf_counter() - started
        kept = [*kept, *items][-1000:]
    return kept, seconds


async def _insert(bank: Toolbox, items: list[MemoryItem]) -> None:
    await bank.store.add_memories(await prepare(bank, items), bank.embedder.name)


def _resident_mb() -> float | None:
    """Return the memory that this process holds now (Linux)."""
    pages = Path("/proc/self/statm")
    if not pages.is_file():
        return None
    return int(pages.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


SUITE = Suite(
    "performance", "how long each operation takes, how that grows, and many clients", PerformanceOptions, measure
)
