"""The two legs of a search within one partition of an index, by the index's own statements; they only read.

Whether memories or passages are indexed there they do not know.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.server.storage.search.coded import is_coded, nearest_by_codes
from swarm_memory.server.storage.search.index import Index, find_space
from swarm_memory.server.storage.search.tokens import match_any
from swarm_memory.server.storage.search.vectors import Space, check_vector, cosines, encode
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

MAX_NEAREST = 4096
"""What sqlite-vec gives at most."""

MAX_QUERY_TOKENS = 64
MAX_POSTINGS = 2000
SURE_TOKENS = 4
SURE_POSTINGS = 8000
"""The rarest tokens of a query are searched: the first, up to four that stand in 8,000 items together, and as many as
stand in 2,000 items together, at most 64.

Ranking costs as much as there are such places, and the commonest tokens of a long prompt hardly change the order. In a
bank of a few hundred items every token is searched.
"""


class Narrowed(NamedTuple):
    """What narrows the search of one partition."""

    values: Mapping[str, Any]
    """Parameters of the statements whose name ends in `_among`."""
    narrows: bool
    """Whether the legs must look at the filter themselves."""
    left_out: frozenset[int]
    """Items to drop after a leg that was asked for as many more."""


EVERYTHING = Narrowed({}, False, frozenset())


class QueryVector(NamedTuple):
    """The vector side of a query: its space and its encoded vector."""

    space: Space
    encoded: bytes
    by_index: bool
    """Whether the vec0 table can be asked."""


@contextmanager
def reading(connection: "Connection") -> Generator[None]:
    """Have all that is read in the block be of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite undoes one itself where it has no memory
            connection.execute("ROLLBACK")


def query_vector(connection: "Connection", index: Index, embedder: str, vector: Vector) -> QueryVector | None:
    """Return the vector for its space; None when nothing was stored there. Raises `StorageError` for an unsound one."""
    check_vector(vector, len(vector), embedder)
    space = find_space(connection, embedder, len(vector), index.statements)
    if space is None:
        return None
    return QueryVector(space, encode(vector, space.quantization), index.searchable and not space.stale)


def members(connection: "Connection", index: Index, vector: QueryVector | None, partition: int) -> int:
    """Return how many items of a partition have a vector in the query's space."""
    if vector is None:
        return 0
    row = connection.execute(index.statements["members"], (vector.space.id, partition)).fetchone()
    return 0 if row is None else int(row[0])


def nearest_in(
    connection: "Connection", index: Index, vector: QueryVector, partition: int, narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return the cosines of the nearest items of one partition by their positions."""
    if not vector.by_index:
        return _scanned(connection, index, vector, partition, narrowed, pool)
    wanted = min(pool + len(narrowed.left_out), MAX_NEAREST)
    if is_coded(connection, vector.space, partition):
        statement = index.statements["nearest_by_codes_among" if narrowed.narrows else "nearest_by_codes"]
        space, encoded = vector.space, vector.encoded
        near = nearest_by_codes(connection, space, encoded, partition, statement, wanted, narrowed.values)
        return dict([(seq, 1.0 - distance) for seq, distance in near if seq not in narrowed.left_out][:pool])
    name = "nearest_vectors_among" if narrowed.narrows else "nearest_vectors"
    values = {**narrowed.values, "partition": partition, "vector": vector.encoded, "k": wanted}
    rows = connection.execute(vector.space.sql(index.statements[name]), values).fetchall()
    kept = [(seq, 1.0 - distance) for seq, distance in rows if seq not in narrowed.left_out]
    return dict(kept[:pool])


def _scanned(
    connection: "Connection", index: Index, vector: QueryVector, partition: int, narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return the same by comparing every vector, where the index cannot be asked."""
    space = vector.space
    values = {**narrowed.values, "partition": partition, "model": space.model, "dims": space.dims}
    rows = [
        row
        for row in connection.execute(index.statements["scan_vectors"], values).fetchall()
        if row[0] not in narrowed.left_out
    ]
    compared = cosines(vector.encoded, [blob for _, blob in rows], space.quantization)
    best = sorted(zip(compared, (seq for seq, _ in rows), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return {seq: cosine for cosine, seq in best[: min(pool, MAX_NEAREST)]}


def count_terms(
    connection: "Connection",
    index: Index,
    partition: int,
    documents: int,
    tokens: Sequence[str],
    frequency: dict[str, int],
) -> list[str]:
    """Add in how many of the partition's items each token stands; return those to search, the rarest first."""
    counts = index.term_counts.count(connection, index.statements, partition, documents, tokens)
    for position, found in counts:
        frequency[tokens[position]] += min(found, documents)
    counts.sort(key=itemgetter(1))
    places = accumulate(found for _, found in counts)
    return [
        tokens[position]
        for number, ((position, _), total) in enumerate(zip(counts, places, strict=True))
        if _is_searched(number, total)
    ]


def _is_searched(number: int, places: int) -> bool:
    """Return whether a token is searched that has so many rarer ones and stands with them in so many places."""
    most = SURE_POSTINGS if number < SURE_TOKENS else MAX_POSTINGS
    return number == 0 or (number < MAX_QUERY_TOKENS and places <= most)


def matches_in(
    connection: "Connection", index: Index, partition: int, tokens: Sequence[str], narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return the BM25 of the best items of one partition by their positions."""
    if not tokens:
        return {}
    name = "keyword_matches_among" if narrowed.narrows else "keyword_matches"
    values = {**narrowed.values, "expression": match_any(partition, tokens)}
    limit = pool + len(narrowed.left_out)
    rows = connection.execute(index.statements[name], {**values, "limit": limit}).fetchall()
    kept = [(seq, -rank) for seq, rank in rows if seq not in narrowed.left_out]
    return dict(kept[:pool])


def unreachable_notice(index: Index, vector: QueryVector | None, embedder: str, missing: int, what: str) -> list[str]:
    """Say what the vector leg could not do: that it compared one by one, that items have no vector."""
    notices: list[str] = []
    if vector is not None and not vector.by_index:
        why = "its index is not up to date" if index.searchable else f"sqlite-vec is not loaded ({index.reason})"
        notices.append(f"every vector was compared one by one: {why}")
    if missing > 0:
        notices.append(
            f"{missing} {what} have no vector of {embedder} and were searched by keywords only: "
            "run `swarm-memory reembed`"
        )
    return notices
