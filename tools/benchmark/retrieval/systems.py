"""Memory systems under test: the real bank, filled and asked as an agent does it, and rank-bm25."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, Protocol

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.schema.errors import ConfigError, ModelError
from swarm_memory.schema.memory import MAX_CONTENT
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.memories.remember import Attribution, remember
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox


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
        """Return what all items take on disk or in memory; None when that cannot be said."""
        ...


@dataclass(slots=True)
class Bank:
    """One real store that systems share: each group of items is a project of its own."""

    toolbox: Toolbox
    """Its store is one that the benchmark opened."""
    seconds: float = 0.0
    """What taking in took in all."""
    _ids: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    _size_bytes: int = 0

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        """Take in a group by the front door, unless a system that shares the bank has done so.

        Each item is remembered as the MCP tool `remember` does it, one that is too long for it in parts. Raises
        `ConfigError` where the embedder fails: the product would go on with keywords, and a measurement of that would
        pass for one of the embedder.
        """
        if group in self._ids:
            return
        own, ids = self.within(group), self._ids.setdefault(group, {})
        try:
            await own.embedder.embed_documents([items[0].content])
        except ModelError as error:
            raise _embedder_failed(own, str(error)) from error
        started = time.perf_counter()
        for item in items:
            for text in _parts(item.content):
                written = (await remember(own, text, attribution=Attribution("prompt"))).item.id
                ids.setdefault(written, []).append(item.id)
        self.seconds += time.perf_counter() - started
        missing = (await own.store.statistics(own.scope, own.embedder.name)).not_embedded
        if missing:
            raise _embedder_failed(own, f"{missing} items have no vector")

    def within(self, group: str) -> Toolbox:
        """Return the toolbox of a group's project."""
        return self.toolbox.in_project(f"group {group}")

    def items_of(self, group: str, memories: Sequence[str]) -> list[str]:
        """Return the ids of items by those of memories; of an item in parts the best one counts."""
        known = self._ids[group]
        return list(dict.fromkeys(item for each in memories for item in known[each]))

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
        own = self.bank.within(question.group)
        settings = own.settings.model_copy(update={"retrieve": self.retrieve_settings})
        toolbox = replace(own, settings=settings)
        found = await retrieve(toolbox, question.query, k=k)
        if not {"vector", "exact_scan"} & {*found.legs}:
            raise _embedder_failed(toolbox, "; ".join(found.notices))
        by = "cosine" if self.leg == "vector" else "keyword"
        kept = [each.item.id for each in found.memories if self.leg is None or getattr(each.parts, by) is not None]
        return self.bank.items_of(question.group, kept)[:k]

    async def size_bytes(self) -> int | None:
        return await self.bank.size_bytes()


def _embedder_failed(toolbox: Toolbox, why: str) -> ConfigError:
    return ConfigError(f"nothing can be measured of the embedder {toolbox.embedder.name}, which failed: {why}")


def _parts(text: str) -> list[str]:
    """Return a text in parts that one memory can hold, divided between lines where that is possible."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), MAX_CONTENT):
            piece = line[at : at + MAX_CONTENT]
            parts[-1:] = [parts[-1] + piece] if len(parts[-1]) + len(piece) <= MAX_CONTENT else [parts[-1], piece]
    return [part for part in parts if part.strip()]


class OkapiSystem:
    """`BM25Okapi` of rank-bm25, one index for each group."""

    name = "bm25-okapi"

    def __init__(self) -> None:
        self._indexes: dict[str, tuple[Any, tuple[str, ...]]] = {}

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        index = import_module("rank_bm25").BM25Okapi([tokenize(item.content) or ("",) for item in items])
        self._indexes[group] = index, tuple(item.id for item in items)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        index, ids = self._indexes[question.group]
        scores: Sequence[float] = index.get_scores(query_tokens(question.query)).tolist()
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:k]
        return [ids[at] for at in best if scores[at] > 0]

    async def size_bytes(self) -> int | None:
        return None
