"""What durable work needs: a queue of jobs that outlives processes. No adapter is known here."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.job import Job, JobStatus, Progress

WITHDRAW = "measure_memories"
"""The kind of the job that looks which memories harm, and its key: at most one waits. Its value is in older banks."""

LEARN = "learn"
"""The kind of the jobs that hooks queue: learn from one task of a transcript, or, without `task_id`, from all."""


class JobEnd(NamedTuple):
    """How a worker leaves a job."""

    status: JobStatus
    """`queued`: it is put back."""
    result: Mapping[str, JsonValue] | None = None
    error: str | None = None
    run_after: datetime | None = None
    """One that is put back is not taken before."""
    tried: bool = True
    """Whether the attempt counts."""


class JobQueue(Protocol):
    """Durable work. A queued job of the same scope, kind and key is replaced by a later one."""

    async def enqueue(self, job: Job) -> str:
        """Write it and return its id: the id of the queued job that it replaced, where there was one."""
        ...

    async def release(self, scope: Scope, key_prefix: str, run_after: datetime) -> int:
        """Bring queued jobs whose key starts with `key_prefix` forward; return how many."""
        ...

    async def claim(self, worker: str, now: datetime, lease_s: float, kinds: Sequence[str]) -> Job | None:
        """Take the oldest due job, or one whose worker was not heard of for `lease_s`; None when there is none."""
        ...

    async def watch_jobs(self, wake: Callable[[], object]) -> None:
        """Call `wake` when any process queued a job, until cancelled; return at once where nobody tells of it."""
        ...

    async def heartbeat(self, job_id: str, worker: str, now: datetime) -> bool:
        """Renew the lease; False when the job was taken over or cancelled."""
        ...

    async def finish(self, job_id: str, worker: str, end: JobEnd) -> bool:
        """End the job or put it back; False when it is no longer this worker's."""
        ...

    async def report(self, job_id: str, worker: str, progress: Progress) -> bool:
        """Note how far a running job is; False when it is no longer this worker's."""
        ...

    async def get_job(self, scope: Scope, job_id: str) -> Job | None: ...

    async def find_job(self, scope: Scope, kind: str, key: str) -> Job | None:
        """Return the latest job of a kind and key."""
        ...

    async def cancel_job(self, scope: Scope, job_id: str) -> bool:
        """Cancel a job that is queued or running; its worker stops at its next heartbeat or report."""
        ...

    async def list_jobs(self, scope: Scope, statuses: Sequence[JobStatus], limit: int) -> list[Job]: ...

    async def next_due(self, kinds: Sequence[str], lease_s: float) -> datetime | None:
        """Return when the next job may be taken, for one that runs when its lease ends; None where there is none."""
        ...
