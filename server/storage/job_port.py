"""The queue of jobs on SQLite: each function one call of a thread of the bank; the rows stand in `jobs`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.job import Job, JobStatus, Progress
from swarm_memory.server.storage import jobs
from swarm_memory.server.storage.engine.access import Access


class SqliteJobs(Access):
    """The job queue of one bank, for a store that has its threads."""

    async def enqueue(self, job: Job) -> str:
        return await self.write(lambda connection: jobs.enqueue(connection, job))

    async def release(self, scope: Scope, key_prefix: str, run_after: datetime) -> int:
        return await self.write(lambda connection: jobs.release(connection, scope, key_prefix, run_after))

    async def claim(self, worker: str, now: datetime, lease_s: float, kinds: Sequence[str]) -> Job | None:
        # A worker looks often and finds seldom: the look alone must not take the writer lock.
        if not await self.read(lambda connection: jobs.is_due(connection, now, lease_s, kinds)):
            return None
        return await self.write(lambda connection: jobs.claim(connection, worker, now, lease_s, kinds))

    async def heartbeat(self, job_id: str, worker: str, now: datetime) -> bool:
        return await self.write(lambda connection: jobs.heartbeat(connection, job_id, worker, now))

    async def finish(
        self,
        job_id: str,
        worker: str,
        status: JobStatus,
        result: Mapping[str, JsonValue] | None,
        error: str | None,
        run_after: datetime | None = None,
        tried: bool = True,
    ) -> bool:
        return await self.write(
            lambda connection: jobs.finish(connection, job_id, worker, status, result, error, run_after, tried)
        )

    async def report(self, job_id: str, worker: str, progress: Progress) -> bool:
        return await self.write(lambda connection: jobs.report(connection, job_id, worker, progress))

    async def get_job(self, scope: Scope, job_id: str) -> Job | None:
        return await self.read(lambda connection: jobs.get_job(connection, scope, job_id))

    async def find_job(self, scope: Scope, kind: str, key: str) -> Job | None:
        return await self.read(lambda connection: jobs.find_job(connection, scope, kind, key))

    async def cancel_job(self, scope: Scope, job_id: str) -> bool:
        return await self.write(lambda connection: jobs.cancel_job(connection, scope, job_id))

    async def list_jobs(self, scope: Scope, statuses: Sequence[JobStatus], limit: int) -> list[Job]:
        return await self.read(lambda connection: jobs.list_jobs(connection, scope, statuses, limit))

    async def next_due(self, kinds: Sequence[str], lease_s: float) -> datetime | None:
        return await self.read(lambda connection: jobs.next_due(connection, kinds, lease_s))
