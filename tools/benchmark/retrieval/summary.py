"""What memory systems gave when they were asked, and that as figures, tables and plots."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import BenchmarkQuestion, Cases, DatasetInfo, Plot, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import (
    DEPTH,
    Column,
    Resampling,
    change,
    columns,
    figure,
    figures,
    percent,
    percentile,
    series,
    table,
)
from swarm_memory.tools.credit.intervals import Interval

REFERENCE = "bm25-okapi"
MRR, NDCG = f"mrr@{DEPTH}", f"ndcg@{DEPTH}"


@dataclass(slots=True)
class Asked:
    """What one system gave until now; it grows while the system is asked."""

    system: str
    questions: list[BenchmarkQuestion] = field(default_factory=list[BenchmarkQuestion])
    """Those with gold, in the order asked."""
    values: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    latencies_ms: list[float] = field(default_factory=list[float])
    answered: int = 0
    """Questions with gold that got anything."""
    unanswerable: int = 0
    withheld: int = 0
    """Of the unanswerable questions, those that nothing was found for."""
    ingest_s: float = 0.0
    bytes_per_item: float | None = None

    def latency(self, share: float) -> float:
        """Return the ms that this share of the answers did not exceed."""
        return percentile(self.latencies_ms, share)


class Summary:
    """What all systems gave, as figures, tables and plots."""

    def __init__(self, info: DatasetInfo, systems: Sequence[Asked], ks: Sequence[int], seed: int) -> None:
        self._info, self._ks, self._seed = info, tuple(sorted(set(ks))), seed
        self._asked = [each for each in systems if each.values]
        whole = max((len(each.values) for each in self._asked), default=0)
        self._complete = [each for each in self._asked if len(each.values) == whole]
        self._found: dict[tuple[str, str, str], Interval] = {}
        """By subject, part and measure."""
        self._counts: dict[tuple[str, str], int] = {}
        """Questions of a subject and part."""
        self._add_all()
        measures = (*((f"R@{k}", f"recall_any@{k}") for k in self._ks), ("MRR", MRR), ("nDCG", NDCG))
        self._shown = dict(measures)

    def _add_all(self) -> None:
        reference = next((each.values for each in self._complete if each.system == REFERENCE), None)
        for each in self._asked:
            self._add(each.system, each.values)
            by_category: dict[str, list[dict[str, float]]] = {}
            for values, question in zip(each.values, each.questions, strict=True):
                by_category.setdefault(question.category or "", []).append(values)
            for name in sorted(filter(None, by_category)):
                self._add(each.system, by_category[name], name)
        for each in self._complete:
            if reference is not None and each.system != REFERENCE:
                pairs = zip(each.values, reference, strict=True)
                self._add(_less(each.system), [{name: own[name] - its[name] for name in own} for own, its in pairs])

    def _add(self, subject: str, rows: Sequence[Mapping[str, float]], part: str = "") -> None:
        values = columns(rows)
        self._counts[subject, part] = len(rows)
        for measure, found in zip(
            values, Resampling(len(rows), self._seed).intervals(list(values.values())), strict=True
        ):
            self._found[subject, part, measure] = found

    def results(self, notes: Sequence[str] = ()) -> SuiteResults:
        """Return figures, cases, tables and plots of what was asked until now."""
        if not self._asked:
            return SuiteResults(dataset=self._info, notes=tuple(notes))
        questions = self._complete[0].questions
        partial = [
            f"{each.system}: asked {len(each.values)} of {len(questions)}"
            for each in self._asked
            if each not in self._complete
        ]
        measured = (
            figure(subject, measure, found, part=part, n=self._counts[subject, part])
            for (subject, part, measure), found in self._found.items()
        )
        return SuiteResults(
            dataset=self._info,
            figures=(*measured, *(found for each in self._asked for found in figures(each.system, _COSTS, each))),
            case_ids=tuple(
                f"{at} {digest([each.group, each.query])[:12]}" for at, each in enumerate(questions, start=1)
            ),
            cases=tuple(
                Cases(subject=each.system, measure=measure, values=values)
                for each in self._complete
                for measure, values in columns(each.values).items()
            ),
            tables=tuple(self._tables()),
            plots=self._plots(),
            notes=(*notes, *partial),
        )

    def _tables(self) -> Iterator[Table]:
        system = Column[Asked]("system", lambda each: each.system)
        asked = Column[Asked]("asked", lambda each: len(each.values))
        shares = [self._share(*each) for each in self._shown.items()]
        note = (
            "%; R@K: a relevant item is among the first K; MRR and nDCG at 10; fitting, foreign: questions with and "
            "without a relevant item that got anything; B/item: database and its log"
        )
        yield table(f"Retrieval on {self._info.name}", (system, asked, *shares, *_COSTS), self._asked, note)
        bounds = [
            Column[Asked](
                name, lambda each, at=measure: "{1:.1f} to {2:.1f}".format(*percent(self._found[each.system, "", at]))
            )
            for name, measure in self._shown.items()
        ]
        yield table("95 % intervals", (system, *bounds), self._asked, "bootstrap over questions")
        others = [each for each in self._complete if (_less(each.system), "") in self._counts]
        if others:
            less = [
                Column[Asked](name, lambda each, measure=measure: change(self._found[_less(each.system), "", measure]))
                for name, measure in self._shown.items()
            ]
            note = "points, paired over the same questions; * the 95 % interval does not hold 0"
            yield table(f"Less {REFERENCE}", (system, *less), others, note)
        categories = sorted({part for _, part in self._counts if part})
        if categories:
            counts = Counter(each.category for each in self._asked[0].questions)
            parts = [self._share(f"{name} ({counts[name]})", self._main_recall, name) for name in categories]
            yield table(f"{self._main_recall} by category", (system, *parts), self._asked, "% (questions)")

    def _share(self, heading: str, measure: str, part: str = "") -> Column[Asked]:
        """Return the column of a measure in hundredths."""

        def share(each: Asked) -> float | None:
            found = self._found.get((each.system, part, measure))
            return None if found is None else 100 * found.value

        return Column(heading, share, ".1f")

    @property
    def _main_recall(self) -> str:
        """The cut-off that categories are shown at."""
        return f"recall_any@{5 if 5 in self._ks else self._ks[-1]}"

    def _plots(self) -> tuple[Plot, ...]:
        lines = tuple(
            series(each.system, [(k, percent(self._found[each.system, "", f"recall_any@{k}"])) for k in self._ks])
            for each in self._asked
        )
        speed = tuple(
            series(name, [(each.system, each.latency(share)) for each in self._asked])
            for name, share in (("p50", 0.5), ("p95", 0.95))
        )
        return (
            Plot(title=f"Recall by K on {self._info.name}", x_label="K", y_label="recall_any@K, %", series=lines),
            Plot(title="Latency", kind="bar", y_label="ms", log_y=True, series=speed),
        )


_COSTS: tuple[Column[Asked], ...] = (
    Column(
        "fitting %", lambda each: 100 * each.answered / len(each.values) if each.values else None, ".1f",
    ),
    Column(
        "foreign %",
        lambda each: 100 * (1 - each.withheld / each.unanswerable) if each.unanswerable else None,
        ".1f",
    ),
    Column("p50 ms", lambda each: each.latency(0.5), ".2f", "p50_ms"),
    Column("p95 ms", lambda each: each.latency(0.95), ".2f", "p95_ms"),
    Column("ingest s", lambda each: each.ingest_s, ".2f", "ingest_s"),
    Column("B/item", lambda each: each.bytes_per_item, ",.0f", "bytes_per_item"),
    Column(
        "", lambda each: each.withheld / each.unanswerable if each.unanswerable else None,
        measure="empty_when_unanswerable", n=lambda each: each.unanswerable, better="higher",
    ),
)  # fmt: skip


def _less(system: str) -> str:
    return f"{system} less {REFERENCE}"
