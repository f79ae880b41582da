"""Near pairs among many vectors."""

import math
import struct
from array import array
from collections.abc import Sequence
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from swarm_memory.tools.consolidate.pairs import MAX_PARTNERS, NEAREST, Pair, near_pairs


def _rows(count: int, dimensions: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)


def _silent(done: int, total: int) -> None:
    del done, total


def _near(directions: Sequence[bytes], floor: float, element: Literal["int8", "float32"] = "float32") -> list[Pair]:
    return near_pairs(directions, element, floor, _silent)


def _encoded(row: list[float], element: str) -> bytes:
    scale = 127 / max(map(abs, row))
    return (
        array("b", [round(each * scale) for each in row]).tobytes() if element == "int8" else array("f", row).tobytes()
    )


def _by_hand(directions: Sequence[bytes], code: str, floor: float) -> set[tuple[int, int]]:
    rows = [struct.unpack(f"<{len(each) // struct.calcsize(code)}{code}", each) for each in directions]
    found: set[tuple[int, int]] = set()
    for second, one in enumerate(rows):
        for first, other in enumerate(rows[:second]):
            product = math.fsum(a * b for a, b in zip(one, other, strict=True))
            if product / (math.hypot(*one) * math.hypot(*other)) >= floor:
                found.add((first, second))
    return found


@settings(max_examples=25)
@given(st.integers(2, 24), st.integers(0, 2**16), st.floats(0.2, 0.95), st.sampled_from(["int8", "float32"]))
def test_the_exact_comparison_finds_what_a_comparison_by_hand_finds(
    count: int, seed: int, floor: float, element: Literal["int8", "float32"]
) -> None:
    numbers: list[list[float]] = _rows(count, 6, seed).tolist()
    directions = [_encoded(row, element) for row in numbers]
    sure, doubtful = (_by_hand(directions, "b" if element == "int8" else "f", floor + by) for by in (1e-5, -1e-5))
    found = {(pair.first, pair.second) for pair in _near(directions, floor, element)}
    assert sure <= found <= doubtful


def test_a_crowd_gives_each_member_a_limited_number_of_partners_and_always_its_leader() -> None:
    rows = _rows(1, 32, 3) + 0.05 * _rows(400, 32, 4)
    pairs = _near([rows[place].tobytes() for place in range(len(rows))], 0.87)
    by_second: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_second.setdefault(pair.second, []).append(pair)
    assert NEAREST < max(map(len, by_second.values())) <= MAX_PARTNERS
    assert set(by_second) == set(range(1, 400))
    assert all(any(pair.first == 0 for pair in own) for own in by_second.values())


def test_vectors_without_neighbours_give_nothing() -> None:
    assert _near([], 0.87, "int8") == []
    assert _near([b"\x01\x02"], 0.87, "int8") == []
    assert _near([b"\x7f\x00", b"\x00\x7f", b"\x81\x00"], 0.87, "int8") == []


def test_only_new_vectors_are_compared_with_the_others_and_among_each_other() -> None:
    rows = [_rows(1, 16, 5)[0].tobytes()] * 4
    pairs = near_pairs(rows, "float32", 0.9, _silent, [False, True, False, True])
    assert {(pair.first, pair.second) for pair in pairs} == {(0, 1), (1, 2), (0, 3), (1, 3), (2, 3)}
