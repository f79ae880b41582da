"""Randomized trials: of tasks that work without any memory, and of memories that may cost tasks their success.

A memory is suspected when its tasks fail clearly more often than the project's others. It then rests: for each session
chance decides, with probability ½, whether it is shown. If it changes nothing, a task of the trial counts against it
(failed with it, or succeeded without it) as often as for it, however hard its subject is. So the tally is a fair random
walk: by the reflection principle it reaches `HARMS_BY` within `TRIAL` tasks in at most 12 of 100 trials, whenever one
looks, and much more rarely if the memory helps. A memory that reaches it is withdrawn, any other is cleared.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

from swarm_memory.schema.base import counted
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.trust import RESTORED
from swarm_memory.tools.ports.records import DECIDED, TAKEN_BACK
from swarm_memory.tools.toolbox import Toolbox

FEWEST_FAILURES, CLEARLY = 3, 1.2
"""A memory is suspected after at least this many failures, this many standard deviations more than expected."""

LEAST, MOST = 0.02, 0.33
"""Bounds of the expected share of failures: where no task failed yet the first failure is no proof, and where many
did the other tasks may be harder than the memory's own."""

TRIAL, HARMS_BY, CLEARED_BY = 50, 11, 5
"""The most tasks of a trial; how many more tasks against a memory than for it withdraw it, and vice versa clear it."""

HARMFUL = "tasks did better without it"
"""The beginning of the reason for which a memory is withdrawn."""

RESTARTS = (RESTORED, "reasoning_memory.edited", DECIDED, TAKEN_BACK)
"""Events after which a memory's count starts over: it has changed, or whoever decided on it may know more."""


_IN_SESSION = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|ses_\w+):.+", re.DOTALL)
"""A task of a host's session: what was put into the context for one task is still there for the next."""


def is_held_out(task_id: str, rate: float) -> bool:
    """Whether a task gets no memories: a share `rate` (0…1) of all tasks, chosen by a hash of the id.

    The same id and rate always give the same answer, and a task that is held out at one rate is held out at every
    higher one. The tasks of one session of a host go together, so that none sees what another of them was given.
    """
    return rate > 0.0 and _share("0", task_id) < rate


def is_hidden(task_id: str, memory_id: str) -> bool:
    """Whether a suspected memory is hidden from a task: in half of the sessions, by a hash of both ids."""
    return _share(memory_id, task_id) < 0.5


def _share(of: str, task_id: str) -> float:
    """Return a pseudo-random number from 0 to 1, always the same for one session, or for one task without a session."""
    found = hashlib.sha256(f"{of}\0{_unit_of(task_id)}".encode("utf-8", "replace")).digest()
    return int.from_bytes(found[:8], "big") / 2**64


def _unit_of(task_id: str) -> str:
    """Return what is chosen as a whole: the session of a host's task, or any other task itself (`JIRA:12`)."""
    found = _IN_SESSION.fullmatch(task_id)
    return found[1] if found else task_id


@dataclass(slots=True)
class MemoryTally:
    """What the decided tasks say about one memory."""

    tasks: int = 0
    """Tasks that were shown it since it was last cleared; `failures` of them failed."""
    failures: int = 0
    expected: float = 0.0
    """The share of failures to be expected from the project's tasks, as of the last count."""
    wait: int = 0
    """How many tasks must be shown it before it is suspected again."""
    resting: bool = False
    is_tried: bool = False
    """Whether it has rested in the trial: until then a task may have been shown it whatever chance chose."""
    tried: int = 0
    """Tasks of the trial; `against` is how many more of them speak against the memory than for it."""
    against: int = 0
    harmful: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether its tasks fail more often than expected, at 95 %; it may still be its subject that is hard."""
        return self.resting and wilson(self.failures, self.tasks).low > self.expected

    @property
    def says(self) -> str:
        """The figures in a few words."""
        if not self.harmful:
            shown = f"{self.failures} of {counted(self.tasks, 'task')} that were shown it failed"
            return f"{shown}, where {self.expected:.0%} would be expected"
        more = (self.tried + self.against) // 2
        return f"{counted(self.tried, 'task')} were shown it or not at random, and {more} counted against it"

    def count(self, *, failed: bool, shown: bool, at_random: bool, expected: float) -> None:
        """Count a task; `at_random`: whether chance decided on showing it; `expected`: the share of all that failed."""
        self.expected = min(max(LEAST, expected), MOST)
        if self.harmful:
            return
        if self.resting and self.is_tried and at_random:
            self.tried, self.against = self.tried + 1, self.against + (1 if failed == shown else -1)
            self.harmful = self.against >= HARMS_BY
            if self.harmful or self.against <= -CLEARED_BY or self.tried >= TRIAL:
                self.resting, self.wait, self.tasks, self.failures = False, self.wait + 2 * TRIAL, 0, 0
        self.is_tried = self.resting and (self.is_tried or not shown)
        if shown:
            self.tasks, self.failures = self.tasks + 1, self.failures + failed
            usual, deviation = self.tasks * self.expected, sqrt(self.tasks * self.expected * (1 - self.expected))
            is_clear = self.failures >= max(FEWEST_FAILURES, usual + CLEARLY * deviation)
            if is_clear and self.tasks >= self.wait and not self.resting:
                self.resting, self.tried, self.against = True, 0, 0


class TaskTally:
    """The decided tasks of a project, oldest first, and what they say about the memories that fitted them."""

    def __init__(self, since: Mapping[str, datetime] | None = None) -> None:
        """`since` gives, by memory id, the moment after which the memory's tasks are counted."""
        self.records: dict[str, MemoryTally] = {}
        self._since = since or {}
        self._counted = set[tuple[str, str]]()
        self._decided = self._failed = 0

    def count(self, task: OutcomeRecord) -> None:
        """Count a task; per memory only the first of each session, since later ones still have it in their context."""
        if task.label == "Undecided":
            return
        failed, unit = task.label == "Failure", _unit_of(task.task_id)
        given = [credit.memory_id for credit in task.credits]
        for memory_id in (*given, *task.rested):
            if (unit, memory_id) in self._counted or (memory_id in self._since and task.at <= self._since[memory_id]):
                continue
            self._counted.add((unit, memory_id))
            record, shown = self.records.setdefault(memory_id, MemoryTally()), memory_id in given
            at_random, expected = shown != is_hidden(task.task_id, memory_id), self._failed / max(1, self._decided)
            record.count(failed=failed, shown=shown, at_random=at_random, expected=expected)
        self._decided, self._failed = self._decided + 1, self._failed + failed


async def memory_records(toolbox: Toolbox) -> dict[str, MemoryTally]:
    """Return what the tasks of the toolbox's scope say about their memories, by memory id. Raises `StorageError`."""
    outcomes = await toolbox.store.list_outcomes(toolbox.scope)
    ids = list({each for task in outcomes for each in (*(use.memory_id for use in task.credits), *task.rested)})
    histories = await toolbox.store.memory_histories(toolbox.readable, ids, RESTARTS) if ids else {}
    tasks = TaskTally({memory_id: events[-1].at for memory_id, events in histories.items() if events})
    for task in outcomes:
        tasks.count(task)
    return tasks.records
