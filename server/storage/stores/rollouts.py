"""MaTTS runs and their rollouts in the bank."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.rollout import MattsRun, Rollout, RunStatus
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, reads, writes
from swarm_memory.server.storage.stores.memories import add_items, added_on, count_added
from swarm_memory.server.storage.stores.rows import Queries, log_event, made, make_scope
from swarm_memory.server.storage.stores.trajectories import add_trajectory, reinforce
from swarm_memory.tools.ports.records import MattsRunEnd

BEGUN, ENDED = "matts.begun", "matts.ended"
_SQL = Queries("rollouts")


class Rollouts(Engine):
    """MaTTS runs and their rollouts in one bank.

    The transaction that writes a rollout's trajectory also extends the run's summary: what is not in it was not done.
    """

    @writes
    def begin_run(self, connection: Connection, run: MattsRun) -> MattsRun:
        """Write the run as running unless completed or cancelled; return its state, with the rollouts that ended."""
        scope_id = make_scope(connection, run.scope)
        values = {**_columns(run), "scope_id": scope_id, "created_at": run.created_at}
        if _SQL.run(connection, "add_matts_run", **values).rowcount:
            begun = {"task_id": run.task_id, "mode": run.mode, "k": run.k, "runner": run.summary.runner}
            log_event(connection, scope_id, BEGUN, run.run_id, begun)
        _SQL.run(connection, "start_matts_run", run.run_id, scope_id)
        found = _find(connection, run.scope, run.run_id)
        assert found is not None, "a run id is of one scope"
        return found

    @reads
    def get_run(self, connection: Connection, scope: Scope, run_id: str) -> MattsRun | None:
        return _find(connection, scope, run_id)

    @reads
    def list_runs(
        self, connection: Connection, scope: Scope, statuses: Sequence[RunStatus], limit: int
    ) -> list[MattsRun]:
        """Return runs, newest first."""
        return _runs(connection, scope, statuses=statuses, limit=limit)

    @writes
    def save_rollout(
        self,
        connection: Connection,
        scope: Scope,
        run_id: str,
        rollout: Rollout,
        trajectory: Trajectory | None,
        verdict: Verdict | None,
    ) -> bool:
        """Keep an ended rollout and its trajectory; return False, writing nothing, if the run is no longer running."""
        run = _find(connection, scope, run_id)
        if run is None or run.status != "running":
            return False
        former = run.rollout(rollout.number)
        if former is not None and former.status != "failed":
            return True
        scope_id = make_scope(connection, scope)
        if trajectory is not None and rollout.trajectory_id is not None:
            add_trajectory(connection, scope_id, rollout.trajectory_id, trajectory, verdict, datetime.now(UTC))
            _SQL.run(connection, "link_rollout", run_id, rollout.trajectory_id, scope_id)
        _SQL.run(connection, "update_matts_run", **_columns(run.with_rollout(rollout)), scope_id=scope_id)
        return True

    @writes
    def end_run(self, connection: Connection, end: MattsRunEnd) -> bool:
        """Write how a run ended, with its memories; return False, writing nothing, when it is no longer running."""
        run, now = end.run, datetime.now(UTC)
        stands = _find(connection, run.scope, run.run_id)
        if stands is None or stands.status != "running":
            return False
        scope_id = make_scope(connection, run.scope)
        add_items(connection, self, end.memories, end.embedder)
        if end.new_per_day is not None and end.memories:
            # The quota was checked when the run began: the costly result of many rollouts is not thrown away now.
            added = added_on(connection, scope_id, now) + len(end.memories)
            count_added(connection, scope_id, len(end.memories), max(end.new_per_day, added), now)
        if end.reinforced and end.reinforcement > 0:
            of_task = {"run_id": run.run_id, "task_id": run.task_id, "session_id": end.session_id}
            reinforce(connection, run.scope, end.reinforced, end.reinforcement, of_task, now)
        _SQL.run(connection, "update_matts_run", **_columns(run), scope_id=scope_id)
        of_run = {"task_id": run.task_id, "status": run.status, "best": run.summary.best, "stored": run.summary.stored}
        log_event(connection, scope_id, ENDED, run.run_id, of_run, now)
        return True

    @writes
    def reopen_run(self, connection: Connection, scope: Scope, run_id: str) -> bool:
        """Queue a cancelled run again."""
        return _SQL.run(connection, "reopen_matts_run", run_id, scope).rowcount == 1

    @writes
    def cancel_run(self, connection: Connection, scope: Scope, run_id: str) -> bool:
        """Cancel a run that is queued or running; its rollouts are kept."""
        if _SQL.run(connection, "cancel_matts_run", run_id, scope).rowcount == 0:
            return False
        log_event(connection, make_scope(connection, scope), ENDED, run_id, {"status": "cancelled"})
        return True


def _find(connection: Connection, scope: Scope, run_id: str) -> MattsRun | None:
    return next(iter(_runs(connection, scope, id=run_id)), None)


def _columns(run: MattsRun) -> dict[str, Any]:
    """Return the columns of a run's row that change; the task's text is in the summary, which is JSON."""
    summary = {"task": run.task, **run.summary.model_dump(mode="json", exclude_defaults=True)}
    return run.model_dump(include={"run_id", "task_id", "mode", "k", "status"}) | {"summary": summary}


def _runs(connection: Connection, scope: Scope, *, limit: int = 1, **which: Any) -> list[MattsRun]:
    """Return the newest runs of a scope that pass a filter."""
    found: list[MattsRun] = []
    values = {"id": None, "statuses": None, **which}
    for row in _SQL.named(connection, "matts_runs", **values, scope_id=scope, limit=limit):
        summary: dict[str, Any] = json.loads(row["summary"] or "{}")
        found.append(made(MattsRun, row, scope=scope, task=summary.pop("task", ""), summary=summary))
    return found
