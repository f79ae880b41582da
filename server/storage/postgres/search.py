"""Searches on PostgreSQL, each in one query: how many items contain each word, both legs, and what scoring needs."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, cast

from swarm_memory.schema.postgres.statements import queries, with_placeholders
from swarm_memory.schema.source import SourceKind
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.postgres.connection import PostgresConnection
from swarm_memory.server.storage.postgres.index import PostgresIndex, pgvector_text
from swarm_memory.server.storage.search.vectors import (
    QueryVector,
    Search,
    SearchHits,
    check_vector,
    find_space,
    kept_cosines,
)
from swarm_memory.server.storage.search.words import MAX_POSTINGS, MAX_QUERY_TOKENS, SURE_POSTINGS, SURE_TOKENS, usable
from swarm_memory.server.storage.stores.memories import answer_of
from swarm_memory.tools.ports.memories import ANY, SearchQuery, SearchResult
from swarm_memory.tools.ports.sources import PassageCandidate, SourceResult

_PARTS = queries("search")


def search_memories(connection: Connection, index: PostgresIndex, query: SearchQuery) -> SearchResult:
    """Search the memories. Raises `StorageError` for an unsound vector."""
    parts = ("memory_partitions", "passing", "keywords", "vectors", "found", "memories_found")
    return answer_of(connection, Search(index, query, {}), *_search(connection, index, query, parts, 2, {}))


def search_passages(
    connection: Connection,
    index: PostgresIndex,
    query: SearchQuery,
    kinds: Sequence[SourceKind],
    neighbours: Mapping[SourceKind, int],
) -> SourceResult:
    """Search the passages of sources. Raises `StorageError` for an unsound vector."""
    where = {"kinds": list(kinds), "near_kinds": list(neighbours), "distances": list(neighbours.values())}
    parts = ("passage_partitions", "keywords", "vectors", "found", "passages_found")
    found, rows, alike = _search(connection, index, query, parts, 8, where)
    candidates = tuple(PassageCandidate(*row[:8], cosine=each) for row, each in zip(rows, alike, strict=True))
    return Search(index, query, {}).answer(found, candidates, "passages")


def _search(
    connection: Connection,
    index: PostgresIndex,
    query: SearchQuery,
    parts: tuple[str, ...],
    vector_at: int,
    where: Mapping[str, Any],
) -> tuple[SearchHits, list[tuple[Any, ...]], list[float | None]]:
    """Return what both legs found, its rows from the position on (the vector at `vector_at`), and their cosines."""
    vector = None
    if query.vector is not None:
        check_vector(query.vector, len(query.vector), query.embedder)
        space = find_space(connection, query.embedder, len(query.vector), index.statements)
        vector = None if space is None else QueryVector.of(query.vector, space, index)
    tokens = usable(query.tokens)
    values = {**where, **_values(index, query, vector), "tokens": tokens}
    answer = cast("PostgresConnection", connection).search(_text(parts, _passes(query)), values)
    partitions: list[tuple[int, int, int]] = json.loads(answer[0][0] or "[]")
    items = {partition: count for partition, count, _ in partitions}
    frequency = dict.fromkeys(tokens, 0)
    for partition, token, count in json.loads(answer[0][1] or "[]"):
        frequency[token] += min(count, items[partition])
    rows = [row[2:] for row in answer if row[4] is not None]
    ordered = _ordered(rows, kept_cosines(vector, [row[2 + vector_at] for row in rows]), query.pool)
    near = {row[2]: cosine for row, cosine in ordered if row[0] is not None and cosine is not None}
    unreachable = sum(items.values()) - sum(embedded for _, _, embedded in partitions) if query.vector else 0
    matching = {row[2]: 0.0 for row, _ in ordered if row[1] is not None}
    found = SearchHits(sum(items.values()), unreachable, vector, near, matching, frequency)
    return found, [row[2:] for row, _ in ordered], [cosine for _, cosine in ordered]


def _values(index: PostgresIndex, query: SearchQuery, vector: QueryVector | None) -> dict[str, Any]:
    """Return the parameters of the query except its words."""
    quantization = "int8" if vector is None else vector.space.quantization
    return {
        "tenants": [scope.tenant_id for scope in query.scopes],
        "projects": [scope.project for scope in query.scopes],
        "kind": index.kind,
        "model": query.embedder,
        "dims": 0 if query.vector is None else len(query.vector),
        "vector": None if vector is None else pgvector_text(vector.encoded, quantization),
        "near": query.pool if quantization == "int8" else 2 * query.pool,  # 16 bits round a 32-bit number
        "most_tokens": MAX_QUERY_TOKENS,
        "sure_tokens": SURE_TOKENS,
        "sure_postings": SURE_POSTINGS,
        "postings": MAX_POSTINGS,
        "pool": query.pool,
        "narrowed": int(_passes(query) == "is_passing"),
        "domain": query.only.domain,
        "agent_id": query.only.agent_id,
        "tags": list(query.only.tags),
    }


def _passes(query: SearchQuery) -> str:
    """Return the name of the query part that decides what may be found."""
    return "everything" if query.only == ANY else "is_passing"


def _ordered(
    rows: list[tuple[Any, ...]], alike: Sequence[float | None], pool: int
) -> list[tuple[tuple[Any, ...], float | None]]:
    """Return rows (partition, rank by words, position, …) and cosines: each partition's nearest, matches, neighbors."""
    pairs = list(zip(rows, alike, strict=True))
    near = sorted((pair for pair in pairs if pair[0][0] is not None), key=lambda pair: (pair[0][0], -(pair[1] or 0.0)))
    kept = [pair for _, each in groupby(near, lambda pair: pair[0][0]) for pair in list(each)[:pool]]
    known = {row[2] for row, _ in kept}
    others = [pair for pair in pairs if pair[0][2] not in known and (pair[0][0] is None or pair[0][1] is not None)]
    return kept + sorted(others, key=lambda pair: (pair[0][1] is None, pair[0][1] or 0, pair[0][2]))


@cache
def _text(parts: tuple[str, ...], passes: str) -> bytes:
    """Return a search with psycopg's placeholders: its parts joined, with the filter on what may be found filled in."""
    start, *middle, end = (_PARTS[part] for part in parts)
    text = ",\n".join((start, *middle)) + "\n" + end
    for table in ("i", "v"):
        text = text.replace(f"{{{table}.passes}}", _PARTS[passes].replace("{seq}", f"{table}.seq"))
    return with_placeholders(text).encode()
