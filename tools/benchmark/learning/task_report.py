"""Real tasks as figures and tables: success, steps, tokens, cost per success, the gate. Pure functions of results."""

from collections.abc import Sequence
from random import Random
from statistics import fmean

from swarm_memory.schema.benchmark import Figure, Plot, Series, SuiteResults, Table
from swarm_memory.tools.benchmark.learning.task_arms import TASK_ARMS, TaskResult
from swarm_memory.tools.credit.intervals import Interval, wilson

GATE = 0.85
"""Cost per success against the baseline's at which the document lets a rollout go on: 15 % less, success no worse."""

_RESAMPLES = 2000
_MAX_SAID = 110


class TaskReport:
    """Results until now; an arm is compared over the tasks that it and the baseline have done."""

    def __init__(self, results: Sequence[TaskResult], seed: int) -> None:
        self._results, self._seed = results, seed
        self._arms = tuple(arm for arm in TASK_ARMS if any(each.arm == arm for each in results))

    def results(self) -> SuiteResults:
        """Return figures, tables and a plot."""
        if not self._results:
            return SuiteResults()
        notes = () if all(each.tokens_counted for each in self._results) else (
            "tokens are estimated from what the agent was told and printed where it did not count them itself",
        )  # fmt: skip
        tables = (self._arms_table(), self._gate_table(), self._each_table())
        return SuiteResults(figures=tuple(self._figures()), tables=tables, plots=(self._plot(),), notes=notes)

    def cost_ratio(self, arm: str) -> Interval | None:
        """Return an arm's cost per success over the baseline's, tasks resampled in pairs; None without a success."""
        pairs = self._pairs(arm)
        value = _ratio(pairs)
        if value is None:
            return None
        drawn = Random(self._seed)
        found = sorted(
            ratio for _ in range(_RESAMPLES) if (ratio := _ratio(drawn.choices(pairs, k=len(pairs)))) is not None
        )
        return Interval(value, found[int(0.025 * len(found))], found[max(0, int(0.975 * len(found)) - 1)])

    def _of(self, arm: str) -> list[TaskResult]:
        return [each for each in self._results if each.arm == arm]

    def _pairs(self, arm: str) -> list[tuple[TaskResult, TaskResult]]:
        base = {(each.scenario, each.round): each for each in self._of(TASK_ARMS[0])}
        return [(each, base[at]) for each in self._of(arm) if (at := (each.scenario, each.round)) in base]

    def _figures(self) -> list[Figure]:
        found: list[Figure] = []
        for arm in self._arms:
            of = self._of(arm)
            value, low, high = wilson(sum(each.met for each in of), len(of))
            found.append(Figure(subject=arm, measure="success_rate", value=value, low=low, high=high, n=len(of)))
            for measure, values in (("steps", [each.steps for each in of]), ("tokens", [each.tokens for each in of])):
                found.append(Figure(subject=arm, measure=measure, value=fmean(values), n=len(of), better="lower"))
            cost = _cost(of)
            if cost is not None:
                found.append(Figure(subject=arm, measure="tokens_per_success", value=cost, n=len(of), better="lower"))
        for arm in self._arms[1:]:
            ratio = self.cost_ratio(arm)
            if ratio is not None:
                value, low, high = ratio
                measure = "tokens_per_success_against_baseline"
                found.append(Figure(subject=arm, measure=measure, value=value, low=low, high=high, better="lower"))
        return found

    def _arms_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for arm in self._arms:
            of = self._of(arm)
            rate, cost = wilson(sum(each.met for each in of), len(of)), _cost(of)
            rows.append((
                arm, str(len(of)), f"{rate.value:.2f} ({rate.low:.2f} to {rate.high:.2f})",
                f"{fmean(each.steps for each in of):.1f}", f"{fmean(each.tokens for each in of):,.0f}",
                "no success" if cost is None else f"{cost:,.0f}",
                f"{sum(each.met_rollouts for each in of)} of {sum(each.rollouts for each in of)}",
            ))  # fmt: skip
        headings = ("arm", "tasks", "success", "steps", "tokens", "tokens per success", "rollouts that met the task")
        note = "success by the checkers; tokens of every rollout, and of judging and distilling"
        return Table(title="Real tasks", headings=headings, rows=tuple(rows), note=note)

    def _gate_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for arm in self._arms[1:]:
            pairs, ratio = self._pairs(arm), self.cost_ratio(arm)
            gained = sum(ours.met for ours, _ in pairs) - sum(theirs.met for _, theirs in pairs)
            shown = "-" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
            rows.append((arm, f"{gained:+d} of {len(pairs)}", shown, _gate(gained, ratio)))
        headings = ("arm", "more successes", "cost per success against the baseline's", "gate")
        note = f"gate: at most {GATE:g} of the baseline's cost per success, and no fewer successes; in pairs of tasks"
        return Table(title="The gate", headings=headings, rows=tuple(rows), note=note)

    def _each_table(self) -> Table:
        rows = tuple(
            (
                each.arm, each.scenario, str(each.round), "met" if each.met else "not met", str(each.steps),
                f"{each.tokens:,}", str(each.notes), each.said[:_MAX_SAID],
            )
            for each in self._results
        )  # fmt: skip
        headings = ("arm", "scenario", "round", "checker", "steps", "tokens", "notes", "it said")
        return Table(title="Each task", headings=headings, rows=rows)

    def _plot(self) -> Plot:
        rounds = sorted({each.round for each in self._results})
        series: list[Series] = []
        for arm in self._arms:
            at = [[each.met for each in self._of(arm) if each.round == number] for number in rounds]
            sound = [(number, wilson(sum(met), len(met))) for number, met in zip(rounds, at, strict=True) if met]
            series.append(
                Series(
                    name=arm,
                    x=tuple(float(number) for number, _ in sound),
                    y=tuple(rate.value for _, rate in sound),
                    low=tuple(rate.low for _, rate in sound),
                    high=tuple(rate.high for _, rate in sound),
                )
            )
        return Plot(title="Real tasks by round", x_label="round", y_label="success rate", series=tuple(series))


def _cost(results: Sequence[TaskResult]) -> float | None:
    met = sum(each.met for each in results)
    return sum(each.tokens for each in results) / met if met else None


def _ratio(pairs: Sequence[tuple[TaskResult, TaskResult]]) -> float | None:
    ours, theirs = _cost([mine for mine, _ in pairs]), _cost([base for _, base in pairs])
    return None if ours is None or not theirs else ours / theirs


def _gate(gained: int, ratio: Interval | None) -> str:
    if ratio is None:
        return "cannot be told: an arm has no success"
    if gained < 0 or ratio.value > GATE:
        return "not met"
    return "met" if ratio.high <= GATE else "met by the mean; the interval does not show it"
