"""Measured values, each declared once as a column, from which figures and table cells are made; and the measures: how
good a ranked answer is, how fast answers come, and intervals of means by resampling the cases.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from swarm_memory.schema.benchmark import MetricValue, Table
from swarm_memory.tools.credit.intervals import LEVEL, Interval

DEPTH = 10
"""MRR and nDCG consider the first ten."""

RESAMPLES = 2000
_AT_ONCE = 200
_BOUNDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def measures(found: Sequence[str], gold: Collection[str], ks: Sequence[int]) -> dict[str, float]:
    """Return every measure of one answer, from 0 to 1; `gold` must not be empty.

    recall_any@K: whether a relevant item is among the first K. recall@K: the share of the relevant items that are.
    mrr@10: 1 / rank of the first relevant one. ndcg@10: Järvelin, Kekäläinen (2002), gains of 1 and log2(rank + 1).
    """
    ranks = [rank for rank, each in enumerate(found, start=1) if each in gold]
    values: dict[str, float] = {}
    for k in ks:
        hits = sum(rank <= k for rank in ranks)
        values[f"recall_any@{k}"] = float(hits > 0)
        values[f"recall@{k}"] = hits / len(gold)
    near = [rank for rank in ranks if rank <= DEPTH]
    values[f"mrr@{DEPTH}"] = 1 / near[0] if near else 0.0
    ideal = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(DEPTH, len(gold)) + 1))
    values[f"ndcg@{DEPTH}"] = math.fsum(1 / math.log2(rank + 1) for rank in near) / ideal
    return values


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed (nearest rank); `values` must not be empty."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def bootstrap(rows: Sequence[Sequence[float]], seed: int) -> list[Interval]:
    """Return the mean of each row of n values with its percentile interval: the same n cases are drawn for all rows.

    Efron, Tibshirani (1993), 13.3. There must be at least one row and one value.
    """
    import numpy

    values = numpy.asarray(rows, dtype="f8").T
    chance, even = numpy.random.default_rng(seed), numpy.full(len(values), 1 / len(values))
    counts = (chance.multinomial(len(values), even, size=_AT_ONCE) for _ in range(RESAMPLES // _AT_ONCE))
    means = numpy.concatenate([each / len(values) @ values for each in counts])
    low, high = numpy.quantile(means, _BOUNDS, axis=0)
    return [Interval(*map(float, each)) for each in zip(values.mean(axis=0), low, high, strict=True)]


Row = TypeVar("Row")
Value = float | str | Interval | None


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One value of each row of a table, and the figure that is made from it."""

    heading: str
    """Empty: the figure is in no table."""
    value: Callable[[Row], Value]
    form: str = ""
    """The format of its numbers, as `format` takes it."""
    measure: str = ""
    """The name of its figure; empty: it is only shown."""
    n: Callable[[Row], int] | None = None
    better: Literal["higher", "lower", "neither"] = "lower"
    missing: str = "-"
    """What is shown where there is no value."""

    def cell(self, row: Row) -> str:
        """Return the value as text: an interval with its bounds."""
        value = self.value(row)
        return self.missing if value is None else written(value, self.form)


def written(value: float | str | Interval, form: str = "") -> str:
    """Return a value as text, an interval as `value (low to high)`."""
    if isinstance(value, Interval):
        return f"{value.value:{form}} ({value.low:{form}} to {value.high:{form}})"
    return value if isinstance(value, str) else f"{value:{form}}"


def format_change(found: Interval | None) -> str:
    """Return a change in a share, in percentage points with bounds; a star where 0 is outside the bounds."""
    if found is None:
        return "-"
    star = " *" if found.low > 0 or found.high < 0 else ""
    return written(to_percent(found), "+.1f") + star


def to_percent(found: Interval) -> Interval:
    """Return an interval of shares as one of percentages."""
    return Interval(*(100 * each for each in found))


def table(title: str, columns: Sequence[Column[Row]], rows: Iterable[Row], note: str = "") -> Table:
    """Return the table of the columns that have a heading."""
    shown = [column for column in columns if column.heading]
    cells = tuple(tuple(column.cell(row) for column in shown) for row in rows)
    return Table(title=title, headings=tuple(column.heading for column in shown), rows=cells, note=note)


def figures(subject: str, columns: Iterable[Column[Row]], row: Row, part: str = "") -> list[MetricValue]:
    """Return the figures of one row; missing values are left out."""
    found: list[MetricValue] = []
    for column in columns:
        value = column.value(row) if column.measure else None
        if value is not None and not isinstance(value, str):
            n = None if column.n is None else column.n(row)
            found.append(figure(subject, column.measure, value, part=part, n=n, better=column.better))
    return found


def figure(
    subject: str,
    measure: str,
    value: float | Interval,
    *,
    part: str = "",
    n: int | None = None,
    better: Literal["higher", "lower", "neither"] = "higher",
) -> MetricValue:
    """Return one figure, with the bounds of an interval."""
    mean, low, high = value if isinstance(value, Interval) else (value, None, None)
    return MetricValue(subject=subject, measure=measure, part=part, value=mean, low=low, high=high, n=n, better=better)
