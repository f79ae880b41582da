"""The job that consolidates a project's bank: what it is queued as, and doing it. It knows no queue."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.ids import JOB, new_id
from swarm_memory.schema.job import Job
from swarm_memory.tools.consolidate import consolidate
from swarm_memory.tools.toolbox import Toolbox

CONSOLIDATE = "consolidate"


def consolidation_job(scope: Scope, now: datetime, *, full: bool = False) -> Job:
    """Return the job; while one of the scope is queued, another one takes its place."""
    payload: dict[str, JsonValue] = {"full": full}
    return Job(
        id=new_id(JOB), scope=scope, kind=CONSOLIDATE, key="bank", payload=payload, run_after=now, created_at=now
    )


async def consolidate_from_job(toolbox: Toolbox, job: Job) -> Mapping[str, JsonValue]:
    """Consolidate the toolbox's scope and return the figures of the run, with the id that undoes it."""
    done = await consolidate(toolbox, full=job.payload.get("full") is True)
    return {
        "run_id": done.run_id,
        "compared": done.compared,
        "merged": len(done.merged),
        "related": len(done.related),
        "quarantined": len(done.quarantined),
        "pruned": len(done.pruned),
        "aged": done.aged,
        "notices": list(done.notices),
    }
