"""What operations exchange with the store about tasks: trajectories, what was learned from them, what came of them."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.outcome import RecordedTask
from swarm_memory.schema.rollout import MattsRun
from swarm_memory.schema.trajectory import Label, Trajectory, TrajectorySource, Verdict
from swarm_memory.tools.ports.memories import StoredMemory


class TriedFix(NamedTuple):
    """What a task showed of a memory that fixes an error."""

    signature: str
    """The digest of the error's; empty where the task did not meet it."""
    memory_id: str
    worked: bool = True
    """False: it was done, and the error came again; or the task did without."""


class LearnRecord(NamedTuple):
    """All that one run of the loop writes, in one transaction."""

    scope: Scope
    run_id: str
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    embedder: str
    memories: tuple[StoredMemory, ...]
    reinforced: tuple[str, ...]
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float
    at: datetime
    tried_fixes: tuple[TriedFix, ...] = ()
    """Of memories new and known."""
    new_per_day: int | None = None
    """So much may be added in a day; None: it is not counted."""
    failures: int | None = None
    """Calls of tools that failed."""
    replaces: str | None = None
    """The run that learned from the same trajectory under another verdict."""


class LearnedBefore(NamedTuple):
    """What is known of a trajectory that was learned from."""

    trajectory_id: str
    run_id: str
    verdict: Verdict
    memory_ids: tuple[str, ...]


class TaskFilter(NamedTuple):
    """Which tasks `list_tasks` gives, the one that ended last first."""

    source: TrajectorySource | None = None
    label: Label | None = None
    text: str | None = None
    """Part of the task as it was asked, whatever the case of its ASCII letters."""
    limit: int = 50
    offset: int = 0


class KeptTask(NamedTuple):
    """All that is kept of a task by one trajectory."""

    row: RecordedTask
    trajectory: Trajectory
    verdict: Verdict | None
    later: int
    """Trajectories of the same task that came later."""


class Revision(NamedTuple):
    """Another verdict on a trajectory, with what that does to memories, in one transaction."""

    scope: Scope
    id: str
    row: RecordedTask
    verdict: Verdict
    run_id: str | None
    """The run whose memories the trajectory stands for now."""
    event: Mapping[str, JsonValue]
    at: datetime
    archived: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class RunEnd(NamedTuple):
    """All that the end of a MaTTS run writes, in one transaction; `run` has its last status and summary."""

    run: MattsRun
    embedder: str
    memories: tuple[StoredMemory, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float = 0.0
    new_per_day: int | None = None
    """So much may be added in a day; None: it is not counted."""


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
