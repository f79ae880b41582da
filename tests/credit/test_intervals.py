"""Intervals against published values and against what they promise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.credit.intervals import mean_difference, rate_difference, t_quantile, wilson

SEED = 7


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_a_rate_has_the_score_interval_of_the_literature(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_a_difference_of_rates_has_the_hybrid_score_interval_of_the_literature(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    found = rate_difference(*counts)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (100, 1.9840), (1e6, 1.9600)],
)
def test_the_quantiles_of_t_are_those_of_the_tables(freedom: float, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=5e-5)


def test_a_difference_of_means_has_the_interval_of_welch() -> None:
    found = mean_difference([1, 2, 3, 4, 5], [2, 4, 6, 8, 10])
    # by hand: variances 2.5 and 10, standard error √2.5, 100/17 degrees of freedom, whose quantile is 2.4589
    assert found.value == -3
    assert (found.low, found.high) == (pytest.approx(-6.8878, abs=2e-4), pytest.approx(0.8878, abs=2e-4))


def test_means_without_spread_differ_by_exactly_that() -> None:
    assert mean_difference([3.0, 3.0], [1.0, 1.0]) == (2.0, 2.0, 2.0)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_a_difference_lies_in_its_interval_and_turns_its_sign_with_its_sides(a: int, n: int, b: int, m: int) -> None:
    a, b = min(a, n), min(b, m)
    found, turned = rate_difference(a, n, b, m), rate_difference(b, m, a, n)
    assert -1 - 1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1 + 1e-9
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    draw = random.Random(SEED)
    held = 0
    for _ in range(200):
        left = [draw.gauss(10, 3) for _ in range(8)]
        right = [draw.gauss(8, 6) for _ in range(14)]
        found = mean_difference(left, right)
        held += found.low <= 2 <= found.high
    assert 0.91 <= held / 200 <= 0.99
