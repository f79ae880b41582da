"""The scenarios and calls of the tool memory suite, and the calls as figures and tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal, NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.benchmark import DatasetInfo, Figure, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import Column, Resampling, change, figure, figures, percent, table
from swarm_memory.tools.benchmark.tool_choice.mock_tools import LEVELS, PROFILES, TOOLS, Level, best_tool
from swarm_memory.tools.credit.intervals import Interval, wilson

Scenario = Literal["train, no memory", "test, no memory", "test, memory", "test, memory for the question"]
TRAIN: Scenario = "train, no memory"
BASELINE: Scenario = "test, no memory"
MEMORY: Scenario = "test, memory"
MEMORY_FOR_QUESTION: Scenario = "test, memory for the question"
SCENARIOS: tuple[Scenario, ...] = (TRAIN, BASELINE, MEMORY, MEMORY_FOR_QUESTION)


@dataclass(frozen=True, slots=True)
class Called:
    """One question, the tool it was put to, and what came of it."""

    epoch: int
    scenario: Scenario
    question: str
    level: Level
    tool: str | None
    """None: no tool was chosen in time, or one that there is not."""
    success: bool
    score: float
    """By the evaluation of the tool memory, which sees the call and its output alone."""
    relevant: bool
    """By the mock tool itself."""


MEASURES: dict[str, Callable[[Called], float]] = {
    "score": lambda call: call.score,
    "useful": lambda call: call.relevant,
    "success": lambda call: call.success,
    "right_tool": lambda call: call.tool == best_tool(call.level),
}
_TITLES = ("average score", "answers that were about the question", "success rate", "right tool chosen")
_WITH_MEMORY = (MEMORY, MEMORY_FOR_QUESTION)


class _Cut(NamedTuple):
    """The calls of a scenario in one part of the run."""

    scenario: Scenario
    part: str
    calls: Sequence[Called]

    def rate(self, measure: str) -> Interval:
        return wilson(round(sum(map(MEASURES[measure], self.calls))), len(self.calls))


_RATES = tuple(
    Column[_Cut](title, partial(_Cut.rate, measure=measure), ".3f", measure, lambda cut: len(cut.calls), "higher")
    for measure, title in zip(MEASURES, _TITLES, strict=True)
)


class Calls:
    """All calls until now, cut as the report needs them."""

    def __init__(self, called: Sequence[Called], seed: int) -> None:
        self._called, self._seed = called, seed
        self._epochs = {f"epoch {at}": at for at in sorted({each.epoch for each in called})}

    def results(self, info: DatasetInfo, notes: Sequence[str], details: dict[str, JsonValue]) -> SuiteResults:
        """Return the results; scenarios and epochs that have not ended are left out of what is compared."""
        if not self._called:
            return SuiteResults(dataset=info, notes=tuple(notes))
        return SuiteResults(
            dataset=info,
            figures=tuple(self._figures()),
            tables=(self._comparison(), self._improvement_table()),
            notes=tuple(notes),
            details=details,
        )

    def of(self, scenario: Scenario, epoch: int | None = None, level: Level | None = None) -> list[Called]:
        """Return the calls of a scenario, of an epoch and of a level."""
        return [
            each
            for each in self._called
            if each.scenario == scenario and epoch in (None, each.epoch) and level in (None, each.level)
        ]

    def improvement(self, scenario: Scenario, measure: str) -> Interval | None:
        """Return how much more than without memory, as a share of that; resampled by question, both arms together."""
        epochs = {each.epoch for each in self.of(scenario)}
        ours = _by_question(self.of(scenario), measure)
        theirs = _by_question([each for each in self.of(BASELINE) if each.epoch in epochs], measure)
        if not ours or ours.keys() != theirs.keys() or not sum(theirs.values()):
            return None
        ratio = Resampling(len(ours), self._seed).ratio([ours[key] for key in theirs], list(theirs.values()))
        return Interval(*(each - 1 for each in ratio))

    def _figures(self) -> Iterator[Figure]:
        for scenario in SCENARIOS:
            epochs = (_Cut(scenario, part, self.of(scenario, at)) for part, at in self._epochs.items())
            levels = (_Cut(scenario, level, self.of(scenario, level=level)) for level in LEVELS)
            for cut in (_Cut(scenario, "", self.of(scenario)), *epochs, *levels):
                if cut.calls:
                    yield from figures(scenario, _RATES, cut, cut.part)
        for scenario in _WITH_MEMORY:
            if (got := self.improvement(scenario, "score")) is not None:
                yield figure(f"{scenario} against without", "improvement_percent", percent(got))

    def _comparison(self) -> Table:
        parts = {**self._epochs, "all epochs": None}.items()
        cuts = [_Cut(each, part.capitalize(), self.of(each, at)) for part, at in parts for each in SCENARIOS]
        columns = (
            Column[_Cut]("scenario", lambda cut: f"{cut.part}: {cut.scenario}"),
            Column[_Cut]("calls", lambda cut: len(cut.calls)),
            *_RATES,
        )
        right = fmean(PROFILES[best_tool(level)][level].useful for level in LEVELS)
        blind = fmean(PROFILES[tool][level].useful for tool in TOOLS for level in LEVELS)
        note = (
            "score: 0 or 1 by the evaluation of the tool memory, which sees the call and its output; about the "
            f"question: by the mock tool itself. By the table the right tool gives {right:.3f} and one taken blindly "
            f"{blind:.3f}, where each level is asked as often"
        )
        return table("Tool memory benchmark", columns, (cut for cut in cuts if cut.calls), note)

    def _improvement_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for scenario in _WITH_MEMORY:
            found = [self.improvement(scenario, measure) for measure in MEASURES]
            if any(found):
                rows.append((scenario, *map(change, found)))
        note = "against the test without memory, with 95 % intervals: paired bootstrap over the questions"
        title = "Improvement with tool memory, %"
        return Table(title=title, headings=("scenario", *_TITLES), rows=tuple(rows), note=note)


def _by_question(calls: Sequence[Called], measure: str) -> dict[str, float]:
    """Return the mean of a measure for each question over the epochs it was asked in."""
    found: dict[str, list[float]] = {}
    for each in calls:
        found.setdefault(each.question, []).append(MEASURES[measure](each))
    return {question: fmean(values) for question, values in found.items()}
