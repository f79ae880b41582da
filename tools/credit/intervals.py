"""Confidence intervals of rates, means and their differences. Pure functions; all intervals are at 95 %."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

LEVEL = 0.95
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
_PARTS, _HALVINGS = 256, 60


class Interval(NamedTuple):
    """An estimate and the bounds of its interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, n: int) -> Interval:
    """Return a rate with its score interval (Wilson 1927). `n` must be positive."""
    rate, z2 = successes / n, Z * Z
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Interval(rate, max(0.0, centre - half), min(1.0, centre + half))


def rate_difference(successes: int, n: int, other_successes: int, other_n: int) -> Interval:
    """Return the first rate less the other one, with the hybrid score interval (Newcombe 1998, method 10)."""
    return difference(wilson(successes, n), wilson(other_successes, other_n))


def difference(first: Interval, other: Interval) -> Interval:
    """Return the first value less the other one of independent samples, with bounds from those of both.

    MOVER: Zou, Donner (2008).
    """
    value = first.value - other.value
    below = math.hypot(first.value - first.low, other.high - other.value)
    above = math.hypot(first.high - first.value, other.value - other.low)
    return Interval(value, value - below, value + above)


def mean_difference(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the first mean less the other one, with Welch's interval. Both need at least two values."""
    value = fmean(values) - fmean(others)
    first, other = variance(values) / len(values), variance(others) / len(others)
    if first + other == 0:
        return Interval(value, value, value)
    freedom = (first + other) ** 2 / (first**2 / (len(values) - 1) + other**2 / (len(others) - 1))
    half = t_quantile(freedom) * math.sqrt(first + other)
    return Interval(value, value - half, value + half)


def t_quantile(freedom: float) -> float:
    """Return the t below which |T| stays with probability 0.95, for `freedom` ≥ 1 degrees of freedom.

    With t = √freedom · tan θ the density is proportional to the power `freedom` less 1 of cos θ, which is integrated by
    Simpson's rule; the bound is found by halving.
    """
    if freedom > 1000:
        return Z
    whole = _simpson(math.pi / 2, freedom - 1)
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _simpson(middle, freedom - 1) < LEVEL * whole:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _simpson(end: float, power: float) -> float:
    """Return the integral of cos^power from 0 to `end`."""
    step = end / _PARTS
    inner = sum((4 if part % 2 else 2) * math.cos(part * step) ** power for part in range(1, _PARTS))
    return (1.0 + inner + max(0.0, math.cos(end)) ** power) * step / 3
