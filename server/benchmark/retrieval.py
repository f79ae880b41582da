"""The suite of retrieval: reads the data, builds the systems that are asked for, and has them measured."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import anyio.to_thread

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import Dataset, SuiteResults
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.server.benchmark.embedding_cache import CachedEmbedder
from swarm_memory.server.benchmark.suite_files import read_json, read_lines, read_text
from swarm_memory.server.wiring import make_embedder
from swarm_memory.tools.benchmark.conversations import Documents, locomo, locomo_sessions, longmemeval
from swarm_memory.tools.benchmark.datasets import beir, cut, info_of, normalized, sample, with_debris
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.suites.answering import Graded, answer_table, grade_answers
from swarm_memory.tools.benchmark.suites.retrieval import (
    DEBRIS_STORES,
    REFERENCE,
    Asked,
    DatasetName,
    RetrievalOptions,
    Summary,
    ask_all,
    fill,
)
from swarm_memory.tools.benchmark.systems import Bank, BankSystem, MemorySystem, OkapiSystem
from swarm_memory.tools.ports.models import Embedder

_CACHE = "embeddings"
_TELL_EVERY = 20

_LEG = {"min_cosine": 0.0, "delta": 0.0, "fusion": "convex"}
"""One leg alone: no floor, no diversity."""

DATASETS: dict[DatasetName, str] = {
    "sample": "ships with the package: notes of coding work, with near misses",
    "file": "a JSON file {name, items[{id, content, group?, time?}], questions[{query, gold[], group?, …}]}",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/test.tsv)",
    "longmemeval": "the file as published, one item for each session",
    "locomo": "the file as published, one item for each turn",
    "locomo-sessions": "the same file, one item for each session",
}

AnyOptions = TypeVar("AnyOptions", bound=RetrievalOptions)


@dataclass(slots=True)
class Variant(Generic[AnyOptions]):
    """One combination of options under test; systems that differ only in how they ask share a store."""

    context: SuiteContext
    options: AnyOptions
    label: str
    """What tells it from the others of a sweep."""
    embedder: Embedder
    stack: AsyncExitStack
    _shared: dict[bool, Bank] = field(default_factory=dict[bool, Bank])

    @property
    def settings(self) -> RetrieveSettings:
        """The settings of retrieval. Raises `InputError`."""
        return self.options.retrieve_settings(self.context.toolbox.settings.retrieve)

    async def bank(self, *, dated: bool = False) -> Bank:
        """Return the store whose items have their own times, or all the same."""
        if dated not in self._shared:
            self._shared[dated] = await self.new_bank(dated=dated)
        return self._shared[dated]

    async def new_bank(self, *, dated: bool = False, consolidated: bool = False) -> Bank:
        """Return an empty store of its own."""
        store = await self.stack.enter_async_context(self.context.open_store(self.embedder))
        toolbox = replace(self.context.toolbox, store=store, embedder=self.embedder, scope=Scope(), chat=None)
        return Bank(toolbox, dated=dated, consolidated=consolidated)


@dataclass
class RetrievalRun(Generic[AnyOptions]):
    """One run of the suite while it goes on; who has more systems to measure makes a kind of it."""

    context: SuiteContext
    options: AnyOptions
    dataset: Dataset
    stack: AsyncExitStack
    total: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    graded: list[Graded] = field(default_factory=list[Graded])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        summary = Summary(info_of(self.dataset), self.asked, self.options.k, self.options.seed)
        found = summary.results(self.notes)
        tables = [*found.tables, *([answer_table(self.graded)] if self.graded else [])]
        if self.options.poison:
            tables.append(summary.debris_table(self.options.poison))
        answers = tuple(figure for each in self.graded for figure in each.figures())
        return found.model_copy(update={"tables": tuple(tables), "figures": (*found.figures, *answers)})

    async def measure(self) -> None:
        """Measure all systems, variant by variant. Raises `InputError`, `ConfigError`, `StorageError`."""
        self.begin()
        variants = list(self.options.variants())
        names = [self._names(each, first=at == 0) for at, (_, each) in enumerate(variants)]
        self.total += len(self.dataset.questions) * sum(map(len, names))
        for (label, options), wanted in zip(variants, names, strict=True):
            variant = Variant(self.context, options, label, _embedder(self.context, options), self.stack)
            await self._measure_variant(variant, wanted)

    def begin(self) -> None:
        """Note what a reader must know, before anything is opened. Raises `InputError` for what cannot be measured."""
        if not self.options.floor or "hybrid-nofloor" in self.options.systems:
            self.notes.append("without the relevance floor what hardly fits is returned too; the product leaves it out")
        if "hybrid+recency" in self.options.systems and not any(each.now for each in self.dataset.questions):
            self.notes.append("no question says when it was asked: hybrid+recency measures every age from today")

    async def system(self, name: str, variant: Variant[AnyOptions]) -> MemorySystem:
        """Return a system by its name."""
        settings = variant.settings
        match name:
            case "vector" | "keyword":
                alone = settings.model_copy(update={**_LEG, "vector_weight": float(name == "vector")})
                return BankSystem(name, await variant.bank(), alone, name)
            case "hybrid-nofloor":
                return BankSystem(name, await variant.bank(), settings.model_copy(update={"min_cosine": 0.0}))
            case "bm25-okapi":
                return OkapiSystem()
            case "hybrid+recency":
                return BankSystem(name, await variant.bank(dated=True), settings)
            case _:
                return BankSystem(name, await variant.bank(), settings)

    async def measure_system(self, system: MemorySystem, dataset: Dataset, label: str = "") -> None:
        """Fill and ask one system; whatever ends it, what was counted is kept."""
        asked = Asked(f"{system.name} ({label})" if label and system.name != REFERENCE else system.name)
        self.asked.append(asked)
        try:
            await fill(system, dataset, asked)
            bank = getattr(system, "bank", None)
            if isinstance(bank, Bank):
                asked.ingest_s = bank.seconds
            await ask_all(system, dataset, self.options.k, asked, self._tell)
            await self._answers(system, dataset, asked.system)
        finally:
            self.context.keep(self.results())

    def _names(self, options: RetrievalOptions, *, first: bool) -> list[str]:
        """Return what is measured of a variant; the reference does not change in a sweep."""
        names = [name for name in dict.fromkeys(options.systems) if first or name != REFERENCE]
        return [*names, *(DEBRIS_STORES[1:] if options.poison else ())]

    async def _measure_variant(self, variant: Variant[AnyOptions], names: Sequence[str]) -> None:
        options, embedder = variant.options, variant.embedder
        for name in names:
            if name in DEBRIS_STORES[1:]:
                bank = await variant.new_bank(consolidated=name.endswith("consolidated"))
                debris = with_debris(self.dataset, options.poison, options.seed)
                await self.measure_system(BankSystem(name, bank, variant.settings), debris, variant.label)
                if bank.consolidated:
                    self.notes.append(f"consolidation archived {bank.archived:,} items as duplicates")
            else:
                await self.measure_system(await self.system(name, variant), self.dataset, variant.label)
        if isinstance(embedder, CachedEmbedder) and embedder.answered:
            self.notes.append(
                f"{embedder.answered:,} queries had their vector from a file: their latency is without it"
            )

    async def _answers(self, system: MemorySystem, dataset: Dataset, name: str) -> None:
        chat = self.context.toolbox.chat
        if not self.options.answers:
            return
        if chat is None:
            note = "answers were not measured: no chat model is set (chat.providers)"
            self.notes += [note] if note not in self.notes else []
            return
        graded = Graded(name)
        self.graded.append(graded)
        self.total += sum(each.answer is not None for each in dataset.questions)
        await grade_answers(chat, system, dataset, graded, self.options.seed, self._tell)
        if graded.stopped:
            self.notes.append(f"{name}: answers ended early: {graded.stopped}")

    async def _tell(self, system: str, number: int) -> None:
        """Pass on how far it is, now and then."""
        self.done += 1
        if number % _TELL_EVERY == 0 or self.done == self.total:
            message = f"{system}: {number} asked"
            await self.context.report(Progress(done=self.done, total=self.total, message=message))


async def measure(context: SuiteContext, options: RetrievalOptions) -> SuiteResults:
    """Measure the systems on the dataset, variant by variant of a sweep. Raises `InputError`, `ConfigError`."""
    return await measured(context, options, RetrievalRun[RetrievalOptions])


async def measured(context: SuiteContext, options: AnyOptions, kind: type[RetrievalRun[AnyOptions]]) -> SuiteResults:
    """Return the results of a run of this kind. Raises as it does."""
    whole = await anyio.to_thread.run_sync(_load, context, options)
    dataset = cut(whole, split=options.split, limit=options.limit, groups=options.groups)
    async with AsyncExitStack() as stack:
        run = kind(context, options, dataset, stack)
        try:
            await run.measure()
        except SwarmMemoryError as error:
            failed = error  # raised here, the task groups of what the stack holds would wrap it
        else:
            return run.results()
    raise failed


def _load(context: SuiteContext, options: RetrievalOptions) -> Dataset:
    path = None if options.path is None else context.root / Path(options.path).expanduser()
    return load(options.dataset, path, options.documents)


def load(name: DatasetName, path: Path | None, documents: Documents) -> Dataset:
    """Return a dataset. Raises `InputError` that says what is wrong with which file, and where."""
    if name == "sample":
        return sample()
    if path is None:
        raise InputError(f"dataset {name} needs a path: {DATASETS[name]}")
    if name == "beir":
        return _beir(path)
    forms: dict[str, Callable[[object, str], Dataset]] = {
        "file": normalized,
        "locomo": locomo,
        "locomo-sessions": locomo_sessions,
        "longmemeval": partial(longmemeval, documents=documents),
    }
    return forms[name](read_json(path), path.name)


def _beir(folder: Path) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: dataset beir is {DATASETS['beir']}")
    judgements = next((path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None)
    if judgements is None:
        raise InputError(f"{folder} has neither qrels.tsv nor qrels/test.tsv")
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    where = {"corpus": corpus.name, "queries": queries.name, "qrels": judgements.name}
    return beir(folder.name, read_lines(corpus), read_lines(queries), read_text(judgements).splitlines(), where)


def _embedder(context: SuiteContext, options: RetrievalOptions) -> Embedder:
    """Return the embedder of the settings, or another one; what an endpoint or a network gives is kept in a file."""
    changes = options.embedding.model_dump(exclude_none=True)
    if not changes:
        chosen, provider = context.toolbox.embedder, context.toolbox.settings.embedding.provider
    else:
        settings = context.toolbox.settings.embedding.model_copy(update=changes)
        chosen, provider = make_embedder(settings), settings.provider
    return chosen if provider == "static" else CachedEmbedder(chosen, context.cache / _CACHE)


SUITE = Suite("retrieval", "how well what is relevant is found, and how fast", RetrievalOptions, measure)
