"""Asks a memory system every question and counts; turns what was counted into figures, tables and plots."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import (
    BenchmarkQuestion,
    Cases,
    Dataset,
    DatasetInfo,
    Figure,
    Plot,
    Series,
    SuiteResults,
    Table,
)
from swarm_memory.tools.benchmark.bootstrap import Resampling
from swarm_memory.tools.benchmark.datasets import by_group
from swarm_memory.tools.benchmark.metrics import DEPTH, columns, measures, percentile
from swarm_memory.tools.credit.intervals import Interval
from swarm_memory.tools.ports.benchmarks import MemorySystem

REFERENCE = "bm25-okapi"
MRR, NDCG = f"mrr@{DEPTH}", f"ndcg@{DEPTH}"

OnAsked = Callable[[str, int], Awaitable[None]]
"""Called with the name of a system and how many questions it was asked by now."""


@dataclass(slots=True)
class Asked:
    """What one system gave until now; it grows while the system is asked."""

    system: str
    questions: list[BenchmarkQuestion] = field(default_factory=list[BenchmarkQuestion])
    """Those with gold, in the order asked."""
    values: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    latencies_ms: list[float] = field(default_factory=list[float])
    unanswerable: int = 0
    withheld: int = 0
    """Of the unanswerable questions, those that nothing was found for."""
    ingest_s: float = 0.0
    bytes_per_item: float | None = None


async def fill(system: MemorySystem, dataset: Dataset, asked: Asked) -> None:
    """Give a system all items, and take down how long that took and how much it takes."""
    started = time.perf_counter()
    for group, items in by_group(dataset).items():
        await system.ingest(group, items)
    asked.ingest_s = time.perf_counter() - started
    size = await system.size_bytes()
    asked.bytes_per_item = None if size is None else size / len(dataset.items)


async def ask_all(system: MemorySystem, dataset: Dataset, ks: Sequence[int], asked: Asked, on_asked: OnAsked) -> None:
    """Ask every question once, as deep as the greatest cut-off."""
    depth = max(*ks, DEPTH)
    for number, question in enumerate(dataset.questions, start=1):
        started = time.perf_counter()
        found = await system.retrieve(question, depth)
        asked.latencies_ms.append((time.perf_counter() - started) * 1000)
        if question.gold:
            asked.questions.append(question)
            asked.values.append(measures(found, question.gold, ks))
        else:
            asked.unanswerable += 1
            asked.withheld += not found
        await on_asked(asked.system, number)


class Summary:
    """The results of all systems as data."""

    def __init__(self, info: DatasetInfo, systems: Sequence[Asked], ks: Sequence[int], seed: int) -> None:
        self._info, self._ks, self._seed = info, tuple(sorted(set(ks))), seed
        self._asked = [each for each in systems if each.values]
        self._columns = {each.system: columns(each.values) for each in self._asked}
        self._means = {each.system: self._intervals(self._columns[each.system]) for each in self._asked}

    @property
    def main_k(self) -> int:
        """The cut-off that categories are shown at."""
        return 5 if 5 in self._ks else self._ks[-1]

    def results(self, notes: Sequence[str] = ()) -> SuiteResults:
        """Return figures, cases, tables and plots of what was asked until now."""
        if not self._asked:
            return SuiteResults(dataset=self._info, notes=tuple(notes))
        whole = max(len(each.values) for each in self._asked)
        complete = [each for each in self._asked if len(each.values) == whole]
        partial = [
            f"{each.system}: asked {len(each.values)} of {whole}" for each in self._asked if each not in complete
        ]
        return SuiteResults(
            dataset=self._info,
            figures=(*self._figures(), *self._categories(), *self._differences(complete), *self._costs()),
            case_ids=tuple(
                f"{at} {digest([each.group, each.query])[:12]}"
                for at, each in enumerate(complete[0].questions, start=1)
            ),
            cases=tuple(
                Cases(subject=each.system, measure=measure, values=values)
                for each in complete
                for measure, values in self._columns[each.system].items()
            ),
            tables=self._tables(complete),
            plots=self._plots(),
            notes=(*notes, *partial),
        )

    def _intervals(self, values: dict[str, tuple[float, ...]]) -> dict[str, Interval]:
        n = len(next(iter(values.values())))
        found = Resampling(n, self._seed).intervals(list(values.values()))
        return dict(zip(values, found, strict=True))

    def _figures(self) -> list[Figure]:
        return [
            _figure(each.system, measure, interval, len(each.values))
            for each in self._asked
            for measure, interval in self._means[each.system].items()
        ]

    def _categories(self) -> list[Figure]:
        figures: list[Figure] = []
        for each in self._asked:
            for name in self._category_names():
                rows = [v for v, asked in zip(each.values, each.questions, strict=True) if asked.category == name]
                if rows:
                    intervals = self._intervals(columns(rows))
                    figures += [_figure(each.system, m, i, len(rows), part=name) for m, i in intervals.items()]
        return figures

    def _category_names(self) -> list[str]:
        names = {asked.category for each in self._asked for asked in each.questions}
        return sorted(name for name in names if name)

    def _differences(self, complete: Sequence[Asked]) -> list[Figure]:
        """Each system less the reference, over the same questions."""
        if REFERENCE not in {each.system for each in complete}:
            return []
        reference = self._columns[REFERENCE]
        draws = Resampling(len(next(iter(reference.values()))), self._seed)
        figures: list[Figure] = []
        for each in complete:
            if each.system != REFERENCE:
                own = self._columns[each.system]
                rows = [[a - b for a, b in zip(own[m], reference[m], strict=True)] for m in reference]
                pairs = zip(reference, draws.intervals(rows), strict=True)
                figures += [_figure(f"{each.system} less {REFERENCE}", m, i, len(each.values)) for m, i in pairs]
        return figures

    def _costs(self) -> list[Figure]:
        figures: list[Figure] = []
        for each in self._asked:
            lower = {"p50_ms": percentile(each.latencies_ms, 0.5), "p95_ms": percentile(each.latencies_ms, 0.95)}
            lower["ingest_s"] = each.ingest_s
            if each.bytes_per_item is not None:
                lower["bytes_per_item"] = each.bytes_per_item
            figures += [
                Figure(subject=each.system, measure=name, value=value, better="lower") for name, value in lower.items()
            ]
            if each.unanswerable:
                share = each.withheld / each.unanswerable
                figures.append(
                    Figure(subject=each.system, measure="empty_when_unanswerable", value=share, n=each.unanswerable)
                )
        return figures

    def _tables(self, complete: Sequence[Asked]) -> tuple[Table, ...]:
        shown = [*(f"recall_any@{k}" for k in self._ks), MRR, NDCG]
        names = (*(f"R@{k}" for k in self._ks), "MRR", "nDCG")
        tables = [
            Table(
                title=f"Retrieval on {self._info.name}",
                headings=("system", "asked", *names, "p50 ms", "p95 ms", "ingest s", "B/item"),
                rows=tuple(self._row(each, shown) for each in self._asked),
                note="%; R@K: a relevant item is among the first K; MRR and nDCG at 10; B/item: database and its log",
            ),
            Table(
                title="95 % intervals",
                headings=("system", *names),
                rows=tuple(
                    (each.system, *(bounds(self._means[each.system][m]) for m in shown)) for each in self._asked
                ),
                note="bootstrap over questions",
            ),
        ]
        if REFERENCE in self._means and len(complete) > 1:
            tables.append(self._difference_table(complete, shown, names))
        if self._category_names():
            tables.append(self._category_table())
        return tuple(tables)

    def _row(self, each: Asked, shown: Sequence[str]) -> tuple[str, ...]:
        means = self._means[each.system]
        size = "-" if each.bytes_per_item is None else f"{each.bytes_per_item:,.0f}"
        speed = (f"{percentile(each.latencies_ms, share):.2f}" for share in (0.5, 0.95))
        shares = (f"{100 * means[m].value:.1f}" for m in shown)
        return each.system, str(len(each.values)), *shares, *speed, f"{each.ingest_s:.2f}", size

    def _difference_table(self, complete: Sequence[Asked], shown: Sequence[str], names: Sequence[str]) -> Table:
        found = {(each.subject, each.measure): each for each in self._differences(complete)}
        rows = [
            (each.system, *(signed(found[f"{each.system} less {REFERENCE}", m]) for m in shown))
            for each in complete
            if each.system != REFERENCE
        ]
        note = "points, paired over the same questions; * the 95 % interval does not hold 0"
        return Table(title=f"Less {REFERENCE}", headings=("system", *names), rows=tuple(rows), note=note)

    def _category_table(self) -> Table:
        measure = f"recall_any@{self.main_k}"
        names = self._category_names()
        found = {(each.subject, each.part): each for each in self._categories() if each.measure == measure}
        counts = {name: sum(asked.category == name for asked in self._asked[0].questions) for name in names}
        rows = [
            (
                each.system,
                *(f"{100 * got.value:.1f}" if (got := found.get((each.system, name))) else "-" for name in names),
            )
            for each in self._asked
        ]
        headings = ("system", *(f"{name} ({counts[name]})" for name in names))
        return Table(title=f"{measure} by category", headings=headings, rows=tuple(rows), note="% (questions)")

    def _plots(self) -> tuple[Plot, ...]:
        lines = tuple(self._line(each.system) for each in self._asked)
        names = tuple(each.system for each in self._asked)
        speed = [
            Series(name=name, x=names, y=tuple(percentile(each.latencies_ms, share) for each in self._asked))
            for name, share in (("p50", 0.5), ("p95", 0.95))
        ]
        return (
            Plot(title=f"Recall by K on {self._info.name}", x_label="K", y_label="recall_any@K, %", series=lines),
            Plot(title="Latency", kind="bar", y_label="ms", log_y=True, series=tuple(speed)),
        )

    def _line(self, system: str) -> Series:
        means = [self._means[system][f"recall_any@{k}"] for k in self._ks]
        return Series(
            name=system,
            x=tuple(map(float, self._ks)),
            y=tuple(100 * mean.value for mean in means),
            low=tuple(100 * mean.low for mean in means),
            high=tuple(100 * mean.high for mean in means),
        )


def bounds(interval: Interval) -> str:
    """Return the bounds of a share in percent."""
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def signed(figure: Figure) -> str:
    """Return a difference of shares and its bounds in points, marked where they do not hold 0."""
    low, high = figure.low or 0.0, figure.high or 0.0
    mark = " *" if low > 0 or high < 0 else ""
    return f"{100 * figure.value:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}){mark}"


def _figure(subject: str, measure: str, interval: Interval, n: int, part: str = "") -> Figure:
    value, low, high = interval
    return Figure(subject=subject, measure=measure, part=part, value=value, low=low, high=high, n=n)
