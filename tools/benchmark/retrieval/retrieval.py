"""The retrieval suite: it reads the given files, builds the requested systems, and measures them."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

import anyio.to_thread
from pydantic import BeforeValidator, Field, JsonValue, field_validator

from swarm_memory.schema.base import Scope, counted
from swarm_memory.schema.benchmark import Dataset, SuiteResults
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.benchmark.figures import DEPTH, measures
from swarm_memory.tools.benchmark.retrieval.datasets import (
    NAMED,
    Split,
    beir,
    by_group,
    complete,
    cut,
    info_of,
    locomo,
    longmemeval,
    normalized,
    note_of,
    parsed,
    sample,
)
from swarm_memory.tools.benchmark.retrieval.summary import Summary, SystemResults
from swarm_memory.tools.benchmark.retrieval.systems import (
    BankSystem,
    MemorySystem,
    OkapiSystem,
    SharedBank,
    SourceSearchSystem,
)
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions, checked_options, comma_list
from swarm_memory.tools.retrieve.retrieve import MAX_K
from swarm_memory.tools.toolbox import Toolbox


def read_text(path: Path) -> str:
    """Return the text of a regular file. Raises `InputError`."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file")  # a pipe or a device may never end
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: it is not valid UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


_REPORT_EVERY = 20

DatasetName = Literal["sample", "file", "beir", "longmemeval", "locomo", "locomo-sessions"]

DATASETS: dict[DatasetName, str] = {
    "sample": "ships with the package: notes on coding work, with near misses",
    "file": "a JSON file {name, items[{id, content, group?, time?}], questions[{query, gold[], group?, …}]}",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/test.tsv)",
    "longmemeval": "the file as published, one item for each session",
    "locomo": "the file as published, one item for each turn",
    "locomo-sessions": "the same file, one item for each session",
}


class RetrievalOptions(SuiteOptions):
    """The options of the retrieval suite."""

    SYSTEMS: ClassVar[tuple[str, ...]] = (
        "hybrid", "hybrid-gated", "vector", "keyword", "bm25-okapi", "hybrid+temporal", "hybrid+context"
    )  # fmt: skip

    dataset: DatasetName = Field(default="sample", description="Which dataset to use")
    path: str | None = Field(default=None, description="The dataset's file or folder")
    systems: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = Field(
        default=SYSTEMS[:5], description=f"What to measure; {', '.join(SYSTEMS[5:])} are available too"
    )
    k: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_K)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 3, 5, 10), min_length=1, description="Cut-offs, all measured in one pass"
    )
    retrieve: dict[str, JsonValue] = Field(
        default_factory=dict, description="Settings of `retrieve.` to use in place of yours"
    )
    split: Split = Field(default="all", description="tune-hash for choosing settings, held-hash for reporting")
    limit: int | None = Field(default=None, ge=1, description="At most this many questions")

    @field_validator("systems")
    @classmethod
    def _known(cls, systems: tuple[str, ...]) -> tuple[str, ...]:
        for name in systems:
            if name not in cls.SYSTEMS:
                raise ValueError(f"there is no system {name!r}; the systems are {', '.join(cls.SYSTEMS)}")
        return systems


Others: TypeAlias = "Callable[[AsyncExitStack], Sequence[MemorySystem]]"
"""Makes further systems, which are measured after those of the options."""


@dataclass
class RetrievalRun:
    """One run of the suite in progress."""

    context: SuiteContext
    options: RetrievalOptions
    dataset: Dataset
    stack: AsyncExitStack
    asked: list[SystemResults] = field(default_factory=list[SystemResults])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0
    total: int = 0
    """How many questions are put to all systems together."""
    _banks: dict[bool, SharedBank] = field(default_factory=dict[bool, SharedBank])

    def results(self) -> SuiteResults:
        """Return the results so far."""
        summary = Summary(info_of(self.dataset), self.asked, self.options.k, self.options.seed)
        return summary.results(self.notes)

    async def measure(self, others: Others) -> None:
        """Measure all systems. Raises `InputError`, `ConfigError`, `StorageError`."""
        systems = [*await self._systems(), *others(self.stack)]
        for bank in self._banks.values():
            await bank.fill(by_group(self.dataset))
            self._leave_out(bank)
        self.total = len(self.dataset.questions) * len(systems)
        for system in systems:
            await self._measure_system(system)

    def _leave_out(self, bank: SharedBank) -> None:
        """Go on without the items that a bank refuses, and note those that it holds back."""
        skipped, held_back = (
            [f"item {item_id!r} of group {group!r}: {why}" for (group, item_id), why in found.items()]
            for found in (bank.refused, bank.held_back)
        )
        items = tuple(each for each in self.dataset.items if (each.group, each.id) not in bank.refused)
        self.dataset = complete(self.dataset.model_copy(update={"items": items}), self.dataset.name, skipped)
        said = note_of(skipped, "left out of all systems, because the bank refuses the text or that of a gold item")
        said += note_of(held_back, "in quarantine, hidden from every search")
        self.notes += [note for note in said if note not in self.notes]

    async def _systems(self) -> list[MemorySystem]:
        """Return the systems to measure, in order. Raises `InputError` for wrong settings."""
        found: list[MemorySystem] = []
        changed = {**self.context.toolbox.settings.retrieve.model_dump(), **self.options.retrieve}
        settings = checked_options(RetrieveSettings, changed, "retrieve.")
        for name in dict.fromkeys(self.options.systems):
            if name == "bm25-okapi":
                found.append(OkapiSystem())
            elif name == "hybrid+context":
                found.append(SourceSearchSystem(name, await self._new_store()))
            else:
                found.append(await self._of_bank(name, settings))
        return found

    async def _of_bank(self, name: str, settings: RetrieveSettings) -> MemorySystem:
        bank = await self._bank(dated=name == "hybrid+temporal")
        match name:
            case "vector" | "keyword":
                # without a floor, diversity or a reranker
                alone = {"min_cosine": 0.0, "delta": 0.0, "vector_weight": float(name == "vector"), "rerank": "off"}
                return BankSystem(name, bank, settings.model_copy(update=alone), name)
            case _:
                return BankSystem(name, bank, settings, gated=name == "hybrid-gated")

    async def _bank(self, *, dated: bool) -> SharedBank:
        """Return the bank that our systems share, or the one (`dated`) whose items have their own times."""
        if dated not in self._banks:
            self._banks[dated] = SharedBank(await self._new_store(), dated=dated)
            if dated and not any(item.time for item in self.dataset.items):
                self.notes.append("no item has a time: hybrid+temporal differs from hybrid only in what is asked")
        return self._banks[dated]

    async def _new_store(self) -> Toolbox:
        toolbox = self.context.toolbox
        store = await self.stack.enter_async_context(self.context.open_store(toolbox.embedder))
        return replace(toolbox, store=store, scope=Scope())

    async def _measure_system(self, system: MemorySystem) -> None:
        """Fill and query one system; whatever ends this, what was counted is kept."""
        asked = SystemResults(system.name)
        self.asked.append(asked)
        try:
            asked.ingest_s, size = await system.fill(by_group(self.dataset))
            asked.bytes_per_item = None if size is None else size / len(self.dataset.items)
            await self._ask_all(system, asked)
            if isinstance(system, BankSystem):
                said = system.notices.most_common(NAMED)
                self.notes += [f"{system.name}, for {counted(times, 'question')}: {notice}" for notice, times in said]
        finally:
            self.context.keep(self.results())

    async def _ask_all(self, system: MemorySystem, asked: SystemResults) -> None:
        """Ask every question once, for as many hits as the greatest cut-off needs."""
        depth = max(*self.options.k, DEPTH)
        for number, question in enumerate(self.dataset.questions, start=1):
            started = time.perf_counter()
            found, fits = await system.retrieve(question, depth)
            asked.latencies_ms.append((time.perf_counter() - started) * 1000)
            if question.gold:
                asked.questions.append(question)
                asked.values.append(measures(found, question.gold, self.options.k))
                asked.answered += fits
            else:
                asked.unanswerable += 1
                asked.withheld += not fits
            self.done += 1
            if number % _REPORT_EVERY == 0 or self.done == self.total:
                message = f"{system.name}: {number} asked"
                await self.context.report(Progress(done=self.done, total=self.total, message=message))


async def measure(context: SuiteContext, options: RetrievalOptions, others: Others = lambda stack: ()) -> SuiteResults:
    """Measure the systems on the dataset. Raises `InputError`, `ConfigError`, `StorageError`."""
    skipped: list[str] = []
    path = None if options.path is None else context.named(options.path)
    whole = await anyio.to_thread.run_sync(load, options.dataset, path, skipped)
    dataset = cut(whole, split=options.split, limit=options.limit)
    async with AsyncExitStack() as stack:
        run = RetrievalRun(context, options, dataset, stack, notes=note_of(skipped))
        try:
            await run.measure(others)
        except SwarmMemoryError as error:
            failed = error  # if it were raised here, task groups that the stack holds would wrap it
        else:
            return run.results()
    raise failed


def load(name: DatasetName, path: Path | None, skipped: list[str]) -> Dataset:
    """Return a dataset; what of it cannot be used is added to `skipped`. Raises `InputError` that says what is wrong
    with which file, and where.
    """
    if name == "sample":
        return sample()
    if path is None:
        raise InputError(f"dataset {name} needs a path: {DATASETS[name]}")
    if name == "beir":
        return _beir(path, skipped)
    forms: Mapping[str, Callable[[object, str, list[str]], Dataset]] = {
        "file": normalized,
        "locomo": locomo,
        "locomo-sessions": partial(locomo, by_session=True),
        "longmemeval": longmemeval,
    }
    return forms[name](parsed(read_text(path), path.name), path.name, skipped)


def _beir(folder: Path, skipped: list[str]) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: dataset beir is {DATASETS['beir']}")
    judgements = next((path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None)
    if judgements is None:
        raise InputError(f"{folder} has neither qrels.tsv nor qrels/test.tsv")
    paths = (folder / "corpus.jsonl", folder / "queries.jsonl", judgements)
    return beir(folder.name, {path.name: read_text(path) for path in paths}, skipped)


SUITE = Suite(
    "retrieval",
    "how well and how fast relevant items are found",
    "685 searches of the sample: seconds; your own data: minutes, or fewer with limit=100",
    RetrievalOptions,
    measure,
)
