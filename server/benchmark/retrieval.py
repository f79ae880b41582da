"""The suite of retrieval: reads the data, builds the systems that are asked for, and has them measured."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import anyio.to_thread
from pydantic import BeforeValidator, Field, JsonValue, field_validator

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.benchmark import Dataset, SuiteResults
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.server.benchmark.embedding_cache import CachedEmbedder
from swarm_memory.server.benchmark.suite_files import read_json, read_lines, read_text
from swarm_memory.server.wiring import make_embedder
from swarm_memory.tools.benchmark.conversations import Documents, locomo, longmemeval
from swarm_memory.tools.benchmark.datasets import (
    Split,
    beir,
    by_group,
    cut,
    info_of,
    normalized,
    sample,
    strategies,
    with_debris,
    with_foreign,
)
from swarm_memory.tools.benchmark.measures import DEPTH, measures
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions, checked_options, comma_list
from swarm_memory.tools.benchmark.suites.answering import Graded, answer_table
from swarm_memory.tools.benchmark.suites.retrieval_report import DEBRIS_STORES, REFERENCE, Asked, Summary
from swarm_memory.tools.benchmark.systems import Bank, BankSystem, MemorySystem, OkapiSystem
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.retrieve import MAX_K

_CACHE = "embeddings"
_TELL_EVERY = 20

_LEG = {"min_cosine": 0.0, "delta": 0.0}
"""One leg alone: no floor, no diversity."""

DatasetName = Literal["sample", "file", "beir", "longmemeval", "locomo", "locomo-sessions", "strategies"]

DATASETS: dict[DatasetName, str] = {
    "sample": "ships with the package: notes of coding work, with near misses",
    "file": "a JSON file {name, items[{id, content, group?, time?}], questions[{query, gold[], group?, …}]}",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/test.tsv)",
    "longmemeval": "the file as published, one item for each session",
    "locomo": "the file as published, one item for each turn",
    "locomo-sessions": "the same file, one item for each session",
    "strategies": "a JSONL file {id, set, when_to_use, content, task_query}, as ReMe publishes its strategy memories",
}


class EmbedderChoice(Model):
    """Another embedder than the settings name. Where its endpoint is and its key stay those of the settings."""

    provider: Literal["auto", "minilm", "static", "openai", "fastembed"] | None = None
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=8, le=4096)
    query_prefix: str | None = None
    document_prefix: str | None = None
    model_dir: str | None = None


class RetrievalOptions(SuiteOptions):
    """What is asked of the retrieval suite."""

    SYSTEMS: ClassVar[tuple[str, ...]] = (
        "hybrid", "hybrid-nofloor", "vector", "keyword", "bm25-okapi", "hybrid+recency",
    )  # fmt: skip
    SWEPT: ClassVar[tuple[str, ...]] = ("retrieve.", "embedding.", "poison")
    """What can be swept: what leaves questions and gold as they are, so that the runs can be compared in pairs."""

    dataset: DatasetName = Field(default="sample", description="Which data")
    path: str | None = Field(default=None, description="The file or folder of the data")
    documents: Documents = Field(default="full", description="longmemeval: what of a session is its document")
    systems: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = Field(
        default=("hybrid", "hybrid-nofloor", "vector", "keyword", "bm25-okapi"),
        description="What is measured; hybrid+recency too",
    )
    k: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_K)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 3, 5, 10), min_length=1, description="Cut-offs, all measured in one pass"
    )
    floor: bool = Field(default=True, description="false: no gate; take what is nearest though nothing fits")
    retrieve: dict[str, JsonValue] = Field(
        default_factory=dict, description="Settings of `retrieve.` that are other than yours"
    )
    embedding: EmbedderChoice = Field(default=EmbedderChoice(), description="Another embedder; command line only")
    split: Split = Field(default="all", description="By hash: tune to choose on, held to report")
    limit: int | None = Field(default=None, ge=1, description="Questions at most")
    groups: Annotated[tuple[int, int] | None, BeforeValidator(comma_list)] = Field(
        default=None, description="Only the groups from the first to the last of these numbers"
    )
    foreign: str | None = Field(
        default=None, description="Queries nothing should be found for, one a line: a file, or shipped"
    )
    poison: int = Field(default=0, ge=0, le=10_000, description="Near-duplicate debris added to each group")
    sweep: dict[str, Annotated[tuple[JsonValue, ...], BeforeValidator(comma_list)]] = Field(
        default_factory=dict, description="Values to try, by option: retrieve.*, embedding.*, poison"
    )
    answers: bool = Field(default=False, description="Also let the chat model answer from what was found")

    @field_validator("systems")
    @classmethod
    def _known(cls, systems: tuple[str, ...]) -> tuple[str, ...]:
        for name in systems:
            if name not in cls.SYSTEMS:
                raise ValueError(f"there is no system {name!r}; the systems are {', '.join(cls.SYSTEMS)}")
        return systems

    def retrieve_settings(self, settings: RetrieveSettings) -> RetrieveSettings:
        """Return the settings of retrieval as these options change them. Raises `InputError`."""
        changes = dict(self.retrieve) | ({} if self.floor else {"min_cosine": 0.0})
        return checked_options(RetrieveSettings, {**settings.model_dump(), **changes}, "retrieve.")

    def variants(self) -> Iterator[tuple[str, Self]]:
        """Yield each combination that a sweep asks for, with what tells it from the others; without one, itself.

        Raises `InputError` for what cannot be swept.
        """
        for name in self.sweep:
            if not name.startswith(self.SWEPT):
                raise InputError(f"option sweep: {name!r} cannot be swept, only {', '.join(self.SWEPT)}")
        for values in product(*self.sweep.values()):
            chosen = dict(zip(self.sweep, map(_number, values), strict=True))
            label = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in chosen.items())
            yield label, self._changed(chosen)

    def _changed(self, chosen: Mapping[str, JsonValue]) -> Self:
        changed: dict[str, Any] = self.model_dump(exclude={"sweep"})
        for name, value in chosen.items():
            group, dot, key = name.partition(".")
            changed[group] = {**changed[group], key: value} if dot else value
        return checked_options(type(self), changed, "sweep: ")


def _number(value: JsonValue) -> JsonValue:
    """Take a typed number for one."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


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
            self.notes.append("without the gate every query gets something; the product is silent where nothing fits")
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
            await _fill(system, dataset, asked)
            await self._ask_all(system, dataset, asked)
            await self._answers(system, dataset, asked.system)
        finally:
            self.context.keep(self.results())

    async def _ask_all(self, system: MemorySystem, dataset: Dataset, asked: Asked) -> None:
        """Ask every question once, as deep as the greatest cut-off."""
        depth = max(*self.options.k, DEPTH)
        for number, question in enumerate(dataset.questions, start=1):
            started = time.perf_counter()
            found = await system.retrieve(question, depth)
            asked.latencies_ms.append((time.perf_counter() - started) * 1000)
            if question.gold:
                asked.questions.append(question)
                asked.values.append(measures(found, question.gold, self.options.k))
                asked.answered += bool(found)
            else:
                asked.unanswerable += 1
                asked.withheld += not found
            await self._tell(asked.system, number)

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
        graded = Graded(name, chat, self.options.seed)
        self.graded.append(graded)
        self.total += sum(each.answer is not None for each in dataset.questions)
        await graded.ask_all(system, dataset, self._tell)
        if graded.stopped:
            self.notes.append(f"{name}: answers ended early: {graded.stopped}")

    async def _tell(self, system: str, number: int) -> None:
        """Pass on how far it is, now and then."""
        self.done += 1
        if number % _TELL_EVERY == 0 or self.done == self.total:
            message = f"{system}: {number} asked"
            await self.context.report(Progress(done=self.done, total=self.total, message=message))


async def _fill(system: MemorySystem, dataset: Dataset, asked: Asked) -> None:
    """Give a system all items, and take down how long that took and how much it takes; a bank that is shared tells."""
    started = time.perf_counter()
    for group, items in by_group(dataset).items():
        await system.ingest(group, items)
    bank = getattr(system, "bank", None)
    asked.ingest_s = bank.seconds if isinstance(bank, Bank) else time.perf_counter() - started
    size = await system.size_bytes()
    asked.bytes_per_item = None if size is None else size / len(dataset.items)


async def measure(context: SuiteContext, options: RetrievalOptions) -> SuiteResults:
    """Measure the systems on the dataset, variant by variant of a sweep. Raises `InputError`, `ConfigError`."""
    return await measured(context, options, RetrievalRun[RetrievalOptions])


async def measured(context: SuiteContext, options: AnyOptions, kind: type[RetrievalRun[AnyOptions]]) -> SuiteResults:
    """Return the results of a run of this kind. Raises as it does."""
    whole = await anyio.to_thread.run_sync(_load, context, options)
    dataset = cut(whole, split=options.split, limit=options.limit, groups=options.groups)
    if options.foreign is not None:
        dataset = with_foreign(dataset, await anyio.to_thread.run_sync(_foreign, context, options.foreign))
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


def _foreign(context: SuiteContext, named: str) -> Sequence[str]:
    if named == "shipped":
        shipped = files("swarm_memory.tools.benchmark").joinpath("data", "foreign_queries.txt")
        return shipped.read_text(encoding="utf-8").splitlines()
    lines = read_text(context.root / Path(named).expanduser()).splitlines()
    return [line for line in lines if line.strip()]


def load(name: DatasetName, path: Path | None, documents: Documents) -> Dataset:
    """Return a dataset. Raises `InputError` that says what is wrong with which file, and where."""
    if name == "sample":
        return sample()
    if path is None:
        raise InputError(f"dataset {name} needs a path: {DATASETS[name]}")
    if name == "beir":
        return _beir(path)
    if name == "strategies":
        return strategies(read_lines(path), path.name)
    forms: dict[str, Callable[[object, str], Dataset]] = {
        "file": normalized,
        "locomo": locomo,
        "locomo-sessions": partial(locomo, by_session=True),
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


SUITE = Suite(
    "retrieval",
    "how well what is relevant is found, and how fast",
    "822 searches of the sample: seconds; data of your own: minutes, limit=100 asks less of it",
    RetrievalOptions,
    measure,
)
