"""Trajectories in the bank, and what was learned from them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryStatus
from swarm_memory.schema.outcome import RecordedTask
from swarm_memory.schema.sqlite.events import TRIED, VERDICT
from swarm_memory.schema.trajectory import Trajectory, TrajectorySource, Verdict
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, author, reads, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.credit import OUTCOME, outcome_in
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN
from swarm_memory.server.storage.stores.memories import (
    MemoryWriter,
    change_status,
    count_added,
    find_patterns,
)
from swarm_memory.server.storage.stores.rows import Sql, content_hash, find_scope, log_event, made, make_scope
from swarm_memory.server.storage.stores.upkeep import REMOVED
from swarm_memory.tools.guard.trust import REINFORCED
from swarm_memory.tools.ports.trajectories import KeptTask, LearnedBefore, LearnRecord, Revision, TaskFilter

_SQL, _FIXES, _TASKS = Sql("trajectories"), Sql("fixes"), Sql("tasks")

_SHOWN_CHARS = 300
"""Of a task in a list."""

_MOST_KEPT = 8
"""Of tasks that kept to a memory, or did not, so many are noted: every later one would say the same."""


class Trajectories(Engine):
    """What was done, and what was learned from it, in one bank."""

    @reads
    def learned_before(
        self, connection: Connection, scope: Scope, task_id: str, content_digest: str
    ) -> LearnedBefore | None:
        """Return what was learned from exactly this trajectory of this task."""
        return _learned_before(connection, scope, task_id, content_digest)

    @writes
    def save_learning(self, connection: Connection, record: LearnRecord) -> tuple[str, ...]:
        """Write trajectory, verdict, items and events in one transaction.

        Items that an earlier version of the same task gave, and that this one did not give again or reinforce, are
        archived as superseded; their ids are returned. Of a trajectory that was learned from nothing is written, unless
        by the run that this one `replaces`: what that one gave counts as given by an earlier version.
        """
        task_id = record.trajectory.task_id
        # Another process may have learned from the same trajectory meanwhile.
        before = _learned_before(connection, record.scope, task_id, record.trajectory.content_digest)
        if before is not None and before.run_id != record.replaces:
            return ()
        scope_id = make_scope(connection, record.scope)
        if record.new_per_day is not None:
            count_added(connection, scope_id, record.counted, record.new_per_day, record.at)
        learned = {"scope_id": scope_id, "run_id": record.run_id, "failures": record.failures}
        learned |= _columns(record.trajectory_id, record.trajectory, record.verdict, record.at)
        _SQL.run(connection, "add_trajectory", **learned)
        writer = MemoryWriter(connection, self, record.embedder)
        new = [item.id for item in writer.add(record.memories)]
        if record.reinforcement > 0:
            of_task = {"run_id": record.run_id, "task_id": task_id, "session_id": record.trajectory.session_id}
            reinforce(connection, record.scope, record.reinforced, record.reinforcement, of_task, record.at)
        _note_tried(connection, self.index, scope_id, record)
        superseded = _supersede(connection, self.index, record, scope_id, keep={*new, *record.reinforced})
        came = {"stored": new, "reinforced": record.reinforced, "superseded": superseded}
        of_task = {"task_id": task_id, "trajectory_id": record.trajectory_id, "label": record.verdict.label}
        log_event(connection, scope_id, "learned", record.run_id, of_task | came, record.at)
        return superseded

    @reads
    def recent_tasks(self, connection: Connection, scope: Scope, limit: int, chars: int) -> list[str]:
        """Return so many characters of each of the tasks that were learned from or judged last."""
        scope_id = find_scope(connection, scope)
        return _SQL.column(connection, "recent_tasks", scope_id=scope_id, limit=limit, chars=chars)

    @writes
    def put_common_words(self, connection: Connection, scope: Scope, words: Sequence[str]) -> None:
        """Note the words that stand in most tasks of the project."""
        _SQL.run(connection, "put_common_words", scope_id=make_scope(connection, scope), words=words)

    @writes
    def save_verdict(
        self, connection: Connection, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict
    ) -> str:
        """Keep a trajectory with its verdict, which replaces an earlier one on the same; return the id it is kept by.

        One that was learned from keeps the verdict that was learned with.
        """
        scope_id = make_scope(connection, scope)
        before = _SQL.row(connection, "judged_before", scope_id, trajectory.task_id, trajectory.content_digest)
        kept_id = trajectory_id if before is None else str(before[0])
        add_trajectory(connection, scope_id, kept_id, trajectory, verdict, datetime.now(UTC))
        return kept_id

    @reads
    def get_trajectory(
        self, connection: Connection, scope: Scope, trajectory_id: str
    ) -> tuple[Trajectory, Verdict | None] | None:
        """Look up by trajectory id, or by task id for the newest of that task."""
        row = _TASKS.row(connection, "find_task", scope_id=find_scope(connection, scope), id=trajectory_id)
        return None if row is None else _read(*row[1:3])

    @reads
    def list_tasks(self, connection: Connection, scope: Scope, which: TaskFilter) -> list[RecordedTask]:
        scope_id = find_scope(connection, scope)
        return _described(connection, _TASKS.column(connection, "newest_tasks", scope_id=scope_id, **which._asdict()))

    @reads
    def sources_of_tasks(self, connection: Connection, scope: Scope) -> list[TrajectorySource]:
        """Return the agents of which there are trajectories."""
        return _TASKS.column(connection, "sources_of_tasks", find_scope(connection, scope))

    @reads
    def kept_task(self, connection: Connection, scope: Scope, given_id: str) -> KeptTask | None:
        """Look up as `get_trajectory` does, with all that a list has."""
        found = _TASKS.row(connection, "find_task", scope_id=find_scope(connection, scope), id=given_id)
        if found is None:
            return None
        seq, trajectory, verdict, later = found
        (row,) = _described(connection, [seq])
        return KeptTask(row, *_read(trajectory, verdict), later)

    @writes
    def revise(self, connection: Connection, revision: Revision) -> None:
        scope_id, verdict = make_scope(connection, revision.scope), revision.verdict
        values = {"id": revision.row.trajectory_id, "scope_id": scope_id, "run_id": revision.run_id}
        values |= {"label": verdict.label, "confidence": verdict.confidence, "verdict": verdict.model_dump_json()}
        _TASKS.run(connection, "put_verdict", **values)
        changes: tuple[tuple[MemoryStatus, tuple[str, ...]], ...]
        changes = (("archived", revision.archived), ("active", revision.restored))
        for status, ids in changes:
            why = f"the verdict on its task was changed ({revision.id})"
            for found in find_patterns(connection, (revision.scope,), ids):
                change_status(connection, self.index, found, (status, why), revision.at, run_id=revision.id)
        log_event(connection, scope_id, VERDICT, revision.row.task_id, revision.event, revision.at)
        self.index.tidy(connection)


def _read(trajectory: str, verdict: str | None) -> tuple[Trajectory, Verdict | None]:
    judged = None if verdict is None else Verdict.model_validate_json(verdict)
    return Trajectory.model_validate_json(trajectory), judged


def _described(connection: Connection, seqs: Sequence[int]) -> list[RecordedTask]:
    known = {"outcome": OUTCOME, "removed": REMOVED, "forgotten": FORGOTTEN}
    rows = _TASKS.named(connection, "describe_tasks", seqs=seqs, chars=_SHOWN_CHARS, **known)
    return [made(RecordedTask, row, outcome=row["outcome"] and outcome_in(row["outcome"])) for row in rows]


def _note_tried(connection: Connection, index: Index, scope_id: int, record: LearnRecord) -> None:
    """Note which memories a task tried; a candidate becomes a memory where a task of another session shows it helps."""
    of_task = {"task_id": record.trajectory.task_id, "session_id": record.trajectory.session_id}
    for signature, memory_id, worked in record.tried_fixes:
        if worked and signature:
            _FIXES.run(connection, "add_fix", signature=signature, id=memory_id, scope_id=scope_id)
            for found in _FIXES.rows(connection, "borne_out", id=memory_id, scope_id=scope_id, tried=TRIED, **of_task):
                change_status(connection, index, found, ("active", "a second task bears it out"))
        counted = {"id": memory_id, "tried": TRIED, "worked": worked}
        if signature or _FIXES.row(connection, "count_kept", **counted)[0] < _MOST_KEPT:
            tried = {"signature": signature, **of_task, "worked": worked}
            log_event(connection, scope_id, TRIED, memory_id, tried, record.at)


def _learned_before(connection: Connection, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
    scope_id = find_scope(connection, scope)
    row = _SQL.row(connection, "learned_before", scope_id, task_id, content_digest)
    if row is None:
        return None
    trajectory_id, run_id, verdict = row
    ids = tuple(_SQL.column(connection, "ids_of_run", run_id, scope_id))
    return LearnedBefore(trajectory_id, run_id, Verdict.model_validate_json(verdict), ids)


def add_trajectory(
    connection: Connection,
    scope_id: int,
    trajectory_id: str,
    trajectory: Trajectory,
    verdict: Verdict | None,
    at: datetime,
) -> None:
    """Write a trajectory, or its newer verdict."""
    columns = _columns(trajectory_id, trajectory, verdict, at)
    _SQL.run(connection, "add_trajectory", **columns, scope_id=scope_id, run_id=None, failures=None)


def _columns(trajectory_id: str, trajectory: Trajectory, verdict: Verdict | None, at: datetime) -> dict[str, Any]:
    text = trajectory.model_dump_json(exclude_defaults=True)
    columns = {"task_id", "source", "session_id", "agent_id", "started_at", "ended_at"}
    return trajectory.model_dump(include=columns) | {
        "id": trajectory_id,
        "query": trajectory.task,
        "trajectory_json": text,
        "content_digest": trajectory.content_digest,
        "judge_label": None if verdict is None else verdict.label,
        "judge_conf": None if verdict is None else verdict.confidence,
        "verdict_json": None if verdict is None else verdict.model_dump_json(),
        "created_at": at,
        "content_hash": content_hash(trajectory_id, text),
        "person_id": author(),
    }


def reinforce(
    connection: Connection,
    scope: Scope,
    ids: Sequence[str],
    by: float,
    of_task: Mapping[str, str | None],
    at: datetime,
) -> None:
    """Raise the confidence of items that a run of a task, and of a host's session if there was one, found again."""
    for seq, item_id, scope_id, _ in find_patterns(connection, (scope,), ids):
        _SQL.run(connection, "reinforce", by, at, seq)
        log_event(connection, scope_id, REINFORCED, item_id, {"by": by, **of_task}, at)


def _supersede(
    connection: Connection, index: Index, record: LearnRecord, scope_id: int, keep: set[str]
) -> tuple[str, ...]:
    """Archive what earlier versions of the task gave and this one did not.

    What the agent wrote about the task stays when it goes on, unless it failed or the agent says it again.
    """
    values: dict[str, Any] = {"task_id": record.trajectory.task_id, "scope_id": scope_id, "run_id": record.run_id}
    values["replaces"] = record.replaces
    values["keeps_agents"] = record.verdict.judge != "agent" and record.verdict.label != "Failure"
    gone = [row for row in _SQL.rows(connection, "earlier_of_task", **values) if row[1] not in keep]
    why = f"superseded by a later version of its task ({record.run_id})"
    for row in gone:
        change_status(connection, index, row, ("archived", why))
    return tuple(row[1] for row in gone)
