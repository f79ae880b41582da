"""Long work as a caller sees it: started as a job, waited for a while with progress, then looked up by its id."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from pydantic import JsonValue

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.job import Job, JobAction, JobStatus, Progress, Report
from swarm_memory.tools.toolbox import Toolbox

RUN_MATTS = "run_matts"
"""The kind of the scaling jobs; their key is the run's id."""

WAIT_S = 45.0
"""Seconds that a tool waits for its job; hosts give up on a call after a minute."""

LOOK_S = 0.1
ENDED: frozenset[JobStatus] = frozenset({"completed", "failed", "cancelled"})
_LISTED = 20
_ALL: tuple[JobStatus, ...] = ("running", "queued", "completed", "failed", "cancelled")


async def run_as_job(
    toolbox: Toolbox,
    kind: str,
    payload: Mapping[str, JsonValue],
    *,
    key: str | None = None,
    wake: Callable[[], None],
    on_progress: Report,
) -> Job:
    """Queue a job, wake the worker, and wait a while for it to end; return the job as it then is.

    If an equal job (same kind and key) still waits in the queue, this one takes its place.
    """
    job_id = await toolbox.queue(kind, key or new_id(kind), payload)
    wake()
    return await _follow(toolbox, job_id, on_progress)


async def _follow(toolbox: Toolbox, job_id: str, on_progress: Report) -> Job:
    """Wait at most `WAIT_S` for a job to end, reporting its progress; return the job as it then is."""
    reported = -1
    deadline = time.monotonic() + WAIT_S
    while True:
        job = await _found(toolbox, job_id)
        progress = job.progress or Progress(done=0, message=f"{job.kind} is {job.status}: {job.id}")
        if progress.done > reported:
            reported = progress.done
            await on_progress(progress)
        if job.status in ENDED or time.monotonic() >= deadline:
            return job
        await anyio.sleep(LOOK_S)


async def manage_jobs(
    toolbox: Toolbox, action: JobAction, job_id: str | None, *, wake: Callable[[], None], on_progress: Report
) -> list[Job]:
    """Show, wait for, cancel or resume one job, or list those of the project, newest first.

    A scaling job may also be named by its run. Raises `InputError`, `NotFoundError`.
    """
    if action == "list":
        return await toolbox.store.list_jobs(toolbox.scope, _ALL, _LISTED)
    if not job_id:
        raise InputError(f"job_id is missing: action {action} is about one job")
    match action:
        case "status":
            return [await _found(toolbox, job_id)]
        case "cancel":
            return [await cancel(toolbox, job_id)]
        case "resume":
            found = await resume(toolbox, job_id)
            wake()
        case "result":
            found = await _found(toolbox, job_id)
    return [await _follow(toolbox, found.id, on_progress)]


async def resume(toolbox: Toolbox, job_id: str) -> Job:
    """Queue a failed or cancelled job again, with the same payload; a job that has not ended is left alone.

    A scaling run resumes where it stopped. Raises `InputError` for a job that completed, `NotFoundError`.
    """
    job = await _found(toolbox, job_id)
    if job.status not in ENDED:
        return job
    if job.status == "completed":
        raise InputError(f"{job.id} is completed: there is nothing to resume; action result shows what it returned")
    run_id: Any = job.payload.get("run_id")
    if isinstance(run_id, str):
        await toolbox.store.reopen_run(toolbox.scope, run_id)
    return await _found(toolbox, await toolbox.queue(job.kind, job.key, job.payload))


async def cancel(toolbox: Toolbox, job_id: str) -> Job:
    """Cancel a job that has not ended, and with it the scaling run that it works on. Raises `NotFoundError`."""
    job = await _found(toolbox, job_id)
    run_id: Any = job.payload.get("run_id")
    if job.status not in ENDED and isinstance(run_id, str):
        await toolbox.store.cancel_run(toolbox.scope, run_id)
    await toolbox.store.cancel_job(toolbox.scope, job.id)
    return await _found(toolbox, job.id)


async def _found(toolbox: Toolbox, job_id: str) -> Job:
    job = await toolbox.store.get_job(toolbox.scope, job_id)
    if job is None and job_id.startswith(f"{RUN}_"):
        job = await toolbox.store.find_job(toolbox.scope, RUN_MATTS, job_id)
    if job is None:
        raise NotFoundError(f"there is no job {job_id!r} in this project; action list shows those that exist")
    return job
