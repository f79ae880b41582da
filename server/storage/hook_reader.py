"""What a hook command asks of the bank, with the standard library alone: no pydantic, no vectors, no event loop."""

import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.sqlite.events import (
    ASKED,
    BRIEFING,
    CLEARED,
    FILE,
    INJECTED,
    RESTED,
    RETRIEVED,
    TRIED,
    WITHHELD,
)
from swarm_memory.schema.sqlite.ids import new_id
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect, storage_errors, write_transaction

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection, SqliteConnection
    from swarm_memory.tools.retrieve.preamble import Way

GLOBAL_PROJECT = "*"
LEARN = "learn"
TRIALS = "memory_trials"
"""The metric of which memories are suspected."""

Row = tuple[str, str, str, int]
"""Of a briefing: id, title, content, standing."""

_MOST_WAYS = 20
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_BANK, _JOBS, _JOURNAL, _WAYS = queries("bank"), queries("jobs"), queries("journal"), queries("ways_out")
_HANDLES = queries("handles")


class HookBank:
    """A bank that is open for the moment of a hook."""

    def __init__(
        self,
        connection: "SqliteConnection",
        database: Path,
        scope: tuple[str, str],
        wait_s: float,
        has: Callable[[str], bool] | None = None,
    ) -> None:
        """`scope`: the tenant and the project; `has` says whether what a memory names is in the project's folder."""
        self._connection = connection
        self._database = database
        self._tenant, self._project = scope
        self._wait_s = wait_s
        self._has = has

    def briefing_rows(self, limit: int) -> "list[Row]":
        """Return (id, title, content, standing): what the user said, the surest strategies of the project, the team's.

        Where a team shares something, a third of the places is its; never one of what the user said.
        """
        scope = (self._tenant, self._project)
        rows = briefing_rows(self._connection, scope, limit)
        lost = self._lost([row[0] for row in rows if row[3] <= 0])
        return [row for row in rows if row[0] not in lost]

    def called_for(self, ids: list[str]) -> dict[str, bool]:
        """Return those of some memories that a command, a file, a tool or an error calls for; whether an act does.

        An act is a command or a tool of an MCP server: it is seen whenever it is done.
        """
        rows = self._connection.execute(_HANDLES["with_handles"], {"ids": to_json(ids)}).fetchall()
        return {memory_id: bool(by_act) for memory_id, by_act in rows}

    def note_shown(self, session_id: str, ids: list[str], *, is_emptied: bool) -> None:
        """Note what a briefing showed, and whether the session's context was emptied before. Raises `StoreBusy`."""
        if not ids and not is_emptied:
            return
        self._connection.execute("PRAGMA synchronous = NORMAL")  # a person waits; a power cut may take this line
        with self._writing() as scope_id:
            found = self._connection.execute(_JOURNAL["get_session"], (scope_id, session_id)).fetchone()
            task_id = (found and found[2]) or f"{session_id}:1"
            if is_emptied:
                self._connection.execute(_BANK["add_event"], (scope_id, CLEARED, session_id, "{}", now_text(), None))
            if ids:
                shown = to_json({"ids": ids, "via": BRIEFING})
                self._connection.execute(_BANK["add_event"], (scope_id, INJECTED, task_id, shown, now_text(), None))

    def resting(self) -> frozenset[str]:
        """Return the memories that are not shown to every other task, since they are on trial."""
        asked = {"tenant_id": self._tenant, "project": self._project, "metric": TRIALS}
        found = self._connection.execute(_BANK["kept_figure"], asked).fetchone()
        return frozenset(json.loads(found[0])["resting"]) if found else frozenset()

    def note_rested(self, task_id: str, ids: list[str]) -> None:
        """Note what was not shown to a task since it is on trial. Raises `StoreBusy`."""
        with self._writing() as scope_id:
            event = (scope_id, RESTED, task_id, to_json({"ids": ids}), now_text(), None)
            self._connection.execute(_BANK["add_event"], event)

    def _lost(self, ids: list[str]) -> set[str]:
        """Return the memories of which nothing is left in the project of what they name."""
        if self._has is None or not ids:
            return set()
        rows = self._connection.execute(_WAYS["anchors_of"], {"ids": to_json(ids)}).fetchall()
        return {memory_id for memory_id, anchors in rows if not any(map(self._has, json.loads(anchors)))}

    def end_turn(self, session_id: str, transcript_path: str, settle_s: float) -> str | None:
        """Queue the learning from a session's task, due when it may no longer be continued; return the job's id.

        None: the session is at no task.
        """
        with self._writing() as scope_id:
            found = self._connection.execute(_JOURNAL["get_session"], (scope_id, session_id)).fetchone()
            task_id = found[2] if found is not None else None
            if task_id is None:
                return None
            payload = {"transcript_path": transcript_path, "session_id": session_id, "task_id": task_id}
            return self._put_job(scope_id, str(task_id), payload, now_text(settle_s))

    def ask_once(self, session_id: str, is_held_out: Callable[[str], bool]) -> str | None:
        """Note that the agent is asked about its session's task, and return the task's id.

        None: there is no task, it was asked about before, or it is held out.
        """
        with self._writing() as scope_id:
            found = self._connection.execute(_JOURNAL["get_session"], (scope_id, session_id)).fetchone()
            task_id = None if found is None else found[2]
            if task_id is None or is_held_out(task_id):
                return None
            if self._connection.execute(_JOURNAL["is_noted"], (scope_id, ASKED, task_id)).fetchone():
                return None
            self._connection.execute(_BANK["add_event"], (scope_id, ASKED, task_id, "{}", now_text(), None))
            return str(task_id)

    def end_session(self, session_id: str, transcript_path: str) -> str:
        """Make the jobs of a session's tasks due and queue one for its whole transcript; return that one's id."""
        now = now_text()
        with self._writing() as scope_id:
            released = {"scope_id": scope_id, "prefix": f"{session_id}:", "run_after": now}
            self._connection.execute(_JOBS["release_jobs"], released)
            payload = {"transcript_path": transcript_path, "session_id": session_id}
            return self._put_job(scope_id, f"{session_id}:all", payload, now)

    @contextmanager
    def _writing(self) -> Generator[int]:
        """Hold a write transaction; give the id of the scope, which is made when it is new."""
        with write_transaction(self._connection, self._database, self._wait_s):
            yield scope_row(self._connection, self._tenant, self._project)

    def _put_job(self, scope_id: int, key: str, payload: Mapping[str, str], run_after: str) -> str:
        row = JobRow(new_id("job"), LEARN, key, json.dumps(payload), run_after, created_at=now_text())
        return put_job(self._connection, scope_id, row)


@contextmanager
def open_for_hook(
    database: Path, scope: tuple[str, str], wait_s: float, has: Callable[[str], bool] | None = None
) -> Generator[HookBank]:
    """Open a bank that exists for as long as the block runs; `scope` and `has` as in `HookBank`.

    Raises `StorageError` and its kinds.
    """
    connection = connect(database, create=False, timeout_s=wait_s)
    try:
        module = choose(os.environ.get("SWARM_MEMORY_SQLITE") or "auto").module
        with storage_errors(module, database):
            yield HookBank(connection, database, scope, wait_s, has)
    finally:
        close(connection, database, wait_s)


def tell_once(database: Path) -> bool:
    """Return whether the user was not yet told that the file at a path is not trusted; from now on he is."""
    return registry.tell_once(database)


def ways_of(connection: "Connection", scope: tuple[str, str], signature: str) -> "list[Way]":
    """Return the memories that ended errors of a signature, the surest first."""
    tenant_id, project = scope
    where = {"tenant_id": tenant_id, "project": project, "global": GLOBAL_PROJECT, **team_names(connection, scope)}
    values = {**where, "signature": signature, "limit": _MOST_WAYS, "tried": TRIED}
    return connection.execute(_WAYS["ways_out"], values).fetchall()


def briefing_rows(
    connection: "Connection", scope: tuple[str, str], limit: int, *, every: bool = False
) -> list[tuple[str, str, str, int]]:
    """Return what a briefing tells, as `HookBank.briefing_rows`; `every`: what ended an error once, too."""
    place = {"tenant_id": scope[0], "project": scope[1], "global": GLOBAL_PROJECT}
    values = {**place, "limit": limit, "every": every}
    rows = connection.execute(_BANK["briefing"], values).fetchall()
    names = team_names(connection, scope)
    if names["team"]:
        values |= names | {"limit": max(1, limit // 3)}
        team = connection.execute(_BANK["team_briefing"], values).fetchall()
        said = sum(row[3] > 0 for row in rows)
        rows = [*rows[: max(said, limit - len(team))], *team][:limit]
    return rows


def team_names(connection: "Connection", scope: tuple[str, str]) -> dict[str, str]:
    """Return under which names a project reads what a team shares about it, and about all; empty without a team."""
    names = connection.execute(_WAYS["read_with"], {"tenant_id": scope[0], "project": scope[1]}).fetchall()
    about, about_all = [name for (name,) in names] if len(names) == 2 else ("", "")
    return {"team": about, "team_global": about_all}


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
    person_id: str | None = None


def put_job(connection: "Connection", scope_id: int, job: JobRow) -> str:
    """Queue a job, or replace the queued one of its scope, kind and key; return the id that stands."""
    found = connection.execute(_JOBS["queued_job"], (scope_id, job.kind, job.key)).fetchone()
    if found is not None:
        connection.execute(_JOBS["replace_job"], (job.payload, job.run_after, job.person_id, found[0]))
        return str(found[0])
    connection.execute(_JOBS["add_job"], (job.id, scope_id, *job[1:]))
    return job.id


class RetrievalRow(NamedTuple):
    """A retrieval as it is written, at a prompt or at a failure."""

    id: str
    scope: tuple[str, str]
    """Tenant and project."""
    query: str
    scores: Mapping[str, float]
    """By memory id, in the order of the answer."""
    latency_ms: float
    at: str
    task_id: str | None
    session_id: str | None
    withheld: bool = False
    signature: str | None = None
    """Of the failure that it was made for; None: it was made for a query."""
    via: str | None = None
    person_id: str | None = None
    gone: Mapping[str, str] | None = None
    """By memory id, what of its anchors the project has no more."""
    read: tuple[str, ...] = ()
    """What the task would have been told too, and its agent reads in files."""
    rested: tuple[str, ...] = ()
    """What fits and was not shown, since it is on trial."""


def write_retrieval(connection: "Connection", record: RetrievalRow) -> bool:
    """Write a retrieval: an event and a figure, and a use of each memory that was given.

    Within a write transaction. False where its scope is not there: then nothing was written.
    """
    ids = list(record.scores)
    via = {} if record.via is None else {"via": record.via}
    where: dict[str, Any] = {"tenant_id": record.scope[0], "project": record.scope[1], "at": record.at}
    where["person_id"] = record.person_id

    def add_event(kind: str, subject_id: str, data: Mapping[str, Any]) -> int:
        event = {**where, "type": kind, "subject_id": subject_id, "data": to_json(data)}
        return connection.execute(_JOURNAL["add_event_of"], event).rowcount

    if record.task_id is not None and (record.withheld or ids):
        of_task = {"retrieval_id": record.id, "ids": ids} | via
        if not add_event(WITHHELD if record.withheld else INJECTED, record.task_id, of_task):
            return False
    if record.task_id is not None and record.read:
        of_files = {"retrieval_id": record.id, "ids": record.read, "via": FILE}
        if not add_event(INJECTED, record.task_id, of_files):
            return False
    on_trial = {"retrieval_id": record.id, "ids": record.rested}
    if record.task_id is not None and record.rested and not add_event(RESTED, record.task_id, on_trial):
        return False
    if record.withheld:
        return True
    told = {
        "query": record.query,
        "scores": dict(record.scores),
        "latency_ms": record.latency_ms,
        "task_id": record.task_id,
        "session_id": record.session_id,
        **via,
        **({"gone": dict(record.gone)} if record.gone else {}),
    }
    if record.signature is not None:
        told["failure"] = record.signature
    if not add_event(RETRIEVED, record.id, told):
        return False
    figure = to_json({"retrieval_id": record.id, "ids": ids})
    values = {**where, "metric": "retrieval_ms", "value": record.latency_ms, "data": figure, "ids": to_json(ids)}
    connection.execute(_JOURNAL["add_metric_of"], values)
    if ids:
        connection.execute(_JOURNAL["use_patterns"], values)
    return True


def to_json(value: object) -> str:
    """Return a value as compact JSON. Raises `ValueError` for NaN."""
    return _COMPACT.encode(value)


def now_text(ahead_s: float = 0.0) -> str:
    """Return the present, or a time ahead of it, as the bank has every time: ISO 8601 in UTC with microseconds."""
    at = datetime.now(UTC) + timedelta(seconds=ahead_s)
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
