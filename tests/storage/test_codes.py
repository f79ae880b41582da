"""Binary codes: one truth however many are made at once, and distances that follow the angle."""

import math
import random
from array import array
from hashlib import sha256

import pytest

from swarm_memory.schema.errors import StorageError
from swarm_memory.server.storage.search.vectors import Quantization, Space, code_bits, codes, encode, encode_all


def unit_vector(rng: random.Random, dims: int) -> "array[float]":
    numbers = [rng.gauss(0, 1 / (1 + at)) for at in range(dims)]
    length = math.sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers])


def distance(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


KEPT = {("int8", 384): "c151fe2a434ab992", ("float32", 100): "623ba93b5eddc669"}
"""Hashes of codes as banks hold them."""


def code(blob: bytes, dims: int) -> bytes:
    (made,) = codes([blob], "float32", dims)
    return made


@pytest.mark.parametrize(("quantization", "dims"), KEPT)
def test_codes_stay_what_they_are_in_banks(quantization: Quantization, dims: int) -> None:
    rng = random.Random(dims)
    blobs = [encode(unit_vector(rng, dims), quantization) for _ in range(40)]
    made = codes(blobs, quantization, dims)
    assert {len(each) * 8 for each in made} == {code_bits(dims)}
    assert sha256(b"".join(made)).hexdigest()[:16] == KEPT[quantization, dims]


def test_distances_follow_the_angle() -> None:
    rng = random.Random(1)
    base = unit_vector(rng, 256)
    for share in (0.1, 0.4, 0.8):
        away = unit_vector(rng, 256)
        mixed = [(1 - share) * a + share * b for a, b in zip(base, away, strict=True)]
        length = math.sqrt(sum(number * number for number in mixed))
        other = array("f", [number / length for number in mixed])
        cosine = sum(a * b for a, b in zip(base, other, strict=True))
        expected = math.acos(min(1.0, cosine)) / math.pi * code_bits(256)
        found = distance(code(encode(base, "float32"), 256), code(encode(other, "float32"), 256))
        assert abs(found - expected) < 60, (share, found, expected)


@pytest.mark.parametrize("quantization", ["int8", "float32"])
def test_one_by_one_and_many_at_once_vectors_are_encoded_alike(quantization: Quantization) -> None:
    rng = random.Random(5)
    vectors = [unit_vector(rng, 256) for _ in range(100)]
    space = Space(1, "static", 256, quantization, 0, "vec_")
    assert encode_all(vectors, space) == [encode(vector, quantization) for vector in vectors]


@pytest.mark.parametrize("bad", [[math.nan] * 8, [2.0] + [0.0] * 7, [0.0] * 8, [1.0]])
@pytest.mark.parametrize("others", [0, 100])
def test_among_few_and_many_an_unsound_vector_is_refused(bad: list[float], others: int) -> None:
    rng = random.Random(5)
    vectors = [*(unit_vector(rng, 8) for _ in range(others)), array("f", bad)]
    with pytest.raises(StorageError, match="refused"):
        encode_all(vectors, Space(1, "static", 8, "int8", 0, "vec_"))
