"""Harmful memories planted among good ones: how soon they are withdrawn, and what good ones suffer from that.

Tasks are simulated: each is of the memory's subject or another one, succeeds with its subject's chance as changed by
the memory, and is judged as a judge would. The product's own code suspects, rests and withdraws memories.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from statistics import median
from typing import Any, NamedTuple

from swarm_memory.schema.benchmark import Table
from swarm_memory.schema.outcome import Credit, OutcomeRecord
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.credit.harm import TaskTally, is_hidden
from swarm_memory.tools.credit.intervals import wilson

DECIDED, RIGHT = 0.8, 0.95
"""The share of tasks that the judge decides, and the share of its verdicts that are right."""

SHARE = 0.25
"""The share of the project's tasks that are of the memory's subject."""

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)


class Case(NamedTuple):
    """A memory of one subject; chances 0…1 that a task succeeds."""

    name: str
    without: float
    with_it: float
    others: float
    """The chance of tasks of other subjects."""


HARMFUL = (
    Case("costs 40 points", 0.7, 0.3, 0.7),
    Case("costs 40 points, easy subject", 0.9, 0.5, 0.8),
    Case("costs 40 points, easiest of a hard project", 0.9, 0.5, 0.5),
    Case("costs 40 points, hard subject", 0.5, 0.1, 0.8),
    Case("costs 20 points", 0.7, 0.5, 0.7),
)
GOOD = (
    Case("gains 20 points", 0.6, 0.8, 0.7),
    Case("gains 20 points, easy subject", 0.7, 0.9, 0.7),
    Case("gains 20 points, hard subject", 0.2, 0.4, 0.8),
    Case("gains 30 points, hardest subject", 0.1, 0.4, 0.8),
    Case("gains 10 points", 0.5, 0.6, 0.7),
    Case("gains 10 points, hard subject", 0.3, 0.4, 0.9),
    Case("changes nothing", 0.7, 0.7, 0.7),
)


class Life(NamedTuple):
    """What became of a memory."""

    withdrawn_at: int | None
    """After how many tasks of its subject it was withdrawn; None: never."""
    fitted: int
    withheld: int
    """`fitted`: how many tasks of its subject there were; `withheld`: for how many of them it was not shown."""


def live(case: Case, seed: str, most: int) -> Life:
    """Simulate tasks until the memory is withdrawn, or `most` tasks of its subject are done."""
    rng, tasks, fitted, withheld = Random(seed), TaskTally(), 0, 0
    for number in count():
        if fitted == most:
            break
        is_own = rng.random() < SHARE
        task_id, record = f"{seed}-{number}", tasks.records.get(seed)
        rested = is_own and record is not None and record.resting and is_hidden(task_id, seed)
        chance = (case.without if rested else case.with_it) if is_own else case.others
        label = _verdict(rng, met=rng.random() < chance)
        fitted, withheld = fitted + is_own, withheld + rested
        shown, kept_back = ((), (seed,)) if rested else ((seed,) if is_own else (), ())
        at = BEGAN + timedelta(minutes=number)
        credits = tuple(Credit(memory_id=each, method="none", change=0) for each in shown)
        given: dict[str, Any] = {"task_id": task_id, "label": label, "credits": credits, "rested": kept_back, "at": at}
        tasks.count(OutcomeRecord(digest="", judge="evidence", arm="memory", **given))
        if seed in tasks.records and tasks.records[seed].harmful:
            return Life(fitted, fitted, withheld)
    return Life(None, fitted, withheld)


def _verdict(rng: Random, *, met: bool) -> Label:
    if rng.random() >= DECIDED:
        return "Undecided"
    return "Success" if met == (rng.random() < RIGHT) else "Failure"


def planted_tables(seeds: Iterable[int], most: int) -> list[Table]:
    """Return tables of what became of each case's memories, one per seed, within `most` tasks of their subject."""
    numbers = list(seeds)
    lives = {case: [live(case, f"{case.name} {seed}", most) for seed in numbers] for case in (*HARMFUL, *GOOD)}
    soon = ("memory", "withdrawn by 60", f"by {most}", "median task")
    harmful = [
        (case.name, _share(lives[case], 60), _share(lives[case], most), _middle(lives[case])) for case in HARMFUL
    ]
    wrong = ("memory", f"withdrawn by {most}", "not shown, of its tasks")
    good = [(case.name, _share(lives[case], most), _withheld(lives[case])) for case in GOOD]
    note = f"{len(numbers)} memories each; {DECIDED:.0%} of tasks decided, {RIGHT:.0%} of verdicts right"
    return [
        Table(title="Harmful memories", headings=soon, rows=tuple(harmful), note=note),
        Table(title="Good and useless memories", headings=wrong, rows=tuple(good), note=note),
    ]


def _share(lives: list[Life], by: int) -> str:
    gone = sum(each.withdrawn_at is not None and each.withdrawn_at <= by for each in lives)
    found = wilson(gone, len(lives))
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _middle(lives: list[Life]) -> str:
    after = [each.withdrawn_at for each in lives if each.withdrawn_at is not None]
    return str(round(median(after))) if after else "-"


def _withheld(lives: list[Life]) -> str:
    return f"{sum(each.withheld for each in lives) / sum(each.fitted for each in lives):.3f}"
