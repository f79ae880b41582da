"""What memory systems answered, and that as figures and tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swarm_memory.schema.benchmark import BenchmarkQuestion, DatasetInfo, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import (
    DEPTH,
    Column,
    bootstrap,
    figure,
    figures,
    format_change,
    percentile,
    table,
    to_percent,
)
from swarm_memory.tools.credit.intervals import Interval

REFERENCES = ("bm25-okapi", "hybrid")
"""Each is compared with all other systems, by question: one that anybody can run, and what an agent that asks gets."""

MRR, NDCG = f"mrr@{DEPTH}", f"ndcg@{DEPTH}"


@dataclass(slots=True)
class SystemResults:
    """What one system has answered so far; it grows while the system is asked."""

    system: str
    questions: list[BenchmarkQuestion] = field(default_factory=list[BenchmarkQuestion])
    """The questions with gold, in the order asked."""
    values: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    latencies_ms: list[float] = field(default_factory=list[float])
    answered: int = 0
    """Questions with gold for which the system says that something fits."""
    unanswerable: int = 0
    withheld: int = 0
    """Unanswerable questions for which the system says that nothing fits."""
    ingest_s: float = 0.0
    bytes_per_item: float | None = None

    def latency(self, share: float) -> float:
        """Return the milliseconds that this share of the answers did not exceed."""
        return percentile(self.latencies_ms, share)


class Summary:
    """What all systems answered, as figures and tables."""

    def __init__(self, info: DatasetInfo, systems: Sequence[SystemResults], ks: Sequence[int], seed: int) -> None:
        self._info, self._ks, self._seed = info, tuple(sorted(set(ks))), seed
        self._asked = [each for each in systems if each.values]
        whole = max((len(each.values) for each in self._asked), default=0)
        self._complete = [each for each in self._asked if len(each.values) == whole]
        self._found: dict[tuple[str, str, str], Interval] = {}
        """By subject, part and measure."""
        self._counts: dict[tuple[str, str], int] = {}
        """How many questions there are, by subject and part."""
        self._bases = [each for name in REFERENCES for each in self._complete if each.system == name]
        self._add_all()
        self._shown = {f"R@{k}": f"recall_any@{k}" for k in self._ks} | {"MRR": MRR, "nDCG": NDCG}

    def _add_all(self) -> None:
        for each in self._asked:
            self._add(each.system, each.values)
            by_category: dict[str, list[dict[str, float]]] = {}
            for values, question in zip(each.values, each.questions, strict=True):
                by_category.setdefault(question.category or "", []).append(values)
            for name in sorted(filter(None, by_category)):
                self._add(each.system, by_category[name], name)
        for base in self._bases:
            for each in self._others(base):
                pairs = zip(each.values, base.values, strict=True)
                self._add(_less(each, base), [{name: own[name] - its[name] for name in own} for own, its in pairs])

    def _others(self, base: SystemResults) -> list[SystemResults]:
        return [each for each in self._complete if each is not base]

    def _add(self, subject: str, rows: Sequence[Mapping[str, float]], part: str = "") -> None:
        values = {name: [row[name] for row in rows] for name in rows[0]}
        self._counts[subject, part] = len(rows)
        intervals = bootstrap(list(values.values()), self._seed)
        self._found |= {(subject, part, each): found for each, found in zip(values, intervals, strict=True)}

    def results(self, notes: Sequence[str] = ()) -> SuiteResults:
        """Return figures and tables of what was asked so far."""
        if not self._asked:
            return SuiteResults(dataset=self._info, notes=tuple(notes))
        partial = [
            f"{each.system}: asked {len(each.values)} of {len(self._complete[0].values)}"
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
            tables=tuple(self._tables()),
            notes=(*notes, *partial),
        )

    def _tables(self) -> Iterator[Table]:
        system = Column[SystemResults]("system", lambda each: each.system)
        asked = Column[SystemResults]("asked", lambda each: len(each.values))
        shares = [self._share(*each) for each in self._shown.items()]
        note = (
            "%; R@K: a relevant item is among the first K; MRR and nDCG at 10; fitting, foreign: questions with and "
            "without a relevant item for which something fits; B/item: database and its log"
        )
        yield table(f"Retrieval on {self._info.name}", (system, asked, *shares, *_COSTS), self._asked, note)
        bounds = [
            Column[SystemResults](
                name,
                lambda each, at=measure: "{1:.1f} to {2:.1f}".format(*to_percent(self._found[each.system, "", at])),
            )
            for name, measure in self._shown.items()
        ]
        yield table("95 % intervals", (system, *bounds), self._asked, "bootstrap over questions")
        note = "points, paired over the same questions; * the 95 % interval does not contain 0"
        for base in self._bases:
            less = [
                Column[SystemResults](
                    name,
                    lambda each, base=base, measure=measure: format_change(self._found[_less(each, base), "", measure]),
                )
                for name, measure in self._shown.items()
            ]
            if others := self._others(base):
                yield table(f"Difference from {base.system}", (system, *less), others, note)
        categories = sorted({part for _, part in self._counts if part})
        if categories:
            counts = Counter(each.category for each in self._asked[0].questions)
            parts = [self._share(f"{name} ({counts[name]})", self._main_recall, name) for name in categories]
            yield table(f"{self._main_recall} by category", (system, *parts), self._asked, "% (questions)")

    def _share(self, heading: str, measure: str, part: str = "") -> Column[SystemResults]:
        """Return the column of a measure as a percentage."""

        def share(each: SystemResults) -> float | None:
            found = self._found.get((each.system, part, measure))
            return None if found is None else 100 * found.value

        return Column(heading, share, ".1f")

    @property
    def _main_recall(self) -> str:
        """The measure that categories are shown by."""
        return f"recall_any@{5 if 5 in self._ks else self._ks[-1]}"


_COSTS: tuple[Column[SystemResults], ...] = (
    Column("fitting %", lambda each: 100 * each.answered / len(each.values), ".1f"),
    Column(
        "foreign %", lambda each: 100 * (1 - each.withheld / each.unanswerable) if each.unanswerable else None, ".1f",
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


def _less(system: SystemResults, base: SystemResults) -> str:
    return f"{system.system} less {base.system}"
