"""What came of real tasks in three arms: figures, the gate of cost, and each task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Literal

from swarm_memory.schema.benchmark import Figure, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import Column, figure, figures, table, written
from swarm_memory.tools.credit.intervals import Interval, wilson

TaskArm = Literal["baseline", "reasoningbank", "reasoningbank+matts"]
TASK_ARMS: tuple[TaskArm, ...] = ("baseline", "reasoningbank", "reasoningbank+matts")

GATE = 0.85
"""Cost per success against the baseline's at which the document lets a rollout go on: 15 % less, success no worse."""

_RESAMPLES = 2000
_MAX_SAID = 110


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of one task in one arm."""

    arm: TaskArm
    scenario: str
    round: int
    met: bool
    """Of scaling: the rollout that the judge chose."""
    steps: int
    """Of the same."""
    tokens: int
    """Of all rollouts, and of judging and distilling where a model does that."""
    tokens_counted: bool
    rollouts: int
    met_rollouts: int
    notes: int
    said: str


class TaskReport:
    """Results until now; an arm is compared over the tasks that it and the baseline have done."""

    def __init__(self, results: Sequence[TaskResult], seed: int) -> None:
        self._results, self._seed = results, seed
        self._arms = tuple(arm for arm in TASK_ARMS if any(each.arm == arm for each in results))

    def results(self) -> SuiteResults:
        """Return figures and tables."""
        if not self._results:
            return SuiteResults()
        notes = () if all(each.tokens_counted for each in self._results) else (
            "tokens are estimated from what the agent was shown and printed where it did not count them itself",
        )  # fmt: skip
        note = "success by the checkers; tokens of every rollout, and of judging and distilling"
        arms = table("Real tasks", _ARM, map(self._of, self._arms), note)
        tables = (arms, self._gate_table(), table("Each task", _EACH, self._results))
        return SuiteResults(figures=tuple(self._figures()), tables=tables, notes=notes)

    def cost_ratio(self, arm: str) -> Interval | None:
        """Return an arm's cost per success over the baseline's, tasks resampled in pairs; None without a success."""
        pairs = self._pairs(arm)
        value = _ratio(pairs)
        if value is None:
            return None
        chance = Random(self._seed)
        found = sorted(
            ratio for _ in range(_RESAMPLES) if (ratio := _ratio(chance.choices(pairs, k=len(pairs)))) is not None
        )
        return Interval(value, found[int(0.025 * len(found))], found[max(0, int(0.975 * len(found)) - 1)])

    def _of(self, arm: str) -> list[TaskResult]:
        return [each for each in self._results if each.arm == arm]

    def _pairs(self, arm: str) -> list[tuple[TaskResult, TaskResult]]:
        base = {(each.scenario, each.round): each for each in self._of(TASK_ARMS[0])}
        return [(each, base[at]) for each in self._of(arm) if (at := (each.scenario, each.round)) in base]

    def _figures(self) -> Iterator[Figure]:
        for arm in self._arms:
            yield from figures(arm, _ARM, self._of(arm))
        for arm in self._arms[1:]:
            ratio = self.cost_ratio(arm)
            if ratio is not None:
                yield figure(arm, "tokens_per_success_against_baseline", ratio, better="lower")

    def _gate_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for arm in self._arms[1:]:
            pairs, ratio = self._pairs(arm), self.cost_ratio(arm)
            gained = sum(ours.met for ours, _ in pairs) - sum(theirs.met for _, theirs in pairs)
            shown = "-" if ratio is None else written(ratio, ".2f")
            rows.append((arm, f"{gained:+d} of {len(pairs)}", shown, _gate(gained, ratio)))
        headings = ("arm", "more successes", "cost per success against the baseline's", "gate")
        note = f"gate: at most {GATE:g} of the baseline's cost per success, and no fewer successes; in pairs of tasks"
        return Table(title="The gate", headings=headings, rows=tuple(rows), note=note)


def _rate(results: Sequence[TaskResult]) -> Interval:
    return wilson(sum(each.met for each in results), len(results))


def _cost(results: Sequence[TaskResult]) -> float | None:
    met = sum(each.met for each in results)
    return sum(each.tokens for each in results) / met if met else None


def _ratio(pairs: Sequence[tuple[TaskResult, TaskResult]]) -> float | None:
    ours, theirs = _cost([mine for mine, _ in pairs]), _cost([base for _, base in pairs])
    return None if ours is None or not theirs else ours / theirs


def _gate(gained: int, ratio: Interval | None) -> str:
    if ratio is None:
        return "cannot be said: an arm has no success"
    if gained < 0 or ratio.value > GATE:
        return "not met"
    return "met" if ratio.high <= GATE else "met by the mean; the interval does not show it"


_ARM: tuple[Column[Sequence[TaskResult]], ...] = (
    Column("arm", lambda of: of[0].arm),
    Column("tasks", len),
    Column("success", _rate, ".2f", "success_rate", len, "higher"),
    Column("steps", lambda of: fmean(each.steps for each in of), ".1f", "steps", len),
    Column("tokens", lambda of: fmean(each.tokens for each in of), ",.0f", "tokens", len),
    Column("tokens per success", _cost, ",.0f", "tokens_per_success", len, missing="no success"),
    Column(
        "rollouts that met the task",
        lambda of: f"{sum(each.met_rollouts for each in of)} of {sum(each.rollouts for each in of)}",
    ),
)
_EACH: tuple[Column[TaskResult], ...] = (
    Column("arm", lambda each: each.arm),
    Column("scenario", lambda each: each.scenario),
    Column("round", lambda each: each.round),
    Column("checker", lambda each: "met" if each.met else "not met"),
    Column("steps", lambda each: each.steps),
    Column("tokens", lambda each: each.tokens, ",d"),
    Column("notes", lambda each: each.notes),
    Column("it said", lambda each: each.said[:_MAX_SAID]),
)
