"""Results as figures and tables, with intervals over seeds."""

from collections.abc import Collection, Iterator, Sequence

from pydantic import JsonValue, TypeAdapter

from swarm_memory.schema.benchmark import MetricValue, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import figure, written
from world.experiment import ARMS, NONE, Result
from world.figures import Measure, calls, changed, gain, level, success
from world.folders import FAMILIES, GROUPS

_MEASURES: dict[str, Measure] = {"success_rate": success, "steps": calls}
_RESULTS = TypeAdapter(list[Result])
_NONE = NONE.name
_NOTE = "means over seeds with 95 % bootstrap intervals over seeds; steps are tool calls, of tasks not met too"
_PAIRED = "each seed is its own control: same tasks, same random streams"


class WorldReport:
    """Results of seeds that every arm has run, so that everything is compared in pairs."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results
        arms = {each.arm for each in results}
        self._arms = tuple(arm.name for arm in ARMS if arm.name in arms)
        self._with_memory = tuple(arm for arm in self._arms if arm != _NONE)
        self._families = tuple(name for name in FAMILIES if any(each.family == name for each in results))
        groups = {name: tuple(each for each in families if each in self._families) for name, families in GROUPS.items()}
        self._groups = {name: families for name, families in groups.items() if families}

    def results(self) -> SuiteResults:
        """Return figures, tables, and every single result."""
        return SuiteResults(
            figures=tuple(self._figures()),
            tables=(
                *(self._arms_table(group) for group in self._groups), self._family_table(), self._harm_table(),
            ),
            details={"results": TypeAdapter(list[JsonValue]).validate_json(_RESULTS.dump_json(list(self._results)))},
        )  # fmt: skip

    def _of(self, arm: str, families: Collection[str] = FAMILIES) -> list[Result]:
        return [each for each in self._results if each.arm == arm and each.family in families]

    def _figures(self) -> Iterator[MetricValue]:
        for name, measure in _MEASURES.items():
            better = "lower" if name == "steps" else "higher"
            for arm in self._arms:
                found = self._of(arm)
                yield figure(arm, name, level(found, measure), n=len(found), better=better)
            for arm in self._with_memory:
                yield figure(f"{arm} less {_NONE}", name, gain(self._of(arm), self._of(_NONE), measure), better=better)

    def _arms_table(self, group: str) -> Table:
        families = self._groups[group]
        none = self._of(_NONE, families)
        rows: list[tuple[str, ...]] = []
        for arm in self._arms:
            found = self._of(arm, families)
            gains = [written(gain(found, none, measure), ".3f") if arm != _NONE else "" for measure in (success, calls)]
            levels = [written(level(found, measure), ".3f") for measure in (success, calls)]
            rows.append((arm, str(len(found)), *levels, *gains))
        headings = ("arm", "tasks", "success", "steps", "success less none", "steps less none")
        return Table(title=f"Arms, {group}", headings=headings, rows=tuple(rows), note=f"{_NOTE}; {_PAIRED}")

    def _family_table(self) -> Table:
        rows = tuple(
            (family, *(_both(self._of(arm, (family,))) for arm in self._arms), self._notes_of(family))
            for family in self._families
        )
        headings = ("family", *self._arms, "notes, own")
        return Table(title="By family: success / steps; notes a task, own ones", headings=headings, rows=rows)

    def _notes_of(self, family: str) -> str:
        given = self._of("notes", (family,))
        notes, own = level(given, lambda each: each.notes), level(given, lambda each: each.own_notes)
        return f"{notes.value:.2f}, {own.value:.2f}"

    def _harm_table(self) -> Table:
        parts = {**{family: (family,) for family in self._families}, **self._groups}
        rows = tuple(
            (part, *(self._harm(arm, families) for arm in self._with_memory)) for part, families in parts.items()
        )
        note = (
            "of the same task and random stream: met with none and not in the arm, and the other way round; what the "
            "shuffled notes lose is what chance alone does; false cure: tasks that were shown only what does not help"
        )
        return Table(
            title="Harm: lost / won / false cures", headings=("family", *self._with_memory), rows=rows, note=note
        )

    def _harm(self, arm: str, families: Collection[str]) -> str:
        done, none = self._of(arm, families), self._of(_NONE, families)
        lost, won = changed(done, none)
        return f"{lost} / {won} / {sum(each.false_cure for each in done)}"


def _both(results: Sequence[Result]) -> str:
    return f"{level(results, success).value:.2f} / {level(results, calls).value:.2f}" if results else "-"
