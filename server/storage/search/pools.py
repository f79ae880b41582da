"""A search of one index, of memories as of passages: what is nearest by vectors, and what matches by keywords.

Each statement sees the bank of its own moment: what came or went between two is found by one of them, or left out.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.memory import Leg
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import QueryVector, Space, check_vector, nearest_in
from swarm_memory.server.storage.search.words import (
    EVERYTHING,
    Narrowed,
    match_any,
    matches,
    rarest,
    simply_counted_below,
    usable,
)
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.sources import SourceQuery

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection


class Partition(NamedTuple):
    """A partition that holds items, as a search sees it."""

    id: int
    items: int
    embedded: int
    """Items with a vector in the query's space."""
    is_coded: bool
    counts: list[tuple[int, int]] | None
    """(place among the tokens, items that hold it); None where the partition is too large for counting them here."""


class Near(NamedTuple):
    """What was found by vectors."""

    items: int
    """In all partitions."""
    unreachable: int
    """Items without a vector in the query's space."""
    vector: QueryVector | None
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What was found by keywords."""

    found: dict[int, float]
    """BM25 by position."""
    frequency: dict[str, int]
    """Of each token that was looked up, in how many items it stands."""


def _everything(_connection: "Connection", _partitions: Sequence[Partition]) -> Narrowed:
    return EVERYTHING


@dataclass(frozen=True, slots=True)
class Search:
    """One search: in which partitions, and for what."""

    index: Index
    query: SearchQuery | SourceQuery
    where: Mapping[str, str]
    """Parameters of the statement `searched` that name the partitions."""
    narrowed: "Callable[[Connection, Sequence[Partition]], Narrowed]" = _everything

    def near(self, connection: "Connection") -> Near:
        """Return the pool of the nearest items of every partition. Raises `StorageError` for an unsound vector."""
        query = self.query
        if query.vector is not None:
            check_vector(query.vector, len(query.vector), query.embedder)
        space, partitions = self._look(connection, ())
        items = sum(partition.items for partition in partitions)
        if query.vector is None:
            return Near(items, 0, None, {})
        unreachable = items - sum(partition.embedded for partition in partitions)
        if space is None:
            return Near(items, unreachable, None, {})
        vector = QueryVector.of(query.vector, space, self.index)
        coded = {partition.id for partition in partitions if partition.is_coded}
        try:
            narrowed = self.narrowed(connection, partitions)
            ids = [partition.id for partition in partitions]
            found = nearest_in(connection, self.index, vector, ids, narrowed, query.pool, coded)
        except connection.OperationalError:
            if self._look(connection, ())[0] == space:
                raise
            return self.near(connection)  # another process dropped the space meanwhile
        return Near(items, unreachable, vector, found)

    def keywords(self, connection: "Connection") -> Keywords:
        """Return the pool of the best keyword matches of every partition."""
        tokens = usable(self.query.tokens)
        partitions = self._look(connection, tokens)[1] if tokens else []
        frequency = dict.fromkeys(tokens, 0)
        expressions: list[str] = []
        statements = self.index.statements
        for partition in partitions:
            counts = partition.counts
            if counts is None:
                counts = self.index.term_counts.count(connection, statements, partition.id, partition.items, tokens)
            for place, items in counts:
                frequency[tokens[place]] += min(items, partition.items)
            if words := rarest(tokens, counts):
                expressions.append(match_any(partition.id, words))
        narrowed = self.narrowed(connection, partitions)
        return Keywords(matches(connection, statements, expressions, narrowed, self.query.pool), frequency)

    def legs(self, near: Near, keywords: Keywords) -> tuple[Leg, ...]:
        """Return which legs answered."""
        legs: list[Leg] = []
        if self.query.vector is not None:
            by_index = self.index.searchable if near.vector is None else near.vector.by_index
            legs.append("vector" if by_index else "exact_scan")
        if keywords.frequency:
            legs.append("keyword")
        return tuple(legs)

    def notices(self, near: Near, what: str) -> tuple[str, ...]:
        """Say what the vector leg could not do: that it compared one by one, that items have no vector."""
        notices: list[str] = []
        index = self.index
        if near.vector is not None and not near.vector.by_index:
            why = "its index is not up to date" if index.searchable else f"sqlite-vec is not loaded ({index.reason})"
            notices.append(f"every vector was compared one by one: {why}")
        if near.unreachable > 0:
            notices.append(
                f"{near.unreachable} {what} have no vector of {self.query.embedder} and were searched by keywords "
                "only: run `swarm-memory reembed`"
            )
        return tuple(notices)

    def _look(self, connection: "Connection", tokens: Sequence[str]) -> tuple[Space | None, list[Partition]]:
        """Return the space of the query's vector and the partitions that hold items."""
        values = {
            **self.where,
            "model": self.query.embedder,
            "dims": 0 if self.query.vector is None else len(self.query.vector),
            "tokens": json.dumps(list(tokens), ensure_ascii=False),
            "most": simply_counted_below() if tokens else 0,
        }
        rows = connection.execute(self.index.statements["searched"], values).fetchall()
        space = None if rows[0][0] is None else Space(*rows[0][:6])
        partitions = [
            Partition(number, items, embedded, bool(is_coded), None if counts is None else json.loads(counts))
            for *_, number, items, embedded, is_coded, counts in rows
            if items
        ]
        return space, partitions
