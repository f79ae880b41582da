"""Vectors as they are kept and compared, and codes of them where a partition is large.

Comparing 100,000 vectors takes longer than an answer may. From `LARGE` vectors on a partition has codes, in a vec0
table that takes the place of the exact one: a search takes the nearest codes, several hundred, and compares only their
vectors. Rows are spread over buckets, because vec0 finds few of many faster than many of many: of each bucket it gives
its nearest few.

A code is the signs of random rotations of a vector; its Hamming distance follows the angle. Signs of the vector's own
numbers would do the same with more loss: their variances differ, and a rotation evens them out. It is a Walsh-Hadamard
transform after random flips of sign, n log n additions (Ailon and Chazelle, "The fast Johnson-Lindenstrauss transform",
2009; signs of projections as codes: Charikar, "Similarity estimation techniques from rounding algorithms", 2002).
"""

import hashlib
import json
import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.sqlite.statements import code_table, queries
from swarm_memory.server.storage.search.words import EVERYTHING, Narrowed

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.server.storage.search.index import Index
    from swarm_memory.tools.ports.models import Vector

Quantization = Literal["int8", "float32"]

_LENGTH_TOLERANCE = 0.01
_INT8_MAX = 127

MAX_NEAREST = 4096
"""What sqlite-vec gives at most."""

LARGE = 20_000
"""A partition with so many vectors gets codes; it keeps them when it shrinks, until the index is rebuilt."""

BUCKETS = 32
MIN_RESCORED = 400
RESCORED_FOR_ONE = 8
"""Vectors that are compared for each that is wanted, and at least so many in all.

With 400 they hold 99.7 % of the exact ten nearest of 100,000 and 96 % of the fifty nearest; with 800, 99.9 and 98 %.
"""

_BATCH = 10_000
_QUERIES, _MEMORIES = queries("codes"), queries("memories")
_ALL_BUCKETS = ", ".join(map(str, range(BUCKETS)))

MIN_BITS = 512
"""Codes are at least so long, whatever the dimensions: short vectors are rotated more than once."""

_MANY = 32
"""From so many vectors on numpy is worth its import."""


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


def check_vector(vector: "Vector", dims: int, model: str) -> None:
    """Raise `StorageError` unless the vector has so many numbers, all finite, and unit length.

    sqlite-vec itself takes anything, and a few rows of NaN are then the nearest to every query.
    """
    if len(vector) != dims:
        raise StorageError(f"a vector of {model} has {len(vector)} numbers, not {dims}: it was refused")
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not abs(length - 1.0) <= _LENGTH_TOLERANCE:
        raise StorageError(f"a vector of {model} has length {length:.4g}, not 1: it was refused")


def encode(vector: "Vector", quantization: Quantization) -> bytes:
    """Return the bytes of a unit vector: float32, or 8-bit with the greatest number at ±127.

    The scale of an 8-bit vector is not kept: a cosine does not depend on it.
    """
    if quantization == "float32":
        return array("f", vector).tobytes()
    scale = _INT8_MAX / max(max(vector), -min(vector))
    return array("b", [round(number * scale) for number in vector]).tobytes()


def decode(blob: bytes, quantization: Quantization) -> "Vector":
    """Return the unit vector of bytes that `encode` made."""
    if quantization == "float32":
        return array("f", blob)
    numbers = array("b", blob).tolist()
    length = math.hypot(*numbers)
    return array("f", [number / length for number in numbers])


def cosines(query: bytes, blobs: list[bytes], quantization: Quantization) -> list[float]:
    """Return the cosine of one encoded vector to each of many. Uses numpy where it is there."""
    if not blobs:
        return []
    code = "b" if quantization == "int8" else "f"
    try:
        import numpy
    except ImportError:
        own = array(code, query)
        length = math.sqrt(sum(map(mul, own, own)))
        return [_cosine(own, length, array(code, blob)) for blob in blobs]
    matrix = numpy.frombuffer(b"".join(blobs), dtype="i1" if code == "b" else "f4").reshape(len(blobs), -1)
    wide = matrix.astype("f4")
    own_wide = numpy.frombuffer(query, dtype=matrix.dtype).astype("f4")
    lengths = numpy.sqrt((wide * wide).sum(axis=1)) * numpy.sqrt((own_wide * own_wide).sum())
    return [float(value) for value in (wide @ own_wide) / lengths]


def _cosine(own: "array[int] | array[float]", length: float, other: "array[int] | array[float]") -> float:
    return sum(map(mul, own, other)) / (length * math.sqrt(sum(map(mul, other, other))))


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


def query_vector(connection: "Connection", index: "Index", embedder: str, vector: "Vector") -> QueryVector | None:
    """Return the vector for its space; None when nothing was stored there. Raises `StorageError` for an unsound one."""
    check_vector(vector, len(vector), embedder)
    space = find_space(connection, embedder, len(vector), index.statements)
    return None if space is None else QueryVector.of(vector, space, index)


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
    wanted = min(pool + len(narrowed.left_out), MAX_NEAREST)
    ending = "_among" if narrowed.narrows else ""
    if coded is None:
        coded = {partition for partition in partitions if is_coded(connection, vector.space, partition)}
    exact = [partition for partition in partitions if partition not in coded]
    near: list[tuple[int, float]] = []
    if exact:
        values = {**narrowed.values, "partitions": json.dumps(exact), "vector": vector.encoded, "k": wanted}
        near += connection.execute(vector.space.sql(index.statements[f"nearest_vectors{ending}"]), values).fetchall()
    statement = index.statements[f"nearest_by_codes{ending}"]
    for partition in coded:
        near += nearest_by_codes(connection, vector, partition, statement, wanted, narrowed.values)
    if narrowed.left_out:
        kept = sorted((pair for pair in near if pair[0] not in narrowed.left_out), key=itemgetter(1))
        near = kept[: pool * len(partitions)]
    return {seq: 1.0 - distance for seq, distance in near}


def _scanned(
    connection: "Connection", index: "Index", vector: QueryVector, partition: int, narrowed: Narrowed, pool: int
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


def is_coded(connection: "Connection", space: Space, partition: int) -> bool:
    """Return whether the vectors of a partition have codes."""
    return connection.execute(_QUERIES["is_coded"], (space.table, partition)).fetchone() is not None


def enter_code(connection: "Connection", space: Space, seq: int, partition: int, blob: bytes) -> None:
    """Enter the code of one vector of a partition that has codes."""
    made = code(blob, space.quantization, space.dims)
    connection.execute(_sql(space, "index_code"), (seq, partition, seq % BUCKETS, made))


def leave_code(connection: "Connection", space: Space, seq: int) -> None:
    """Take the code of one vector out."""
    connection.execute(_sql(space, "unindex_code"), (seq,))


def give_codes(connection: "Connection", space: Space, partition: int, scan: str) -> list[int]:
    """Enter the codes of all vectors of a partition, which `scan` selects as (seq, vector); return their positions."""
    seqs: list[int] = []
    if not connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        connection.execute(code_table(space.table, code_bits(space.dims)))
    connection.execute(_QUERIES["add_coded"], (space.table, partition))
    for entered in _made(connection, space, partition, scan):
        connection.executemany(_sql(space, "index_code"), entered)
        seqs += [seq for seq, *_ in entered]
    return seqs


def wrong_codes(connection: "Connection", space: Space, scan: str) -> tuple[int, list[int]]:
    """Return how many codes of a space are missing or too many, and the positions of those that differ.

    They are compared with codes of the vectors that `scan` selects; all of both are read.
    """
    partitions = [partition for (partition,) in connection.execute(_QUERIES["coded_of_space"], (space.table,))]
    if not partitions:
        return 0, []
    held = {seq: rest for seq, *rest in connection.execute(_sql(space, "all_codes"))}
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
    rows = connection.execute(scan, {**EVERYTHING.values, **values})
    while batch := rows.fetchmany(_BATCH):
        made = codes([blob for _, blob in batch], space.quantization, space.dims)
        yield [(seq, partition, seq % BUCKETS, each) for (seq, _), each in zip(batch, made, strict=True)]


def drop_codes(connection: "Connection", space: Space) -> None:
    """Drop every code of a space."""
    if connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        connection.execute(_sql(space, "drop_codes"))
        connection.execute(_QUERIES["forget_coded"], (space.table,))


def code_slots(connection: "Connection", space: Space) -> tuple[int, int]:
    """Return the slots of a space's codes and how many are live; (0, 0) without codes."""
    if not connection.execute(_QUERIES["coded_of_space"], (space.table,)).fetchone():
        return 0, 0
    slots, live = connection.execute(_sql(space, "code_slots")).fetchone()
    return slots or 0, live


def nearest_by_codes(
    connection: "Connection",
    vector: QueryVector,
    partition: int,
    statement: str,
    wanted: int,
    narrowed: Mapping[str, Any],
) -> list[tuple[int, float]]:
    """Return (position, cosine distance) of about the nearest vectors of a partition that has codes, nearest first.

    `narrowed` holds the parameters of a statement that looks among some.
    """
    space, encoded = vector.space, vector.encoded
    rescored = max(MIN_RESCORED, RESCORED_FOR_ONE * wanted)
    values: Mapping[str, Any] = {
        **narrowed,
        "code": code(encoded, space.quantization, space.dims),
        "vector": encoded,
        "each": -(-rescored // BUCKETS),
        "partition": partition,
        "model": space.model,
        "dims": space.dims,
        "k": wanted,
    }
    sql = space.sql(statement).replace("{codes}", f"codes_{space.table}").replace("{buckets}", _ALL_BUCKETS)
    return connection.execute(sql, values).fetchall()


def _sql(space: Space, name: str) -> str:
    return _QUERIES[name].replace("{codes}", f"codes_{space.table}")


def code_bits(dims: int) -> int:
    """Return the length of the codes of vectors of so many dimensions, in bits; a multiple of 8."""
    return max(MIN_BITS, _padded(dims))


def code(blob: bytes, quantization: Quantization, dims: int) -> bytes:
    """Return the code of one encoded vector."""
    numbers: Sequence[float] = array("b" if quantization == "int8" else "f", blob)
    row = [*map(float, numbers), *([0.0] * (_padded(dims) - dims))]
    signs: list[float] = []
    for flips in _flips(dims):
        row = _transformed([number * flip for number, flip in zip(row, flips, strict=True)])
        signs += row
    return int("".join("1" if number >= 0 else "0" for number in signs), 2).to_bytes(code_bits(dims) // 8, "big")


def codes(blobs: Sequence[bytes], quantization: Quantization, dims: int) -> list[bytes]:
    """Return the codes of encoded vectors, in order: the same as `code` gives for each, many at once."""
    if len(blobs) < _MANY:
        return [code(blob, quantization, dims) for blob in blobs]
    try:
        import numpy
    except ImportError:
        return [code(blob, quantization, dims) for blob in blobs]
    kind = "i1" if quantization == "int8" else "f4"
    rows = numpy.frombuffer(b"".join(blobs), dtype=kind).reshape(len(blobs), dims).astype("f8")
    rows = numpy.pad(rows, ((0, 0), (0, _padded(dims) - dims)))
    size = _padded(dims)
    signs = numpy.empty((len(blobs), code_bits(dims)), dtype=bool)
    for number, flips in enumerate(_flips(dims)):
        rows = rows * numpy.array(flips)
        for _ in range(size.bit_length() - 1):
            even, odd = rows[:, 0::2], rows[:, 1::2]
            rows = numpy.concatenate((even + odd, even - odd), axis=1)
        signs[:, number * size : (number + 1) * size] = rows >= 0
    return [row.tobytes() for row in numpy.packbits(signs, axis=1)]


def _transformed(row: list[float]) -> list[float]:
    """Return the Walsh-Hadamard transform, unscaled, its numbers in an order that is the same for every row."""
    for _ in range(len(row).bit_length() - 1):
        even, odd = row[0::2], row[1::2]
        row = [a + b for a, b in zip(even, odd, strict=True)] + [a - b for a, b in zip(even, odd, strict=True)]
    return row


def _padded(dims: int) -> int:
    """Return the least power of two that is no less than `dims`, at least 8."""
    return max(8, 1 << (dims - 1).bit_length())


@cache
def _flips(dims: int) -> tuple[tuple[float, ...], ...]:
    """Return the flips of sign before each rotation: the same on every machine, for ever."""
    size = _padded(dims)
    rotations = code_bits(dims) // size
    drawn = hashlib.shake_128(b"swarm-memory codes 1").digest(rotations * size)
    flips = [1.0 if each & 1 else -1.0 for each in drawn]
    return tuple(tuple(flips[start : start + size]) for start in range(0, len(flips), size))
