"""What the outcomes of tasks add up to: the effect of memory, and figures for each week. It records nothing itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import ceil
from statistics import fmean, median
from typing import TypeVar

from swarm_memory.schema.base import counted
from swarm_memory.schema.outcome import ArmFigures, Basis, Conclusion, Difference, Effect, WeekMetrics
from swarm_memory.schema.rollout import MattsRun
from swarm_memory.tools.credit.harm import withdrawals
from swarm_memory.tools.credit.intervals import Interval, Z, mean_difference, rate_difference
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")

MIN_TASKS = 10
"""On each side; with fewer nothing is concluded, whatever the interval says."""

TOO_FEW: Conclusion = "too few tasks to tell"

MAX_RUNS = 100_000

COUNTED = ("steps", "failed_calls", "tokens")
"""The figures of tasks, less of which is better."""

KNOWN_TO = 0.2
"""How narrow the interval of success must be on each side to say something."""


async def memory_effect(toolbox: Toolbox) -> Effect | None:
    """Return what memories did for the tasks of the toolbox's scope; None while no task was credited."""
    return effect_of(await toolbox.store.list_outcomes(toolbox.scope))


async def weekly_metrics(toolbox: Toolbox) -> list[WeekMetrics]:
    """Return the figures of every week in which something happened, oldest first."""
    outcomes = await toolbox.store.list_outcomes(toolbox.scope)
    items = await toolbox.store.items_by_day(toolbox.scope)
    runs = await toolbox.store.list_runs(toolbox.scope, ("completed",), MAX_RUNS)
    by_week = _by_week(outcomes, lambda each: each.at)
    items_by_week: Counter[date] = Counter()
    for day, count in items.items():
        items_by_week[_monday(day)] += count
    runs_by_week = _by_week(runs, lambda each: each.created_at)
    gone = Counter(_monday(each.at.astimezone(UTC).date()) for each in await withdrawals(toolbox))
    weeks = sorted({*by_week, *items_by_week, *runs_by_week, *gone})
    found = (_week(week, by_week.get(week, []), items_by_week[week], runs_by_week.get(week, [])) for week in weeks)
    return [week.model_copy(update={"withdrawn": gone[week.week]}) for week in found]


def effect_of(outcomes: Sequence[TaskOutcome]) -> Effect | None:
    """Compare tasks with memory to tasks without.

    Where tasks were held out by lot, only tasks for which something had been found count: they differ in nothing but
    whether they got it. Steps, failed calls and tokens are of all tasks, whatever their label.
    """
    if not outcomes:
        return None
    treated, control, basis = _arms(outcomes)
    differences = {"success_rate": _rates(treated, control)}
    differences |= {name: _means(_told(treated, name), _told(control, name)) for name in COUNTED}
    wanted = _wanted(treated, control) if basis == "hold_out" else None
    return Effect(
        basis=basis,
        with_memory=_arm(treated),
        without_memory=_arm(control),
        **differences,
        tasks_wanted=wanted,
        says=_says(basis, treated, control, differences) + _until(wanted),
    )


def _wanted(treated: Sequence[TaskOutcome], control: Sequence[TaskOutcome]) -> int | None:
    """Return how many more tasks, divided as these are, it takes until the interval is `KNOWN_TO` wide on each side."""
    (n, successes), (other_n, other_successes) = _decided(treated), _decided(control)
    if not n or not other_n:
        return None
    rate = (successes + other_successes + 1) / (n + other_n + 2)
    share = other_n / (n + other_n)
    enough = Z**2 * rate * (1 - rate) / (KNOWN_TO**2 * share * (1 - share))
    decided = max(enough, MIN_TASKS / share, MIN_TASKS / (1 - share)) - n - other_n
    return max(0, ceil(decided * (len(treated) + len(control)) / (n + other_n)))


def _until(wanted: int | None) -> str:
    return f"; about {counted(wanted, 'more task')} until this says something" if wanted else ""


def matts_lift(runs: Sequence[MattsRun]) -> float | None:
    """Return the success rate of the rollouts that were chosen less that of a single attempt, mean over the runs.

    A single attempt is any rollout of parallel scaling, and the first one of sequential scaling. Runs without a decided
    rollout do not count.
    """
    gains = [gain for run in runs if (gain := _gain(run)) is not None]
    return _mean(gains)


def _gain(run: MattsRun) -> float | None:
    decided = [rollout for rollout in run.summary.rollouts if rollout.label in ("Success", "Failure")]
    if not decided:
        return None
    single = decided[:1] if run.mode == "sequential" else decided
    chosen = run.rollout(run.summary.best) if run.summary.best is not None else None
    met = chosen is not None and chosen.label == "Success"
    return float(met) - fmean(float(rollout.label == "Success") for rollout in single)


def _arms(outcomes: Sequence[TaskOutcome]) -> tuple[list[TaskOutcome], list[TaskOutcome], Basis]:
    held_out = [each for each in outcomes if each.arm == "held_out"]
    if held_out:
        return [each for each in outcomes if each.arm == "memory" and each.randomised], held_out, "hold_out"
    with_memory = [each for each in outcomes if each.arm == "memory"]
    return with_memory, [each for each in outcomes if each.arm == "nothing_fitted"], "observed"


def _arm(outcomes: Sequence[TaskOutcome]) -> ArmFigures:
    decided, successes = _decided(outcomes)
    return ArmFigures(
        tasks=len(outcomes),
        decided=decided,
        successes=successes,
        success_rate=_ratio(successes, decided),
        **{f"mean_{name}": _mean(_told(outcomes, name)) for name in COUNTED},
    )


def _decided(outcomes: Sequence[TaskOutcome]) -> tuple[int, int]:
    """Return how many tasks have a label, and how many of those succeeded."""
    successes = sum(each.label == "Success" for each in outcomes)
    return successes + sum(each.label == "Failure" for each in outcomes), successes


def _told(outcomes: Iterable[TaskOutcome], figure: str) -> list[float]:
    values = (getattr(each.figures, figure) for each in outcomes)
    return [float(value) for value in values if value is not None]


def _rates(treated: Sequence[TaskOutcome], control: Sequence[TaskOutcome]) -> Difference | None:
    (n, successes), (other_n, other_successes) = _decided(treated), _decided(control)
    if not n or not other_n:
        return None
    interval = rate_difference(successes, n, other_successes, other_n)
    return _difference(interval, n, other_n, more_is_better=True)


def _means(values: Sequence[float], others: Sequence[float]) -> Difference | None:
    if len(values) < 2 or len(others) < 2:
        return None
    return _difference(mean_difference(values, others), len(values), len(others), more_is_better=False)


def _difference(interval: Interval, n: int, other_n: int, *, more_is_better: bool) -> Difference:
    conclusion: Conclusion = "no difference shown"
    if min(n, other_n) < MIN_TASKS:
        conclusion = TOO_FEW
    elif interval.low > 0 or interval.high < 0:
        conclusion = "better with memory" if (interval.low > 0) == more_is_better else "worse with memory"
    return Difference(
        value=interval.value, low=interval.low, high=interval.high, n_with=n, n_without=other_n, conclusion=conclusion
    )


def _says(
    basis: Basis,
    treated: Sequence[TaskOutcome],
    control: Sequence[TaskOutcome],
    differences: Mapping[str, Difference | None],
) -> str:
    sides = f"{len(treated)} task{'s' if len(treated) != 1 else ''} with memory, {len(control)} without"
    told = [(name, found) for name, found in differences.items() if found and found.conclusion != TOO_FEW]
    if basis == "hold_out":
        how = "held out by lot"
    else:
        how = "not by lot, so that the tasks may differ in more than memory; `metrics --measure on` changes that"
    return f"{sides} ({how}): " + (
        "; ".join(_phrase(name, found) for name, found in told) or f"{TOO_FEW}: {MIN_TASKS} on each side are needed"
    )


def _phrase(name: str, found: Difference) -> str:
    if name == "success_rate":
        figures = f"{found.value:+.0%} (95 % interval {found.low:+.0%} to {found.high:+.0%})"
    else:
        figures = f"{found.value:+,.1f} (95 % interval {found.low:+,.1f} to {found.high:+,.1f})"
    return f"{name.replace('_', ' ')} {figures}: {found.conclusion}"


def _week(week: date, outcomes: Sequence[TaskOutcome], new_items: int, runs: Sequence[MattsRun]) -> WeekMetrics:
    decided, successes = _decided(outcomes)
    succeeded = [each for each in outcomes if each.label == "Success"]
    treated = [each for each in outcomes if each.arm == "memory"]
    control = [each for each in outcomes if each.arm != "memory"]
    per_task = _ratio(new_items, len(outcomes))
    return WeekMetrics(
        week=week,
        tasks=len(outcomes),
        successes=successes,
        failures=decided - successes,
        undecided=len(outcomes) - decided,
        success_rate=_ratio(successes, decided),
        success_rate_with_memory=_arm(treated).success_rate,
        success_rate_without_memory=_arm(control).success_rate,
        steps_to_success=_mean(_told(succeeded, "steps")),
        tokens_per_success=_per_success(outcomes, "tokens"),
        cost_usd_per_success=_per_success(outcomes, "cost_usd"),
        time_to_resolution_s=median(times) if (times := _told(succeeded, "duration_s")) else None,
        new_items=new_items,
        new_items_per_100_tasks=None if per_task is None else 100 * per_task,
        injected_per_task=_mean([float(each.injected) for each in outcomes]),
        active_items_used_per_task=_mean([float(each.used) for each in outcomes]),
        matts_runs=len(runs),
        matts_lift=matts_lift(runs),
    )


def _per_success(outcomes: Sequence[TaskOutcome], figure: str) -> float | None:
    """Return what all tasks took that told it, for each success among them: failures cost too."""
    telling = [each for each in outcomes if getattr(each.figures, figure) is not None]
    return _ratio(sum(_told(telling, figure)), _decided(telling)[1])


def _by_week(rows: Iterable[T], at: Callable[[T], datetime]) -> dict[date, list[T]]:
    weeks: dict[date, list[T]] = {}
    for row in rows:
        weeks.setdefault(_monday(at(row).astimezone(UTC).date()), []).append(row)
    return weeks


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
