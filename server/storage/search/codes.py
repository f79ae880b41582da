"""Codes of the vectors of large partitions, in a vec0 table that takes the place of the exact one: derived, like that.

Comparing 100,000 vectors takes longer than an answer may. From `LARGE` vectors on a partition has codes too: a search
takes the nearest codes, several hundred, and compares only their vectors. Rows are spread over buckets, because vec0
finds few of many faster than many of many: of each bucket it gives its nearest few.

A code is the signs of random rotations of a vector; its Hamming distance follows the angle. Signs of the vector's own
numbers would do the same with more loss: their variances differ, and a rotation evens them out. It is a Walsh-Hadamard
transform after random flips of sign, n log n additions (Ailon and Chazelle, "The fast Johnson-Lindenstrauss transform",
2009; signs of projections as codes: Charikar, "Similarity estimation techniques from rounding algorithms", 2002).
"""

import hashlib
from array import array
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.sqlite.statements import code_table, queries
from swarm_memory.server.storage.search.vectors import Quantization, Space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from swarm_memory.server.storage.engine.driver import Connection

LARGE = 20_000
"""A partition with so many vectors gets codes; it keeps them when it shrinks, until the index is rebuilt."""

BUCKETS = 32
MIN_RESCORED = 400
RESCORED_FOR_ONE = 8
"""Vectors that are compared for each that is wanted, and at least so many in all.

With 400 they hold 99.7 % of the exact ten nearest of 100,000 and 96 % of the fifty nearest; with 800, 99.9 and 98 %.
"""

_BATCH = 10_000
_QUERIES = queries("codes")
_ALL_BUCKETS = ", ".join(map(str, range(BUCKETS)))

MIN_BITS = 512
"""Codes are at least so long, whatever the dimensions: short vectors are rotated more than once."""

_MANY = 32
"""From so many vectors on numpy is worth its import."""


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
) -> "Iterator[list[tuple[int, int, int, bytes]]]":
    """Yield (position, partition, bucket, code) of the vectors of a partition, in batches."""
    values = {"partition": partition, "model": space.model, "dims": space.dims}
    rows = connection.execute(scan, {**values, "domain": None, "tags": "[]", "exclude_task": None})
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
    space: Space,
    encoded: bytes,
    partition: int,
    statement: str,
    wanted: int,
    narrowed: "Mapping[str, Any]",
) -> list[tuple[int, float]]:
    """Return (position, cosine distance) of about the nearest vectors of a partition that has codes, nearest first.

    `narrowed` holds the parameters of a statement that looks among some.
    """
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
