"""What credit reads and writes: what tasks were given, and how they ended. No adapter is known here."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from swarm_memory.schema.outcome import Arm, TaskFigures
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
