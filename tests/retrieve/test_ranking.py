"""Fusion, the bank's score, diversity and the floor, as functions of numbers."""

import math
import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.retrieve.rank import (
    contenders,
    cosine,
    coverage,
    diversify,
    recency,
    token_weights,
    unit,
)

UNIT = st.floats(0, 1)


def unit_vector(values: list[float]) -> list[float]:
    length = math.hypot(*values)
    return [value / length for value in values]


def direction(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def test_recency_is_a_half_after_one_half_life_and_never_above_1() -> None:
    day = 86_400
    assert recency(0, 45) == 1
    assert recency(45 * day, 45) == pytest.approx(0.5)
    assert recency(90 * day, 45) == pytest.approx(0.25)
    assert recency(-3650 * day, 45) == 1
    assert 0 <= recency(1e12, 45) < 1e-9


def test_what_is_no_number_counts_as_nothing() -> None:
    assert [unit(value) for value in (math.nan, -1.0, 0.4, 7.0, math.inf)] == [0.0, 0.0, 0.4, 1.0, 1.0]


def test_ten_relevant_items_among_two_hundred_all_come_first() -> None:
    """Near duplicates of each other though they are, relevance dominates diversity."""
    draw = random.Random(7)
    relevant = [unit_vector([1.0, *(draw.gauss(0, 0.05) for _ in range(31))]) for _ in range(10)]
    others = [unit_vector([draw.gauss(0, 1) for _ in range(32)]) for _ in range(190)]
    scores = [0.65 * draw.uniform(0.8, 1.0) for _ in relevant] + [0.65 * draw.uniform(0.0, 0.6) for _ in others]
    chosen = diversify(scores, (relevant + others).__getitem__, 10, 0.10)
    assert sorted(index for index, _ in chosen) == list(range(10))


def test_of_two_equals_the_one_unlike_the_chosen_comes_next() -> None:
    vectors = [direction(0), direction(1), direction(90)]
    chosen = diversify([0.9, 0.8, 0.75], vectors.__getitem__, 3, 0.10)
    assert [index for index, _ in chosen] == [0, 2, 1]
    assert [penalty for _, penalty in chosen] == pytest.approx([0.0, 0.0, 0.1 * math.cos(math.radians(1))], abs=1e-6)


def test_vectors_of_any_length_are_compared_by_direction() -> None:
    draw = random.Random(5)
    vectors = [array("b", [draw.randint(-127, 127) for _ in range(64)]) for _ in range(12)]
    scores = [draw.random() / 10 for _ in vectors]
    chosen = diversify(scores, vectors.__getitem__, 12, 0.5)
    of_unit_length = [unit_vector(list(each)) for each in vectors]
    assert chosen == [
        (index, pytest.approx(penalty)) for index, penalty in diversify(scores, of_unit_length.__getitem__, 12, 0.5)
    ]


def test_a_candidate_without_vector_or_with_an_opposite_one_has_no_penalty() -> None:
    vectors = [direction(0), None, direction(180)]
    assert diversify([0.9, 0.8, 0.7], vectors.__getitem__, 3, 0.5) == [(0, 0.0), (1, 0.0), (2, 0.0)]


@given(
    st.lists(st.tuples(UNIT, st.floats(0, 360)), min_size=1, max_size=25, unique=True),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_the_choice_is_that_of_marginal_relevance(pool: list[tuple[float, float]], k: int, penalty: float) -> None:
    scores, vectors = [each[0] for each in pool], [direction(each[1]) for each in pool]
    chosen: list[int] = []

    def value(index: int) -> float:
        return scores[index] - penalty * max((unit(cosine(vectors[index], vectors[c])) for c in chosen), default=0.0)

    found = diversify(scores, vectors.__getitem__, k, penalty)
    assert len(found) == min(k, len(pool))
    for index, subtracted in found:
        assert scores[index] - subtracted == pytest.approx(value(index))
        assert value(index) == pytest.approx(max(value(each) for each in range(len(pool)) if each not in chosen))
        chosen.append(index)


@given(
    st.lists(st.tuples(UNIT, st.floats(0, 360), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_nothing_that_could_be_chosen_is_pruned(pool: list[tuple[float, float, bool]], k: int, penalty: float) -> None:
    def best(indexes: list[int]) -> list[float]:
        scores = [pool[index][0] for index in indexes]
        chosen = diversify(scores, [direction(pool[index][1]) for index in indexes].__getitem__, k, penalty)
        return [scores[index] - subtracted for index, subtracted in chosen]

    everyone = sorted((index for index in range(len(pool)) if pool[index][2]), key=lambda each: -pool[each][0])
    kept = contenders([each[0] for each in pool], lambda index: pool[index][2], k, penalty)
    assert best(kept) == pytest.approx(best(everyone))


def test_few_candidates_are_asked_whether_they_fit() -> None:
    asked: list[int] = []

    def fits(index: int) -> bool:
        asked.append(index)
        return True

    assert contenders([1 - index / 200 for index in range(200)], fits, 3, 0.10) == list(range(23))
    assert len(asked) < 30


def test_coverage_weighs_rare_words_more() -> None:
    weights = token_weights(["kubernet", "test"], 10_000, {"kubernet": 3, "test": 4_000})
    assert sum(weights.values()) == pytest.approx(1.0)
    assert coverage(weights, {"deploy", "kubernet", "pod"}) > 0.75
    assert coverage(weights, {"run", "test"}) < 0.25
    assert coverage(weights, {"contest", "kubernetes"}) == 0
    assert coverage({}, {"run", "test"}) == 0


def test_in_a_bank_of_three_a_shared_word_is_not_thought_common() -> None:
    weights = token_weights(["retri", "timeout", "payment"], 3, {"retri": 2, "timeout": 1})
    assert weights["retri"] == pytest.approx(1 / 3, abs=0.03)
