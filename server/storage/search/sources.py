"""One search of passages: by vectors and by keywords, each inside one scope and kind, joined with all neighbours."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.memory import Leg
from swarm_memory.schema.source import SourceKind
from swarm_memory.server.storage.rows import find_scopes, to_json
from swarm_memory.server.storage.search.index import (
    Index,
    QueryVector,
    nearest_in,
    query_vector,
    unreachable_notice,
)
from swarm_memory.server.storage.search.vectors import cosines
from swarm_memory.server.storage.search.words import EVERYTHING, matches_in, rarest, usable
from swarm_memory.tools.ports.sources import PassageCandidate, SourceQuery, SourceResult

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.access import Threads
    from swarm_memory.server.storage.engine.driver import Connection

NEIGHBOURS = 1
"""So many passages on each side of a candidate are candidates too, and its context."""


class Near(NamedTuple):
    """What the vectors found."""

    vector: QueryVector | None
    passages: int
    unreachable: int
    """Passages without a vector in the query's space."""
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What the keywords found: BM25 by position, and of each token in how many passages it stands."""

    found: dict[int, float]
    frequency: dict[str, int]


async def search(bank: "Threads", index: Index, query: SourceQuery) -> SourceResult:
    """Search the passages of a bank. Raises `StorageError` for an unsound query vector."""
    near, keywords = await asyncio.gather(
        bank.read(partial(_near, index=index, query=query)),
        bank.read_beside(partial(_matching, index=index, query=query)),
    )
    return await bank.read(partial(_join, index=index, query=query, near=near, keywords=keywords))


def _near(connection: "Connection", index: Index, query: SourceQuery) -> Near:
    """Return the pools of the nearest passages. Raises `StorageError` for an unsound query vector."""
    with _one_moment(connection):
        vector = None if query.vector is None else query_vector(connection, index, query.embedder, query.vector)
        near = Near(vector, 0, 0, {})
        for partition, passages in _partitions(connection, index, query):
            near = near._replace(passages=near.passages + passages)
            if query.vector is not None:
                missing = passages - _members(connection, index, vector, partition)
                near = near._replace(unreachable=near.unreachable + missing)
            if vector is not None:
                near.found.update(nearest_in(connection, index, vector, partition, EVERYTHING, query.pool))
        return near


def _members(connection: "Connection", index: Index, vector: QueryVector | None, partition: int) -> int:
    """Return how many passages of a partition have a vector in the query's space."""
    if vector is None:
        return 0
    row = connection.execute(index.statements["members"], (vector.space.id, partition)).fetchone()
    return 0 if row is None else int(row[0])


def _matching(connection: "Connection", index: Index, query: SourceQuery) -> Keywords:
    """Return the pools of the best keyword matches."""
    tokens = usable(query.tokens)
    keywords = Keywords({}, dict.fromkeys(tokens, 0))
    if not tokens:
        return keywords
    with _one_moment(connection):
        for partition, passages in _partitions(connection, index, query):
            counts = index.term_counts.count(connection, index.statements, partition, passages, tokens)
            for place, items in counts:
                keywords.frequency[tokens[place]] += min(items, passages)
            words = rarest(tokens, counts)
            keywords.found.update(matches_in(connection, index.statements, partition, words, EVERYTHING, query.pool))
    return keywords


def _join(connection: "Connection", index: Index, query: SourceQuery, near: Near, keywords: Keywords) -> SourceResult:
    """Return the union of the pools with the neighbours of all in it; what is gone by now is left out."""
    with _one_moment(connection):
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


@contextmanager
def _one_moment(connection: "Connection") -> Generator[None]:
    """Have all that is read in the block be of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite undoes one itself where it has no memory
            connection.execute("ROLLBACK")


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
