"""What each memory is worth: what changed where it was told, against the tasks from which a lot left it out."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from math import ceil, expm1, log, sqrt
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Bounds, Lift, LiftReport, Withdrawn, Worth
from swarm_memory.schema.sqlite.events import DRAWN, Draw
from swarm_memory.tools.credit.holdout import unit_of
from swarm_memory.tools.credit.intervals import Interval
from swarm_memory.tools.credit.sequences import Term, by_betting, by_clusters, clusters_until, weighted
from swarm_memory.tools.guard.trust import RESTORED
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.ports.journal import DECIDED, TAKEN_BACK, Event
from swarm_memory.tools.toolbox import Toolbox

MAX_DRAWS = 20_000
"""So many of the newest events of lots are read."""

MIN_LEFT_OUT = 10
"""Of several memories, or of steps, tokens and time nothing is said with fewer."""

KNOWN_TO = 0.1
"""How narrow the whole's interval must be on each side for `tasks_wanted`."""

ARCHIVED = "reasoning_memory.archived"
HARMFUL = "tasks did better without it"
"""How the reason begins for which a memory withdraws itself."""

_EDITED = "reasoning_memory.edited"
_AFRESH = ("restore", "keep", "edit")
"""Decisions after which a memory is measured anew: who takes it back may know more, and another text is another one."""

MAX_ARCHIVED = 5_000
"""So many of the newest of all that was archived are looked at."""

_WEIGHT_OF_GUESS = 2.0
_PRIOR_SPREAD, _LEAST_SPREAD, _MOST_SPREAD = 0.2, 0.05, 0.5
"""Standard deviations: of what kinds are worth, of memories within a kind at least and at most."""

HARM = 0.1
"""A memory harms that costs so much of its tasks. Of less most projects never see enough to tell, and what merely is of
no use costs nothing by being told while that is found out."""

MOST_LEFT_OUT = 0.5
"""The rate at which lots tell the most: what may harm is left out so often at most."""

_WHOLE = "all memories"
_DIGITS = 4
_BESIDE = ("repeats", "steps", "tokens", "duration_s")

_MOST_OFF = log(10)
"""A task that took more than ten times what was to be expected, or less than a tenth, counts as that: it may have been
left open overnight."""


class Lot(NamedTuple):
    """A memory that a task would have been told, with what came of the task."""

    memory_id: str
    told: bool
    rate: float
    """The probability with which it was left out."""
    drawn_at: datetime
    task: TaskOutcome


class Weighted(NamedTuple):
    """What one lot says of a figure."""

    lot: Lot
    outcome: float
    guess: float

    @property
    def term(self) -> Term:
        """The unbiased estimate of what being told changes."""
        return weighted(self.outcome, self.guess, self.lot.rate, told=self.lot.told)

    @property
    def value(self) -> float:
        """The estimate alone."""
        return self.term.value


class Seen(NamedTuple):
    """What a task tells of a figure."""

    value: float
    weight: float = 1.0
    """How far that is known."""
    left: float = 1.0
    """Of what was to be expected, for the rest."""

    def given(self, guess: float) -> float:
        """Return the figure, the guess in the place of what is not known."""
        return self.weight * self.value + (1 - self.weight) * self.left * guess


def outcome_of(task: TaskOutcome) -> Seen:
    """Return what came of a task, 0…1: its label as far as that counts; of the rest less where failures came again.

    A label that the user gave stands alone. An Undecided task without such failures is as it was to be expected: a
    memory that spares a task its first failure may leave nothing to decide it by, and must not lose by that.
    """
    return Seen(float(task.label == "Success"), task.weight, 1 / (1 + (task.figures.repeats or 0)))


def beside(name: str, task: TaskOutcome) -> Seen | None:
    """Return another outcome of a task, which is there whatever its label; None where the task does not tell it.

    Whether a call failed again as it had failed before; of steps, tokens and seconds the logarithm, so that what is
    compared are ratios.
    """
    value = getattr(task.figures, name)
    if value is None:
        return None
    return Seen(float(value > 0) if name == "repeats" else log(max(1.0, value)))


def draw_in(event: Event) -> Draw:
    """Return the lots that an event tells."""
    data: Mapping[str, Any] = event.data
    return Draw(data["rate"], tuple(data["told"]), tuple(data["left_out"]), data["tokens"], data.get("rates"))


def lots_of(draws: Iterable[Event], outcomes: Iterable[TaskOutcome]) -> list[Lot]:
    """Return the lots of tasks whose outcome is known, in the order in which those came.

    A memory counts once for each session (`unit_of`), for the first task that it was drawn for: whether it was drawn
    for a later one may be its own doing.
    """
    known = {task.task_id: task for task in outcomes}
    first: dict[tuple[str, str], Lot | None] = {}
    for event in sorted(draws, key=lambda each: each.at):
        task_id = event.subject_id or ""
        task = known.get(task_id)
        draw = draw_in(event)
        for memory_id in (*draw.told, *draw.left_out):
            rate = (draw.rates or {}).get(memory_id, draw.rate)
            lot = None if task is None else Lot(memory_id, memory_id in draw.told, rate, event.at, task)
            first.setdefault((memory_id, unit_of(task_id)), lot)
    usable = (lot for lot in first.values() if lot is not None and 0 < lot.rate < 1)
    return sorted(usable, key=lambda lot: (lot.task.at, lot.task.task_id))


def estimates(
    lots: Iterable[Lot],
    figure: Callable[[TaskOutcome], Seen | None],
    start: float | None = None,
    most_off: float | None = None,
) -> list[Weighted]:
    """Return what each lot says of a figure, but where the task does not tell it.

    The guess is the mean of what is known of the memory's former tasks, begun with that of all former ones: each memory
    is compared with itself, and tasks of other subjects add no noise. Before the first task it is `start`; without one
    that task says only what to guess. A figure counts as `most_off` from the guess where it is further.
    """
    found: list[Weighted] = []
    every = _Sum()
    own: dict[str, _Sum] = defaultdict(_Sum)
    for _, together in groupby(lots, lambda lot: lot.task.task_id):
        group = list(together)
        seen, overall = figure(group[0].task), every.total / every.count if every.count else start
        if seen is None:
            continue
        for lot in group:
            former = own[lot.memory_id]
            if overall is not None:
                guess = (former.total + _WEIGHT_OF_GUESS * overall) / (former.count + _WEIGHT_OF_GUESS)
                outcome = seen.given(guess)
                if most_off is not None:
                    outcome = min(guess + most_off, max(guess - most_off, outcome))
                found.append(Weighted(lot, outcome, guess))
            former.add(seen)
        every.add(seen)
    return found


@dataclass(slots=True)
class _Sum:
    total: float = 0.0
    count: float = 0.0

    def add(self, seen: Seen) -> None:
        self.total += seen.weight * seen.value
        self.count += seen.weight


async def lift_report(toolbox: Toolbox) -> LiftReport:
    """Return what the memories told in the toolbox's scope are worth, as measured last. Raises `StorageError`."""
    kept = await toolbox.store.kept_report(toolbox.scope)
    rate = _rate(toolbox)
    return LiftReport(dropout=rate) if kept is None else kept.model_copy(update={"dropout": rate})


async def measured(toolbox: Toolbox) -> LiftReport:
    """Measure what the memories told in the toolbox's scope are worth. Raises `StorageError`."""
    store, scope, rate = toolbox.store, toolbox.scope, _rate(toolbox)
    draws = await store.events_of_kind(scope, DRAWN, MAX_DRAWS)
    lots = lots_of(draws, await store.list_outcomes(scope)) if draws else []
    report = LiftReport(dropout=rate, note_tokens=sum(draw_in(event).tokens for event in draws))
    if not lots:
        return report
    ids = list(dict.fromkeys(lot.memory_id for lot in lots))
    items = {item.id: item for item in await store.get_memories(toolbox.readable, ids)}
    afresh = await _measured_since(toolbox, ids)
    return await asyncio.to_thread(lambda: report.model_copy(update=worth_of(lots, items, afresh)))


def worth_of(lots: Sequence[Lot], items: Mapping[str, MemoryItem], afresh: Mapping[str, datetime]) -> dict[str, Any]:
    """Return the fields of a report that say what memories are worth; each is measured from its moment `afresh` on."""
    success = estimates(lots, outcome_of, 0.5)
    others = {name: estimates(lots, partial(beside, name), most_off=_MOST_OFF) for name in _BESIDE}
    own, own_others = (
        {name: [each for each in some if not _is_before(each.lot, afresh)] for name, some in figures.items()}
        for figures in ({_WHOLE: success}, others)
    )
    expected = expectations(own[_WHOLE], {each: kind_of(item) for each, item in items.items()})
    whole = _pooled(_WHOLE, success, others, expected.whole)
    by_kind, by_source = (_groups(items, name) for name in (kind_of, source_of))
    return {
        "whole": whole,
        "kinds": _all_pooled(by_kind, success, others, expected.kinds),
        "sources": _all_pooled(by_source, success, others, {}),
        "memories": _of_each(own[_WHOLE], own_others, expected),
        "saved_tokens": _saved(estimates(lots, _tokens)),
        "tasks_wanted": _tasks_wanted(success),
    }


def _saved(found: Sequence[Weighted]) -> Bounds | None:
    """Return what all tasks that were told took less than they would have; of this a few long tasks may be the most."""
    less = _by_tasks(found)
    told = sum(each.lot.told for each in found)
    return None if less is None else Bounds(value=-less.value * told, low=-less.high * told, high=-less.low * told)


def _tasks_wanted(success: Sequence[Weighted]) -> int:
    """Return how many more tasks it takes until the lift of the whole is known to `KNOWN_TO`.

    By how much tasks differed; as long as too few lots left something out to see that, by what lots do, and at least
    until those are enough.
    """
    sums, left_out = _sums(success), sum(not each.lot.told for each in success)
    told, tasks = len(success) - left_out, len(sums)
    if min(told, left_out) >= MIN_LEFT_OUT:
        return clusters_until(sums, KNOWN_TO)
    by_design = sqrt(_estimate(success)[1] * tasks)
    rate = fmean(each.lot.rate for each in success)
    short = max((MIN_LEFT_OUT - left_out) / rate, (MIN_LEFT_OUT - told) / (1 - rate))
    return max(ceil(short * tasks / len(success)), clusters_until(sums, KNOWN_TO, by_design))


class Expected(NamedTuple):
    """Posterior means of lifts."""

    memories: Mapping[str, float]
    doubts: Mapping[str, float]
    """How probably a memory harms: its lift is below -`HARM`."""
    kinds: Mapping[str, float]
    whole: float


def expectations(found: Iterable[Weighted], kinds: Mapping[str, str]) -> Expected:
    """Return what is to be expected of each memory: its own estimate, drawn towards the mean of its kind.

    Empirical Bayes for normal means: memories of a kind vary about its mean with the spread that DerSimonian and Laird
    (1986) estimate, held between bounds; kinds vary about 0. How far an estimate may be off follows from the design,
    for the few tasks of one memory do not show it.
    """
    each: dict[str, list[Weighted]] = defaultdict(list)
    for one in found:
        each[one.lot.memory_id].append(one)
    own = {memory_id: _estimate(some) for memory_id, some in each.items()}
    by_kind: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for memory_id, estimate in own.items():
        by_kind[kinds.get(memory_id, "")][memory_id] = estimate
    memories, doubts, means = dict[str, float](), dict[str, float](), dict[str, float]()
    for kind, some in by_kind.items():
        spread2 = _spread2(list(some.values()))
        weights = [1 / (variance + spread2) for _, variance in some.values()]
        total = sum(weight * value for weight, (value, _) in zip(weights, some.values(), strict=True))
        means[kind] = mean = total / (sum(weights) + 1 / _PRIOR_SPREAD**2)
        for memory_id, (value, variance) in some.items():
            memories[memory_id], doubts[memory_id] = posterior(value, variance, mean, spread2)
    return Expected(memories, doubts, means, fmean(memories.values()) if memories else 0.0)


def posterior(value: float, variance: float, mean: float, spread2: float) -> tuple[float, float]:
    """Return the mean of a lift that was measured as `value`, and how probably it is below -`HARM`.

    `variance` is that of the estimate; lifts vary about `mean` with the variance `spread2`.
    """
    whole = spread2 + variance
    expected = (value * spread2 + mean * variance) / whole
    return expected, NormalDist().cdf((-HARM - expected) / sqrt(spread2 * variance / whole))


def _estimate(found: Sequence[Weighted]) -> tuple[float, float]:
    """Return the mean of the estimates and its variance by the design: that of outcomes about the guess, weighted.

    A lot whose sides are as probable as each other says most, and weighs so.
    """
    off2 = (sum((each.outcome - each.guess) ** 2 for each in found) + 0.5) / (len(found) + 2)
    weights = [each.lot.rate * (1 - each.lot.rate) for each in found]
    whole = sum(weights)
    return sum(weight * each.value for weight, each in zip(weights, found, strict=True)) / whole, off2 / whole


def rates_of(lifts: Iterable[Lift], least: float) -> dict[str, float]:
    """Return the probability with which memories are left out from now on, of those that may harm: as probably as that.

    Each lot keeps the rate that it was drawn with, and that is known before the task: the estimates stay unbiased and
    the intervals right. What may harm is told less, and is known sooner.
    """
    return {lift.of: min(MOST_LEFT_OUT, lift.doubt) for lift in lifts if lift.doubt > least and lift.worth != "harmful"}


def _spread2(found: Sequence[tuple[float, float]]) -> float:
    weights = [1 / variance for _, variance in found]
    whole = sum(weights)
    mean = sum(weight * value for weight, (value, _) in zip(weights, found, strict=True)) / whole
    excess = sum(weight * (value - mean) ** 2 for weight, (value, _) in zip(weights, found, strict=True))
    scale = whole - sum(weight**2 for weight in weights) / whole
    spread2 = (excess - len(found) + 1) / scale if scale > 0 else 0.0
    return min(_MOST_SPREAD**2, max(_LEAST_SPREAD**2, spread2))


def kind_of(item: MemoryItem) -> str:
    """Return what kind of memory it is."""
    if item.use == "strategy" and item.outcome == "Failure":
        return "guardrail"
    return item.use.replace("_", " ")


def source_of(item: MemoryItem) -> str:
    """Return who drew it."""
    source = item.provenance
    return "imported" if source.imported_from else {"extractive": "rules"}.get(source.distiller, source.distiller)


def _groups(items: Mapping[str, MemoryItem], name: Callable[[MemoryItem], str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for memory_id, item in items.items():
        found[name(item)].add(memory_id)
    return found


def _all_pooled(
    groups: Mapping[str, set[str]],
    success: Sequence[Weighted],
    others: Mapping[str, Sequence[Weighted]],
    expected: Mapping[str, float],
) -> tuple[Lift, ...]:
    def of(found: Sequence[Weighted], ids: set[str]) -> list[Weighted]:
        return [each for each in found if each.lot.memory_id in ids]

    lifts = (
        _pooled(name, of(success, ids), {figure: of(some, ids) for figure, some in others.items()}, expected.get(name))
        for name, ids in groups.items()
    )
    return tuple(sorted(lifts, key=lambda lift: -lift.told))


def _pooled(
    name: str, success: Sequence[Weighted], others: Mapping[str, Sequence[Weighted]], expected: float | None
) -> Lift:
    lift = _by_tasks(success)
    mean = fmean(each.value for each in success) if success else 0.0
    return _lift(name, success, lift, others, mean if expected is None else expected)


def _of_each(
    success: Sequence[Weighted], others: Mapping[str, Sequence[Weighted]], expected: Expected
) -> tuple[Lift, ...]:
    own: dict[str, list[Weighted]] = defaultdict(list)
    own_others: dict[str, dict[str, list[Weighted]]] = defaultdict(lambda: defaultdict(list))
    for each in success:
        own[each.lot.memory_id].append(each)
    for figure, some in others.items():
        for each in some:
            own_others[each.lot.memory_id][figure].append(each)
    lifts = (
        _lift(name, some, _bounds(by_betting([each.term for each in some])), own_others[name], expected.memories[name])
        for name, some in own.items()
    )
    doubted = (lift.model_copy(update={"doubt": round(expected.doubts[lift.of], _DIGITS)}) for lift in lifts)
    return tuple(sorted(doubted, key=lambda lift: -lift.told))


def _lift(
    name: str,
    success: Sequence[Weighted],
    lift: Bounds | None,
    others: Mapping[str, Sequence[Weighted]],
    expected: float,
) -> Lift:
    told = sum(each.lot.told for each in success)
    worth: Worth = "too few to tell"
    if lift is not None and (lift.low > 0 or lift.high < 0):
        worth = "proven" if lift.low > 0 else "harmful"
    found = {figure: _by_tasks(others.get(figure, ())) for figure in _BESIDE}
    return Lift(
        of=name,
        told=told,
        left_out=len(success) - told,
        success=lift,
        repeats=found["repeats"],
        steps=_as_ratio(found["steps"]),
        tokens=_as_ratio(found["tokens"]),
        duration_s=_as_ratio(found["duration_s"]),
        expected=expected,
        worth=worth,
    )


def _by_tasks(found: Sequence[Weighted]) -> Bounds | None:
    told = sum(each.lot.told for each in found)
    return None if min(told, len(found) - told) < MIN_LEFT_OUT else _bounds(by_clusters(_sums(found)))


def _sums(found: Sequence[Weighted]) -> list[tuple[float, int]]:
    """Return for each task the sum of its estimates and their number."""
    sums: dict[str, tuple[float, int]] = {}
    for each in found:
        total, number = sums.get(each.lot.task.task_id, (0.0, 0))
        sums[each.lot.task.task_id] = total + each.value, number + 1
    return list(sums.values())


async def _measured_since(toolbox: Toolbox, ids: Sequence[str]) -> dict[str, datetime]:
    """Return when somebody last spoke for a memory, took its withdrawal back or changed its text."""
    kinds = (RESTORED, _EDITED, DECIDED, TAKEN_BACK)
    histories = await toolbox.store.memory_histories(toolbox.readable, ids, kinds)
    return {
        memory_id: max(moments)
        for memory_id, events in histories.items()
        if (moments := [each.at for each in events if each.kind != DECIDED or each.data.get("decision") in _AFRESH])
    }


async def withdrawals(toolbox: Toolbox) -> list[Event]:
    """Return what is known of memories that withdrew themselves, newest first."""
    events = await toolbox.store.events_of_kind(toolbox.scope, ARCHIVED, MAX_ARCHIVED)
    return [event for event in events if str(event.data.get("reason")).startswith(HARMFUL)]


async def withdrawn_memories(toolbox: Toolbox) -> tuple[Withdrawn, ...]:
    """Return the memories that withdrew themselves and are still archived, newest first."""
    told = {str(event.subject_id): event for event in reversed(await withdrawals(toolbox))}
    items = await toolbox.store.get_memories(toolbox.readable, list(told)) if told else []
    found = (
        Withdrawn(id=item.id, title=item.title, at=told[item.id].at, reason=str(item.status_reason))
        for item in items
        if item.status == "archived" and (item.status_reason or "").startswith(HARMFUL)
    )
    return tuple(sorted(found, key=lambda each: each.at, reverse=True))


def _rate(toolbox: Toolbox) -> float:
    return toolbox.settings.credit.dropout if toolbox.lot_key else 0.0


def _is_before(lot: Lot, moments: Mapping[str, datetime]) -> bool:
    moment = moments.get(lot.memory_id)
    return moment is not None and lot.drawn_at <= moment


def _tokens(task: TaskOutcome) -> Seen | None:
    return None if task.figures.tokens is None else Seen(float(task.figures.tokens))


def _as_ratio(found: Bounds | None) -> Bounds | None:
    """Return how much more is taken, as a share, by a difference of logarithms."""
    return found and Bounds(value=expm1(found.value), low=expm1(found.low), high=expm1(found.high))


def _bounds(found: Interval) -> Bounds:
    return Bounds(value=found.value, low=found.low, high=found.high)
