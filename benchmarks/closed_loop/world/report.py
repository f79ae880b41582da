"""Results as figures, tables and learning curves with bands over seeds."""

from collections.abc import Callable, Sequence

from pydantic import JsonValue, TypeAdapter

from swarm_memory.schema.benchmark import Cases, Figure, Plot, Series, SuiteResults, Table
from world.experiment import ARMS, Result, scaled_arm
from world.figures import Estimate, Measure, calls, each_rollout, gain, judged, level, success
from world.rules import FAMILIES

_MEASURES: dict[str, Measure] = {"success_rate": success, "steps": calls, "each_rollout": each_rollout}
_RESULTS = TypeAdapter(list[Result])
_CURVES = ("success_rate", "steps")
_HEADINGS = ("success", "steps", "each rollout")
_NOTE = (
    "means over seeds with 95 % bootstrap intervals over seeds; steps are tool calls, of tasks not met too; "
    "each rollout: the share of all rollouts that met the task, chosen or not"
)


class WorldReport:
    """Results of seeds that every arm has done, so that all is compared in pairs."""

    def __init__(self, results: Sequence[Result], ks: Sequence[int]) -> None:
        self._results, self._ks = results, ks
        arms = tuple(dict.fromkeys(each.arm for each in results))
        self._plain = tuple(arm for arm in ARMS if arm in arms)
        self._scaled = tuple(arm for arm in arms if arm not in ARMS)
        self._numbers = sorted({each.number for each in self._of(self._plain[0])})

    def results(self) -> SuiteResults:
        """Return figures, cases, tables, plots, and each result as it is."""
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
            tables=(
                self._arms_table(), self._number_table(), self._family_table(), self._gain_table(),
                self._family_gain_table(), self._judge_table(),
            ),
            plots=tuple(self._plot(name) for name in _CURVES),
            details={"results": TypeAdapter(list[JsonValue]).validate_json(_RESULTS.dump_json(list(self._results)))},
        )  # fmt: skip

    def _of(self, arm: str, keep: Callable[[Result], bool] = lambda _: True) -> list[Result]:
        return [each for each in self._results if each.arm == arm and keep(each)]

    def _of_family(self, arm: str, family: str) -> list[Result]:
        return self._of(arm, lambda each: each.family == family)

    def _at(self, arm: str, number: int, measure: Measure) -> Estimate:
        return level(self._of(arm, lambda each: each.number == number), measure)

    def _levels(self) -> list[Figure]:
        return [
            _figure(arm, name, level(self._of(arm), measure), "", len(self._of(arm)))
            for arm in (*self._plain, *self._scaled)
            for name, measure in _MEASURES.items()
        ]

    def _curves(self) -> list[Figure]:
        return [
            _figure(arm, name, self._at(arm, number, _MEASURES[name]), f"task {number}")
            for arm in self._plain
            for name in _CURVES
            for number in self._numbers
        ]

    def _pairs(self) -> list[tuple[str, str]]:
        """Return what is compared: the last pairs are what notes add to as many attempts without."""
        wanted = [("memory", "none"), ("shuffled", "none"), ("memory", "shuffled")]
        wanted.append((scaled_arm(max(self._ks), with_notes=True), scaled_arm(1, with_notes=True)))
        wanted += [(scaled_arm(k, with_notes=True), scaled_arm(k, with_notes=False)) for k in self._ks]
        there = {*self._plain, *self._scaled}
        return [pair for pair in wanted if there.issuperset(pair)]

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
        return Table(title="Arms", headings=("arm", "tasks", *_HEADINGS), rows=rows, note=_NOTE)

    def _number_table(self) -> Table:
        rows = tuple(
            (str(number), *(_both(self._of(arm, lambda each, at=number: each.number == at)) for arm in self._plain))
            for number in self._numbers
        )
        headings = ("task", *(f"{arm}: success / steps" for arm in self._plain))
        return Table(title="By number of the task", headings=headings, rows=rows)

    def _family_table(self) -> Table:
        arms = (*self._plain, *self._scaled)
        rows: list[tuple[str, ...]] = []
        for family in FAMILIES:
            told = self._of_family("memory", family)
            notes = (
                f"{level(told, lambda each: each.notes).mean:.2f}, {level(told, lambda each: each.own_notes).mean:.2f}"
            )
            rows.append((family, *(_both(self._of_family(arm, family)) for arm in arms), notes))
        headings = ("family", *(f"{arm}: success / steps" for arm in arms), "notes, own")
        return Table(title="By family of tasks", headings=headings, rows=tuple(rows))

    def _gain_table(self) -> Table:
        rows = tuple(
            (f"{left} less {right}", *_gains(self._of(left), self._of(right))) for left, right in self._pairs()
        )
        note = "each seed is its own control: same tasks, same random streams"
        return Table(title="Paired differences", headings=("arms", *_HEADINGS), rows=rows, note=note)

    def _family_gain_table(self) -> Table:
        rows = tuple(
            (family, *_gains(self._of_family("memory", family), self._of_family("none", family))) for family in FAMILIES
        )
        return Table(title="memory less none, by family", headings=("family", *_HEADINGS), rows=rows)

    def _judge_table(self) -> Table:
        found = {arm: judged(self._of(arm)) for arm in (*self._plain, *self._scaled) if arm != "none"}
        said = sorted({name for of in found.values() for name in of if " when " in name})
        rows = tuple(
            (arm, f"{of['coverage']:.4f}", f"{of['accuracy']:.4f}", *(str(of.get(name, 0)) for name in said))
            for arm, of in found.items()
        )
        note = "coverage: tasks that the judge decided; accuracy: of these, those that the world says the same of"
        return Table(title="The judge", headings=("arm", "coverage", "accuracy", *said), rows=rows, note=note)

    def _plot(self, name: str) -> Plot:
        told = name.replace("_", " ")
        series = tuple(self._series(arm, _MEASURES[name]) for arm in self._plain)
        return Plot(title=f"Learning curve: {told}", x_label="tasks of the family so far", y_label=told, series=series)

    def _series(self, arm: str, measure: Measure) -> Series:
        found = [self._at(arm, number, measure) for number in self._numbers]
        low, high = tuple(each.low for each in found), tuple(each.high for each in found)
        return Series(
            name=arm, x=tuple(map(float, self._numbers)), y=tuple(each.mean for each in found), low=low, high=high
        )


def _both(results: Sequence[Result]) -> str:
    return f"{level(results, success).mean:.2f} / {level(results, calls).mean:.2f}" if results else "-"


def _gains(ours: Sequence[Result], theirs: Sequence[Result]) -> tuple[str, ...]:
    return tuple(str(gain(ours, theirs, measure)) for measure in _MEASURES.values())


def _figure(subject: str, measure: str, found: Estimate, part: str, n: int | None = None) -> Figure:
    return Figure(
        subject=subject,
        measure=measure,
        part=part,
        value=found.mean,
        low=found.low,
        high=found.high,
        n=n,
        better="lower" if measure == "steps" else "higher",
    )
