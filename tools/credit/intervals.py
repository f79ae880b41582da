"""Confidence intervals of rates, means and their differences. Pure functions; all intervals are at 95 %."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

LEVEL = 0.95
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


class Interval(NamedTuple):
    """An estimate and the bounds of its interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, n: int, z: float = Z) -> Interval:
    """Return a rate with its score interval (Wilson 1927) at `z` deviations. `n` must be positive."""
    rate, z2 = successes / n, z * z
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Interval(rate, max(0.0, centre - half), min(1.0, centre + half))


def mean_interval(values: Sequence[float]) -> Interval:
    """Return a mean with its t interval. At least two values are needed.

    Wallace's quantile (1959) errs on the wide side: by 38 % for two values, 4 % for three, 0.3 % from six on.
    """
    value, freedom = fmean(values), len(values) - 1
    scaled = Z * (8 * freedom + 3) / (8 * freedom + 1)
    quantile = math.sqrt(freedom * math.expm1(scaled * scaled / freedom))
    half = quantile * stdev(values) / math.sqrt(len(values))
    return Interval(value, value - half, value + half)


def difference(first: Interval, other: Interval) -> Interval:
    """Return the first value minus the other, for independent samples, with bounds from those of both.

    MOVER: Zou, Donner (2008).
    """
    value = first.value - other.value
    below = math.hypot(first.value - first.low, other.high - other.value)
    above = math.hypot(first.high - first.value, other.value - other.low)
    return Interval(value, value - below, value + above)


def rate_difference(successes: int, n: int, other_successes: int, other_n: int, z: float = Z) -> Interval:
    """Return the first rate minus the other, with the hybrid score interval (Newcombe 1998, method 10)."""
    return difference(wilson(successes, n, z), wilson(other_successes, other_n, z))
