"""What was measured, declared once as columns: figures, cells of tables and series of plots follow from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from swarm_memory.schema.benchmark import Figure, Series, SuiteResults, Table
from swarm_memory.tools.benchmark.measures import percentile
from swarm_memory.tools.credit.intervals import Interval

Row = TypeVar("Row")
Value = float | str | Interval | None


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One value of each row of a table, and the figure that it is."""

    heading: str
    """Empty: the figure is in no table."""
    value: Callable[[Row], Value]
    form: str = ""
    """How its numbers are written, as `format` takes it."""
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


def change(found: Interval | None) -> str:
    """Return a share that something changed by, in hundredths with bounds; a star where they do not hold 0."""
    if found is None:
        return "-"
    star = " *" if found.low > 0 or found.high < 0 else ""
    return written(percent(found), "+.1f") + star


def percent(found: Interval) -> Interval:
    """Return an interval of shares in hundredths."""
    return Interval(*(100 * each for each in found))


def table(title: str, columns: Sequence[Column[Row]], rows: Iterable[Row], note: str = "") -> Table:
    """Return the table of the columns that have a heading."""
    shown = [column for column in columns if column.heading]
    cells = tuple(tuple(column.cell(row) for column in shown) for row in rows)
    return Table(title=title, headings=tuple(column.heading for column in shown), rows=cells, note=note)


def figures(subject: str, columns: Iterable[Column[Row]], row: Row, part: str = "") -> list[Figure]:
    """Return the figures of one row; a value that there is not is left out."""
    found: list[Figure] = []
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
) -> Figure:
    """Return one figure, with the bounds of an interval."""
    mean, low, high = value if isinstance(value, Interval) else (value, None, None)
    return Figure(subject=subject, measure=measure, part=part, value=mean, low=low, high=high, n=n, better=better)


def series(name: str, points: Iterable[tuple[float | str, float | Interval]]) -> Series:
    """Return a line, or one colour of bars, of points that all have an interval or all have none."""
    known = list(points)
    bounds = [y for _, y in known if isinstance(y, Interval)]
    return Series(
        name=name,
        x=tuple(float(x) if isinstance(x, int) else x for x, _ in known),
        y=tuple(y.value if isinstance(y, Interval) else y for _, y in known),
        low=tuple(each.low for each in bounds),
        high=tuple(each.high for each in bounds),
    )


def late(heading: str, measure: str, share: float, times: Callable[[Row], Sequence[float]], form: str) -> Column[Row]:
    """Return the column of the ms that a share of each row's times does not exceed."""
    return Column(heading, lambda row: percentile(times(row), share), form, measure, lambda row: len(times(row)))


def together(parts: Iterable[SuiteResults]) -> SuiteResults:
    """Return figures, tables, plots and notes of several parts as one."""
    known = list(parts)
    return SuiteResults(
        figures=tuple(each for part in known for each in part.figures),
        tables=tuple(each for part in known for each in part.tables),
        plots=tuple(each for part in known for each in part.plots),
        notes=tuple(each for part in known for each in part.notes),
    )
