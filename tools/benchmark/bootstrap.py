"""Intervals of means by resampling the cases, seeded; the same cases for all measures, so that differences are paired.

numpy is imported when it is first needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarm_memory.tools.credit.intervals import LEVEL, Interval

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

RESAMPLES = 2000
_AT_ONCE = 200


class Resampling:
    """Draws of n cases with replacement, the same ones for whatever is asked of it. Efron, Tibshirani (1993), 13.3."""

    def __init__(self, n: int, seed: int, resamples: int = RESAMPLES) -> None:
        if n < 1:
            raise ValueError("there is nothing to resample")
        self._n, self._seed, self._resamples = n, seed, resamples

    def intervals(self, rows: Sequence[Sequence[float]]) -> list[Interval]:
        """Return the mean of each row of n values with its percentile interval."""
        import numpy

        if not rows:
            return []
        values = numpy.asarray(rows, dtype="f8").T
        means = numpy.concatenate([weights @ values for weights in self._weights()])
        tail = (1 - LEVEL) / 2
        low, high = numpy.quantile(means, [tail, 1 - tail], axis=0)
        return [Interval(*map(float, each)) for each in zip(values.mean(axis=0), low, high, strict=True)]

    def interval(self, values: Sequence[float]) -> Interval:
        """Return the mean of n values with its percentile interval."""
        return self.intervals([values])[0]

    def difference(self, values: Sequence[float], others: Sequence[float]) -> Interval:
        """Return the mean of the paired differences, first less other, with its interval."""
        return self.interval([value - other for value, other in zip(values, others, strict=True)])

    def ratio(self, values: Sequence[float], others: Sequence[float]) -> Interval:
        """Return the mean of n values over that of the others, which must not be 0; a draw in which it is counts not.

        Both are resampled together: case by case.
        """
        import numpy

        pairs = numpy.asarray([values, others], dtype="f8").T
        means = numpy.concatenate([weights @ pairs for weights in self._weights()])
        sound = means[means[:, 1] > 0]
        tail = (1 - LEVEL) / 2
        low, high = numpy.quantile(sound[:, 0] / sound[:, 1], [tail, 1 - tail])
        value = pairs[:, 0].mean() / pairs[:, 1].mean()
        return Interval(float(value), float(low), float(high))

    def _weights(self) -> "list[NDArray[float64]]":
        """Return how often each case is drawn, as a share of n, in blocks of resamples."""
        import numpy

        drawn = numpy.random.default_rng(self._seed)
        blocks = [min(_AT_ONCE, self._resamples - at) for at in range(0, self._resamples, _AT_ONCE)]
        even = numpy.full(self._n, 1 / self._n)
        return [drawn.multinomial(self._n, even, size=size) / self._n for size in blocks]
