"""Codes of vectors: bits whose distance follows the angle.

A code is the signs of random rotations of a vector; its Hamming distance follows the angle. Signs of the vector's own
numbers would do the same with more loss: their variances differ, and a rotation evens them out. It is a Walsh-Hadamard
transform after random flips of sign, n log n additions (Ailon and Chazelle, "The fast Johnson-Lindenstrauss transform",
2009; signs of projections as codes: Charikar, "Similarity estimation techniques from rounding algorithms", 2002).
"""

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Literal

Quantization = Literal["int8", "float32"]

MIN_BITS = 512
"""Codes are at least so long, whatever the dimensions: short vectors are rotated more than once."""

MANY = 32
"""From so many vectors on numpy is worth its import."""


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
    if len(blobs) < MANY:
        return [code(blob, quantization, dims) for blob in blobs]
    import numpy

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
    import hashlib

    drawn = hashlib.shake_128(b"swarm-memory codes 1").digest(rotations * size)
    flips = [1.0 if each & 1 else -1.0 for each in drawn]
    return tuple(tuple(flips[start : start + size]) for start in range(0, len(flips), size))
