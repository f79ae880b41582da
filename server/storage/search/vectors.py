"""Vectors as they are kept and compared, and a search of one index, of memories as of passages, by them and by words.

Comparing many vectors takes longer than an answer may. From `LARGE` vectors on a partition has codes, in a vec0 table
that takes the place of the exact one: a search takes the nearest codes, several hundred, and compares only their
vectors. Rows are spread over buckets, because vec0 finds few of many faster than many of many: of each bucket it
gives its nearest few. Each statement of a search sees the bank of its own moment: what came or went between two is
found by one of them, or left out.

A code is the signs of random rotations of a vector; its Hamming distance follows the angle. sqlite-vec's own codes,
the signs of the numbers themselves, hold fewer of the nearest, for the variances of the numbers differ and a rotation
evens them out: of the ten nearest among 10,000 the nearest 60 codes hold 98 % by rotation and 86 % without (the
static table; 97 and 95 % with MiniLM). It is a Walsh-Hadamard transform after random flips of sign (Ailon and
Chazelle, "The fast Johnson-Lindenstrauss transform", 2009). The codes stand in banks: they must stay the same, on
every machine.
"""

import asyncio
import json
import math
from array import array
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import shake_128
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import code_table, queries
from swarm_memory.server.storage.search.words import EVERYTHING, Narrowed, Partition, match_any, matches, rarest, usable
from swarm_memory.tools.ports.memories import Pools, SearchQuery, View

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.server.storage.search.index import Index
    from swarm_memory.tools.ports.models import Vector


Quantization = Literal["int8", "float32"]

MIN_BITS = 512
"""Codes are at least so long, whatever the dimensions: short vectors are rotated more than once."""


def code_bits(dims: int) -> int:
    """Return the length of the codes of vectors of so many dimensions, in bits; a multiple of 8."""
    return max(MIN_BITS, _padded(dims))


def codes(blobs: Sequence[bytes], quantization: Quantization, dims: int) -> list[bytes]:
    """Return the codes of encoded vectors, in order."""
    kind, size = "i1" if quantization == "int8" else "f4", _padded(dims)
    vectors = numpy.frombuffer(b"".join(blobs), dtype=kind).reshape(len(blobs), dims).astype("f8")
    rows = numpy.pad(vectors, ((0, 0), (0, size - dims)))
    signs = numpy.empty((len(blobs), code_bits(dims)), dtype=bool)
    for number, flips in enumerate(_flips(dims)):
        rows = rows * flips
        for _ in range(size.bit_length() - 1):
            even, odd = rows[:, 0::2], rows[:, 1::2]
            rows = numpy.concatenate((even + odd, even - odd), axis=1)
        signs[:, number * size : (number + 1) * size] = rows >= 0
    return [row.tobytes() for row in numpy.packbits(signs, axis=1)]


def _padded(dims: int) -> int:
    """Return the least power of two that is no less than `dims`, at least 8."""
    return max(8, 1 << (dims - 1).bit_length())


@cache
def _flips(dims: int) -> Any:
    """Return the flips of sign before each rotation, a row of them for each."""
    size = _padded(dims)
    rotations = code_bits(dims) // size
    random = numpy.frombuffer(shake_128(b"swarm-memory codes 1").digest(rotations * size), dtype="u1")
    return numpy.where(random & 1, 1.0, -1.0).reshape(rotations, size)


T = TypeVar("T")
C = TypeVar("C")

_LENGTH_TOLERANCE = 0.01
_INT8_MAX = 127

MAX_NEAREST = 4096
"""What sqlite-vec gives at most."""

LARGE = 8_000
"""A partition with so many vectors gets codes, by which it is searched in half the time; it keeps them when it shrinks,
until the index is rebuilt."""

SMALL = 5_000
"""Fewer items are searched by vectors and words one after the other."""

BUCKETS = 32
MIN_RESCORED = 400
RESCORED_FOR_ONE = 8
"""Vectors that are compared for each that is wanted, and at least so many in all.

With 400 they hold 99.7 % of the exact ten nearest of 100,000 and 96 % of the fifty nearest; with 800, 99.9 and 98 %.
"""

_BATCH = 10_000
_QUERIES, _MEMORIES = queries("codes"), queries("memories")
_ALL_BUCKETS = ", ".join(map(str, range(BUCKETS)))


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
        """Fill the space's tables and the function that makes its vectors into a query."""
        function = "vec_int8" if self.quantization == "int8" else "vec_f32"
        query = query.replace("{vectors}", self.table).replace("{codes}", f"codes_{self.table}")
        return query.replace("{element}", function)


def check_vector(vector: "Vector", dims: int, model: str) -> None:
    """Raise `StorageError` unless the vector has so many numbers, all finite, and unit length.

    sqlite-vec itself takes anything, and a few rows of NaN are then the nearest to every query.
    """
    if len(vector) != dims:
        raise StorageError(f"a vector of {model} has {len(vector)} numbers, not {dims}: it was refused")
    length = math.hypot(*vector)
    if not abs(length - 1.0) <= _LENGTH_TOLERANCE:
        raise StorageError(f"a vector of {model} has length {length:.4g}, not 1: it was refused")


def encode(vector: "Vector", quantization: Quantization) -> bytes:
    """Return the bytes of a unit vector: float32, or 8-bit with the greatest number at ±127.

    The scale of an 8-bit vector is not kept: a cosine does not depend on it.
    """
    return _encoded([vector], quantization)[0]


def encode_all(vectors: "Sequence[Vector]", space: Space) -> list[bytes]:
    """Return the bytes of vectors as `encode` gives them, many at once. Raises `StorageError` as `check_vector`."""
    for vector in vectors:
        check_vector(vector, space.dims, space.model)
    return _encoded(vectors, space.quantization) if vectors else []


def _encoded(vectors: "Sequence[Vector]", quantization: Quantization) -> list[bytes]:
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
    connection: "Connection",
    index: "Index",
    views: Sequence[View],
    seqs: Sequence[int],
    known_space: Space | None,
    known_rows: "Sequence[tuple[int, bytes]]",
) -> dict[int, tuple[float | None, ...]]:
    """Return the cosines of items, by their positions, to each of the views.

    `known_rows` are the (position, bytes) of the vectors of `known_space`, which need not be read again.
    """
    seen: dict[int, tuple[float | None, ...]] = dict.fromkeys(seqs, ())
    for (embedder, dims), of_one in groupby(views, lambda view: (view.embedder, len(view.vector))):
        vectors = [view.vector for view in of_one]
        space, rows = known_space, known_rows
        if space is None or (embedder, dims) != (space.model, space.dims):
            space, rows = find_space(connection, embedder, dims, index.statements), ()
            if space is not None:
                asked = {"seqs": json.dumps(list(seqs)), "space_id": space.id}
                rows = connection.execute(index.statements["vectors_of_items"], asked).fetchall()
        known: dict[int, tuple[float | None, ...]] = {}
        if space is not None:
            encoded, blobs = _encoded(vectors, space.quantization), [blob for _, blob in rows]
            compared = cosines_to_each(encoded, blobs, space.quantization)
            known = dict(zip((seq for seq, _ in rows), compared, strict=True))
        nothing = (None,) * len(vectors)
        seen = {seq: before + known.get(seq, nothing) for seq, before in seen.items()}
    return seen


def find_space(
    connection: "Connection", model: str, dims: int, statements: Mapping[str, str] = _MEMORIES
) -> Space | None:
    """Return the space of a model's vectors of so many dimensions; None when nothing was ever stored in it."""
    row = connection.execute(statements["find_space"], (model, dims)).fetchone()
    return None if row is None else Space(*row)


def all_spaces(connection: "Connection", statements: Mapping[str, str] = _MEMORIES) -> list[Space]:
    """Return every space."""
    return [Space(*row) for row in connection.execute(statements["all_spaces"]).fetchall()]


class QueryVector(NamedTuple):
    """The vector side of a query: its space and its encoded vector."""

    space: Space
    encoded: bytes
    by_index: bool
    """Whether the vec0 table can be asked."""

    @classmethod
    def of(cls, vector: "Vector", space: Space, index: "Index") -> "QueryVector":
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
    connection: "Connection",
    index: "Index",
    vector: QueryVector,
    partitions: Sequence[int],
    narrowed: Narrowed,
    pool: int,
    coded: Collection[int] | None = None,
) -> dict[int, float]:
    """Return the cosines of the nearest items of each partition by their positions; `coded` are those with codes."""
    found: dict[int, float] = {}
    if not vector.by_index:
        for partition in partitions:
            found |= _scanned(connection, index, vector, partition, narrowed, pool)
        return found
    wanted = min(pool, MAX_NEAREST)
    if coded is None:
        coded = {partition for partition in partitions if is_coded(connection, vector.space, partition)}
    near: list[tuple[int, float]] = []
    exact = [partition for partition in partitions if partition not in coded] if narrowed.among is None else []
    if exact:
        values = {"partitions": json.dumps(exact), "vector": vector.encoded, "k": wanted}
        near += connection.execute(vector.space.sql(index.statements["nearest_vectors"]), values).fetchall()
    for partition in coded if narrowed.among is None else ():
        near += nearest_by_codes(connection, vector, partition, index.statements["nearest_by_codes"], wanted)
    for partition, passing in (narrowed.among or {}).items():
        if partition in coded and passing.items >= LARGE:
            statement = index.statements["nearest_by_codes_among"]
            near += nearest_by_codes(connection, vector, partition, statement, wanted, passing.seqs)
        else:
            values = {**vector.place, "among": passing.seqs, "vector": vector.encoded, "k": wanted}
            near += connection.execute(vector.space.sql(index.statements["nearest_among"]), values).fetchall()
    return {seq: 1.0 - distance for seq, distance in near}


def _scanned(
    connection: "Connection", index: "Index", vector: QueryVector, partition: int, narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return the same by comparing every vector, where the index cannot be asked."""
    values: dict[str, Any] = {**vector.place, "partition": partition}
    statement = "scan_vectors"
    if narrowed.among is not None:
        if partition not in narrowed.among:
            return {}
        values["among"], statement = narrowed.among[partition].seqs, "scan_vectors_among"
    rows = connection.execute(index.statements[statement], values).fetchall()
    compared = cosines(vector.encoded, [blob for _, blob in rows], vector.space.quantization)
    best = sorted(zip(compared, (seq for seq, _ in rows), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return {seq: cosine for cosine, seq in best[: min(pool, MAX_NEAREST)]}


def is_coded(connection: "Connection", space: Space, partition: int) -> bool:
    """Return whether the vectors of a partition have codes."""
    return connection.execute(_QUERIES["is_coded"], (space.table, partition)).fetchone() is not None


def enter_codes(connection: "Connection", space: Space, partition: int, entered: Sequence[tuple[int, bytes]]) -> None:
    """Enter the codes of vectors, given as (position, bytes), of a partition that has codes."""
    made = codes([blob for _, blob in entered], space.quantization, space.dims)
    rows = [(seq, partition, seq % BUCKETS, each) for (seq, _), each in zip(entered, made, strict=True)]
    connection.executemany(space.sql(_QUERIES["index_code"]), rows)


def leave_code(connection: "Connection", space: Space, seq: int) -> None:
    """Take the code of one vector out."""
    connection.execute(space.sql(_QUERIES["unindex_code"]), (seq,))


def give_codes(connection: "Connection", space: Space, partition: int, scan: str) -> list[int]:
    """Enter the codes of all vectors of a partition, which `scan` selects as (seq, vector); return their positions."""
    seqs: list[int] = []
    if not connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        connection.execute(code_table(space.table, code_bits(space.dims)))
    connection.execute(_QUERIES["add_coded"], (space.table, partition))
    for entered in _made(connection, space, partition, scan):
        connection.executemany(space.sql(_QUERIES["index_code"]), entered)
        seqs += [seq for seq, *_ in entered]
    return seqs


def wrong_codes(connection: "Connection", space: Space, scan: str) -> tuple[int, list[int]]:
    """Return how many codes of a space are missing or too many, and the positions of those that differ.

    They are compared with codes of the vectors that `scan` selects; all of both are read.
    """
    partitions = [partition for (partition,) in connection.execute(_QUERIES["coded_of_space"], (space.table,))]
    if not partitions:
        return 0, []
    held = {seq: rest for seq, *rest in connection.execute(space.sql(_QUERIES["all_codes"]))}
    missing, differ = 0, list[int]()
    for partition in partitions:
        for batch in _made(connection, space, partition, scan):
            for seq, *rest in batch:
                there = held.pop(seq, None)
                missing += there is None
                differ += [seq] if there is not None and there != rest else []
    return missing + len(held), differ


def _made(
    connection: "Connection", space: Space, partition: int, scan: str
) -> Iterator[list[tuple[int, int, int, bytes]]]:
    """Yield (position, partition, bucket, code) of the vectors of a partition, in batches."""
    values = {"partition": partition, "model": space.model, "dims": space.dims}
    rows = connection.execute(scan, values)
    while batch := rows.fetchmany(_BATCH):
        made = codes([blob for _, blob in batch], space.quantization, space.dims)
        yield [(seq, partition, seq % BUCKETS, each) for (seq, _), each in zip(batch, made, strict=True)]


def drop_codes(connection: "Connection", space: Space) -> None:
    """Drop every code of a space."""
    if connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        connection.execute(space.sql(_QUERIES["drop_codes"]))
        connection.execute(_QUERIES["forget_coded"], (space.table,))


def code_slots(connection: "Connection", space: Space) -> tuple[int, int]:
    """Return the slots of a space's codes and how many are live; (0, 0) without codes."""
    if not connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        return 0, 0
    slots, live = connection.execute(space.sql(_QUERIES["code_slots"])).fetchone()
    return slots or 0, live


def nearest_by_codes(
    connection: "Connection", vector: QueryVector, partition: int, statement: str, wanted: int, among: str | None = None
) -> list[tuple[int, float]]:
    """Return (position, cosine distance) of about the nearest vectors of a partition that has codes, nearest first.

    `among` holds the positions, a JSON list, for a statement that looks at some only.
    """
    space, encoded = vector.space, vector.encoded
    rescored = max(MIN_RESCORED, RESCORED_FOR_ONE * wanted)
    values = {
        **vector.place,
        "among": among,
        "code": codes([encoded], space.quantization, space.dims)[0],
        "vector": encoded,
        "each": -(-rescored // BUCKETS),
        "partition": partition,
        "k": wanted,
    }
    sql = space.sql(statement).replace("{buckets}", _ALL_BUCKETS)
    return connection.execute(sql, values).fetchall()


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


class _Read(Protocol):
    """Runs a function on a thread that has a connection."""

    def __call__(self, function: "Callable[[Connection], T]", /) -> Coroutine[Any, Any, T]: ...


_Looked: TypeAlias = tuple[Space | None, list[Partition]]
_Join: TypeAlias = "Callable[[Connection, Search, Near, Keywords], T]"


@dataclass(frozen=True, slots=True)
class Search:
    """One search: in which partitions, and for what."""

    index: "Index"
    query: SearchQuery
    where: Mapping[str, str]
    """Parameters of the statement `searched` that name the partitions."""
    narrowed: "Callable[[Connection, Sequence[Partition]], Narrowed]" = lambda _connection, _partitions: EVERYTHING

    async def run(self, read: "_Read", read_beside: "_Read", join: "_Join[T]") -> T:
        """Return what `join` makes of both pools.

        Few items are searched by one call, as handing over to a thread costs more; many by words and vectors at once.
        """
        if self.index.items < SMALL:

            def searched(connection: "Connection") -> T:
                looked = self._look(connection)
                return join(connection, self, self.near(connection, looked), self.keywords(connection, looked))

            return await read(searched)
        near, keywords = await asyncio.gather(read(self.near), read_beside(self.keywords))
        if near.vector is None and self.query.vector is not None and keywords.found:
            near = await read(self.near)  # the bank's first vector came between the two looks
        return await read(lambda connection: join(connection, self, near, keywords))

    def near(self, connection: "Connection", looked: "_Looked | None" = None) -> Near:
        """Return the pool of the nearest items of every partition. Raises `StorageError` for an unsound vector."""
        query = self.query
        if query.vector is not None:
            check_vector(query.vector, len(query.vector), query.embedder)
        space, partitions = looked or self._look(connection)
        items = self.index.items = sum(partition.items for partition in partitions)
        unreachable = 0 if query.vector is None else items - sum(partition.embedded for partition in partitions)
        if query.vector is None or space is None:
            return Near(items, unreachable, None, {})
        vector = QueryVector.of(query.vector, space, self.index)
        coded = {partition.id for partition in partitions if partition.is_coded}
        try:
            narrowed = self.narrowed(connection, partitions)
            ids = [partition.id for partition in partitions]
            found = nearest_in(connection, self.index, vector, ids, narrowed, query.pool, coded)
        except connection.OperationalError:
            if self._look(connection)[0] == space:
                raise
            return self.near(connection)  # another process dropped the space meanwhile
        return Near(items, unreachable, vector, found)

    def keywords(self, connection: "Connection", looked: "_Looked | None" = None) -> Keywords:
        """Return the pool of the best keyword matches of every partition."""
        tokens = usable(self.query.tokens)
        partitions = (looked or self._look(connection))[1] if tokens else []
        frequency = dict.fromkeys(tokens, 0)
        expressions: dict[int, str] = {}
        statements = self.index.statements
        for partition in partitions:
            counts = self.index.term_counts.count(connection, statements, partition, tokens)
            for place, items in counts:
                frequency[tokens[place]] += min(items, partition.items)
            if words := rarest(tokens, counts):
                expressions[partition.id] = match_any(partition.id, words)
        narrowed = self.narrowed(connection, partitions)
        if narrowed.among is not None:
            expressions = {number: each for number, each in expressions.items() if number in narrowed.among}
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

    def _look(self, connection: "Connection") -> "_Looked":
        """Return the space of the query's vector and the partitions that hold items."""
        values = {
            **self.where,
            "model": self.query.embedder,
            "dims": 0 if self.query.vector is None else len(self.query.vector),
        }
        rows = connection.execute(self.index.statements["searched"], values).fetchall()
        space = None if rows[0][0] is None else Space(*rows[0][:6])
        partitions = [
            Partition(number, items, embedded, bool(is_coded), state, newest)
            for *_, number, items, embedded, is_coded, state, newest in rows
            if items
        ]
        return space, partitions
