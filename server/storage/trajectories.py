"""Trajectories and what was learned from them, written and read; the transaction is the caller's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.storage.memories import MemoryWriter, change_status, find_patterns, log_event
from swarm_memory.server.storage.quota import count_added
from swarm_memory.server.storage.rows import content_hash, find_scope, make_scope, optional_text, to_text
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization
from swarm_memory.tools.guard.trust import REINFORCED
from swarm_memory.tools.ports.trajectories import LearnedBefore, LearnRecord

if TYPE_CHECKING:
    from datetime import datetime

    from swarm_memory.server.storage.engine.driver import Connection

_QUERIES = queries()


class Reinforcement(NamedTuple):
    """What found items again: a task, of a host's session where there was one."""

    by: float
    run_id: str
    task_id: str
    session_id: str | None = None


def learned_before(connection: "Connection", scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
    """Return what was learned from exactly this trajectory of this task."""
    scope_id = find_scope(connection, scope)
    row = connection.execute(_QUERIES["learned_before"], (scope_id, task_id, content_digest)).fetchone()
    if row is None:
        return None
    trajectory_id, run_id, verdict = row
    ids = connection.execute(_QUERIES["ids_of_run"], (run_id, scope_id)).fetchall()
    return LearnedBefore(trajectory_id, run_id, Verdict.model_validate_json(verdict), tuple(each for (each,) in ids))


def save_learning(
    connection: "Connection", index: Index, record: LearnRecord, quantization: Quantization
) -> tuple[str, ...]:
    """Write all of one run; return the ids of the items that it archived as superseded.

    When another process learned from the same trajectory meanwhile, nothing is written. Raises `QuotaReached`.
    """
    task_id = record.trajectory.task_id
    if learned_before(connection, record.scope, task_id, record.trajectory.content_digest) is not None:
        return ()
    scope_id = make_scope(connection, record.scope)
    if record.new_per_day is not None:
        count_added(connection, scope_id, record.counted, record.new_per_day, record.at)
    row = trajectory_row(scope_id, record.trajectory_id, record.trajectory, record.verdict, record.at)
    connection.execute(_QUERIES["add_trajectory"], {**row, "run_id": record.run_id})
    writer = MemoryWriter(connection, index, record.embedder, quantization)
    new = [memory.item.id for memory in record.memories if writer.add(memory)]
    if record.reinforcement > 0:
        found_again = Reinforcement(record.reinforcement, record.run_id, task_id, record.trajectory.session_id)
        reinforce(connection, record.scope, record.reinforced, found_again, record.at)
    superseded = _supersede(connection, index, record, scope_id, keep={*new, *record.reinforced})
    told = {
        "task_id": task_id,
        "trajectory_id": record.trajectory_id,
        "label": record.verdict.label,
        "stored": new,
        "reinforced": list(record.reinforced),
        "superseded": list(superseded),
    }
    log_event(connection, scope_id, "learned", record.run_id, told, record.at)
    return superseded


def save_verdict(
    connection: "Connection", scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict, at: "datetime"
) -> None:
    """Write a trajectory with its verdict; nothing counts as learned from it."""
    row = trajectory_row(make_scope(connection, scope), trajectory_id, trajectory, verdict, at)
    connection.execute(_QUERIES["add_trajectory"], {**row, "run_id": None})


def get_trajectory(
    connection: "Connection", scope: Scope, trajectory_id: str
) -> tuple[Trajectory, Verdict | None] | None:
    """Look up by trajectory id, or by task id for the newest of that task."""
    values = {"scope_id": find_scope(connection, scope), "id": trajectory_id}
    row = connection.execute(_QUERIES["get_trajectory"], values).fetchone()
    if row is None:
        return None
    trajectory, verdict = row
    judged = None if verdict is None else Verdict.model_validate_json(verdict)
    return Trajectory.model_validate_json(trajectory), judged


def trajectory_row(
    scope_id: int, trajectory_id: str, trajectory: Trajectory, verdict: Verdict | None, at: "datetime"
) -> dict[str, Any]:
    """Return the columns of a trajectory but the run that learned from it."""
    text = trajectory.model_dump_json(exclude_defaults=True)
    return {
        "id": trajectory_id,
        "task_id": trajectory.task_id,
        "scope_id": scope_id,
        "agent_id": trajectory.agent_id,
        "query": trajectory.task,
        "trajectory_json": text,
        "content_digest": trajectory.content_digest,
        "started_at": optional_text(trajectory.started_at),
        "ended_at": optional_text(trajectory.ended_at),
        "judge_label": None if verdict is None else verdict.label,
        "judge_conf": None if verdict is None else verdict.confidence,
        "verdict_json": None if verdict is None else verdict.model_dump_json(),
        "created_at": to_text(at),
        "content_hash": content_hash(trajectory_id, text),
    }


def reinforce(
    connection: "Connection", scope: Scope, ids: Sequence[str], found_again: Reinforcement, at: "datetime"
) -> None:
    """Raise the confidence of items that a run found again."""
    for seq, item_id, scope_id, _ in find_patterns(connection, (scope,), ids):
        connection.execute(_QUERIES["reinforce"], (found_again.by, to_text(at), seq))
        log_event(connection, scope_id, REINFORCED, item_id, found_again._asdict(), at)


def _supersede(
    connection: "Connection", index: Index, record: LearnRecord, scope_id: int, keep: set[str]
) -> tuple[str, ...]:
    """Archive what earlier versions of the task gave and this one did not."""
    values = {"task_id": record.trajectory.task_id, "scope_id": scope_id, "run_id": record.run_id}
    rows = connection.execute(_QUERIES["earlier_of_task"], values).fetchall()
    gone = [row for row in rows if row[1] not in keep]
    for row in gone:
        change_status(
            connection, index, row, "archived", f"superseded by a later version of its task ({record.run_id})"
        )
    return tuple(row[1] for row in gone)
