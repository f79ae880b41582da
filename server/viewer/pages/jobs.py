"""Jobs: what waits, what runs, how it ended; cancel it, or begin it again."""

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import JobStatus
from swarm_memory.server.jobs.control import cancel, resume
from swarm_memory.server.viewer.page import Asked, Done, Page, Route

SHOWN = 100
STATUSES: tuple[JobStatus, ...] = ("running", "queued", "failed", "cancelled", "completed")


async def jobs(asked: Asked) -> Page:
    """List the newest jobs, those of a status where one is named."""
    wanted = asked.query.get("status", "")
    statuses: dict[str, JobStatus] = {each: each for each in STATUSES}
    named = (statuses[wanted],) if wanted in statuses else STATUSES
    found = await asked.toolbox.store.list_jobs(asked.toolbox.scope, named, SHOWN)
    return Page("jobs.html", {"jobs": found, "statuses": STATUSES, "status": wanted, "most": SHOWN})


async def change(asked: Asked) -> Done:
    """Cancel a job, or resume one that ended without a result. Raises `InputError`, `NotFoundError`."""
    if asked.form.get("action") not in ("cancel", "resume"):
        raise InputError("action is cancel or resume")
    do = cancel if asked.form["action"] == "cancel" else resume
    job = await do(asked.toolbox, asked.path["job_id"])
    asked.wake_worker()
    return Done("/jobs", f"The job {job.id} is {job.status}.")


ROUTES = (Route("/jobs", jobs), Route("/jobs/{job_id}", change, "POST"))
