"""The calls of the tool memory suite as figures, tables and plots."""

from collections.abc import Sequence

from pydantic import JsonValue

from swarm_memory.schema.benchmark import Cases, DatasetInfo, Figure, Plot, Series, SuiteResults, Table
from swarm_memory.tools.benchmark.metrics import Resampling
from swarm_memory.tools.benchmark.suites.mock_tools import LEVELS, PROFILES, TOOLS, best_tool, expected
from swarm_memory.tools.benchmark.suites.tool_choice import (
    BASELINE,
    MEMORY,
    MEMORY_FOR_QUESTION,
    SCENARIOS,
    Called,
    Scenario,
)
from swarm_memory.tools.credit.intervals import Interval, wilson

MEASURES = ("score", "useful", "success", "right_tool")
_TITLES = {
    "score": "average score",
    "useful": "answers that were about the question",
    "success": "success rate",
    "right_tool": "right tool chosen",
}


class Calls:
    """All calls until now, cut as the report needs them."""

    def __init__(self, called: Sequence[Called], seed: int) -> None:
        self._called, self._seed = called, seed
        self.epochs = sorted({each.epoch for each in called})
        self._whole = self._complete()

    def results(self, info: DatasetInfo, notes: Sequence[str], details: dict[str, JsonValue]) -> SuiteResults:
        """Return the results; scenarios and epochs that have not ended are left out of what is compared."""
        if not self._called:
            return SuiteResults(dataset=info, notes=tuple(notes))
        base = self.of(BASELINE)
        questions = list(dict.fromkeys(each.question for each in base))
        return SuiteResults(
            dataset=info,
            figures=(*self._rates(), *self._improvements()),
            case_ids=tuple(f"{each.epoch}: {each.question}" for each in base) if questions else (),
            cases=self._cases(len(base)),
            tables=(self._comparison(), self._improvement_table(), self._levels(), _published()),
            plots=self._plots(),
            notes=tuple(notes),
            details=details,
        )

    def of(self, scenario: Scenario, epoch: int | None = None, level: str | None = None) -> list[Called]:
        """Return the calls of a scenario, of an epoch and of a level."""
        return [
            each
            for each in self._called
            if each.scenario == scenario and epoch in (None, each.epoch) and level in (None, each.level)
        ]

    def improvement(self, scenario: Scenario, measure: str, epoch: int | None = None) -> Interval | None:
        """Return how much more than without memory, as a share of that; resampled by question, both arms together."""
        epochs = [epoch] if epoch is not None else [at for at in self.epochs if (scenario, at) in self._whole]
        ours = _by_question([call for at in epochs for call in self.of(scenario, at)], measure)
        theirs = _by_question([call for at in epochs for call in self.of(BASELINE, at)], measure)
        if not ours or ours.keys() != theirs.keys() or not sum(theirs.values()):
            return None
        ratio = Resampling(len(ours), self._seed).ratio([ours[key] for key in theirs], list(theirs.values()))
        return Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)

    def _complete(self) -> set[tuple[Scenario, int]]:
        return {(each.scenario, each.epoch) for each in self._called}

    def _rates(self) -> list[Figure]:
        found: list[Figure] = []
        for scenario in SCENARIOS:
            for part, epoch, level in (
                ("", None, None),
                *((f"epoch {at}", at, None) for at in self.epochs),
                *((each, None, each) for each in LEVELS),
            ):
                calls = self.of(scenario, epoch, level)
                found += [_rate(scenario, measure, part, calls) for measure in MEASURES if calls]
        return found

    def _improvements(self) -> list[Figure]:
        found: list[Figure] = []
        for scenario in (MEMORY, MEMORY_FOR_QUESTION):
            for part, epoch in (("", None), *((f"epoch {at}", at) for at in self.epochs)):
                got = self.improvement(scenario, "score", epoch)
                if got is not None:
                    value, low, high = (100 * each for each in got)
                    subject, measure = f"{scenario} against without", "improvement_percent"
                    found.append(Figure(subject=subject, measure=measure, part=part, value=value, low=low, high=high))
        return found

    def _cases(self, count: int) -> tuple[Cases, ...]:
        return tuple(
            Cases(subject=scenario, measure=measure, values=tuple(_value(each, measure) for each in self.of(scenario)))
            for scenario in SCENARIOS[1:]
            for measure in MEASURES
            if count and len(self.of(scenario)) == count
        )

    def _comparison(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for part, epoch in (*((f"Epoch {at}", at) for at in self.epochs), ("All epochs", None)):
            for scenario in SCENARIOS:
                calls = self.of(scenario, epoch)
                if calls:
                    rates = (_share(calls, measure) for measure in MEASURES)
                    rows.append((f"{part}: {scenario}", str(len(calls)), *rates))
        headings = ("scenario", "calls", *(_TITLES[measure] for measure in MEASURES))
        note = (
            "score: 0 or 1 by the evaluation of the tool memory, which sees the call and its output; about the "
            f"question: by the mock tool itself. By the table the right tool gives {_mean_of_best():.3f} and one drawn "
            f"blindly {sum(expected(level) for level in LEVELS) / len(LEVELS):.3f}, where each level is asked as often"
        )
        return Table(title="Tool memory benchmark", headings=headings, rows=tuple(rows), note=note)

    def _improvement_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for scenario in (MEMORY, MEMORY_FOR_QUESTION):
            for part, epoch in (*((f"epoch {at}", at) for at in self.epochs), ("all epochs", None)):
                found = [self.improvement(scenario, measure, epoch) for measure in MEASURES]
                if any(found):
                    rows.append((scenario, part, *map(_percent, found)))
        headings = ("scenario", "of", *(_TITLES[measure] for measure in MEASURES))
        note = "against the test without memory, with 95 % intervals: paired bootstrap over the questions"
        return Table(title="Improvement with tool memory, %", headings=headings, rows=tuple(rows), note=note)

    def _levels(self) -> Table:
        rows = [
            (scenario, level, *(f"{_chosen(calls, tool):.0%}" for tool in TOOLS), best_tool(level))
            for scenario in SCENARIOS
            for level in LEVELS
            if (calls := self.of(scenario, level=level))
        ]
        headings = ("scenario", "level", *TOOLS, "best by the table")
        return Table(title="Which tool was chosen", headings=headings, rows=tuple(rows))

    def _plots(self) -> tuple[Plot, ...]:
        scores = tuple(self._bars(scenario, "score") for scenario in SCENARIOS if self.of(scenario))
        right = tuple(self._bars(scenario, "right_tool") for scenario in SCENARIOS if self.of(scenario))
        curves = tuple(self._curve(scenario) for scenario in SCENARIOS[1:] if self.of(scenario))
        return (
            Plot(title="Score by epoch", x_label="epochs trained", y_label="score", series=curves),
            Plot(title="Average score by level", kind="bar", y_label="score", series=scores),
            Plot(title="Right tool chosen by level", kind="bar", y_label="share", series=right),
        )

    def _curve(self, scenario: Scenario) -> Series:
        epochs = [at for at in self.epochs if self.of(scenario, at)]
        found = [_interval(self.of(scenario, at), "score") for at in epochs]
        low, high = tuple(each.low for each in found), tuple(each.high for each in found)
        return Series(
            name=scenario, x=tuple(map(float, epochs)), y=tuple(each.value for each in found), low=low, high=high
        )

    def _bars(self, scenario: Scenario, measure: str) -> Series:
        found = [_interval(self.of(scenario, level=level), measure) for level in LEVELS]
        return Series(
            name=scenario,
            x=LEVELS,
            y=tuple(each.value for each in found),
            low=tuple(each.low for each in found),
            high=tuple(each.high for each in found),
        )


def _value(call: Called, measure: str) -> float:
    values = {"score": call.score, "useful": call.relevant, "success": call.success, "right_tool": call.right_tool}
    return float(values[measure])


def _interval(calls: Sequence[Called], measure: str) -> Interval:
    if not calls:
        return Interval(0.0, 0.0, 0.0)
    return wilson(round(sum(_value(each, measure) for each in calls)), len(calls))


def _rate(scenario: str, measure: str, part: str, calls: Sequence[Called]) -> Figure:
    value, low, high = _interval(calls, measure)
    return Figure(subject=scenario, measure=measure, part=part, value=value, low=low, high=high, n=len(calls))


def _share(calls: Sequence[Called], measure: str) -> str:
    value, low, high = _interval(calls, measure)
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _chosen(calls: Sequence[Called], tool: str) -> float:
    return sum(each.tool == tool for each in calls) / len(calls)


def _by_question(calls: Sequence[Called], measure: str) -> dict[str, float]:
    """Return the mean of a measure for each question over the epochs it was asked in."""
    found: dict[str, list[float]] = {}
    for each in calls:
        found.setdefault(each.question, []).append(_value(each, measure))
    return {question: sum(values) / len(values) for question, values in found.items()}


def _percent(found: Interval | None) -> str:
    if found is None:
        return "-"
    value, low, high = (100 * each for each in found)
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f}){' *' if low > 0 or high < 0 else ''}"


def _mean_of_best() -> float:
    return sum(expected(level, best_tool(level)) for level in LEVELS) / len(LEVELS)


def _published() -> Table:
    rows = tuple(
        (tool, *(f"{PROFILES[tool][level].success:.0%} / {PROFILES[tool][level].relevance:.0%}" for level in LEVELS))
        for tool in TOOLS
    )
    note = "success / relevance of an answer, as ReMe published them; drawn for each call by itself"
    return Table(title="The mock tools", headings=("tool", *LEVELS), rows=rows, note=note)
