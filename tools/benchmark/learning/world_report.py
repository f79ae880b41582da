"""The closed-loop world's results as figures, tables and learning curves with bands. Pure functions of results."""

from collections.abc import Callable, Sequence

from swarm_memory.schema.benchmark import Cases, Figure, Plot, Series, SuiteResults, Table
from swarm_memory.tools.benchmark.world.experiment import ARMS, Result, scaled_arm
from swarm_memory.tools.benchmark.world.figures import Estimate, Measure, calls, gain, judged, level, success
from swarm_memory.tools.benchmark.world.rules import FAMILIES

_MEASURES: dict[str, Measure] = {"success_rate": success, "steps": calls}
_NOTE = "means over seeds with 95 % bootstrap intervals over seeds; steps are tool calls, of tasks not met too"


class WorldReport:
    """Results of the seeds that every arm has done, so that all is compared in pairs."""

    def __init__(self, results: Sequence[Result], k: int) -> None:
        self._results, self._k = results, k
        arms = tuple(dict.fromkeys(each.arm for each in results))
        self._plain = tuple(arm for arm in ARMS if arm in arms)
        self._scaled = tuple(arm for arm in arms if arm not in ARMS)

    def results(self) -> SuiteResults:
        """Return figures, cases, tables and plots."""
        if not self._results:
            return SuiteResults()
        case_ids = tuple(f"{each.seed}-{each.family}-{each.number}" for each in self._of(self._plain[0]))
        return SuiteResults(
            figures=(*self._levels(), *self._curves(), *self._gains()),
            case_ids=case_ids,
            cases=tuple(
                Cases(subject=arm, measure=name, values=tuple(map(measure, self._of(arm))))
                for arm in self._plain
                for name, measure in _MEASURES.items()
                if len(self._of(arm)) == len(case_ids)
            ),
            tables=(self._arms_table(), self._gain_table(), self._family_table(), self._judge_table()),
            plots=tuple(self._plot(name) for name in _MEASURES),
        )

    def _of(self, arm: str, keep: Callable[[Result], bool] = lambda _: True) -> list[Result]:
        return [each for each in self._results if each.arm == arm and keep(each)]

    @property
    def _numbers(self) -> list[int]:
        return sorted({each.number for each in self._of(self._plain[0])})

    def _levels(self) -> list[Figure]:
        return [
            _figure(arm, name, level(self._of(arm), measure), "", len(self._of(arm)))
            for arm in (*self._plain, *self._scaled)
            for name, measure in _MEASURES.items()
        ]

    def _curves(self) -> list[Figure]:
        return [
            _figure(arm, name, self._at(arm, number, measure), f"task {number}")
            for arm in self._plain
            for name, measure in _MEASURES.items()
            for number in self._numbers
        ]

    def _at(self, arm: str, number: int, measure: Measure) -> Estimate:
        return level(self._of(arm, lambda each: each.number == number), measure)

    def _pairs(self) -> list[tuple[str, str]]:
        wanted = [("memory", "none"), ("shuffled", "none"), ("memory", "shuffled")]
        wanted += [(scaled_arm(k, with_notes=True), scaled_arm(k, with_notes=False)) for k in (1, self._k)]
        wanted.append((scaled_arm(self._k, with_notes=True), scaled_arm(1, with_notes=True)))
        there = {*self._plain, *self._scaled}
        return list(dict.fromkeys(pair for pair in wanted if there.issuperset(pair) and pair[0] != pair[1]))

    def _gains(self) -> list[Figure]:
        return [
            _figure(f"{left} less {right}", name, gain(self._of(left), self._of(right), measure), "")
            for left, right in self._pairs()
            for name, measure in _MEASURES.items()
        ]

    def _arms_table(self) -> Table:
        rows = tuple(
            (arm, str(len(self._of(arm))), *(str(level(self._of(arm), measure)) for measure in _MEASURES.values()))
            for arm in (*self._plain, *self._scaled)
        )
        return Table(title="Arms", headings=("arm", "tasks", "success", "steps"), rows=rows, note=_NOTE)

    def _gain_table(self) -> Table:
        rows = tuple(
            (
                f"{left} less {right}",
                *(str(gain(self._of(left), self._of(right), measure)) for measure in _MEASURES.values()),
            )
            for left, right in self._pairs()
        )
        note = "each seed is its own control: same tasks, same random streams"
        return Table(title="Paired differences", headings=("arms", "success", "steps"), rows=rows, note=note)

    def _family_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for family in FAMILIES:
            found = [self._of(arm, lambda each, name=family: each.family == name) for arm in self._plain]
            cells = (f"{level(of, success).mean:.2f} / {level(of, calls).mean:.2f}" for of in found)
            rows.append((family, *cells))
        headings = ("family", *(f"{arm}: success / steps" for arm in self._plain))
        return Table(title="By family of tasks", headings=headings, rows=tuple(rows))

    def _judge_table(self) -> Table:
        found = {arm: judged(self._of(arm)) for arm in (*self._plain, *self._scaled) if arm != "none"}
        rows = tuple((arm, f"{of['coverage']:.3f}", f"{of['accuracy']:.3f}") for arm, of in found.items())
        note = "coverage: tasks that the judge decided; accuracy: of these, those that the world says the same of"
        return Table(title="The judge", headings=("arm", "coverage", "accuracy"), rows=rows, note=note)

    def _plot(self, name: str) -> Plot:
        label = "tasks of the family so far"
        series = tuple(self._series(arm, _MEASURES[name]) for arm in self._plain)
        told = name.replace("_", " ")
        return Plot(title=f"Learning curve: {told}", x_label=label, y_label=told, series=series)

    def _series(self, arm: str, measure: Measure) -> Series:
        found = [self._at(arm, number, measure) for number in self._numbers]
        low, high = tuple(each.low for each in found), tuple(each.high for each in found)
        return Series(
            name=arm, x=tuple(map(float, self._numbers)), y=tuple(each.mean for each in found), low=low, high=high
        )


def _figure(subject: str, measure: str, found: Estimate, part: str, n: int | None = None) -> Figure:
    better = "lower" if measure == "steps" else "higher"
    return Figure(
        subject=subject,
        measure=measure,
        part=part,
        value=found.mean,
        low=found.low,
        high=found.high,
        n=n,
        better=better,
    )
