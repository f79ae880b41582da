"""The tasks of a project as a timeline: by day, and within a day by the session that they were done in."""

from collections.abc import Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.outcome import RecordedTask
from swarm_memory.tools.ports.trajectories import TaskFilter
from swarm_memory.tools.toolbox import Toolbox

MAX_LISTED, MAX_OFFSET = 200, 1_000_000


class Session(NamedTuple):
    """Tasks that were done in one session, one after the other; without a session a task stands alone."""

    session_id: str | None
    tasks: tuple[RecordedTask, ...]
    """The last first."""


class Day(NamedTuple):
    """What ended on one day of this machine's time zone."""

    day: date
    sessions: tuple[Session, ...]


async def list_tasks(toolbox: Toolbox, which: TaskFilter) -> list[RecordedTask]:
    """Return tasks of the project, the one that ended last first. Raises `InputError` for a wrong limit or offset."""
    if not 1 <= which.limit <= MAX_LISTED:
        raise InputError(f"limit is {which.limit}: it must be from 1 to {MAX_LISTED}")
    if not 0 <= which.offset <= MAX_OFFSET:
        raise InputError(f"offset must be from 0 to {MAX_OFFSET:,}")
    return await toolbox.store.list_tasks(toolbox.scope, which)


def timeline(tasks: Sequence[RecordedTask]) -> list[Day]:
    """Return tasks, the last first, by day and session; a session stands where its last task of the day does."""
    days = groupby(tasks, key=lambda task: task.ended.astimezone().date())
    return [Day(day, _sessions(list(of_day))) for day, of_day in days]


def _sessions(tasks: Sequence[RecordedTask]) -> tuple[Session, ...]:
    found: dict[str, list[RecordedTask]] = {}
    for task in tasks:
        found.setdefault(task.session_id or f"task {task.task_id}", []).append(task)
    return tuple(Session(each[0].session_id, tuple(each)) for each in found.values())
