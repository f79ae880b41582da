"""One search of the bank: two legs, each inside its scope by partition, joined to what scoring needs. It only reads.

The legs need nothing of each other and may run over two connections at once.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import find_scopes, to_json, to_moment
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.legs import (
    Narrowed,
    QueryVector,
    count_terms,
    matches_in,
    members,
    nearest_in,
    query_vector,
    reading,
    unreachable_notice,
)
from swarm_memory.server.storage.search.tokens import unpack, usable
from swarm_memory.server.storage.search.vectors import cosines, decode
from swarm_memory.tools.ports.bank import Candidate, SearchQuery, SearchResult
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_MAX_LEFT_OUT = 256
"""So many items of an excluded task are fetched too much and dropped; more are filtered within the search."""

_EVERYTHING = Narrowed({"domain": None, "tags": "[]", "exclude_task": None}, False, frozenset())

_QUERIES = queries()


class Near(NamedTuple):
    """What the vector leg found."""

    documents: int
    unreachable: int
    """Active items without a vector in the query's space."""
    vectors: QueryVector | None
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What the keyword leg found."""

    found: dict[int, float]
    """BM25 by position."""
    frequency: dict[str, int]
    """Of each token that was looked up, in how many items it stands."""


def near_leg(connection: "Connection", index: Index, query: SearchQuery) -> Near:
    """Return the pool of the vector leg of every scope. Raises `StorageError` for an unsound query vector."""
    with reading(connection):
        scopes = find_scopes(connection, query.scopes)
        vectors = None if query.vector is None else query_vector(connection, index, query.embedder, query.vector)
        near = Near(0, 0, vectors, {})
        for scope_id, active in _filled(connection, scopes):
            near = near._replace(documents=near.documents + active)
            if query.vector is not None:
                missing = active - members(connection, index, vectors, scope_id)
                near = near._replace(unreachable=near.unreachable + missing)
            if vectors is not None:
                narrowed = _filter(connection, query, scope_id)
                near.found.update(nearest_in(connection, index, vectors, scope_id, narrowed, query.pool))
        return near


def keyword_leg(connection: "Connection", index: Index, query: SearchQuery) -> Keywords:
    """Return the pool of the keyword leg of every scope."""
    tokens = usable(query.tokens)
    keywords = Keywords({}, dict.fromkeys(tokens, 0))
    if not tokens:
        return keywords
    with reading(connection):
        for scope_id, active in _filled(connection, find_scopes(connection, query.scopes)):
            present = count_terms(connection, index, scope_id, active, tokens, keywords.frequency)
            narrowed = _filter(connection, query, scope_id)
            keywords.found.update(matches_in(connection, index, scope_id, present, narrowed, query.pool))
    return keywords


def join(connection: "Connection", index: Index, query: SearchQuery, near: Near, keywords: Keywords) -> SearchResult:
    """Return the union of both pools; what is no longer active by now is left out."""
    with reading(connection):
        # A scope may be newer than the look of the vector leg: the keyword leg found what it holds.
        scopes = find_scopes(connection, query.scopes)
        candidates = _candidates(connection, scopes, near.vectors, near.found, keywords.found)
    return SearchResult(
        candidates=candidates,
        legs=_legs(index, query, near.vectors, keywords),
        documents=near.documents,
        document_frequency=keywords.frequency,
        notices=tuple(unreachable_notice(index, near.vectors, query.embedder, near.unreachable, "memories")),
    )


def _filled(connection: "Connection", scopes: Iterable[int]) -> list[tuple[int, int]]:
    """Return those scopes that hold active items, with their number."""
    counts = [
        (scope_id, *connection.execute(_QUERIES["active_in_scope"], (scope_id,)).fetchone()) for scope_id in scopes
    ]
    return [(scope_id, active) for scope_id, active in counts if active]


def nearest(
    connection: "Connection", index: Index, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int
) -> list[tuple[str, float]]:
    """Return (id, cosine) of the k nearest active items of all the scopes together, nearest first."""
    vectors = query_vector(connection, index, embedder, vector)
    if vectors is None:
        return []
    found: dict[int, float] = {}
    for scope_id in find_scopes(connection, scopes):
        found |= nearest_in(connection, index, vectors, scope_id, _EVERYTHING, k)
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
    connection: "Connection",
    scopes: dict[int, Scope],
    vectors: QueryVector | None,
    near: dict[int, float],
    matched: dict[int, float],
) -> tuple[Candidate, ...]:
    seqs = [*near, *(seq for seq in matched if seq not in near)]
    by_distance = vectors is not None and vectors.by_index
    values: dict[str, Any] = {
        "seqs": to_json(seqs),
        "model": vectors.space.model if vectors else "",
        "dims": vectors.space.dims if vectors else 0,
    }
    if vectors is not None and by_distance:
        values |= {"first_unknown": len(near), "vector": vectors.encoded}
        rows = connection.execute(vectors.space.sql(_QUERIES["candidates"]), values).fetchall()
    else:
        rows = connection.execute(_QUERIES["candidates_without_distance"], values).fetchall()
    known = dict(near)
    if vectors is not None and not by_distance:
        others = [(row[0], row[6]) for row in rows if row[6] is not None and row[0] not in near]
        compared = cosines(vectors.encoded, [blob for _, blob in others], vectors.space.quantization)
        known |= zip((seq for seq, _ in others), compared, strict=True)
    projects = {scope_id: scope.project for scope_id, scope in scopes.items()}
    quantization = vectors.space.quantization if vectors else "float32"
    return tuple(
        Candidate(
            item_id,
            projects[scope_id],
            confidence,
            to_moment(created_at),
            known.get(seq) if distance is None else 1.0 - distance,
            matched.get(seq),
            unpack(tokens).replace("\n", " "),
            None if blob is None else partial(decode, blob, quantization),
        )
        for seq, item_id, scope_id, confidence, created_at, tokens, blob, distance in rows
    )


def _legs(index: Index, query: SearchQuery, vectors: QueryVector | None, keywords: Keywords) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    if query.vector is not None:
        by_index = index.searchable if vectors is None else vectors.by_index
        legs.append("vector" if by_index else "exact_scan")
    if keywords.frequency:
        legs.append("keyword")
    return tuple(legs)
