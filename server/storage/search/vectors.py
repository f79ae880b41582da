"""Vectors as they are kept and compared; and a search of one index, of memories or passages, by them and by words."""

import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.search.words import (
    Narrowed,
    Partition,
    match_any,
    matches,
    rarest,
    term_counts,
    usable,
)
from swarm_memory.tools.ports.memories import Pools, SearchQuery, View
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.search.index import Index

Quantization = Literal["int8", "float32"]

T = TypeVar("T")
C = TypeVar("C")

_LENGTH_TOLERANCE = 0.01
_INT8_MAX = 127

MAX_NEAREST = 4096
"""What sqlite-vec gives at most."""

_MEMORIES = queries("memories")


class Space(NamedTuple):
    """A model's vectors of one number of dimensions."""

    id: int
    model: str
    dims: int
    quantization: Quantization
    stale: int
    """1: vectors were written without sqlite-vec, so that the index lacks them."""
    prefix: str
    """How the names of the vector tables of its index begin."""

    @property
    def table(self) -> str:
        """The name of its vec0 table."""
        return f"{self.prefix}{self.id:d}"

    @property
    def element(self) -> str:
        """The type of its numbers in vec0."""
        return "int8" if self.quantization == "int8" else "float"

    def sql(self, query: str) -> str:
        """Fill the space's table and the function that makes its vectors into a query."""
        function = "vec_int8" if self.quantization == "int8" else "vec_f32"
        return query.replace("{vectors}", self.table).replace("{element}", function)


def check_vector(vector: Vector, dims: int, model: str) -> None:
    """Raise `StorageError` unless the vector has so many numbers, all finite, and unit length.

    sqlite-vec itself takes anything, and a few rows of NaN are then the nearest to every query.
    """
    if len(vector) != dims:
        raise StorageError(f"a vector of {model} has {len(vector)} numbers, not {dims}: it was refused")
    length = math.hypot(*vector)
    if not abs(length - 1.0) <= _LENGTH_TOLERANCE:
        raise StorageError(f"a vector of {model} has length {length:.4g}, not 1: it was refused")


def encode(vector: Vector, quantization: Quantization) -> bytes:
    """Return the bytes of a unit vector: float32, or 8-bit with the greatest number at ±127.

    The scale of an 8-bit vector is not kept: a cosine does not depend on it.
    """
    return _encoded([vector], quantization)[0]


def encode_all(vectors: Sequence[Vector], space: Space) -> list[bytes]:
    """Return the bytes of vectors as `encode` gives them, many at once. Raises `StorageError` as `check_vector`."""
    for vector in vectors:
        check_vector(vector, space.dims, space.model)
    return _encoded(vectors, space.quantization) if vectors else []


def _encoded(vectors: Sequence[Vector], quantization: Quantization) -> list[bytes]:
    if quantization == "float32":
        return [row.tobytes() for row in numpy.array(vectors, dtype="f4")]
    rows = numpy.array(vectors, dtype="f8")
    scaled = rows * (_INT8_MAX / numpy.abs(rows).max(axis=1, keepdims=True))
    return [row.tobytes() for row in numpy.rint(scaled).astype("i1")]


def decode(blob: bytes, quantization: Quantization) -> Sequence[float]:
    """Return the numbers of bytes that `encode` made: 8-bit ones are not of unit length."""
    return array("b" if quantization == "int8" else "f", blob)


def cosines(query: bytes, blobs: Sequence[bytes], quantization: Quantization) -> list[float]:
    """Return the cosine of one encoded vector to each of many."""
    return [own for (own,) in cosines_to_each([query], blobs, quantization)]


def cosines_to_each(
    queries: Sequence[bytes], blobs: Sequence[bytes], quantization: Quantization
) -> list[tuple[float, ...]]:
    """Return for each of many encoded vectors its cosines to some."""
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
    """Return the cosines of items, by their positions, to each of the views."""
    seen: dict[int, tuple[float | None, ...]] = dict.fromkeys(seqs, ())
    for (embedder, dims), of_one in groupby(views, lambda view: (view.embedder, len(view.vector))):
        vectors = [view.vector for view in of_one]
        space = find_space(connection, embedder, dims, index.statements)
        known: dict[int, tuple[float | None, ...]] = {}
        if space is not None:
            asked = {"seqs": json.dumps(list(seqs)), "space_id": space.id}
            kept = dict(connection.execute(index.statements["vectors_of_items"], asked).fetchall())
            encoded = _encoded(vectors, space.quantization)
            known = dict(zip(kept, cosines_to_each(encoded, [*kept.values()], space.quantization), strict=True))
        nothing = (None,) * len(vectors)
        seen = {seq: before + known.get(seq, nothing) for seq, before in seen.items()}
    return seen


def find_space(
    connection: Connection, model: str, dims: int, statements: Mapping[str, str] = _MEMORIES
) -> Space | None:
    """Return the space of a model's vectors of so many dimensions; None when nothing was ever stored in it."""
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
    """Whether the vec0 table can be asked."""

    @classmethod
    def of(cls, vector: Vector, space: Space, index: "Index") -> "QueryVector":
        """Return a vector that belongs to a space."""
        return cls(space, encode(vector, space.quantization), index.searchable and not space.stale)

    @property
    def place(self) -> dict[str, Any]:
        """The parameters of a statement that name its space."""
        return {"model": self.space.model, "dims": self.space.dims}


def kept_cosines(vector: QueryVector | None, blobs: Sequence[bytes | None]) -> list[float | None]:
    """Return the cosine of each kept vector to the query's; None where there is none."""
    if vector is None:
        return [None] * len(blobs)
    found = iter(cosines(vector.encoded, [blob for blob in blobs if blob is not None], vector.space.quantization))
    return [None if blob is None else next(found) for blob in blobs]


def nearest_in(
    connection: Connection,
    index: "Index",
    vector: QueryVector,
    partitions: Sequence[int],
    narrowed: Narrowed,
    pool: int,
) -> dict[int, float]:
    """Return the cosines of the nearest items of each partition by their positions."""
    found: dict[int, float] = {}
    if not vector.by_index:
        for partition in partitions:
            found |= _scanned(connection, index, vector, partition, narrowed, pool)
        return found
    values = {**vector.place, "vector": vector.encoded, "k": min(pool, MAX_NEAREST)}
    near: list[tuple[int, float]] = []
    if narrowed is None:
        values["partitions"] = json.dumps(partitions)
        near += connection.execute(vector.space.sql(index.statements["nearest_vectors"]), values).fetchall()
    for passing in (narrowed or {}).values():
        values["among"] = passing
        near += connection.execute(vector.space.sql(index.statements["nearest_among"]), values).fetchall()
    return {seq: 1.0 - distance for seq, distance in near}


def _scanned(
    connection: Connection, index: "Index", vector: QueryVector, partition: int, narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return the same by comparing every vector, where the index cannot be asked."""
    values: dict[str, Any] = {**vector.place, "partition": partition}
    statement = "scan_vectors"
    if narrowed is not None:
        if partition not in narrowed:
            return {}
        values["among"], statement = narrowed[partition], "scan_vectors_among"
    rows = connection.execute(index.statements[statement], values).fetchall()
    compared = cosines(vector.encoded, [blob for _, blob in rows], vector.space.quantization)
    best = sorted(zip(compared, (seq for seq, _ in rows), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return {seq: cosine for cosine, seq in best[: min(pool, MAX_NEAREST)]}


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


_Join: TypeAlias = "Callable[[Connection, Search, Near, Keywords], T]"


@dataclass(frozen=True, slots=True)
class Search:
    """One search: in which partitions, and for what."""

    index: "Index"
    query: SearchQuery
    where: Mapping[str, str]
    """Parameters of the statement `searched` that name the partitions."""
    narrowed: Callable[[Connection, Sequence[Partition]], Narrowed] = lambda _connection, _partitions: None

    def run(self, connection: Connection, join: "_Join[T]") -> T:
        """Return what `join` makes of both pools."""
        space, partitions = self._look(connection)
        narrowed = self.narrowed(connection, partitions)
        try:
            near = self._near(connection, space, partitions, narrowed)
        except connection.OperationalError:
            if self._look(connection)[0] == space:
                raise
            return self.run(connection, join)  # another process dropped the space meanwhile
        return join(connection, self, near, self._keywords(connection, partitions, narrowed))

    def _near(
        self, connection: Connection, space: Space | None, partitions: Sequence[Partition], narrowed: Narrowed
    ) -> Near:
        """Return the pool of the nearest items of every partition. Raises `StorageError` for an unsound vector."""
        query = self.query
        if query.vector is not None:
            check_vector(query.vector, len(query.vector), query.embedder)
        items = sum(partition.items for partition in partitions)
        unreachable = 0 if query.vector is None else items - sum(partition.embedded for partition in partitions)
        if query.vector is None or space is None:
            return Near(items, unreachable, None, {})
        vector = QueryVector.of(query.vector, space, self.index)
        ids = [partition.id for partition in partitions]
        return Near(items, unreachable, vector, nearest_in(connection, self.index, vector, ids, narrowed, query.pool))

    def _keywords(self, connection: Connection, partitions: Sequence[Partition], narrowed: Narrowed) -> Keywords:
        """Return the pool of the best keyword matches of every partition."""
        tokens = usable(self.query.tokens)
        frequency = dict.fromkeys(tokens, 0)
        expressions: dict[int, str] = {}
        statements = self.index.statements
        for partition in partitions if tokens else ():
            counts = term_counts(connection, statements, partition.id, tokens)
            for place, items in counts:
                frequency[tokens[place]] += min(items, partition.items)
            words = rarest(tokens, counts)
            if words and (narrowed is None or partition.id in narrowed):
                expressions[partition.id] = match_any(partition.id, words)
        return Keywords(matches(connection, statements, expressions, narrowed, self.query.pool), frequency)

    def answer(self, near: Near, keywords: Keywords, candidates: tuple[C, ...], what: str) -> Pools[C]:
        """Return what was found, which legs answered, and what that of the vectors could not do."""
        index, legs, notices = self.index, list[Leg](), list[str]()
        if self.query.vector is not None:
            by_index = index.searchable if near.vector is None else near.vector.by_index
            legs.append("vector" if by_index else "exact_scan")
        if keywords.frequency:
            legs.append("keyword")
        if near.vector is not None and not near.vector.by_index:
            why = "its index is not up to date" if index.searchable else f"sqlite-vec is not loaded ({index.reason})"
            notices.append(f"every vector was compared one by one: {why}")
        if near.unreachable > 0:
            notices.append(
                f"{near.unreachable} {what} have no vector of {self.query.embedder} and were searched by keywords "
                "only: run `swarm-memory bank reembed`"
            )
        return Pools(candidates, tuple(legs), near.items, keywords.frequency, tuple(notices))

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
