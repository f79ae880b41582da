"""Intervals against published values and against what they promise."""

from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.credit.intervals import difference, mean_interval, rate_difference, wilson

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
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (100, 1.9840), (10_000, 1.9602)],
)
def test_the_quantiles_of_t_are_those_of_the_tables_or_a_little_wider(freedom: int, quantile: float) -> None:
    values = [0.0] * freedom + [1.0]
    found = (mean_interval(values).high - fmean(values)) / stdev(values) * len(values) ** 0.5 / quantile - 1
    assert -1e-4 < found < (0.003 if freedom >= 5 else 0.05 if freedom >= 2 else 0.4)


def test_a_difference_of_means_has_an_interval_a_little_wider_than_welchs() -> None:
    few = difference(mean_interval([1, 2, 3, 4, 5]), mean_interval([2, 4, 6, 8, 10]))
    # by hand: standard errors √0.5 and √2, 4 degrees of freedom each, whose quantile is 2.7764; Welch's half is 3.8878
    assert few.value == -3
    assert (few.low, few.high) == (pytest.approx(-7.390, abs=0.03), pytest.approx(1.390, abs=0.03))
    values = [float(number) for number in range(30)]
    many = difference(mean_interval(values), mean_interval([2 * value for value in values]))
    assert many.high - many.value == pytest.approx(7.25, rel=0.03), "Welch's"


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_a_difference_lies_in_its_interval_and_turns_its_sign_with_its_sides(a: int, n: int, b: int, m: int) -> None:
    a, b = min(a, n), min(b, m)
    found, turned = rate_difference(a, n, b, m), rate_difference(b, m, a, n)
    assert -1 - 1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1 + 1e-9
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
