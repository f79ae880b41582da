"""The suite of retrieval: reads the data, builds the systems that are asked for, and has them measured."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio.to_thread

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import Dataset, Figure, SuiteResults, Table
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.server.benchmark.embedding_cache import CachedEmbedder
from swarm_memory.server.benchmark.files import load
from swarm_memory.server.benchmark.outside import OutsideMemory
from swarm_memory.server.wiring import make_embedder
from swarm_memory.tools.benchmark.answering import Graded, answer_table, grade_answers
from swarm_memory.tools.benchmark.datasets import cut, described
from swarm_memory.tools.benchmark.debris import poisoned
from swarm_memory.tools.benchmark.measuring import REFERENCE, Asked, Summary, ask_all, fill
from swarm_memory.tools.benchmark.options import RetrievalOptions
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.systems.bank import Bank, BankSystem, TemporalSystem
from swarm_memory.tools.benchmark.systems.bm25 import OkapiSystem
from swarm_memory.tools.benchmark.systems.context import ContextSystem
from swarm_memory.tools.benchmark.systems.rerank import RerankSystem
from swarm_memory.tools.ports.benchmarks import MemorySystem
from swarm_memory.tools.ports.models import Embedder, Reranker
from swarm_memory.tools.retrieve.retrieve import MAX_K
from swarm_memory.tools.sources.model_rerank import ChatReranker

CACHE = "embeddings"
_RERANK_TIMEOUT_S = 60.0
_TELL_EVERY = 20

_LEG = {"min_cosine": 0.0, "delta": 0.0}
"""One leg alone: no floor, no diversity."""


@dataclass(slots=True)
class _Run:
    """One run of the suite while it goes on."""

    bench: SuiteContext
    options: RetrievalOptions
    dataset: Dataset
    stack: AsyncExitStack
    total: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    graded: list[Graded] = field(default_factory=list[Graded])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        found = Summary(described(self.dataset), self.asked, self.options.k, self.options.seed).results(self.notes)
        tables = (*found.tables, *((answer_table(self.graded),) if self.graded else ()), *self._debris_table())
        answers = tuple(figure for each in self.graded for figure in each.figures())
        return found.model_copy(update={"tables": tables, "figures": (*found.figures, *answers)})

    def _debris_table(self) -> tuple[Table, ...]:
        if not self.options.poison:
            return ()
        names = {"hybrid", "hybrid poisoned", "hybrid poisoned+consolidated"}
        summary = Summary(described(self.dataset), self.asked, self.options.k, self.options.seed)
        found: list[Figure] = [each for each in summary.results().figures if each.subject in names and not each.part]
        measures = (f"recall_any@{summary.main_k}", "mrr@10", "ndcg@10")
        values = {(each.subject, each.measure): each.value for each in found}
        rows = tuple(
            (name, *(f"{100 * values[name, measure]:.1f}" for measure in measures))
            for name in sorted(names, key=len)
            if (name, measures[0]) in values
        )
        note = f"{self.options.poison} near-duplicate items were added to each group; %"
        return (Table(title="With debris", headings=("store", *measures), rows=rows, note=note),)

    async def tell(self, system: str, number: int) -> None:
        """Pass on how far it is, now and then."""
        self.done += 1
        if number % _TELL_EVERY == 0 or self.done == self.total:
            await self.bench.report(Progress(done=self.done, total=self.total, message=f"{system}: {number} asked"))


async def measure(bench: SuiteContext, options: RetrievalOptions) -> SuiteResults:
    """Measure the systems on the dataset, variant by variant of a sweep. Raises `InputError`, `ConfigError`."""
    variants = list(options.variants())
    _check(bench, options)
    whole = await anyio.to_thread.run_sync(_load, bench, options)
    dataset = cut(whole, split=options.split, limit=options.limit, groups=options.groups)
    async with AsyncExitStack() as stack:
        run = _Run(bench, options, dataset, stack, notes=_told(options, dataset))
        try:
            await _measure_all(run, variants)
        except SwarmMemoryError as error:
            failed = error  # raised here, the task groups of outside systems would wrap it
        else:
            return run.results()
    raise failed


async def _measure_all(run: _Run, variants: Sequence[tuple[str, RetrievalOptions]]) -> None:
    swept, outside = bool(run.options.sweep), run.options.outside
    names = [_names(each, first=at == 0, sweep=swept) for at, (_, each) in enumerate(variants)]
    run.total = len(run.dataset.questions) * (sum(map(len, names)) + len(outside))
    for (label, variant), wanted in zip(variants, names, strict=True):
        await _measure_variant(run, variant, label, wanted)
    for config in outside:
        await _measure_system(run, OutsideMemory(config, run.stack), run.dataset, "")


def _load(bench: SuiteContext, options: RetrievalOptions) -> Dataset:
    path = None if options.path is None else bench.root / Path(options.path).expanduser()
    return load(options.dataset, path, options.documents)


def _check(bench: SuiteContext, options: RetrievalOptions) -> None:
    if any(name.endswith("rerank") for name in options.systems) and _reranker(bench) is None:
        raise InputError(
            "option systems: a rerank system needs an endpoint in the settings, or a chat model under chat.providers"
        )


def _told(options: RetrievalOptions, dataset: Dataset) -> list[str]:
    notes: list[str] = []
    if not options.floor or "hybrid-nofloor" in options.systems:
        notes.append("without the relevance floor what hardly fits is returned too; the product leaves it out")
    if "hybrid+temporal" in options.systems:
        notes.append("hybrid+temporal differs from hybrid only where a query names a time")
    if "hybrid+recency" in options.systems and not any(each.now for each in dataset.questions):
        notes.append("no question says when it was asked: hybrid+recency measures every age from today")
    return notes


def _names(options: RetrievalOptions, *, first: bool, sweep: bool) -> list[str]:
    """Return what is measured of a variant; the reference does not change in a sweep."""
    names = [name for name in dict.fromkeys(options.systems) if first or not sweep or name != REFERENCE]
    return [*names, *(("hybrid poisoned", "hybrid poisoned+consolidated") if options.poison else ())]


async def _measure_variant(run: _Run, options: RetrievalOptions, label: str, names: Sequence[str]) -> None:
    embedder = _embedder(run.bench, options)
    debris = poisoned(run.dataset, options.poison, options.seed) if options.poison else run.dataset
    banks = _Banks(run, embedder)
    for name in names:
        if name.startswith("hybrid poisoned"):
            bank = await banks.fresh(consolidated=name.endswith("consolidated"))
            system = BankSystem(name, bank, options.retrieve_settings(run.bench.toolbox.settings.retrieve))
            await _measure_system(run, system, debris, label)
            if bank.consolidated:
                run.notes.append(f"consolidation archived {bank.archived:,} items as duplicates")
        else:
            await _measure_system(run, await _system(name, options, banks, embedder), run.dataset, label)
    if isinstance(embedder, CachedEmbedder) and embedder.answered:
        run.notes.append(f"{embedder.answered:,} queries had their vector from a file: their latency is without it")


async def _measure_system(run: _Run, system: MemorySystem, dataset: Dataset, label: str) -> None:
    """Fill and ask one system; whatever ends it, what was counted is kept."""
    asked = Asked(f"{system.name} ({label})" if label and system.name != REFERENCE else system.name)
    run.asked.append(asked)
    try:
        await fill(system, dataset, asked)
        if isinstance(system, BankSystem | TemporalSystem):
            asked.ingest_s = system.bank.seconds
        await ask_all(system, dataset, run.options.k, asked, run.tell)
        if isinstance(system, RerankSystem) and system.unjudged:
            run.notes.append(f"{asked.system}: for {system.unjudged} questions the reranker gave nothing usable")
        await _answers(run, system, dataset, asked.system)
    finally:
        run.bench.keep(run.results())


async def _answers(run: _Run, system: MemorySystem, dataset: Dataset, name: str) -> None:
    chat = run.bench.toolbox.chat
    if not run.options.answers:
        return
    if chat is None:
        note = "answers were not measured: no chat model is set (chat.providers)"
        run.notes += [note] if note not in run.notes else []
        return
    graded = Graded(name)
    run.graded.append(graded)
    run.total += len([each for each in dataset.questions if each.answer is not None])
    await grade_answers(chat, system, dataset, graded, run.options.seed, run.tell)
    if graded.stopped:
        run.notes.append(f"{name}: answers ended early: {graded.stopped}")


@dataclass(slots=True)
class _Banks:
    """The stores of one variant; systems that differ only in how they ask share one."""

    run: _Run
    embedder: Embedder
    shared: dict[bool, Bank] = field(default_factory=dict[bool, Bank])

    async def bank(self, *, dated: bool = False) -> Bank:
        """Return the store whose items have their own times, or all the same."""
        if dated not in self.shared:
            self.shared[dated] = await self.fresh(dated=dated)
        return self.shared[dated]

    async def fresh(self, *, dated: bool = False, consolidated: bool = False) -> Bank:
        """Return an empty store of its own."""
        store = await self.run.stack.enter_async_context(self.run.bench.open_store(self.embedder))
        toolbox = replace(self.run.bench.toolbox, store=store, embedder=self.embedder, scope=Scope(), chat=None)
        return Bank(toolbox, dated=dated, consolidated=consolidated)


async def _system(name: str, options: RetrievalOptions, banks: _Banks, embedder: Embedder) -> MemorySystem:
    settings = options.retrieve_settings(banks.run.bench.toolbox.settings.retrieve)
    match name:
        case "vector" | "keyword":
            alone = {**_LEG, "fusion": "convex", "vector_weight": float(name == "vector")}
            return BankSystem(name, await banks.bank(), settings.model_copy(update=alone), name)
        case "hybrid-nofloor":
            return BankSystem(name, await banks.bank(), settings.model_copy(update={"min_cosine": 0.0}))
        case "bm25-okapi":
            return OkapiSystem()
        case "hybrid+context":
            return ContextSystem(embedder, options.context)
        case "hybrid+recency":
            return BankSystem(name, await banks.bank(dated=True), settings)
        case "hybrid+temporal":
            return TemporalSystem(name, await banks.bank(), settings, options.temporal_boost)
        case "hybrid+rerank" | "hybrid+context+rerank":
            base = await _system(name.removesuffix("+rerank"), options, banks, embedder)
            reranker = _reranker(banks.run.bench)
            assert reranker is not None, "this was checked before anything was opened"
            return RerankSystem(base, reranker, min(options.rerank_pool, MAX_K))
        case _:
            return BankSystem(name, await banks.bank(), settings)


def _reranker(bench: SuiteContext) -> Reranker | None:
    toolbox = bench.toolbox
    if toolbox.reranker is not None:
        return toolbox.reranker
    return None if toolbox.chat is None else ChatReranker(toolbox.chat, _RERANK_TIMEOUT_S)


def _embedder(bench: SuiteContext, options: RetrievalOptions) -> Embedder:
    """Return the embedder of the settings, or another one; what an endpoint or a network gives is kept in a file."""
    changes = options.embedding.model_dump(exclude_none=True)
    if not changes:
        chosen, provider = bench.toolbox.embedder, bench.toolbox.settings.embedding.provider
    else:
        settings = bench.toolbox.settings.embedding.model_copy(update=changes)
        chosen, provider = make_embedder(settings), settings.provider
    return chosen if provider == "static" else CachedEmbedder(chosen, bench.cache / CACHE)


SUITE = Suite("retrieval", "how well what is relevant is found, and how fast", RetrievalOptions, measure)
