"""The queue of jobs in the bank."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.job import Job, JobEnd, JobStatus, Progress
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.engine import Engine, reads, writes
from swarm_memory.server.storage.stores.rows import (
    find_scope,
    made,
    make_scope,
    named,
    now_text,
    optional_moment,
    optional_text,
    to_json,
    to_moment,
    to_text,
)

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

_QUERIES = queries("jobs")

CLOCK_SET_BACK = timedelta(hours=1)
"""A sign of life further ahead was given before the clock was set back: its lease would not lapse for ages."""


class Jobs(Engine):
    """The job queue of one bank."""

    @writes
    def enqueue(self, connection: "Connection", job: Job) -> str:
        scope_id, person_id = make_scope(connection, job.scope), job.person_id or self.person_id
        payload, due = to_json(job.payload), to_text(job.run_after)
        found = connection.execute(_QUERIES["queued_job"], (scope_id, job.kind, job.key)).fetchone()
        if found is not None:
            connection.execute(_QUERIES["replace_job"], (payload, due, person_id, found[0]))
            return str(found[0])
        values = (job.id, scope_id, job.kind, job.key, payload, due, to_text(job.created_at), person_id)
        connection.execute(_QUERIES["add_job"], values)
        return job.id

    @writes
    def release(self, connection: "Connection", scope: Scope, key_prefix: str, run_after: datetime) -> int:
        """Bring queued jobs whose key starts with `key_prefix` forward; return how many."""
        values = {"scope_id": find_scope(connection, scope), "prefix": key_prefix, "run_after": to_text(run_after)}
        return connection.execute(_QUERIES["release_jobs"], values).rowcount

    async def claim(self, worker: str, now: datetime, lease_s: float, kinds: Sequence[str]) -> Job | None:
        """Take the oldest due job, or one whose worker was not heard of for `lease_s`; None when there is none."""
        # A worker looks often and finds seldom: the look alone must not take the writer lock.
        return await self._take(worker, now, lease_s, kinds) if await self._is_due(now, lease_s, kinds) else None

    async def watch_jobs(self, wake: Callable[[], object]) -> None:
        """Call `wake` when any process queued a job, until cancelled; return at once where nobody tells of it."""
        return  # a file tells nobody

    @reads
    def _is_due(self, connection: "Connection", now: datetime, lease_s: float, kinds: Sequence[str]) -> bool:
        return connection.execute(_QUERIES["is_job_due"], _due(now, lease_s, kinds)).fetchone() is not None

    @writes
    def _take(
        self, connection: "Connection", worker: str, now: datetime, lease_s: float, kinds: Sequence[str]
    ) -> Job | None:
        values = {**_due(now, lease_s, kinds), "worker": worker}
        rows = connection.execute(_QUERIES["claim_job"], values).fetchall()
        return _job(connection, "get_job", rows[0]) if rows else None

    @writes
    def heartbeat(self, connection: "Connection", job_id: str, worker: str, now: datetime) -> bool:
        """Renew the lease; False when the job was taken over or cancelled."""
        return connection.execute(_QUERIES["heartbeat"], (to_text(now), job_id, worker)).rowcount == 1

    @writes
    def finish(self, connection: "Connection", job_id: str, worker: str, end: JobEnd) -> bool:
        """End the job or put it back; False when it is no longer this worker's."""
        held = connection.execute(_QUERIES["held_job"], (job_id, worker)).fetchone()
        if held is None:
            return False
        if end.status == "queued" and connection.execute(_QUERIES["queued_job"], held).fetchone():
            end = end._replace(status="cancelled", error="a later job of the same key took its place")
        is_over = end.status != "queued"
        values = {
            "id": job_id,
            "status": end.status,
            "result": None if end.result is None else to_json(dict(end.result)),
            "error": end.error,
            "run_after": optional_text(end.run_after),
            "uncounted": int(not end.tried),
            "ended_at": now_text() if is_over else None,
            "worker": worker if is_over else None,
        }
        connection.execute(_QUERIES["end_job"], values)
        return True

    @writes
    def report(self, connection: "Connection", job_id: str, worker: str, progress: Progress) -> bool:
        """Note how far a running job is; False when it is no longer this worker's."""
        values = (to_json(progress.as_json()), job_id, worker)
        return connection.execute(_QUERIES["report_job"], values).rowcount == 1

    @reads
    def get_job(self, connection: "Connection", scope: Scope, job_id: str) -> Job | None:
        return _job(connection, "get_job_of", (job_id, find_scope(connection, scope)))

    @reads
    def find_job(self, connection: "Connection", scope: Scope, kind: str, key: str) -> Job | None:
        """Return the latest job of a kind and key."""
        return _job(connection, "find_job", (find_scope(connection, scope), kind, key))

    @writes
    def cancel_job(self, connection: "Connection", scope: Scope, job_id: str) -> bool:
        """Cancel a job that is queued or running; its worker stops at its next heartbeat or report."""
        values = (now_text(), job_id, find_scope(connection, scope))
        return connection.execute(_QUERIES["cancel_job"], values).rowcount == 1

    @reads
    def list_jobs(self, connection: "Connection", scope: Scope, statuses: Sequence[JobStatus], limit: int) -> list[Job]:
        values = {"scope_id": find_scope(connection, scope), "statuses": to_json(list(statuses)), "limit": limit}
        return _jobs(connection, "list_jobs", values)

    @reads
    def next_due(self, connection: "Connection", kinds: Sequence[str], lease_s: float) -> datetime | None:
        """Return when the next job may be taken, for one that runs when its lease ends; None where there is none."""
        run_after, heartbeat_at = connection.execute(_QUERIES["next_due"], (to_json(list(kinds)),)).fetchone()
        lapses = None if heartbeat_at is None else to_moment(heartbeat_at) + timedelta(seconds=lease_s)
        return min((moment for moment in (optional_moment(run_after), lapses) if moment is not None), default=None)


def _due(now: datetime, lease_s: float, kinds: Sequence[str]) -> dict[str, str]:
    lapsed = now - timedelta(seconds=lease_s)
    ahead = to_text(now + CLOCK_SET_BACK)
    return {"kinds": to_json(list(kinds)), "now": to_text(now), "lapsed": to_text(lapsed), "ahead": ahead}


def _job(connection: "Connection", query: str, values: tuple[Any, ...]) -> Job | None:
    return next(iter(_jobs(connection, query, values)), None)


def _jobs(connection: "Connection", query: str, values: Any) -> list[Job]:
    return [
        made(
            Job,
            row,
            scope=made(Scope, row),
            payload=json.loads(row["payload"]),
            result=None if row["result"] is None else json.loads(row["result"]),
        )
        for row in named(connection, _QUERIES[query], values)
    ]
