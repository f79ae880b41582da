"""The queue of jobs in the bank."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.job import Job, JobEnd, JobStatus, Progress
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, reads, writes
from swarm_memory.server.storage.stores.rows import Queries, made, make_scope, now_text, to_moment

_SQL = Queries("jobs")

CLOCK_SET_BACK = timedelta(hours=1)
"""A heartbeat further ahead than this was sent before the clock was set back: its lease would not lapse for ages."""


class Jobs(Engine):
    """The job queue of one bank."""

    @writes
    def enqueue(self, connection: Connection, job: Job) -> str:
        return str(write_job(connection, "put_job", job, self.person_id)[0][0])

    @writes
    def release(self, connection: Connection, scope: Scope, key_prefix: str, run_after: datetime) -> int:
        """Bring queued jobs whose key starts with `key_prefix` forward; return how many."""
        return _SQL.run(connection, "release_jobs", scope_id=scope, prefix=key_prefix, run_after=run_after).rowcount

    async def claim(
        self, worker: str, now: datetime, lease_s: float, kinds: Sequence[str], scope: Scope, also: Sequence[str] = ()
    ) -> Job | None:
        """Claim the oldest due job, or one whose worker sent no heartbeat for `lease_s`; None when there is none.

        The job is one of `scope` or, if its kind is in `also`, of any project of the same tenant.
        """
        lapsed, ahead = now - timedelta(seconds=lease_s), now + CLOCK_SET_BACK
        due = {"kinds": kinds, "scope_id": scope, "tenant_id": scope.tenant_id, "also": also}
        due |= {"now": now, "lapsed": lapsed, "ahead": ahead}

        def take(connection: Connection) -> Job | None:
            rows = _SQL.rows(connection, "claim_job", **due, worker=worker)
            return _jobs(connection, "get_job", rows[0][1], id=rows[0][0])[0] if rows else None

        # A worker checks often and rarely finds a job: the check alone must not take the writer lock.
        is_due = await self.read(lambda connection: _SQL.row(connection, "is_job_due", **due) is not None)
        return await self.write(take) if is_due else None

    @writes
    def heartbeat(self, connection: Connection, job_id: str, worker: str, now: datetime) -> bool:
        """Renew the lease; False when the job was taken over or cancelled."""
        return _SQL.run(connection, "heartbeat", now, job_id, worker).rowcount == 1

    @writes
    def finish(self, connection: Connection, job_id: str, worker: str, end: JobEnd) -> bool:
        """End the job or put it back; False when it is no longer this worker's."""
        held = _SQL.row(connection, "held_job", job_id, worker)
        if held is None:
            return False
        if end.status == "queued" and (later := _SQL.row(connection, "queued_job", *held)):
            _SQL.run(connection, "put_off_job", id=later[0], failed=job_id, run_after=end.run_after, error=end.error)
            end = end._replace(status="cancelled", error="a later job with the same key took its place")
        values = {"id": job_id, **end._asdict(), "uncounted": int(not end.tried), "ended_at": None, "worker": None}
        if end.status != "queued":
            values |= {"ended_at": now_text(), "worker": worker}
        _SQL.run(connection, "end_job", **values)
        return True

    @writes
    def report(self, connection: Connection, job_id: str, worker: str, progress: Progress) -> bool:
        """Record the progress of a running job; False when it is no longer this worker's."""
        values = {"progress": progress.model_dump(mode="json")}
        return _SQL.run(connection, "report_job", values, job_id, worker).rowcount == 1

    @reads
    def get_job(self, connection: Connection, scope: Scope, job_id: str) -> Job | None:
        return next(iter(_jobs(connection, "get_job", scope, id=job_id)), None)

    @reads
    def find_job(
        self, connection: Connection, scope: Scope, kind: str, key: str, status: JobStatus | None = None
    ) -> Job | None:
        """Return the latest job of a kind and key, and of `status` if that is given."""
        return next(iter(_jobs(connection, "find_job", scope, kind=kind, key=key, status=status)), None)

    @writes
    def cancel_job(self, connection: Connection, scope: Scope, job_id: str) -> bool:
        """Cancel a job that is queued or running; its worker stops at its next heartbeat or report."""
        return _SQL.run(connection, "cancel_job", now_text(), job_id, scope).rowcount == 1

    @reads
    def list_jobs(self, connection: Connection, scope: Scope, statuses: Sequence[JobStatus], limit: int) -> list[Job]:
        return _jobs(connection, "list_jobs", scope, statuses=statuses, limit=limit)

    @reads
    def next_due(
        self, connection: Connection, kinds: Sequence[str], lease_s: float, scope: Scope, also: Sequence[str] = ()
    ) -> datetime | None:
        """Return when `claim` may take the next job (a running one once its lease ends); None if there is none."""
        whose = {"scope_id": scope, "tenant_id": scope.tenant_id, "also": also}
        run_after, heartbeat_at = _SQL.row(connection, "next_due", kinds=kinds, **whose)
        due = [] if run_after is None else [to_moment(run_after)]
        lapses = [] if heartbeat_at is None else [to_moment(heartbeat_at) + timedelta(seconds=lease_s)]
        return min(due + lapses, default=None)


def write_job(connection: Connection, how: str, job: Job, person_id: str | None) -> list[tuple[str]]:
    """Queue a job, or update (`put_job`) or keep (`add_job`) one queued with its kind and key; return rows written."""
    key, when = (make_scope(connection, job.scope), job.kind, job.key), (job.run_after, job.created_at)
    return _SQL.rows(connection, how, job.id, *key, job.payload, *when, job.person_id or person_id)


def _jobs(connection: Connection, query: str, scope: Scope | int, **which: Any) -> list[Job]:
    found: list[Job] = []
    for row in _SQL.named(connection, query, scope_id=scope, **which):
        texts = {name: row[name] and json.loads(row[name]) for name in ("payload", "result")}
        found.append(made(Job, row, scope=made(Scope, row), **texts))
    return found
