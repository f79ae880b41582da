"""Memory systems under test: the real bank, filled as in use and asked with these or those settings, and rank-bm25."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from typing import Any, Literal, Protocol

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.schema.memory import MemoryItem, Provenance, ScoreParts
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.ports.store import Clock
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox

CONFIDENCE = 0.5
"""All items are equally sure: what is measured is the search."""

_BATCH = 500


class MemorySystem(Protocol):
    """A memory under test: it is given the items of every group once, and then asked."""

    @property
    def name(self) -> str: ...

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        """Take in all items of one group, in their order."""
        ...

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        """Return at most k ids of items of the question's group, best first."""
        ...

    async def size_bytes(self) -> int | None:
        """Return what all items take on disk or in memory; None when that cannot be told."""
        ...


@dataclass(frozen=True, slots=True)
class _At:
    """A clock that stands at the moment of a question."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


@dataclass(slots=True)
class Bank:
    """One real store that systems share: each group of items is a project of its own."""

    toolbox: Toolbox
    """Its store is one that the benchmark opened."""
    dated: bool = False
    """Whether items get their own times; else all are as new, so that recency says nothing."""
    consolidated: bool = False
    """Whether each group is consolidated once it is in."""
    seconds: float = 0.0
    """What taking in took in all."""
    archived: int = 0
    """What consolidation took out of sight."""
    _ids: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _size_bytes: int = 0

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        """Take in a group, unless a system that shares the bank has done so."""
        if group in self._ids:
            return
        started = time.perf_counter()
        own, now = self.within(group), self.toolbox.clock.now()
        ids: dict[str, str] = {}
        for at in range(0, len(items), _BATCH):
            batch = [self._memory(item, own.scope, now) for item in items[at : at + _BATCH]]
            await own.store.add_memories(await prepare(own, batch), own.embedder.name)
            ids |= {memory.id: item.id for memory, item in zip(batch, items[at : at + _BATCH], strict=True)}
        self._ids[group] = ids
        if self.consolidated:
            self.archived += len((await consolidate(own, full=True)).merged)
        self.seconds += time.perf_counter() - started

    def _memory(self, item: BenchmarkItem, scope: Scope, now: datetime) -> MemoryItem:
        created_at = item.time if self.dated and item.time is not None else now
        return MemoryItem(
            id=new_id(MEMORY),
            scope=scope,
            title="",
            content=item.content,
            confidence=CONFIDENCE,
            provenance=Provenance(judge="evidence"),
            created_at=created_at,
        )

    def within(self, group: str) -> Toolbox:
        """Return the toolbox of a group's project."""
        return self.toolbox.in_project(f"group {group}")

    def items_of(self, group: str, memories: Sequence[str]) -> list[str]:
        """Return the ids of items by those of memories."""
        known = self._ids[group]
        return [known[each] for each in memories]

    async def size_bytes(self) -> int:
        """Return the size of the database as it was when all was in; what searches write later does not count."""
        if not self._size_bytes:
            self._size_bytes = (await self.toolbox.store.health()).size_bytes
        return self._size_bytes


@dataclass(frozen=True, slots=True)
class BankSystem:
    """The bank, asked with these settings."""

    name: str
    bank: Bank
    retrieve_settings: RetrieveSettings
    leg: Literal["vector", "keyword"] | None = None
    """Only what this leg itself found counts; what the other one added to the pool does not."""

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        await self.bank.ingest(group, items)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        found = await retrieve(self._toolbox(question), question.query, k=k)
        kept = [each.item.id for each in found.memories if self._found_by_leg(each.parts)]
        return self.bank.items_of(question.group, kept)

    def _found_by_leg(self, parts: ScoreParts) -> bool:
        found = {"vector": parts.cosine, "keyword": parts.keyword}
        return self.leg is None or found[self.leg] is not None

    async def size_bytes(self) -> int | None:
        return await self.bank.size_bytes()

    def _toolbox(self, question: BenchmarkQuestion) -> Toolbox:
        own = self.bank.within(question.group)
        settings = own.settings.model_copy(update={"retrieve": self.retrieve_settings})
        clock: Clock = _At(question.now) if self.bank.dated and question.now is not None else own.clock
        return replace(own, settings=settings, clock=clock)


class _Okapi(Protocol):
    """What is used of rank-bm25, which has no types of its own."""

    def get_scores(self, query: Sequence[str]) -> Any: ...


class OkapiSystem:
    """`BM25Okapi` of rank-bm25, one index for each group."""

    name = "bm25-okapi"

    def __init__(self) -> None:
        self._indexes: dict[str, tuple[_Okapi, tuple[str, ...]]] = {}

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        index: _Okapi = import_module("rank_bm25").BM25Okapi([tokenize(item.content) or ("",) for item in items])
        self._indexes[group] = index, tuple(item.id for item in items)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        index, ids = self._indexes[question.group]
        scores: Sequence[float] = index.get_scores(query_tokens(question.query)).tolist()
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:k]
        return [ids[at] for at in best if scores[at] > 0]

    async def size_bytes(self) -> int | None:
        return None
