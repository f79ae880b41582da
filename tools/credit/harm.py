"""Which memories cost tasks their success: suspected by how their tasks end, tried by lot, then withdrawn or cleared.

A memory is suspected where its tasks fail clearly more often than the project's others. It then rests: a lot for each
session decides whether it is shown, with probability ½. Of a memory that changes nothing a task of the trial speaks
against it (it failed with the memory, or succeeded without it) as often as for it, however hard its subject is, so that
the tally is a fair walk: by the reflection principle it reaches `HARMS_BY` within `TRIAL` tasks in at most 12 of 100
trials, whenever one looks, and where the memory helps, much more seldom.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

from swarm_memory.schema.base import counted
from swarm_memory.tools.credit.holdout import rests, unit_of
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.trust import RESTORED
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.ports.journal import DECIDED, TAKEN_BACK, Event
from swarm_memory.tools.toolbox import Toolbox

FEWEST_FAILURES, CLEARLY = 3, 1.5
"""A memory is suspected after so many failures, so many standard deviations more than the other tasks let expect."""

MANY = 8
"""One that fails half of so many tasks is suspected too: the project's other tasks may be harder than its own."""

LEAST_EXPECTED = 0.02
"""The share of failures that is expected at least; a project that knows none yet suspects nobody for a first one."""

TRIAL, HARMS_BY, CLEARED_BY = 50, 11, 5
"""Tasks of a trial at most; by how much more of them speak against a memory that is withdrawn, and for one cleared."""

PATIENCE = 2
"""A cleared memory is not suspected again before this times as many tasks as it took to clear it."""

ARCHIVED, EDITED = "reasoning_memory.archived", "reasoning_memory.edited"
HARMFUL = "tasks did better without it"
"""How the reason begins for which a memory is withdrawn."""

MAX_ARCHIVED = 5_000
"""So many of the newest of all that was archived are looked at."""

_RESTARTS = ("restore", "keep", "edit")
"""Decisions after which a memory is counted from the start: who takes it back may know more."""


@dataclass(slots=True)
class Record:
    """What the decided tasks say of one memory."""

    seen: int = 0
    """Tasks that it fitted; `lost` of these failed."""
    lost: int = 0
    tasks: int = 0
    """Those that were shown it since it was last cleared; `failures` of these failed."""
    failures: int = 0
    expected: float = 0.0
    """The share of the project's other tasks that failed, at the last look."""
    wait: int = 0
    resting: bool = False
    is_tried: bool = False
    """Whether it has rested: until then, a task may still have been shown it whatever the lot said."""
    tried: int = 0
    """Tasks of the trial; `against` is how many more of them speak against the memory than for it."""
    against: int = 0
    harmful: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether its tasks fail more often than others, with 95 %; it decides nothing, for its subject may be hard."""
        return self.resting and wilson(self.failures, self.tasks).low > self.expected

    @property
    def says(self) -> str:
        """The figures in a few words."""
        if not self.harmful:
            shown = f"{self.failures} of {counted(self.tasks, 'task')} that were shown it failed"
            return f"{shown}, and {self.expected:.0%} of the project's others"
        more = (self.tried + self.against) // 2
        return f"of {counted(self.tried, 'task')}, with it or without by lot, {more} spoke against it"

    def count(self, *, failed: bool, shown: bool, by_lot: bool, expected: float) -> None:
        """Count a task; `by_lot`: the lot decided whether it was shown; `expected`: the share of others that failed."""
        self.seen, self.lost, self.expected = self.seen + 1, self.lost + failed, expected
        if self.harmful:
            return
        if self.resting and self.is_tried and by_lot:
            self._try(against=failed == shown)
        self.is_tried = self.resting and (self.is_tried or not shown)
        if shown:
            self.tasks, self.failures = self.tasks + 1, self.failures + failed
            if not self.resting and self._is_suspect(max(LEAST_EXPECTED, expected)):
                self.resting, self.tried, self.against = True, 0, 0

    def _try(self, *, against: bool) -> None:
        self.tried, self.against = self.tried + 1, self.against + (1 if against else -1)
        self.harmful = self.against >= HARMS_BY
        if self.harmful or self.against <= -CLEARED_BY or self.tried >= TRIAL:
            self.resting, self.wait, self.tasks, self.failures = False, PATIENCE * self.seen, 0, 0

    def _is_suspect(self, expected: float) -> bool:
        if self.failures < FEWEST_FAILURES or self.tasks < self.wait:
            return False
        more = self.failures - self.tasks * expected
        is_clear = more >= CLEARLY * sqrt(self.tasks * expected * (1 - expected))
        return is_clear or (self.tasks >= MANY and 2 * self.failures >= self.tasks)


class Tasks:
    """The decided tasks of a project, oldest first, and what they say of the memories that fitted them."""

    def __init__(self, since: Mapping[str, datetime] | None = None) -> None:
        """`since`: moments from which on some memories are counted."""
        self.records: dict[str, Record] = {}
        self._since = since or {}
        self._counted = set[tuple[str, str]]()
        self._decided = self._failed = 0

    def count(self, task: TaskOutcome) -> None:
        """Count a task; for a memory only the first of each session, for the later ones have it in sight anyway."""
        if task.label == "Undecided":
            return
        failed, unit = task.label == "Failure", unit_of(task.task_id)
        for memory_id in (*task.shown, *task.rested):
            if (unit, memory_id) in self._counted or (memory_id in self._since and task.at <= self._since[memory_id]):
                continue
            self._counted.add((unit, memory_id))
            record, shown = self.records.setdefault(memory_id, Record()), memory_id in task.shown
            others, lost = self._decided - record.seen, self._failed - record.lost
            expected = lost / others if others > 0 else 0.0
            by_lot = shown != rests(task.task_id, memory_id)
            record.count(failed=failed, shown=shown, by_lot=by_lot, expected=expected)
        self._decided, self._failed = self._decided + 1, self._failed + failed


async def memory_records(toolbox: Toolbox) -> dict[str, Record]:
    """Return what the tasks of the toolbox's scope say of their memories, by id. Raises `StorageError`."""
    outcomes = await toolbox.store.list_outcomes(toolbox.scope)
    ids = list({each for task in outcomes for each in (*task.shown, *task.rested)})
    kinds = (RESTORED, EDITED, DECIDED, TAKEN_BACK)
    histories = await toolbox.store.memory_histories(toolbox.readable, ids, kinds) if ids else {}
    since = {
        memory_id: max(moments)
        for memory_id, events in histories.items()
        if (moments := [each.at for each in events if each.kind != DECIDED or each.data.get("decision") in _RESTARTS])
    }
    tasks = Tasks(since)
    for task in outcomes:
        tasks.count(task)
    return tasks.records


async def withdrawals(toolbox: Toolbox) -> list[Event]:
    """Return what is known of memories that were withdrawn because they harmed, newest first."""
    events = await toolbox.store.events_of_kind(toolbox.scope, ARCHIVED, MAX_ARCHIVED)
    return [event for event in events if str(event.data.get("reason")).startswith(HARMFUL)]
