"""Figures from results: rates, learning curves, paired differences with bootstrap intervals."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import fmean

from swarm_memory.tools.credit.intervals import Interval
from world.experiment import Result

RESAMPLES = 2000


def estimate(values: Sequence[float]) -> Interval:
    """Return the mean of values, one per seed, and the 95 % percentile interval from resampling whole seeds."""
    rng = Random(0)
    means = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    bounds = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    return Interval(*(round(each, 4) for each in (fmean(values), *bounds)))


Measure = Callable[[Result], float]


def success(result: Result) -> float:
    """Return 1 if the world says that the task was met, otherwise 0."""
    return float(result.met)


def calls(result: Result) -> float:
    """Return the number of tool calls, also for a task that was not met."""
    return float(result.steps)


def by_seed(results: Iterable[Result], measure: Measure) -> dict[int, float]:
    """Return the mean of a measure for each seed."""
    found: dict[int, list[float]] = defaultdict(list)
    for result in results:
        found[result.seed].append(measure(result))
    return {seed: fmean(values) for seed, values in sorted(found.items())}


def level(results: Iterable[Result], measure: Measure) -> Interval:
    """Return a measure's mean over seeds."""
    return estimate(list(by_seed(results, measure).values()))


def gain(left: Iterable[Result], right: Iterable[Result], measure: Measure) -> Interval:
    """Return the paired difference `left` - `right`: each seed is its own control. Both must have the same seeds."""
    ours, theirs = by_seed(left, measure), by_seed(right, measure)
    if ours.keys() != theirs.keys():
        raise ValueError("both arms must have run the same seeds")
    return estimate([ours[seed] - theirs[seed] for seed in ours])


def changed(left: Iterable[Result], right: Iterable[Result]) -> tuple[int, int]:
    """Return how many tasks only `right` met, and how many only `left`: the same tasks with the same random streams."""
    ours, theirs = ({(each.seed, each.family, each.number): each.met for each in results} for results in (left, right))
    if ours.keys() != theirs.keys():
        raise ValueError("both arms must have done the same tasks")
    pairs = [(ours[task], theirs[task]) for task in ours]
    return sum(theirs and not ours for ours, theirs in pairs), sum(ours and not theirs for ours, theirs in pairs)
