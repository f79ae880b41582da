"""The outside reference: rank-bm25 with its own parameters, over the same tokens. It is imported when it is built."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.tools.text.tokens import query_tokens, tokenize


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
