"""Searches on PostgreSQL, each by one query: in how many items the words stand, both legs, and what scoring needs.

The query names the partitions of its scopes as numbers, by which a large partition's own index is found. They are
remembered from the search before; where they are others by now, which each search says, it is asked again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from swarm_memory.schema.base import Scope
from swarm_memory.schema.postgres.statements import queries, with_placeholders
from swarm_memory.schema.source import SourceKind
from swarm_memory.server.storage.postgres.index import LARGE, Plan, reach, text_of
from swarm_memory.server.storage.search.vectors import (
    MAX_NEAREST,
    Keywords,
    Near,
    QueryVector,
    Search,
    Space,
    check_vector,
    cosines,
    encode,
    kept_cosines,
)
from swarm_memory.server.storage.search.words import (
    MAX_POSTINGS,
    MAX_QUERY_TOKENS,
    SURE_POSTINGS,
    SURE_TOKENS,
    usable,
)
from swarm_memory.server.storage.stores.memories import answer_of
from swarm_memory.tools.ports.memories import ANY, SearchFilter, SearchQuery, SearchResult
from swarm_memory.tools.ports.sources import PassageCandidate, SourceResult

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.server.storage.postgres.connection import PostgresConnection
    from swarm_memory.server.storage.postgres.index import PostgresIndex
    from swarm_memory.tools.ports.models import Vector

_PARTS = queries("search")
_MAX_PLANS = 10_000
_LOOKS = 3
"""So often a search is asked at most whose scopes or space are being made."""


@dataclass(frozen=True)
class Asked:
    """What is searched."""

    index: "PostgresIndex"
    where: Mapping[str, Any]
    """What names the partitions."""
    embedder: str
    vector: "Vector | None"
    pool: int
    tokens: Sequence[str] = ()
    only: SearchFilter = ANY

    @property
    def key(self) -> tuple[Any, ...]:
        """What this and other searches have in common that look at the same partitions of the same space."""
        return self.index.kind, json.dumps(self.where), self.embedder, self.dims

    @property
    def dims(self) -> int:
        return 0 if self.vector is None else len(self.vector)

    @property
    def narrowed(self) -> bool:
        return self.only != ANY

    def near(self, plan: Plan) -> dict[str, int]:
        """Return what a search for the nearest has written out."""
        near = self.pool if plan.quantization == "int8" else 2 * self.pool  # 16 bits round a 32-bit number
        return {"kind": self.index.kind, "space_id": plan.space_id or 0, "dims": self.dims, "near": near}

    def values(self, plan: Plan) -> dict[str, Any]:
        """Return the parameters of the query."""
        encoded = None if self.vector is None else encode(self.vector, plan.quantization)
        return {
            **self.where,
            "kind": self.index.kind,
            "model": self.embedder,
            "dims": self.dims,
            "vector": None if encoded is None else text_of(encoded, plan.quantization),
            "tokens": list(self.tokens),
            "most_tokens": MAX_QUERY_TOKENS,
            "sure_tokens": SURE_TOKENS,
            "sure_postings": SURE_POSTINGS,
            "postings": MAX_POSTINGS,
            "pool": self.pool,
            "large": LARGE,
            "narrowed": int(self.narrowed),
            "domain": self.only.domain,
            "agent_id": self.only.agent_id,
            "tags": list(self.only.tags),
        }


class Found(NamedTuple):
    """What one search gave."""

    near: Near
    keywords: Keywords
    rows: list[tuple[Any, ...]]
    """What was found, from its position on: the nearest first, then the others, the best words first."""
    cosines: list[float | None]
    """Of each row, where it has a vector in the query's space."""


def search_memories(connection: "Connection", index: "PostgresIndex", query: SearchQuery) -> SearchResult:
    """Search the memories. Raises `StorageError` for an unsound vector."""
    where = _scopes(query.scopes)
    asked = Asked(index, where, query.embedder, query.vector, query.pool, usable(query.tokens), query.only)
    found = _search(
        connection, asked, ("memory_partitions", "passing", "keywords", "vectors", "found", "memories_found"), 2
    )
    return answer_of(connection, Search(index, query, {}), found.near, found.keywords, found.rows, found.cosines)


def nearest_memories(
    connection: "Connection", index: "PostgresIndex", scopes: Sequence[Scope], embedder: str, vector: "Vector", k: int
) -> list[tuple[str, float]]:
    """Return (id, cosine) of the k nearest memories, nearest first. Raises `StorageError` for an unsound vector."""
    check_vector(vector, len(vector), embedder)
    asked = Asked(index, _scopes(scopes), embedder, vector, min(k, MAX_NEAREST))
    plan, rows = _ask(connection, asked, ("memory_partitions", "vectors", "nearest_found"))
    pairs = [(item_id, blob) for *_, item_id, blob in rows if item_id is not None]
    alike = cosines(encode(vector, plan.quantization), [blob for _, blob in pairs], plan.quantization)
    near = zip((item_id for item_id, _ in pairs), alike, strict=True)
    return sorted(near, key=lambda pair: -pair[1])[:k]


def search_passages(
    connection: "Connection",
    index: "PostgresIndex",
    query: SearchQuery,
    kinds: Sequence[SourceKind],
    neighbours: Mapping[SourceKind, int],
) -> SourceResult:
    """Search the passages of sources. Raises `StorageError` for an unsound vector."""
    where = _scopes(query.scopes) | {
        "kinds": list(kinds),
        "near_kinds": list(neighbours),
        "distances": list(neighbours.values()),
    }
    asked = Asked(index, where, query.embedder, query.vector, query.pool, usable(query.tokens))
    found = _search(connection, asked, ("passage_partitions", "keywords", "vectors", "found", "passages_found"), 8)
    candidates = tuple(
        PassageCandidate(*row[:8], cosine=cosine) for row, cosine in zip(found.rows, found.cosines, strict=True)
    )
    return Search(index, query, {}).answer(found.near, found.keywords, candidates, "passages")


def _scopes(scopes: Sequence[Scope]) -> dict[str, list[str]]:
    return {"tenants": [scope.tenant_id for scope in scopes], "projects": [scope.project for scope in scopes]}


def _search(connection: "Connection", asked: Asked, parts: tuple[str, ...], vector_at: int) -> Found:
    """Return what both legs found; `vector_at` says where in a row, from its position on, its vector stands."""
    if asked.vector is not None:
        check_vector(asked.vector, asked.dims, asked.embedder)
    plan, answer = _ask(connection, asked, parts)
    partitions: list[tuple[int, int, int]] = json.loads(answer[0][2] or "[]")
    items = {partition: count for partition, count, _ in partitions}
    frequency = dict.fromkeys(asked.tokens, 0)
    for partition, token, count in json.loads(answer[0][3] or "[]"):
        frequency[token] += min(count, items[partition])
    rows = [row[4:] for row in answer if row[6] is not None]
    vector = None
    if asked.vector is not None and plan.space_id is not None:
        space = Space(plan.space_id, asked.embedder, asked.dims, plan.quantization, 0, "")
        vector = QueryVector.of(asked.vector, space, asked.index)
    ordered = _ordered(rows, kept_cosines(vector, [row[2 + vector_at] for row in rows]), asked.pool)
    near = {row[2]: cosine for row, cosine in ordered if row[0] is not None and cosine is not None}
    unreachable = sum(items.values()) - sum(embedded for _, _, embedded in partitions) if asked.vector else 0
    return Found(
        Near(sum(items.values()), unreachable, vector, near),
        Keywords({row[2]: 0.0 for row, _ in ordered if row[1] is not None}, frequency),
        [row[2:] for row, _ in ordered],
        [cosine for _, cosine in ordered],
    )


def _ordered(
    rows: list[tuple[Any, ...]], alike: Sequence[float | None], pool: int
) -> list[tuple[tuple[Any, ...], float | None]]:
    """Return rows (partition or nothing, place by words or nothing, position …) beside their cosines, in order.

    Of the nearest in each partition no more than the pool; then what words found, then what stands beside.
    """
    pairs = list(zip(rows, alike, strict=True))
    near = sorted((pair for pair in pairs if pair[0][0] is not None), key=lambda pair: (pair[0][0], -(pair[1] or 0.0)))
    kept = [pair for _, each in groupby(near, lambda pair: pair[0][0]) for pair in list(each)[:pool]]
    known = {row[2] for row, _ in kept}
    others = [pair for pair in pairs if pair[0][2] not in known and (pair[0][0] is None or pair[0][1] is not None)]
    return kept + sorted(others, key=lambda pair: (pair[0][1] is None, pair[0][1] or 0, pair[0][2]))


def _ask(connection: "Connection", asked: Asked, parts: tuple[str, ...]) -> tuple[Plan, list[tuple[Any, ...]]]:
    """Run a search; where its plan is that of another moment, again. Return the plan, and the rows."""
    searching = cast("PostgresConnection", connection)
    plans = asked.index.plans
    plan = plans.get(asked.key, Plan())
    passes = "is_passing" if asked.narrowed else "everything"
    rows: list[tuple[Any, ...]] = []
    for _ in range(_LOOKS):
        seen = plan if asked.vector is not None else Plan()
        text = _text(parts, tuple(asked.near(seen).items()), seen.partitions, passes)
        rows = searching.search(text, asked.values(plan), plan.reach, keep=not asked.narrowed)
        space_id, quantization, partitions, *_ = rows[0]
        numbers: list[tuple[int, int, int]] = json.loads(partitions or "[]")
        largest = max((items for _, items, _ in numbers), default=0)
        now = Plan(space_id, quantization or "int8", tuple(number for number, *_ in numbers), reach(largest))
        if now == plan or asked.vector is None:
            break
        if len(plans) > _MAX_PLANS:
            plans.clear()
        plans[asked.key] = plan = now
    return plan, rows


@lru_cache(maxsize=1024)
def _text(
    parts: tuple[str, ...], written: tuple[tuple[str, int], ...], partitions: tuple[int, ...], passes: str
) -> bytes:
    """Return a search in psycopg's words: its parts, the nearest of each partition, and what may be found.

    The numbers of `written` are written out where the nearest are searched.
    """
    kind = "nearest_passing" if passes == "is_passing" else "nearest"
    near = [_PARTS[kind].replace("{partition}", str(partition)) for partition in partitions]
    if not dict(written)["space_id"] or not near:
        near = [_PARTS["nowhere"]]
    start, *middle, end = (_PARTS[part].replace("{near}", "\nUNION ALL\n".join(near)) for part in parts)
    text = ",\n".join((start, *middle)) + "\n" + end
    for name, number in written:
        text = text.replace(f"{{{name}}}", str(number))
    for of, seq in (("h.", "h.seq"), ("v.", "v.seq")):
        text = text.replace(f"{{{of}passes}}", _PARTS[passes].replace("{seq}", seq))
    return with_placeholders(text).encode()
