"""What credit reads and writes: what tasks were given, and how they ended. No adapter is known here."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.outcome import Arm, OutcomeRecord, TaskFigures
from swarm_memory.schema.trajectory import Label


class TaskInjections(NamedTuple):
    """What was retrieved for a task, by its recorded retrievals."""

    given: Mapping[str, datetime]
    """When a memory was given first, by its id."""
    withheld: tuple[str, ...]
    """Ids that the task did not get, because it is held out."""
    held_out: bool
    beside: Mapping[str, datetime] = MappingProxyType({})
    """What it had before it by another way, held out or not: in its session's briefing, or in a file."""
    rested: tuple[str, ...] = ()
    """Ids that fitted and were not shown, since they are on trial."""


class Trials(NamedTuple):
    """Which memories of a scope are suspected."""

    resting: frozenset[str] = frozenset()
    """Ids that are not shown to every other task."""
    doubted: Mapping[str, str] = MappingProxyType({})
    """Why the user's own word is to be put before the user, by id."""


class TaskOutcome(NamedTuple):
    """What is counted of one task's outcome."""

    task_id: str
    label: Label
    arm: Arm
    randomised: bool
    figures: TaskFigures
    injected: int
    used: int
    at: datetime
    shown: tuple[str, ...] = ()
    """Ids of the memories that it was given; of outcomes of earlier releases they are not known."""
    rested: tuple[str, ...] = ()
    """Ids of those that fitted and were not shown."""


class Credits(Protocol):
    """Outcomes of tasks, and what they changed in the memories that the tasks had."""

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        """Return what was retrieved for a task; what this store has queued is written first."""
        ...

    async def get_outcome(self, scope: Scope, task_id: str) -> OutcomeRecord | None: ...

    async def save_outcome(self, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        """Write the outcome of a task of the first scope and change the memories of all, in one transaction.

        The same outcome a second time changes nothing (`already_credited`); another one of the same task takes back
        what the former one changed before it is applied. Return it with what was really applied.
        """
        ...

    async def list_outcomes(self, scope: Scope) -> list[TaskOutcome]:
        """Return what is counted of every task, oldest first."""
        ...

    async def save_trials(self, scope: Scope, trials: Trials) -> None:
        """Keep which memories are suspected, in the place of what was kept before."""
        ...

    async def trials(self, scope: Scope) -> Trials: ...

    async def items_by_day(self, scope: Scope) -> dict[date, int]:
        """Return how many memories were made on each day (UTC) on which any was, whatever became of them."""
        ...
