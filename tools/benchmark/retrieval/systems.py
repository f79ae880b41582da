"""Memory systems under test: the real bank, filled and queried as an agent does it; its source search; rank-bm25."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from swarm_memory.schema.benchmark import BenchmarkDocument, BenchmarkQuestion
from swarm_memory.schema.errors import ConfigError, InputError, ModelError
from swarm_memory.schema.memory import MAX_CONTENT, MemoryItem
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.memories.remember import WordSource, remember
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve
from swarm_memory.tools.sources.dialogue import Turn, conversation_passages
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox

_VECTORS = {"vector", "exact_scan"}


class Answer(NamedTuple):
    """What a system answers to one question."""

    items: Sequence[str]
    """Ids of items, best first."""
    fits: bool
    """Whether the system takes any of them for an answer; one that does not say so takes all it returns for answers."""


Groups: TypeAlias = Mapping[str, Sequence[BenchmarkDocument]]
"""The items of each group, in their order."""


class Filled(NamedTuple):
    """What taking in all items cost."""

    seconds: float
    size_bytes: int | None = None
    """On disk, before anything was asked; None when that is unknown."""


class MemorySystem(Protocol):
    """A memory under test: it is given all items once, and then asked."""

    @property
    def name(self) -> str: ...

    async def fill(self, groups: Groups) -> Filled:
        """Take in all items."""
        ...

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Answer:
        """Return at most k items of the question's group."""
        ...


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that is stopped at a moment of the data."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


@dataclass(slots=True)
class SharedBank:
    """One real store that systems share: each group of items is a project of its own."""

    toolbox: Toolbox
    """Its store is one that the benchmark opened."""
    dated: bool = False
    """Whether each item is stored at its own time, and each question asked at its own `now`."""
    refused: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The items that the bank does not take, by group and id, and why."""
    held_back: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Likewise the items that are in quarantine, where no search finds them."""
    _ids: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    _latest: dict[str, datetime] = field(default_factory=dict[str, datetime])
    _filled: Filled | None = None

    async def fill(self, groups: Groups) -> Filled:
        """Take in all groups as a user would, unless a system that shares the bank has done so already.

        Each item is remembered as the MCP tool `remember` does it, in parts where it is too long. Raises `ConfigError`
        where the embedder fails: the product would go on with keywords, and measuring that would be mistaken for
        measuring the embedder.
        """
        if self._filled is None:
            seconds = [await self._fill(group, items) for group, items in groups.items()]
            self._filled = Filled(sum(seconds), (await self.toolbox.store.health()).size_bytes)
        return self._filled

    async def _fill(self, group: str, items: Sequence[BenchmarkDocument]) -> float:
        own, ids = self.within(group), self._ids.setdefault(group, {})
        try:
            await own.embedder.embed_documents([items[0].content])
        except ModelError as error:
            raise embedder_error(own, str(error)) from error
        started = time.perf_counter()
        for item in items:
            toolbox = self._at(own, item.time)
            written, why = list[MemoryItem](), "it is blank"
            for text in _parts(item.content):
                try:
                    written.append((await remember(toolbox, text, attribution=_SAID)).item)
                except InputError as error:  # the last part of a long text may be too short for a memory
                    why = str(error)
            if not written:
                self.refused[group, item.id] = why
            for each in written:
                ids.setdefault(each.id, []).append(item.id)
                if each.status != "active":
                    self.held_back[group, item.id] = each.status_reason or ""
        seconds = time.perf_counter() - started
        if times := [item.time for item in items if item.time]:
            self._latest[group] = max(times)
        missing = (await own.store.statistics(own.scope, own.embedder.name)).not_embedded
        if missing:
            raise embedder_error(own, f"{missing} items have no vector")
        return seconds

    def within(self, group: str) -> Toolbox:
        """Return the toolbox of a group's project."""
        return self.toolbox.in_project(f"group {group}")

    def asked(self, question: BenchmarkQuestion) -> Toolbox:
        """Return the toolbox that a question is put to, without any query that was embedded before.

        Where items have their times and the question has none, it is asked at the time of the last item.
        """
        own = replace(self.within(question.group), embedded={})
        return self._at(own, question.now or self._latest.get(question.group))

    def _at(self, toolbox: Toolbox, moment: datetime | None) -> Toolbox:
        return replace(toolbox, clock=FixedClock(moment)) if self.dated and moment else toolbox

    def items_of(self, group: str, memories: Sequence[str]) -> list[str]:
        """Return the ids of the items that memories hold; of an item in parts the best part counts."""
        known = self._ids[group]
        return list(dict.fromkeys(item for each in memories for item in known[each]))


_SAID = WordSource("prompt")


@dataclass(frozen=True, slots=True)
class BankSystem:
    """The bank, queried with these settings."""

    name: str
    bank: SharedBank
    retrieve_settings: RetrieveSettings
    leg: Literal["vector", "keyword"] | None = None
    """Only memories that this leg gives a score count; others that the other leg added to the pool do not."""
    gated: bool = False
    """Whether it is queried as the hook of a prompt does it: only for what fits."""
    notices: Counter[str] = field(default_factory=Counter[str])
    """The notices that came with answers while a reranker was set, such as that it failed."""

    async def fill(self, groups: Groups) -> Filled:
        return await self.bank.fill(groups)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Answer:
        own = self.bank.asked(question)
        toolbox = replace(own, settings=own.settings.model_copy(update={"retrieve": self.retrieve_settings}))
        found = await retrieve(toolbox, question.query, k=k, unasked=Unasked() if self.gated else None)
        if _VECTORS.isdisjoint(found.legs):
            raise embedder_error(toolbox, "; ".join(found.notices))
        if self.retrieve_settings.rerank != "off":
            self.notices.update(found.notices)
        by = "cosine" if self.leg == "vector" else "keyword"
        given = [each for each in found.memories if self.leg is None or getattr(each.parts, by) is not None]
        fitting = [each for each in given if each.fits == "likely"]
        ids = [each.item.id for each in (fitting if self.gated else given)]
        return Answer(self.bank.items_of(question.group, ids)[:k], bool(fitting))


def embedder_error(toolbox: Toolbox, why: str) -> ConfigError:
    """Return the error of a run whose embedder returns no vectors."""
    return ConfigError(f"nothing can be measured with the embedder {toolbox.embedder.name}, which failed: {why}")


def _parts(text: str) -> list[str]:
    """Return a text in parts that each fit into one memory, divided between lines where that is possible."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), MAX_CONTENT):
            piece = line[at : at + MAX_CONTENT]
            parts[-1:] = [parts[-1] + piece] if len(parts[-1]) + len(piece) <= MAX_CONTENT else [parts[-1], piece]
    return [part for part in parts if part.strip()]


@dataclass(slots=True)
class SourceSearchSystem:
    """The search of sources: each group is an ordered document, in which items of one part are each other's context."""

    name: str
    toolbox: Toolbox
    """Its store is one that the benchmark opened."""
    _groups: Groups = field(default_factory=dict[str, Sequence[BenchmarkDocument]])

    async def fill(self, groups: Groups) -> Filled:
        self._groups, started = groups, time.perf_counter()
        for group, items in groups.items():
            await index_source(self.toolbox.in_project(f"group {group}"), "document", "benchmark", _talk(items))
        return Filled(time.perf_counter() - started, (await self.toolbox.store.health()).size_bytes)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Answer:
        toolbox = self.toolbox.in_project(f"group {question.group}")
        found = await search_sources(toolbox, question.query, kind="document", k=k)
        if found.hits and _VECTORS.isdisjoint(found.legs):
            raise embedder_error(toolbox, "; ".join(found.notices))
        items = self._groups[question.group]
        ids = dict.fromkeys(items[int(str(hit.passage.data["turn"]))].id for hit in found.hits)
        return Answer(list(ids), bool(ids) and found.reason is None)


async def _talk(items: Sequence[BenchmarkDocument]) -> AsyncIterator[ReadGroup]:
    said = [Turn(item.content, time=item.time, session=item.part or item.id) for item in items]
    yield "talk", "", lambda: conversation_passages("talk", said)


class OkapiSystem:
    """`BM25Okapi` of rank-bm25, one index for each group."""

    name = "bm25-okapi"

    def __init__(self) -> None:
        self._indexes: dict[str, tuple[Any, tuple[str, ...]]] = {}

    async def fill(self, groups: Groups) -> Filled:
        started = time.perf_counter()
        for group, items in groups.items():
            index = import_module("rank_bm25").BM25Okapi([tokenize(item.content) or ("",) for item in items])
            self._indexes[group] = index, tuple(item.id for item in items)
        return Filled(time.perf_counter() - started)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Answer:
        index, ids = self._indexes[question.group]
        scores: Sequence[float] = index.get_scores(query_tokens(question.query)).tolist()
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:k]
        found = [ids[at] for at in best if scores[at] > 0]
        return Answer(found, bool(found))
