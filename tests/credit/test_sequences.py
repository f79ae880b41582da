"""Intervals that hold however often one looks."""

from collections import defaultdict
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.credit.sequences import (
    ALPHA,
    Term,
    by_betting,
    by_clusters,
    clusters_until,
    of_rate,
    side_of,
    weighted,
)

LOOKS = range(5, 85, 5)


def tasks(rng: Random, count: int, told: float, left_out: float, rate: float) -> list[tuple[bool, float]]:
    drawn = [rng.random() >= rate for _ in range(count)]
    return [(each, float(rng.random() < (told if each else left_out))) for each in drawn]


def terms(given: list[tuple[bool, float]], rate: float) -> list[Term]:
    """Each guess is the mean of the tasks before."""
    found: list[Term] = []
    total, count = 1.0, 2
    for told, outcome in given:
        found.append(weighted(outcome, total / count, rate, told=told))
        total, count = total + outcome, count + 1
    return found


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.5), st.booleans())
def test_an_estimate_lies_within_the_bounds_that_were_known_before_and_these_beyond_one(
    outcome: float, guess: float, rate: float, told: bool
) -> None:
    term = weighted(outcome, guess, rate, told=told)
    assert term.low <= term.value <= term.high
    assert term.low <= -1 + 1e-9
    assert term.high >= 1 - 1e-9


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.5))
def test_the_mean_over_the_lot_is_the_difference_whatever_was_guessed(
    told: float, left_out: float, guess: float, rate: float
) -> None:
    mean = (1 - rate) * weighted(told, guess, rate, told=True).value
    mean += rate * weighted(left_out, guess, rate, told=False).value
    assert mean == pytest.approx(told - left_out, abs=1e-9)


@pytest.mark.parametrize(("told", "left_out", "rate"), [(0.5, 0.5, 0.1), (0.2, 0.2, 0.3), (0.8, 0.5, 0.1)])
def test_who_looks_again_and_again_is_hardly_ever_fooled(told: float, left_out: float, rate: float) -> None:
    rng, truth, runs = Random(3), told - left_out, 40
    missed = 0
    for _ in range(runs):
        found = terms(tasks(rng, LOOKS[-1], told, left_out, rate), rate)
        missed += any(side_of(found[:count], truth) for count in LOOKS)
    assert missed <= 4


@pytest.mark.parametrize("chance", [0.5, 0.8])
def test_what_is_left_out_more_often_the_worse_it_looks_is_hardly_ever_wrongly_harmful(chance: float) -> None:
    rng, runs, wrong = Random(11), 40, 0
    for _ in range(runs):
        found: list[Term] = []
        total, count, mean = 1.0, 2, 0.0
        for _ in range(LOOKS[-1]):
            rate = 0.5 if mean < 0 else 0.1
            ((told, outcome),) = tasks(rng, 1, chance, chance, rate)
            found.append(weighted(outcome, total / count, rate, told=told))
            total, count, mean = total + outcome, count + 1, mean + found[-1].value
        wrong += any(side_of(found[:look]) < 0 for look in LOOKS)
    assert wrong <= 2


def test_harm_and_use_are_found_and_the_interval_narrows() -> None:
    for told, left_out in ((0.05, 0.7), (0.9, 0.2)):
        found = terms(tasks(Random(5), 250, told, left_out, 0.1), 0.1)
        early, late = by_betting(found[:40]), by_betting(found)
        assert late.high - late.low < early.high - early.low
        assert (late.high < 0) if told < left_out else (late.low > 0)
        assert side_of(found) == (-1 if told < left_out else 1)
        edge, inside = (late.high, -0.01) if told < left_out else (late.low, 0.01)
        assert side_of(found, edge - inside) == side_of(found)
        assert side_of(found, edge + inside) == 0
    assert by_betting([]) == (0.0, -1.0, 1.0)
    assert by_betting(terms([(True, 1.0)], 0.1))[1:] == (-1.0, 1.0)


def test_of_many_tasks_the_mean_is_covered_too_and_tasks_that_go_together_count_once() -> None:
    rng, missed = Random(4), 0
    for _ in range(40):
        values = [(each.value, 1) for each in terms(tasks(rng, 400, 0.6, 0.5, 0.1), 0.1)]
        looks = (by_clusters(values[:count]) for count in range(100, 401, 50))
        missed += any(not low <= 0.1 <= high for _, low, high in looks)
    assert missed <= 4
    alone = by_clusters([(0.5, 1), (-0.5, 1)] * 50)
    together = by_clusters([(1.0, 2), (-1.0, 2)] * 25)
    assert together.high - together.low > alone.high - alone.low


def test_it_says_how_many_more_tasks_are_wanted() -> None:
    values = [(1.0, 1), (-1.0, 1)] * 30
    wanted = clusters_until(values, 0.25)
    more = by_clusters([*values, *[(1.0, 1), (-1.0, 1)] * (wanted // 2 + 1)])
    assert wanted > 60
    assert more.high - more.value <= 0.25
    assert clusters_until(values, 2.0) == 0


def ever_outside(rate: float, interval: Callable[[int, int], Interval], tasks: int) -> float:
    """Return the exact probability that a rate lies outside of its interval at any of so many looks."""
    alive, gone = {0: 1.0}, 0.0
    for n in range(1, tasks + 1):
        after: dict[int, float] = defaultdict(float)
        for successes, chance in alive.items():
            after[successes] += chance * (1 - rate)
            after[successes + 1] += chance * rate
        bounds = {successes: interval(successes, n) for successes in after}
        outside = {each for each, (_, low, high) in bounds.items() if not low <= rate <= high}
        gone += sum(after[each] for each in outside)
        alive = {each: chance for each, chance in after.items() if each not in outside}
    return gone


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_a_rate_leaves_its_interval_at_no_look_but_with_a_probability_of_a_twentieth(rate: float) -> None:
    assert ever_outside(rate, of_rate, 80) <= ALPHA
    assert ever_outside(rate, wilson, 80) > 4 * ALPHA, "one for a fixed number of tasks does"


def test_what_fails_most_times_is_found_and_huge_counts_cost_nothing() -> None:
    assert of_rate(0, 8).high < 0.5
    assert of_rate(1, 8).high > 0.5
    assert of_rate(2, 18).high < 0.5
    value, low, high = of_rate(400_000, 1_000_000)
    assert (value, round(low, 2), round(high, 2)) == (0.4, 0.4, 0.4)


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_interval_of_a_rate_holds_it_and_mirrors_that_of_the_failures(successes: int, failures: int) -> None:
    value, low, high = of_rate(successes, n := max(1, successes + failures))
    assert 0 <= low <= value <= high <= 1
    if successes + failures:
        other = of_rate(failures, n)
        assert (other.low, other.high) == pytest.approx((1 - high, 1 - low))


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_rate_is_on_the_side_where_the_bets_have_it(successes: int, failures: int) -> None:
    if successes + failures:
        found = of_rate(successes, successes + failures)
        side = side_of([Term(1, 0, 1)] * successes + [Term(0, 0, 1)] * failures, 0.5)
        assert side == (found.low > 0.5) - (found.high < 0.5)
