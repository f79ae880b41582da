"""Another system's answer, put in order by a reranker."""

from collections.abc import Sequence

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.tools.benchmark.retrieval.systems import MemorySystem
from swarm_memory.tools.ports.models import RerankCandidate, Reranker


class RerankSystem:
    """The first `pool` items of a system, reranked; what the reranker does not judge follows in its old order."""

    def __init__(self, base: MemorySystem, reranker: Reranker, pool: int) -> None:
        self.name = f"{base.name}+rerank"
        self._base, self._reranker, self._pool = base, reranker, pool
        self.unjudged = 0
        """Questions that the reranker gave nothing usable for: their order is the system's."""
        self._texts: dict[tuple[str, str], str] = {}

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        self._texts |= {(group, item.id): item.content for item in items}
        await self._base.ingest(group, items)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        found = list(await self._base.retrieve(question, max(k, self._pool)))
        shown = found[: self._pool]
        if len(shown) > 1:
            candidates = [RerankCandidate(name=each, text=self._texts[question.group, each]) for each in shown]
            try:
                ranked, _ = await self._reranker.rerank(question.query, candidates)
            except ModelAnswerInvalid:
                self.unjudged += 1
                ranked = []
            first = [shown[each.place] for each in ranked]
            found = [*first, *(each for each in found if each not in set(first))]
        return found[:k]

    async def size_bytes(self) -> int | None:
        return await self._base.size_bytes()
