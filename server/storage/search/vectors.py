"""Vectors as they are kept: checked, one byte or four for each number. It knows no table."""

import math
from array import array
from operator import mul
from typing import TYPE_CHECKING, Literal, NamedTuple

from swarm_memory.schema.errors import StorageError

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

Quantization = Literal["int8", "float32"]

_LENGTH_TOLERANCE = 0.01
_INT8_MAX = 127


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
