"""What is old and no memory is removed: after how many days say the settings, in short batches, as a job."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from swarm_memory.schema.job import Progress, Report
from swarm_memory.tools.ports.upkeep import RETAINED, Retained
from swarm_memory.tools.toolbox import Toolbox

RETENTION = "retention"
"""The kind of the jobs that remove."""

_BATCH: Mapping[Retained, int] = {"trajectories": 10, "events": 500, "metrics": 500, "tool_calls": 100}
"""Rows of one transaction, by how long they are: other writers wait no longer than for that."""


async def queue_retention_when_due(toolbox: Toolbox) -> bool:
    """Queue a removal if something is too old and none waits or runs; return if it is due. Raises `StorageError`."""
    if not await toolbox.store.retention.expired(toolbox.scope, _limits(toolbox)):
        return False
    former = await toolbox.store.find_job(toolbox.scope, RETENTION, RETENTION)
    if former is None or former.ended_at is not None:
        await toolbox.queue(RETENTION, RETENTION)
    return True


async def remove_old(toolbox: Toolbox, report: Report | None = None) -> dict[str, int]:
    """Remove what is too old in the toolbox's scope; return how much of each kind. Raises `StorageError`."""
    removed: dict[str, int] = {}
    for kind, before in _limits(toolbox).items():
        removed[kind] = 0
        while gone := await toolbox.store.retention.remove(toolbox.scope, kind, before, _BATCH[kind]):
            removed[kind] += gone
            if report is not None:
                await report(Progress(done=sum(removed.values()), message=f"{removed[kind]} {_name(kind)} removed"))
    return removed


def retention_status(toolbox: Toolbox) -> str:
    """Say in one line after how many days each kind goes."""
    days = [(_name(kind), _days(toolbox, kind)) for kind in RETAINED]
    return ", ".join(f"{name} after {after:,} days" if after else f"{name} never" for name, after in days)


def _limits(toolbox: Toolbox) -> dict[Retained, datetime]:
    """Return before which moment each kind is too old; without those that are kept for ever."""
    now = toolbox.clock.now()
    return {kind: now - timedelta(days=days) for kind in RETAINED if (days := _days(toolbox, kind))}


def _days(toolbox: Toolbox, kind: Retained) -> int:
    return int(getattr(toolbox.settings.retention, f"{kind}_days"))


def _name(kind: Retained) -> str:
    return kind.replace("_", " ")
