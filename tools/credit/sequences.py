"""Intervals that hold however often one looks: confidence sequences at 95 %. Pure functions.

An interval for a fixed number of tasks is too narrow for who looks after each task and stops when it excludes 0. These
cover the truth at all moments at once with probability 0.95.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from swarm_memory.tools.credit.intervals import Interval

ALPHA = 0.05
"""The probability that an interval is ever wrong."""

_FRACTIONS = (0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8, 0.95)
"""Of the greatest bet that cannot lose all: money is divided among gamblers with one each."""

_TUNED_TO = 100
"""So many observations at which the asymptotic sequence is narrowest; it holds at all."""

_HALVINGS = 14
_AT_ONCE = 32
"""So many factors are multiplied before a logarithm is taken: no product leaves the numbers there are."""


class Term(NamedTuple):
    """One observation whose bounds were known before it was made."""

    value: float
    low: float
    high: float


def weighted(outcome: float, guess: float, rate: float, *, told: bool) -> Term:
    """Return one task's unbiased estimate of what being told changes in an outcome 0…1.

    It is (outcome - guess) / (1 - rate) where the task was told and -(outcome - guess) / rate where, with probability
    `rate`, it was not: the augmented inverse-probability-weighted difference (Robins, Rotnitzky, Zhao 1994) with one
    guess 0…1 for both arms. Whatever the guess from what was known before, the mean is the difference; a good one makes
    it vary less.
    """
    off = outcome - guess
    high = max((1 - guess) / (1 - rate), guess / rate)
    low = -max(guess / (1 - rate), (1 - guess) / rate)
    return Term(off / (1 - rate) if told else -off / rate, low, high)


def by_betting(terms: Sequence[Term]) -> Interval:
    """Return the mean of bounded observations with its confidence sequence; it must lie in -1…1, and all bounds beyond.

    The hedged capital process (Waudby-Smith, Ramdas 2024, "Estimating means of bounded random variables by betting",
    section 4; for weighted outcomes Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro 2024): whoever bets that the mean
    is greater than m, each time a fixed fraction of what cannot lose all, has a capital that never grows in the mean
    where m is true, and reaches 2 / `ALPHA` with probability `ALPHA` / 2 at most (Ville). What is so refuted from below
    and from above lies outside. "Below 0" also holds where the effect varies from task to task and is nowhere below.
    """
    if not terms:
        return Interval(0.0, -1.0, 1.0)
    value = math.fsum(term.value for term in terms) / len(terms)
    low = _refuted_below([(term.value, term.low) for term in terms])
    high = -_refuted_below([(-term.value, -term.high) for term in terms])
    return Interval(min(1.0, max(-1.0, value)), min(low, high), max(low, high))


def side_of(terms: Sequence[Term], mean: float = 0.0) -> int:
    """Return on which side of a value `by_betting` has the mean: 1 above it, -1 below it, 0 where nobody knows."""
    above = _log_capital([(term.value, term.low) for term in terms], mean)
    below = _log_capital([(-term.value, -term.high) for term in terms], -mean)
    wanted = math.log(2 / ALPHA)
    return (above >= wanted) - (below >= wanted)


def of_rate(successes: int, n: int) -> Interval:
    """Return a rate 0…1 with its confidence sequence, by the bets of `by_betting`; `n` must be positive.

    It asks for counts alone: the capital of who bets a fixed fraction is the same in whatever order they came.
    """
    return Interval(successes / n, _rate_refuted_below(successes, n), 1 - _rate_refuted_below(n - successes, n))


def _rate_refuted_below(successes: int, n: int) -> float:
    """Return the greatest rate 0…1 that is refuted as too small; 0 for none."""

    def log_capital(rate: float) -> float:
        won = (1 - rate) / rate
        return _shared_evenly(
            [successes * math.log1p(each * won) + (n - successes) * math.log1p(-each) for each in _FRACTIONS]
        )

    return _greatest_refuted(log_capital, 0.0)


def _refuted_below(observed: Sequence[tuple[float, float]]) -> float:
    """Return the greatest mean -1…1 that is refuted as too small; -1 for none."""
    return _greatest_refuted(lambda mean: _log_capital(observed, mean), -1.0)


def _greatest_refuted(log_capital: Callable[[float], float], refuted: float) -> float:
    """Return the greatest value up to 1 that is refuted as too small. The capital falls as the value rises."""
    wanted, open_ = math.log(2 / ALPHA), 1.0
    for _ in range(_HALVINGS):
        middle = (refuted + open_) / 2
        if log_capital(middle) >= wanted:
            refuted = middle
        else:
            open_ = middle
    return refuted


def _log_capital(observed: Sequence[tuple[float, float]], mean: float) -> float:
    """Return the logarithm of what 1 has become by bets that the mean is greater, shared among the gamblers."""
    gains = [(value - mean) / (mean - low) for value, low in observed]
    parts = [gains[start : start + _AT_ONCE] for start in range(0, len(gains), _AT_ONCE)]
    logs = [
        math.fsum(math.log(math.prod([1 + fraction * gain for gain in part])) for part in parts)
        for fraction in _FRACTIONS
    ]
    return _shared_evenly(logs)


def _shared_evenly(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of what the gamblers have, from that of each."""
    most = max(logs)
    return most + math.log(math.fsum(math.exp(each - most) for each in logs) / len(logs))


def by_clusters(sums: Sequence[tuple[float, int]]) -> Interval:
    """Return the mean of observations, given as (sum, number) of those that belong together, with its sequence.

    Asymptotic (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024, "Time-uniform central limit theory and asymptotic
    confidence sequences", theorem 2.2), with the variance between clusters: of one task all see the same outcome. It
    needs no bounds, and enough of each side for the central limit theorem; there must be one observation at least.
    """
    value, spread, per_cluster = _described(sums)
    radius = spread * _radius(len(sums)) / per_cluster
    return Interval(value, value - radius, value + radius)


def clusters_until(sums: Sequence[tuple[float, int]], radius: float, spread: float | None = None) -> int:
    """Return how many more clusters like these it takes until the sequence is so narrow; 0 where it is.

    `spread` is the standard deviation of a cluster's mean, where these are too few to show it.
    """
    if spread is None:
        _, of_sums, per_cluster = _described(sums)
        spread = of_sums / per_cluster
    count = len(sums)
    while spread * _radius(count) > radius:
        count += max(1, count // 50)
    return count - len(sums)


def _described(sums: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """Return the mean, the standard deviation of a cluster's sum less what it would be, observations in a cluster."""
    number = sum(each for _, each in sums)
    value = math.fsum(total for total, _ in sums) / number
    variance = math.fsum((total - each * value) ** 2 for total, each in sums) / len(sums)
    return value, math.sqrt(variance), number / len(sums)


def _radius(count: int) -> float:
    """Return how far the mean of `count` observations with standard deviation 1 may be off, at any time."""
    rho2 = (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA) + 1)) / _TUNED_TO
    grown = count * rho2 + 1
    return math.sqrt(2 * grown / (count * count * rho2) * math.log(math.sqrt(grown) / ALPHA))
