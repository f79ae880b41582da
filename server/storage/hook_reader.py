"""What a hook command asks of the bank, with the standard library alone: no pydantic, no vectors, no event loop."""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.location import Location
from swarm_memory.server.storage.driver import plain_module
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect, storage_errors, write_transaction

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

GLOBAL_PROJECT = "*"
LEARN = "learn"
_BANK, _JOBS = queries("bank"), queries("jobs")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class HookBank:
    """A bank that is open for the moment of a hook."""

    def __init__(self, connection: "Connection", place: Location, wait_s: float) -> None:
        self._connection = connection
        self._place = place
        self._wait_s = wait_s
        self._tenant = os.environ.get("SWARM_MEMORY_STORAGE__TENANT_ID") or "default"
        self._project = os.environ.get("SWARM_MEMORY_STORAGE__PROJECT") or place.project

    def briefing_rows(self, limit: int) -> list[tuple[str, str, str]]:
        """Return (id, title, content) of the surest active items, the project's before the global ones."""
        values = {"tenant_id": self._tenant, "project": self._project, "global": GLOBAL_PROJECT, "limit": limit}
        return self._connection.execute(_BANK["briefing"], values).fetchall()

    def end_session(self, session_id: str, transcript_path: str) -> str:
        """Make the jobs of a session's tasks due and queue one for its whole transcript; return that one's id."""
        now = now_text()
        with write_transaction(self._connection, self._place.database, self._wait_s):
            scope_id = scope_row(self._connection, self._tenant, self._project)
            released = {"scope_id": scope_id, "prefix": f"{session_id}:", "run_after": now}
            self._connection.execute(_JOBS["release_jobs"], released)
            payload = json.dumps({"transcript_path": transcript_path, "session_id": session_id})
            job = JobRow(plain_id("job"), LEARN, f"{session_id}:all", payload, run_after=now, created_at=now)
            return put_job(self._connection, scope_id, job)


@contextmanager
def open_for_hook(place: Location, wait_s: float) -> Generator[HookBank]:
    """Open a bank that exists for as long as the block runs. Raises `StorageError` and its kinds."""
    database = Path(place.database)
    connection = connect(database, create=False, timeout_s=wait_s)
    try:
        module = plain_module(os.environ.get("SWARM_MEMORY_SQLITE") or "auto")
        with storage_errors(module, database):
            yield HookBank(connection, place, wait_s)
    finally:
        close(connection, database, wait_s)


def tell_once(database: Path) -> bool:
    """Return whether the user was not yet told that the file at a path is not trusted; from now on he is."""
    return registry.tell_once(database)


def scope_row(connection: "Connection", tenant_id: str, project: str) -> int:
    """Return the id of a scope, which is made when it is new. Within a write transaction."""
    scope = (tenant_id, project)
    connection.execute(_BANK["add_scope"], scope)
    (scope_id,) = connection.execute(_BANK["find_scope"], scope).fetchone()
    return int(scope_id)


class JobRow(NamedTuple):
    """A job as it is queued, in its columns."""

    id: str
    kind: str
    key: str
    payload: str
    run_after: str
    created_at: str


def put_job(connection: "Connection", scope_id: int, job: JobRow) -> str:
    """Queue a job, or replace the queued one of its scope, kind and key; return the id that stands."""
    found = connection.execute(_JOBS["queued_job"], (scope_id, job.kind, job.key)).fetchone()
    if found is not None:
        connection.execute(_JOBS["replace_job"], (job.payload, job.run_after, found[0]))
        return str(found[0])
    connection.execute(_JOBS["add_job"], (job.id, scope_id, *job[1:]))
    return job.id


def now_text() -> str:
    """Return the present as every time in the bank is written: ISO 8601 in UTC with microseconds."""
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def plain_id(kind: str) -> str:
    """Return `<kind>_<ULID>` as `schema.ids` does, whose library takes longer to import than a hook may run.

    48 bits of milliseconds and 80 random bits in Crockford's base 32 (the ULID specification).
    """
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return f"{kind}_" + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
