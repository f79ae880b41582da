"""The suite of retrieval: reads the files it is given, builds the systems that are asked for, and has them measured."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import anyio.to_thread
from pydantic import BeforeValidator, Field, JsonValue, field_validator

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import Dataset, SuiteResults
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.benchmark.figures import DEPTH, measures
from swarm_memory.tools.benchmark.retrieval.datasets import (
    Split,
    beir,
    by_group,
    cut,
    info_of,
    locomo,
    longmemeval,
    normalized,
    sample,
    with_foreign,
)
from swarm_memory.tools.benchmark.retrieval.summary import Asked, Summary
from swarm_memory.tools.benchmark.retrieval.systems import Bank, BankSystem, MemorySystem, OkapiSystem
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions, checked_options, comma_list
from swarm_memory.tools.retrieve.retrieve import MAX_K


def read_lines(path: Path) -> Iterator[Any]:
    """Give what each line of a file of JSON lines holds. Raises `InputError`, as `parsed` and `read_text` do."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield parsed(line, f"{path.name}: line {number}")


def parsed(text: str, where: str) -> Any:
    """Return what JSON holds. Raises `InputError` that names the line and column in `where`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: this is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where}: it is nested too deep") from error


def read_text(path: Path) -> str:
    """Return the text of a regular file. Raises `InputError`."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file")  # a pipe or a device may never end
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: it is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


_REPORT_EVERY = 20

_LEG = {"min_cosine": 0.0, "delta": 0.0}
"""One leg alone: no floor, no diversity."""

DatasetName = Literal["sample", "file", "beir", "longmemeval", "locomo", "locomo-sessions"]

DATASETS: dict[DatasetName, str] = {
    "sample": "ships with the package: notes of coding work, with near misses",
    "file": "a JSON file {name, items[{id, content, group?, time?}], questions[{query, gold[], group?, …}]}",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/test.tsv)",
    "longmemeval": "the file as published, one item for each session",
    "locomo": "the file as published, one item for each turn",
    "locomo-sessions": "the same file, one item for each session",
}


class RetrievalOptions(SuiteOptions):
    """What is asked of the retrieval suite."""

    SYSTEMS: ClassVar[tuple[str, ...]] = (
        "hybrid", "hybrid-nofloor", "vector", "keyword", "bm25-okapi",
    )  # fmt: skip

    dataset: DatasetName = Field(default="sample", description="Which data")
    path: str | None = Field(default=None, description="The file or folder of the data")
    systems: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = Field(
        default=SYSTEMS, description="What is measured"
    )
    k: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_K)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 3, 5, 10), min_length=1, description="Cut-offs, all measured in one pass"
    )
    retrieve: dict[str, JsonValue] = Field(
        default_factory=dict, description="Settings of `retrieve.` that are other than yours"
    )
    split: Split = Field(default="all", description="By hash: tune to choose on, held to report")
    limit: int | None = Field(default=None, ge=1, description="Questions at most")
    foreign: str | None = Field(
        default=None, description="Queries nothing should be found for, one a line: a file, or shipped"
    )

    @field_validator("systems")
    @classmethod
    def _known(cls, systems: tuple[str, ...]) -> tuple[str, ...]:
        for name in systems:
            if name not in cls.SYSTEMS:
                raise ValueError(f"there is no system {name!r}; the systems are {', '.join(cls.SYSTEMS)}")
        return systems

    def retrieve_settings(self, settings: RetrieveSettings) -> RetrieveSettings:
        """Return the settings of retrieval as these options change them. Raises `InputError`."""
        return checked_options(RetrieveSettings, {**settings.model_dump(), **self.retrieve}, "retrieve.")


AnyOptions = TypeVar("AnyOptions", bound=RetrievalOptions)


@dataclass
class RetrievalRun(Generic[AnyOptions]):
    """One run of the suite while it goes on; who has more systems to measure makes a kind of it."""

    context: SuiteContext
    options: AnyOptions
    dataset: Dataset
    stack: AsyncExitStack
    asked: list[Asked] = field(default_factory=list[Asked])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0
    _bank: Bank | None = None

    @property
    def settings(self) -> RetrieveSettings:
        """The settings of retrieval. Raises `InputError`."""
        return self.options.retrieve_settings(self.context.toolbox.settings.retrieve)

    @property
    def total(self) -> int:
        """Questions that are asked of all systems."""
        return len(self.dataset.questions) * len(set(self.options.systems))

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        summary = Summary(info_of(self.dataset), self.asked, self.options.k, self.options.seed)
        return summary.results(self.notes)

    async def measure(self) -> None:
        """Measure all systems. Raises `InputError`, `ConfigError`, `StorageError`."""
        self.begin()
        for name in dict.fromkeys(self.options.systems):
            await self.measure_system(await self.system(name))

    def begin(self) -> None:
        """Note what a reader must know, before anything is opened. Raises `InputError` for what cannot be measured."""
        if "hybrid-nofloor" in self.options.systems:
            self.notes.append("without the gate every query gets something; the product is silent where nothing fits")

    async def system(self, name: str) -> MemorySystem:
        """Return a system by its name."""
        settings = self.settings
        match name:
            case "vector" | "keyword":
                alone = settings.model_copy(update={**_LEG, "vector_weight": float(name == "vector")})
                return BankSystem(name, await self.bank(), alone, name)
            case "hybrid-nofloor":
                return BankSystem(name, await self.bank(), settings.model_copy(update={"min_cosine": 0.0}))
            case "bm25-okapi":
                return OkapiSystem()
            case _:
                return BankSystem(name, await self.bank(), settings)

    async def bank(self) -> Bank:
        """Return the store that all systems of ours are asked on, opened when it is wanted first."""
        if self._bank is None:
            toolbox = self.context.toolbox
            store = await self.stack.enter_async_context(self.context.open_store(toolbox.embedder))
            self._bank = Bank(replace(toolbox, store=store, scope=Scope(), chat=None))
        return self._bank

    async def measure_system(self, system: MemorySystem) -> None:
        """Fill and ask one system; whatever ends it, what was counted is kept."""
        asked = Asked(system.name)
        self.asked.append(asked)
        try:
            started = time.perf_counter()
            for group, items in by_group(self.dataset).items():
                await system.ingest(group, items)
            # A bank that systems share knows its own time.
            asked.ingest_s = system.bank.seconds if isinstance(system, BankSystem) else time.perf_counter() - started
            size = await system.size_bytes()
            asked.bytes_per_item = None if size is None else size / len(self.dataset.items)
            await self._ask_all(system, asked)
        finally:
            self.context.keep(self.results())

    async def _ask_all(self, system: MemorySystem, asked: Asked) -> None:
        """Ask every question once, as deep as the greatest cut-off."""
        depth = max(*self.options.k, DEPTH)
        for number, question in enumerate(self.dataset.questions, start=1):
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
            self.done += 1
            if number % _REPORT_EVERY == 0 or self.done == self.total:
                message = f"{system.name}: {number} asked"
                await self.context.report(Progress(done=self.done, total=self.total, message=message))


async def measure(context: SuiteContext, options: RetrievalOptions) -> SuiteResults:
    """Measure the systems on the dataset. Raises `InputError`, `ConfigError`, `StorageError`."""
    return await measured(context, options, RetrievalRun[RetrievalOptions])


async def measured(context: SuiteContext, options: AnyOptions, kind: type[RetrievalRun[AnyOptions]]) -> SuiteResults:
    """Return the results of a run of this kind. Raises as it does."""
    whole = await anyio.to_thread.run_sync(_load, context, options)
    dataset = cut(whole, split=options.split, limit=options.limit)
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
    return load(options.dataset, None if options.path is None else context.root / Path(options.path).expanduser())


def _foreign(context: SuiteContext, named: str) -> Sequence[str]:
    if named == "shipped":
        shipped = files("swarm_memory.tools.benchmark").joinpath("data", "foreign_queries.txt")
        return shipped.read_text(encoding="utf-8").splitlines()
    lines = read_text(context.root / Path(named).expanduser()).splitlines()
    return [line for line in lines if line.strip()]


def load(name: DatasetName, path: Path | None) -> Dataset:
    """Return a dataset. Raises `InputError` that says what is wrong with which file, and where."""
    if name == "sample":
        return sample()
    if path is None:
        raise InputError(f"dataset {name} needs a path: {DATASETS[name]}")
    if name == "beir":
        return _beir(path)
    forms: Mapping[str, Callable[[object, str], Dataset]] = {
        "file": normalized,
        "locomo": locomo,
        "locomo-sessions": partial(locomo, by_session=True),
        "longmemeval": longmemeval,
    }
    return forms[name](parsed(read_text(path), path.name), path.name)


def _beir(folder: Path) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: dataset beir is {DATASETS['beir']}")
    judgements = next((path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None)
    if judgements is None:
        raise InputError(f"{folder} has neither qrels.tsv nor qrels/test.tsv")
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    where = {"corpus": corpus.name, "queries": queries.name, "qrels": judgements.name}
    return beir(folder.name, read_lines(corpus), read_lines(queries), read_text(judgements).splitlines(), where)


SUITE = Suite(
    "retrieval",
    "how well what is relevant is found, and how fast",
    "822 searches of the sample: seconds; data of your own: minutes, limit=100 asks less of it",
    RetrievalOptions,
    measure,
)
