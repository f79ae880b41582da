"""Summaries of the outcomes of tasks: a sentence, the effect of memory, figures for each week. It records nothing."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, timedelta
from math import ceil
from statistics import fmean, median
from typing import Any

from swarm_memory.schema.base import counted
from swarm_memory.schema.outcome import ArmFigures, Conclusion, Difference, Effect, OutcomeRecord
from swarm_memory.schema.rollout import MattsRun
from swarm_memory.schema.sqlite.events import FILE, INJECTED, RETRIEVED
from swarm_memory.schema.status import BankStatistics
from swarm_memory.tools.credit.intervals import Z, difference, mean_interval, rate_difference
from swarm_memory.tools.toolbox import Toolbox

MIN_TASKS = 10
"""The fewest tasks on each side; with fewer, nothing is concluded, whatever the interval says."""

MAX_RUNS = 100_000
MAX_RETRIEVALS = 1000
"""The most retrievals of a week whose events are read to be counted: the status is requested often."""

WEEK = timedelta(days=7)

KNOWN_TO = 0.2
"""The half-width that the interval of success must shrink to before it says something."""

TOO_FEW: Conclusion = "too few tasks to tell"

SUCCESS = "success_rate"
COUNTED = ("steps", "failed_calls", "tokens")
"""The figures of tasks for which less is better."""


async def memory_effect(toolbox: Toolbox) -> Effect | None:
    """Return what memories did for the tasks of the toolbox's scope; None while no task was credited."""
    return effect_of(await toolbox.store.list_outcomes(toolbox.scope))


async def sentence(toolbox: Toolbox, statistics: BankStatistics) -> str:
    """Return one sentence on what notes did for agents in the last seven days or, if nothing, on what would help.

    Shown is what a task was given. Used is what its agent named or took from a note, in tasks whose end was judged. An
    error ended by a fix is one that the task met, and no longer met once it did what the fix says.
    """
    since = toolbox.clock.now() - WEEK
    active = sum(statistics.projects.get(each.project, 0) for each in toolbox.readable)
    events = await toolbox.store.events_of_kind(toolbox.scope, INJECTED, MAX_RUNS, since)
    shown = {event.subject_id for event in events if event.data.get("via") != FILE}
    every = await toolbox.store.list_outcomes(toolbox.scope)
    used = [(each, credit) for each in every for credit in each.credits if credit.method != "none"]
    lately = [(each.task_id, credit) for each, credit in used if each.at >= since]
    if not (shown or lately or active):
        if waiting := statistics.memories.get("candidate", 0):
            kept = "once another session shows the same or you keep it: `swarm-memory memories list --status candidate`"
            return f"No memory is in use yet; {counted(waiting, 'candidate')} may be, {kept}."
        return "No memory is in use yet: agents add some as they work; `swarm-memory learn --all` reads past sessions."
    if not (shown or lately):
        retrieved = await toolbox.store.events_of_kind(toolbox.scope, RETRIEVED, MAX_RETRIEVALS, since)
        if asked := sum(bool(event.data.get("scores")) for event in retrieved):
            number = ("at least " if len(retrieved) == MAX_RETRIEVALS else "") + counted(asked, "retrieval")
            return f"This week: {number} answered with notes, but for no known task."
        when = "Notes appear when a task, call or error matches; `swarm-memory doctor` checks the hooks."
        return f"No note was shown to an agent this week ({active:,} in use). {when}"
    notes, tasks = len({credit.memory_id for _, credit in lately}), len({task for task, _ in lately})
    ended = sum(credit.worked is True for _, credit in lately)
    known = await toolbox.store.get_memories(toolbox.readable, list({credit.memory_id for _, credit in used}))
    unused = active - sum(item.status == "active" for item in known)
    said = [f"{counted(notes, 'note')} used in {counted(tasks, 'task')}"]
    said = said if notes else [f"notes shown in {counted(len(shown), 'task')}, none seen to be used"]
    said += [f"{counted(ended, 'known error')} ended by a fix that was shown"] if ended else []
    said += [f"{counted(unused, 'note')} never used"] if unused else []
    return f"This week: {'; '.join(said)}."


async def weekly_metrics(toolbox: Toolbox) -> list[dict[str, Any]]:
    """Return a row for every week in which something happened, oldest first; what cannot be known is None.

    `week` is its Monday, UTC. Tasks without memory are those held out and those for which nothing fitted. Tokens
    per success are those of all tasks for which they are known, divided by the successes among these. Steps are the
    mean of the successful tasks, the time is their median.
    """
    tasks: defaultdict[date, list[OutcomeRecord]] = defaultdict(list)
    for each in await toolbox.store.list_outcomes(toolbox.scope):
        tasks[_monday(each.at.astimezone(UTC).date())].append(each)
    items = Counter[date]()
    for day, count in (await toolbox.store.items_by_day(toolbox.scope)).items():
        items[_monday(day)] += count
    runs: defaultdict[date, list[MattsRun]] = defaultdict(list)
    for run in await toolbox.store.list_runs(toolbox.scope, ("completed",), MAX_RUNS):
        runs[_monday(run.created_at.astimezone(UTC).date())].append(run)
    return [_week(week, tasks[week], items[week], runs[week]) for week in sorted({*tasks, *items, *runs})]


def effect_of(outcomes: Sequence[OutcomeRecord]) -> Effect | None:
    """Compare tasks with memory to tasks without.

    Where tasks were held out at random, only tasks for which something was found count: they differ only in whether
    they got it. Steps, failed calls and tokens are taken from all of these tasks, whatever their label.
    """
    if not outcomes:
        return None
    is_sampled = any(each.arm == "held_out" for each in outcomes)
    treated = [each for each in outcomes if each.arm == "memory" and (each.randomised or not is_sampled)]
    control = [each for each in outcomes if each.arm == ("held_out" if is_sampled else "nothing_fitted")]
    compared = {name: _difference(name, treated, control) for name in (SUCCESS, *COUNTED)}
    how = "held out at random"
    if not is_sampled:
        how = "not at random, so the tasks may differ in more than memory; `metrics --measure on` changes that"
    wanted = _wanted(treated, control) if is_sampled else None
    until = f"; about {counted(wanted, 'more task')} until this says anything" if wanted else ""
    rate, said = compared[SUCCESS], f"{TOO_FEW}: {MIN_TASKS} on each side are needed"
    if rate and rate.conclusion != TOO_FEW:
        said = f"success {rate.value:+.0%} (95% interval {rate.low:+.0%} to {rate.high:+.0%}): {rate.conclusion}"
    return Effect(
        basis="hold_out" if is_sampled else "observed",
        with_memory=_arm(treated),
        without_memory=_arm(control),
        **compared,
        says=f"{counted(len(treated), 'task')} with memory, {len(control)} without ({how}): {said}{until}",
    )


def _wanted(treated: Sequence[OutcomeRecord], control: Sequence[OutcomeRecord]) -> int | None:
    """Return how many more tasks, divided as these are, narrow the interval to `KNOWN_TO` on each side."""
    ours, theirs = _values(SUCCESS, treated), _values(SUCCESS, control)
    if not ours or not theirs:
        return None
    n = len(ours) + len(theirs)
    rate, share = (sum(ours) + sum(theirs) + 1) / (n + 2), len(theirs) / n
    enough = Z**2 * rate * (1 - rate) / (KNOWN_TO**2 * share * (1 - share))
    decided = max(enough, MIN_TASKS / share, MIN_TASKS / (1 - share)) - n
    return max(0, ceil(decided * (len(treated) + len(control)) / n))


def _arm(outcomes: Sequence[OutcomeRecord]) -> ArmFigures:
    ends = _values(SUCCESS, outcomes)
    return ArmFigures(
        tasks=len(outcomes),
        decided=len(ends),
        successes=round(sum(ends)),
        success_rate=_mean(ends),
        **{f"mean_{name}": _mean(_values(name, outcomes)) for name in COUNTED},
    )


def _difference(name: str, treated: Sequence[OutcomeRecord], control: Sequence[OutcomeRecord]) -> Difference | None:
    """Return a figure with memory minus the same without; None when one side has too few for an interval."""
    ours, theirs = _values(name, treated), _values(name, control)
    n, other_n, is_rate = len(ours), len(theirs), name == SUCCESS
    if min(n, other_n) < (1 if is_rate else 2):
        return None
    if is_rate:
        found = rate_difference(round(sum(ours)), n, round(sum(theirs)), other_n)
    else:
        found = difference(mean_interval(ours), mean_interval(theirs))
    conclusion: Conclusion = "no difference shown"
    if min(n, other_n) < MIN_TASKS:
        conclusion = TOO_FEW
    elif found.low > 0 or found.high < 0:
        conclusion = "better with memory" if (found.low > 0) == is_rate else "worse with memory"
    return Difference(**found._asdict(), n_with=n, n_without=other_n, conclusion=conclusion)


def _week(week: date, outcomes: Sequence[OutcomeRecord], new_items: int, runs: Sequence[MattsRun]) -> dict[str, Any]:
    every = _arm(outcomes)
    succeeded = [each for each in outcomes if each.label == "Success"]
    times = _values("duration_s", succeeded)
    known = [each for each in outcomes if each.figures.tokens is not None]
    successes = _arm(known).successes  # failures cost too
    return {
        "week": week,
        "tasks": every.tasks,
        "successes": every.successes,
        "failures": every.decided - every.successes,
        "undecided": every.tasks - every.decided,
        "success_rate": every.success_rate,
        "success_rate_with_memory": _arm([each for each in outcomes if each.arm == "memory"]).success_rate,
        "success_rate_without_memory": _arm([each for each in outcomes if each.arm != "memory"]).success_rate,
        "steps_to_success": _arm(succeeded).mean_steps,
        "tokens_per_success": sum(_values("tokens", known)) / successes if successes else None,
        "time_to_resolution_s": median(times) if times else None,
        "new_items": new_items,
        "new_items_per_100_tasks": 100 * new_items / every.tasks if every.tasks else None,
        "active_items_used_per_task": _mean([float(each.used) for each in outcomes]),
        "matts_runs": len(runs),
        "matts_lift": _mean([run.lift for run in runs if run.lift is not None]),
    }


def _values(name: str, outcomes: Sequence[OutcomeRecord]) -> list[float]:
    """Return a figure of the tasks for which it is known; for success, 1 or 0 of the decided tasks."""
    if name == SUCCESS:
        return [float(each.label == "Success") for each in outcomes if each.label != "Undecided"]
    values = (getattr(each.figures, name) for each in outcomes)
    return [float(value) for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
