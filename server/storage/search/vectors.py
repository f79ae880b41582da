"""How vectors are stored and compared; and the search of one index, of memories or passages, by vectors and words."""

import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.search.words import Narrowed, Partition, in_scope, match_any, matches, rarest, usable
from swarm_memory.tools.ports.memories import Pools, SearchQuery, View
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.search.index import Index

Quantization = Literal["int8", "float32"]

C = TypeVar("C")

_LENGTH_TOLERANCE = 0.01
_INT8_MAX = 127

MAX_NEAREST = 4096
"""The most neighbors that sqlite-vec returns."""

_MEMORIES = queries("memories")


class Space(NamedTuple):
    """The vectors of one model that have the same number of dimensions."""

    id: int
    model: str
    dims: int
    quantization: Quantization
    stale: int
    """1: vectors were written without sqlite-vec, so that the index lacks them."""
    prefix: str
    """The prefix of the names of its index's vector tables."""

    @property
    def table(self) -> str:
        """The name of its vec0 table."""
        return f"{self.prefix}{self.id:d}"

    @property
    def element(self) -> str:
        """The type in vec0 of its vectors' numbers."""
        return "int8" if self.quantization == "int8" else "float"

    def sql(self, query: str) -> str:
        """Return a query with the space's table and vector function filled in."""
        function = "vec_int8" if self.quantization == "int8" else "vec_f32"
        return query.replace("{vectors}", self.table).replace("{element}", function)


def check_vector(vector: Vector, dims: int, model: str) -> None:
    """Raise `StorageError` unless the vector has `dims` numbers, all finite, and unit length.

    sqlite-vec itself accepts anything, and a few rows of NaN are then the nearest to every query.
    """
    if len(vector) != dims:
        raise StorageError(f"a vector of {model} has {len(vector)} numbers, not {dims}: it was refused")
    length = math.hypot(*vector)
    if not abs(length - 1.0) <= _LENGTH_TOLERANCE:
        raise StorageError(f"a vector of {model} has length {length:.4g}, not 1: it was refused")


def encode(vectors: Sequence[Vector], quantization: Quantization) -> list[bytes]:
    """Return the bytes of unit vectors: float32, or 8-bit with the greatest number at ±127.

    The scale of an 8-bit vector is not kept: a cosine does not depend on it.
    """
    if quantization == "float32":
        return [row.tobytes() for row in numpy.array(vectors, dtype="f4")]
    rows = numpy.array(vectors, dtype="f8")
    scaled = rows * (_INT8_MAX / numpy.abs(rows).max(axis=1, keepdims=True))
    return [row.tobytes() for row in numpy.rint(scaled).astype("i1")]


def decode(blob: bytes, quantization: Quantization) -> Sequence[float]:
    """Return the numbers in bytes that `encode` made; an 8-bit vector is not of unit length."""
    return array("b" if quantization == "int8" else "f", blob)


def cosines(queries: Sequence[bytes], blobs: Sequence[bytes], quantization: Quantization) -> list[tuple[float, ...]]:
    """Return for each vector of `blobs` its cosines to `queries`; all of them are encoded."""
    if not blobs:
        return []
    kind = "i1" if quantization == "int8" else "f4"
    asked, many = (
        numpy.frombuffer(b"".join(each), dtype=kind).reshape(len(each), -1).astype("f4") for each in (queries, blobs)
    )
    lengths = [numpy.sqrt(numpy.square(each).sum(axis=1)) for each in (many, asked)]
    return list(map(tuple, (many @ asked.T / numpy.outer(*lengths)).tolist()))


def view_cosines(
    connection: Connection, index: "Index", views: Sequence[View], seqs: Sequence[int]
) -> dict[int, tuple[float | None, ...]]:
    """Return, by position, the cosines of items to each of the views."""
    seen: dict[int, tuple[float | None, ...]] = dict.fromkeys(seqs, ())
    for (embedder, dims), of_one in groupby(views, lambda view: (view.embedder, len(view.vector))):
        vectors = [view.vector for view in of_one]
        space = find_space(connection, embedder, dims, index.statements)
        known: dict[int, tuple[float | None, ...]] = {}
        if space is not None:
            asked = {"seqs": json.dumps(list(seqs)), "space_id": space.id}
            kept = dict(connection.execute(index.statements["vectors_of_items"], asked).fetchall())
            encoded = encode(vectors, space.quantization)
            known = dict(zip(kept, cosines(encoded, [*kept.values()], space.quantization), strict=True))
        nothing = (None,) * len(vectors)
        seen = {seq: before + known.get(seq, nothing) for seq, before in seen.items()}
    return seen


def find_space(
    connection: Connection, model: str, dims: int, statements: Mapping[str, str] = _MEMORIES
) -> Space | None:
    """Return the space of a model's vectors with `dims` dimensions; None if nothing was ever stored in it."""
    row = connection.execute(statements["find_space"], (model, dims)).fetchone()
    return None if row is None else Space(*row)


def all_spaces(connection: Connection, statements: Mapping[str, str] = _MEMORIES) -> list[Space]:
    """Return every space."""
    return [Space(*row) for row in connection.execute(statements["all_spaces"]).fetchall()]


class QueryVector(NamedTuple):
    """The vector side of a query: its space and its encoded vector."""

    space: Space
    encoded: bytes
    by_index: bool
    """Whether the vec0 table can be queried."""

    @classmethod
    def of(cls, vector: Vector, space: Space, index: "Index") -> "QueryVector":
        """Return a query's vector, encoded for a space."""
        (encoded,) = encode([vector], space.quantization)
        return cls(space, encoded, index.searchable and not space.stale)


def kept_cosines(vector: QueryVector | None, blobs: Sequence[bytes | None]) -> list[float | None]:
    """Return the cosine of each stored vector to the query's; None where either is missing."""
    if vector is None:
        return [None] * len(blobs)
    found = iter(cosines([vector.encoded], [blob for blob in blobs if blob is not None], vector.space.quantization))
    return [None if blob is None else next(found)[0] for blob in blobs]


def nearest_in(
    connection: Connection,
    index: "Index",
    vector: QueryVector,
    partitions: Sequence[int],
    narrowed: Narrowed,
    pool: int,
) -> dict[int, float]:
    """Return, by position, the cosines of the nearest items of each partition."""
    most, space, found = min(pool, MAX_NEAREST), vector.space, dict[int, float]()
    values: dict[str, Any] = {"model": space.model, "dims": space.dims}
    if not vector.by_index:  # every vector is compared
        statement = index.statements["scan_vectors" if narrowed is None else "scan_vectors_among"]
        for partition in partitions if narrowed is None else [each for each in partitions if each in narrowed]:
            among = {} if narrowed is None else {"among": narrowed[partition]}
            rows = connection.execute(statement, {**values, **among, "partition": partition}).fetchall()
            compared = kept_cosines(vector, [blob for _, blob in rows])
            near = sorted((-(cosine or 0.0), seq) for cosine, (seq, _) in zip(compared, rows, strict=True))
            found |= {seq: -distance for distance, seq in near[:most]}
        return found
    values |= {"vector": vector.encoded, "k": most}
    if narrowed is None:
        asked = [("nearest_vectors", {"partitions": json.dumps(partitions)})]
    else:
        asked = [("nearest_among", {"among": passing}) for passing in narrowed.values()]
    for name, where in asked:
        rows = connection.execute(space.sql(index.statements[name]), values | where).fetchall()
        found |= {seq: 1.0 - distance for seq, distance in rows}
    return found


class SearchHits(NamedTuple):
    """What both legs of a search found, by position."""

    items: int
    """How many items all partitions hold."""
    unreachable: int
    """How many items have no vector in the query's space."""
    vector: QueryVector | None
    near: Mapping[int, float]
    """The cosines of the nearest items."""
    matching: Mapping[int, float]
    """The BM25 scores of the items that hold the rarest of the query's words."""
    frequency: Mapping[str, int]
    """For each token that was looked up, how many items contain it."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search: what it looks for, and in which partitions."""

    index: "Index"
    query: SearchQuery
    where: Mapping[str, str]
    """Parameters of the statement `searched` that name the partitions."""
    narrowed: Callable[[Connection, Sequence[Partition]], Narrowed] = lambda _connection, _partitions: None

    def run(self, connection: Connection) -> SearchHits:
        """Return the pools of both legs. Raises `StorageError` for an unsound vector."""
        query = self.query
        space, partitions = self._look(connection)
        narrowed = self.narrowed(connection, partitions)
        items, unreachable = sum(partition.items for partition in partitions), 0
        vector, near = None, dict[int, float]()
        if query.vector is not None:
            check_vector(query.vector, len(query.vector), query.embedder)
            unreachable = items - sum(partition.embedded for partition in partitions)
        if query.vector is not None and space is not None:
            vector = QueryVector.of(query.vector, space, self.index)
            ids = [partition.id for partition in partitions]
            try:
                near = nearest_in(connection, self.index, vector, ids, narrowed, query.pool)
            except connection.OperationalError:
                if self._look(connection)[0] == space:
                    raise
                return self.run(connection)  # another process dropped the space meanwhile
        return SearchHits(items, unreachable, vector, near, *self._matching(connection, partitions, narrowed))

    def _matching(
        self, connection: Connection, partitions: Sequence[Partition], narrowed: Narrowed
    ) -> tuple[dict[int, float], dict[str, int]]:
        """Return the best keyword matches of every partition, and how many items contain each word."""
        tokens = usable(self.query.tokens)
        frequency = dict.fromkeys(tokens, 0)
        expressions: dict[int, str] = {}
        statements = self.index.statements
        for partition in partitions if tokens else ():
            terms = json.dumps([in_scope(partition.id, token) for token in tokens], ensure_ascii=False)
            counts = connection.execute(statements["term_counts"], (terms,)).fetchall()
            for place, items in counts:
                frequency[tokens[place]] += min(items, partition.items)
            words = rarest(tokens, counts)
            if words and (narrowed is None or partition.id in narrowed):
                expressions[partition.id] = match_any(partition.id, words)
        return matches(connection, statements, expressions, narrowed, self.query.pool), frequency

    def answer(self, found: SearchHits, candidates: tuple[C, ...], what: str) -> Pools[C]:
        """Return the candidates, which legs answered, and notices of what the vector leg could not do."""
        index, legs, notices = self.index, list[Leg](), list[str]()
        if self.query.vector is not None:
            by_index = index.searchable if found.vector is None else found.vector.by_index
            legs.append("vector" if by_index else "exact_scan")
        if found.frequency:
            legs.append("keyword")
        if found.vector is not None and not found.vector.by_index:
            why = "its index is not up to date" if index.searchable else f"sqlite-vec is not loaded ({index.reason})"
            notices.append(f"every vector was compared one by one: {why}")
        if found.unreachable > 0:
            notices.append(
                f"{found.unreachable} {what} have no vector from {self.query.embedder} and were searched by keywords "
                "only: run `swarm-memory bank reembed`"
            )
        return Pools(candidates, tuple(legs), found.items, found.frequency, tuple(notices))

    def _look(self, connection: Connection) -> tuple[Space | None, list[Partition]]:
        """Return the space of the query's vector and the partitions that hold items."""
        values = {
            **self.where,
            "model": self.query.embedder,
            "dims": 0 if self.query.vector is None else len(self.query.vector),
        }
        rows = connection.execute(self.index.statements["searched"], values).fetchall()
        space = None if rows[0][0] is None else Space(*rows[0][:6])
        return space, [Partition(number, items, embedded) for *_, number, items, embedded in rows if items]
