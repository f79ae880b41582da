"""One search of the memories: by vectors and by keywords, each by scope, joined to what scoring needs.

Both need nothing of each other and run over two connections at once. Each statement sees the bank of its own moment:
what came or went between two is found by one of them, or left out.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import find_scopes, pairs, to_json, to_moment
from swarm_memory.server.storage.search.index import (
    Index,
    QueryVector,
    nearest_in,
    query_vector,
    unreachable_notice,
)
from swarm_memory.server.storage.search.vectors import Space, check_vector, cosines, decode, encode
from swarm_memory.server.storage.search.words import (
    Narrowed,
    matches_in,
    rarest,
    simply_counted_below,
    unpack,
    usable,
)
from swarm_memory.tools.ports.bank import Candidate, SearchQuery, SearchResult
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.access import Access
    from swarm_memory.server.storage.engine.driver import Connection

_MAX_LEFT_OUT = 256
"""So many items of an excluded task are fetched too much and dropped; more are filtered within the search."""

_EVERYTHING = Narrowed({"domain": None, "tags": "[]", "exclude_task": None}, False, frozenset())

_QUERIES = queries("memories")


class Searched(NamedTuple):
    """A scope that holds active items, as a search sees it."""

    id: int
    active: int
    embedded: int
    """Active items with a vector in the query's space."""
    is_coded: bool
    counts: list[tuple[int, int]] | None
    """(place among the tokens, items that hold it); None where the scope is too large for counting them here."""


class Near(NamedTuple):
    """What was found by vectors."""

    documents: int
    unreachable: int
    """Active items without a vector in the query's space."""
    vector: QueryVector | None
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What was found by keywords."""

    found: dict[int, float]
    """BM25 by position."""
    frequency: dict[str, int]
    """Of each token that was looked up, in how many items it stands."""


async def search(bank: "Access", query: SearchQuery) -> SearchResult:
    """Search a bank. Raises `StorageError` for an unsound query vector."""
    near, keywords = await asyncio.gather(
        bank.read(partial(near_items, index=bank.index, query=query)),
        bank.read_beside(partial(matching_items, index=bank.index, query=query)),
    )
    return await bank.read(partial(join, index=bank.index, query=query, near=near, keywords=keywords))


def near_items(connection: "Connection", index: Index, query: SearchQuery) -> Near:
    """Return the pool of the nearest items of every scope. Raises `StorageError` for an unsound query vector."""
    if query.vector is not None:
        check_vector(query.vector, len(query.vector), query.embedder)
    space, scopes = _look(connection, query, ())
    documents = sum(scope.active for scope in scopes)
    if query.vector is None:
        return Near(documents, 0, None, {})
    unreachable = documents - sum(scope.embedded for scope in scopes)
    if space is None:
        return Near(documents, unreachable, None, {})
    vector = QueryVector(space, encode(query.vector, space.quantization), index.searchable and not space.stale)
    found: dict[int, float] = {}
    try:
        for scope in scopes:
            narrowed = _filter(connection, query, scope.id)
            found |= nearest_in(connection, index, vector, scope.id, narrowed, query.pool, scope.is_coded)
    except connection.OperationalError:
        if _look(connection, query, ())[0] == space:
            raise
        return near_items(connection, index, query)  # another process dropped the space meanwhile
    return Near(documents, unreachable, vector, found)


def matching_items(connection: "Connection", index: Index, query: SearchQuery) -> Keywords:
    """Return the pool of the best keyword matches of every scope."""
    tokens = usable(query.tokens)
    keywords = Keywords({}, dict.fromkeys(tokens, 0))
    if not tokens:
        return keywords
    for scope in _look(connection, query, tokens)[1]:
        counts = scope.counts
        if counts is None:
            counts = index.term_counts.count(connection, index.statements, scope.id, scope.active, tokens)
        for place, items in counts:
            keywords.frequency[tokens[place]] += min(items, scope.active)
        narrowed = _filter(connection, query, scope.id)
        words = rarest(tokens, counts)
        keywords.found.update(matches_in(connection, index.statements, scope.id, words, narrowed, query.pool))
    return keywords


def _look(connection: "Connection", query: SearchQuery, tokens: Sequence[str]) -> tuple[Space | None, list[Searched]]:
    """Return the space of the query's vector and the scopes that hold active items."""
    values = {
        "scopes": pairs(query.scopes),
        "model": query.embedder,
        "dims": 0 if query.vector is None else len(query.vector),
        "tokens": to_json(list(tokens)),
        "most": simply_counted_below() if tokens else 0,
    }
    rows = connection.execute(_QUERIES["searched_scopes"], values).fetchall()
    space = None if rows[0][0] is None else Space(*rows[0][:6])
    scopes = [
        Searched(scope_id, active, embedded, bool(is_coded), None if counts is None else json.loads(counts))
        for *_, scope_id, active, embedded, is_coded, counts in rows
        if active
    ]
    return space, scopes


def join(connection: "Connection", index: Index, query: SearchQuery, near: Near, keywords: Keywords) -> SearchResult:
    """Return the union of both pools; what is no longer active by now is left out."""
    return SearchResult(
        candidates=_candidates(connection, near.vector, near.found, keywords.found),
        legs=_legs(index, query, near.vector, keywords),
        documents=near.documents,
        document_frequency=keywords.frequency,
        notices=tuple(unreachable_notice(index, near.vector, query.embedder, near.unreachable, "memories")),
    )


def nearest(
    connection: "Connection", index: Index, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int
) -> list[tuple[str, float]]:
    """Return (id, cosine) of the k nearest active items of all the scopes together, nearest first."""
    asked = query_vector(connection, index, embedder, vector)
    if asked is None:
        return []
    found: dict[int, float] = {}
    for scope_id in find_scopes(connection, scopes):
        found |= nearest_in(connection, index, asked, scope_id, _EVERYTHING, k)
    best = sorted(found.items(), key=lambda pair: -pair[1])[:k]
    ids = dict(connection.execute(_QUERIES["ids_of_patterns"], (to_json([seq for seq, _ in best]),)).fetchall())
    return [(ids[seq], cosine) for seq, cosine in best]


def _filter(connection: "Connection", query: SearchQuery, scope_id: int) -> Narrowed:
    left_out: frozenset[int] = frozenset()
    exclude_task = query.only.exclude_task
    if exclude_task is not None:
        rows = connection.execute(_QUERIES["active_of_task"], (exclude_task, scope_id)).fetchall()
        left_out = frozenset(row[0] for row in rows)
        if len(left_out) <= _MAX_LEFT_OUT:
            exclude_task = None
    values = {
        "scope_id": scope_id,
        "domain": query.only.domain,
        "tags": to_json(list(query.only.tags)),
        "exclude_task": exclude_task,
    }
    narrows = query.only.domain is not None or bool(query.only.tags) or exclude_task is not None
    return Narrowed(values, narrows, left_out)


def _candidates(
    connection: "Connection", vector: QueryVector | None, near: dict[int, float], matched: dict[int, float]
) -> tuple[Candidate, ...]:
    seqs = [*near, *(seq for seq in matched if seq not in near)]
    by_distance = vector is not None and vector.by_index
    values: dict[str, Any] = {
        "seqs": to_json(seqs),
        "model": vector.space.model if vector else "",
        "dims": vector.space.dims if vector else 0,
    }
    if vector is not None and by_distance:
        values |= {"first_unknown": len(near), "vector": vector.encoded}
        rows = connection.execute(vector.space.sql(_QUERIES["candidates"]), values).fetchall()
    else:
        rows = connection.execute(_QUERIES["candidates_without_distance"], values).fetchall()
    known = dict(near)
    if vector is not None and not by_distance:
        others = [(row[0], row[6]) for row in rows if row[6] is not None and row[0] not in near]
        compared = cosines(vector.encoded, [blob for _, blob in others], vector.space.quantization)
        known |= zip((seq for seq, _ in others), compared, strict=True)
    quantization = vector.space.quantization if vector else "float32"
    return tuple(
        Candidate(
            item_id,
            project,
            confidence,
            to_moment(created_at),
            known.get(seq) if distance is None else 1.0 - distance,
            matched.get(seq),
            unpack(tokens).replace("\n", " "),
            None if blob is None else partial(decode, blob, quantization),
        )
        for seq, item_id, project, confidence, created_at, tokens, blob, distance in rows
    )


def _legs(index: Index, query: SearchQuery, vector: QueryVector | None, keywords: Keywords) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    if query.vector is not None:
        by_index = index.searchable if vector is None else vector.by_index
        legs.append("vector" if by_index else "exact_scan")
    if keywords.frequency:
        legs.append("keyword")
    return tuple(legs)
