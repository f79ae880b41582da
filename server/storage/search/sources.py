"""One search of passages: two legs, each inside one scope and kind by partition, joined with all neighbours.

It only reads.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.memory import Leg
from swarm_memory.schema.source import SourceKind
from swarm_memory.server.storage.rows import find_scopes, to_json
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.legs import (
    EVERYTHING,
    QueryVector,
    count_terms,
    matches_in,
    members,
    nearest_in,
    query_vector,
    reading,
    unreachable_notice,
)
from swarm_memory.server.storage.search.tokens import usable
from swarm_memory.server.storage.search.vectors import cosines
from swarm_memory.tools.ports.sources import PassageCandidate, SourceQuery, SourceResult

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

NEIGHBOURS = 1
"""So many passages on each side of a candidate are candidates too, and its context."""


class Near(NamedTuple):
    """What the vector leg found."""

    vector: QueryVector | None
    passages: int
    unreachable: int
    """Passages without a vector in the query's space."""
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What the keyword leg found: BM25 by position, and of each token in how many passages it stands."""

    found: dict[int, float]
    frequency: dict[str, int]


def near_leg(connection: "Connection", index: Index, query: SourceQuery) -> Near:
    """Return the pools of the vector leg. Raises `StorageError` for an unsound query vector."""
    with reading(connection):
        vector = None if query.vector is None else query_vector(connection, index, query.embedder, query.vector)
        near = Near(vector, 0, 0, {})
        for partition, passages in _partitions(connection, index, query):
            near = near._replace(passages=near.passages + passages)
            if query.vector is not None:
                missing = passages - members(connection, index, vector, partition)
                near = near._replace(unreachable=near.unreachable + missing)
            if vector is not None:
                near.found.update(nearest_in(connection, index, vector, partition, EVERYTHING, query.pool))
        return near


def keyword_leg(connection: "Connection", index: Index, query: SourceQuery) -> Keywords:
    """Return the pools of the keyword leg."""
    tokens = usable(query.tokens)
    keywords = Keywords({}, dict.fromkeys(tokens, 0))
    if not tokens:
        return keywords
    with reading(connection):
        for partition, passages in _partitions(connection, index, query):
            present = count_terms(connection, index, partition, passages, tokens, keywords.frequency)
            keywords.found.update(matches_in(connection, index, partition, present, EVERYTHING, query.pool))
    return keywords


def join(connection: "Connection", index: Index, query: SourceQuery, near: Near, keywords: Keywords) -> SourceResult:
    """Return the union of the pools with the neighbours of all in it; what is gone by now is left out."""
    with reading(connection):
        seqs = list(dict.fromkeys([*near.found, *keywords.found]))
        values = {"seqs": to_json(seqs), "distance": NEIGHBOURS}
        beside = [seq for (seq,) in connection.execute(index.statements["neighbours"], values).fetchall()]
        candidates = _candidates(connection, index, near.vector, list(dict.fromkeys([*seqs, *beside])))
    return SourceResult(
        candidates=candidates,
        passages=near.passages,
        document_frequency=keywords.frequency,
        legs=_legs(index, query, near, keywords),
        notices=tuple(unreachable_notice(index, near.vector, query.embedder, near.unreachable, "passages")),
    )


def _partitions(connection: "Connection", index: Index, query: SourceQuery) -> list[tuple[int, int]]:
    """Return those that the query searches and that hold passages, with their number."""
    found = (
        connection.execute(index.statements["find_partition"], (scope_id, kind)).fetchone()
        for scope_id in find_scopes(connection, query.scopes)
        for kind in query.kinds
    )
    return [row for row in found if row is not None and row[1]]


def _candidates(
    connection: "Connection", index: Index, vector: QueryVector | None, seqs: Sequence[int]
) -> tuple[PassageCandidate, ...]:
    values: dict[str, Any] = {"seqs": to_json(list(seqs)), "model": "", "dims": 0}
    if vector is not None:
        values |= {"model": vector.space.model, "dims": vector.space.dims}
    rows = connection.execute(index.statements["candidates"], values).fetchall()
    near = _cosines(vector, [row[-1] for row in rows])
    group_ids = to_json(list({row[1] for row in rows}))
    groups: dict[int, tuple[SourceKind, str]] = {
        group: (kind, name)
        for group, kind, name in connection.execute(index.statements["groups_of_candidates"], (group_ids,)).fetchall()
    }
    return tuple(
        PassageCandidate(seq, groups[group][0], group, position, title, description, content, groups[group][1], cosine)
        for (seq, group, position, title, description, content, _), cosine in zip(rows, near, strict=True)
    )


def _cosines(vector: QueryVector | None, blobs: list[bytes | None]) -> list[float | None]:
    """Return the cosine of each vector to the query's; None where there is none."""
    if vector is None:
        return [None] * len(blobs)
    compared = iter(cosines(vector.encoded, [blob for blob in blobs if blob is not None], vector.space.quantization))
    return [None if blob is None else next(compared) for blob in blobs]


def _legs(index: Index, query: SourceQuery, near: Near, keywords: Keywords) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    if query.vector is not None:
        by_index = index.searchable if near.vector is None else near.vector.by_index
        legs.append("vector" if by_index else "exact_scan")
    if keywords.frequency:
        legs.append("keyword")
    return tuple(legs)
