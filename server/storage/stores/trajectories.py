"""Tasks in the bank: what was done, what was learned from it, what came of it, and what that changes in memories.

The newest `task.outcome` event of a task is its outcome. There is also one figure for it in `performance_metrics`, for
those who query the bank by SQL: a later outcome of the same task replaces it, so that every task is counted once.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.outcome import Credit, OutcomeRecord, RecordedTask
from swarm_memory.schema.sqlite.events import BRIEFING, FILE, INJECTED, OUTCOME, RESTED, TRIED, VERDICT, WITHHELD
from swarm_memory.schema.trajectory import Trajectory, TrajectorySource, Verdict
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import author, reads, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN
from swarm_memory.server.storage.stores.journal import Journal
from swarm_memory.server.storage.stores.memories import add_items, change_status, count_added, find_patterns
from swarm_memory.server.storage.stores.rows import Queries, content_hash, log_event, made, make_scope, to_moment
from swarm_memory.server.storage.stores.upkeep import REMOVED
from swarm_memory.tools.credit.outcome import credited
from swarm_memory.tools.guard.trust import CREDITED, REINFORCED
from swarm_memory.tools.ports.records import (
    KeptTask,
    LearnedBefore,
    LearnRecord,
    TaskFilter,
    TaskInjections,
    Trials,
    VerdictRevision,
)

_SQL, _FIXES, _TASKS = Queries("trajectories"), Queries("fixes"), Queries("tasks")
_CREDIT, _BANK = Queries("credit"), Queries("bank")

_SHOWN_CHARS = 300
"""How many characters of a task a list shows."""

FIGURE = "task_outcome"
"""The metric of a task's outcome; its value is 1 for a success, 0 for a failure, 0.5 where nothing is known."""

_VALUES = {"Success": 1.0, "Failure": 0.0, "Undecided": 0.5}
TRIALS = "memory_trials"
"""The metric that records which memories are suspected."""

_MOST_KEPT = 8
"""For each memory at most this many tasks that kept to it, or did not, are noted: later ones would say the same."""


class Trajectories(Journal):
    """What was done, what was learned from it, and what came of it, in one bank."""

    @reads
    def learned_before(self, connection: Connection, scope: Scope, trajectory: Trajectory) -> LearnedBefore | None:
        """Return what was learned from exactly this trajectory, or from its copy in another session."""
        return _learned_before(connection, scope, trajectory)

    @writes
    def save_learning(self, connection: Connection, record: LearnRecord) -> tuple[str, ...]:
        """Write trajectory, verdict, items and events in one transaction.

        Items that an earlier version of the same task produced, and that this one neither produced again nor
        reinforced, are archived as superseded; return their ids. Nothing is written if the trajectory was learned from
        before, unless by the run that this one `replaces`: that run's items count as those of an earlier version.
        """
        task_id = record.trajectory.task_id
        # Another process may have learned from the same trajectory meanwhile.
        before = _learned_before(connection, record.scope, record.trajectory)
        if before is not None and before.run_id != record.replaces:
            return ()
        scope_id = make_scope(connection, record.scope)
        if record.new_per_day is not None:
            added = max(1, len(record.memories))  # a task that taught nothing new counts too
            count_added(connection, scope_id, added, record.new_per_day, record.at)
        learned = {"run_id": record.run_id, "failures": record.failures}
        add_trajectory(
            connection, scope_id, record.trajectory_id, record.trajectory, record.verdict, record.at, **learned
        )
        new = [item.id for item in add_items(connection, self, record.memories, record.embedder)]
        if record.reinforcement > 0:
            of_task = {"run_id": record.run_id, "task_id": task_id, "session_id": record.trajectory.session_id}
            reinforce(connection, record.scope, record.reinforced, record.reinforcement, of_task, record.at)
        _note_tried(connection, self.index, scope_id, record)
        superseded = _supersede(connection, self.index, record, scope_id, keep={*new, *record.reinforced})
        came = {"stored": new, "reinforced": record.reinforced, "superseded": superseded}
        of_task = {"task_id": task_id, "trajectory_id": record.trajectory_id, "label": record.verdict.label}
        log_event(connection, scope_id, "learned", record.run_id, of_task | came, record.at)
        return superseded

    @writes
    def save_verdict(
        self, connection: Connection, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict
    ) -> str:
        """Save a trajectory with its verdict, which replaces an earlier verdict on it; return the id it is saved under.

        A trajectory that was learned from keeps the verdict it was learned with.
        """
        scope_id = make_scope(connection, scope)
        before = _SQL.row(connection, "judged_before", scope_id, trajectory.task_id, trajectory.content_digest)
        kept_id = trajectory_id if before is None else str(before[0])
        now, said = datetime.now(UTC), verdict.model_dump(mode="json", include={"label", "confidence", "judge"})
        add_trajectory(connection, scope_id, kept_id, trajectory, verdict, now)
        log_event(connection, scope_id, "judged", kept_id, {"task_id": trajectory.task_id} | said, now)
        return kept_id

    @reads
    def get_trajectory(
        self, connection: Connection, scope: Scope, trajectory_id: str
    ) -> tuple[Trajectory, Verdict | None] | None:
        """Look up a trajectory by its id, or the newest one of a task by the task's id."""
        row = _TASKS.row(connection, "find_task", scope_id=scope, id=trajectory_id)
        return None if row is None else _read(*row[1:3])

    @reads
    def list_tasks(self, connection: Connection, scope: Scope, which: TaskFilter) -> list[RecordedTask]:
        return _described(connection, _TASKS.column(connection, "newest_tasks", scope_id=scope, **which._asdict()))

    @reads
    def tasks_by_day(self, connection: Connection, scope: Scope) -> list[tuple[date, str, int]]:
        """Return (day in UTC, verdict, how many tasks ended with it)."""
        rows = _TASKS.rows(connection, "tasks_by_day", scope_id=scope)
        return [(date.fromisoformat(day), label, count) for day, label, count in rows]

    @reads
    def sources_of_tasks(self, connection: Connection, scope: Scope) -> list[TrajectorySource]:
        """Return the agents that have trajectories here."""
        return _TASKS.column(connection, "sources_of_tasks", scope)

    @reads
    def kept_task(self, connection: Connection, scope: Scope, given_id: str) -> KeptTask | None:
        """Look up a task as `get_trajectory` does, with everything that a list shows of it."""
        found = _TASKS.row(connection, "find_task", scope_id=scope, id=given_id)
        if found is None:
            return None
        seq, trajectory, verdict, later = found
        (row,) = _described(connection, [seq])
        return KeptTask(row, *_read(trajectory, verdict), later)

    @writes
    def revise(self, connection: Connection, revision: VerdictRevision) -> None:
        scope_id, verdict = make_scope(connection, revision.scope), revision.verdict
        values = {"id": revision.row.trajectory_id, "scope_id": scope_id, "run_id": revision.run_id}
        values |= {"label": verdict.label, "confidence": verdict.confidence, "verdict": verdict.model_dump_json()}
        _TASKS.run(connection, "put_verdict", **values)
        why = f"the verdict on its task was changed ({revision.id})"
        for found in find_patterns(connection, (revision.scope,), (*revision.archived, *revision.restored)):
            status = "archived" if found[1] in revision.archived else "active"
            change_status(connection, self.index, found, (status, why), revision.at, run_id=revision.id)
        log_event(connection, scope_id, VERDICT, revision.row.task_id, revision.event, revision.at)
        self.index.tidy(connection)

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        """Return what was retrieved for a task, after writing what this store has queued."""
        await self.recorder.settle()
        values = {"task_id": task_id, "scope_id": scope, "injected": INJECTED, "withheld": WITHHELD, "rested": RESTED}

        def read(connection: Connection) -> TaskInjections:
            seen: dict[str, dict[str, datetime]] = {kind: {} for kind in ("given", "beside", WITHHELD, RESTED)}
            held_out = False
            for kind, text, at in _CREDIT.rows(connection, "injections_of", **values):
                held_out = held_out or kind == WITHHELD
                data = json.loads(text)
                way = ("beside" if data.get("via") in (BRIEFING, FILE) else "given") if kind == INJECTED else kind
                for memory_id in data.get("ids", ()):
                    seen[way].setdefault(memory_id, to_moment(at))
            return TaskInjections(seen["given"], tuple(seen[WITHHELD]), held_out, seen["beside"], tuple(seen[RESTED]))

        return await self.read(read)

    @reads
    def get_outcome(self, connection: Connection, scope: Scope, task_id: str) -> OutcomeRecord | None:
        return _stored(connection, scope, task_id)[0]

    @writes
    def save_outcome(self, connection: Connection, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        """Write the outcome of a task in the first scope and change memories in all scopes, in one transaction.

        The same outcome a second time changes nothing (`already_credited`); a different one for the same task first
        undoes what the former one changed. Return the outcome with what was really applied.
        """
        now = datetime.now(UTC)
        scope_id = make_scope(connection, scopes[0])
        former, figure = _stored(connection, scope_id, record.task_id)
        if former is not None and _said(former) == _said(record):
            return former.model_copy(update={"status": "already_credited"})
        if figure is not None:
            _CREDIT.run(connection, "delete_figure", figure, scope_id, FIGURE)
        taken_back = {} if former is None else {each.memory_id: each.applied for each in former.credits}
        written = record.model_copy(update={"credits": _apply(connection, scopes, record, taken_back, now)})
        (figure,) = _CREDIT.rows(connection, "add_figure", scope_id, *_figure(written))[0]
        data = {**written.model_dump(mode="json", exclude_defaults=True), "figure": figure}
        log_event(connection, scope_id, OUTCOME, record.task_id, data, now)
        return written

    @reads
    def list_outcomes(self, connection: Connection, scope: Scope) -> list[OutcomeRecord]:
        """Return the outcome of every task whose figure is still kept, in the order in which the tasks ended."""
        texts = _CREDIT.column(connection, "outcomes", scope_id=scope, type=OUTCOME)
        return sorted(map(OutcomeRecord.model_validate_json, texts), key=lambda each: each.at)

    @writes
    def save_trials(self, connection: Connection, scope: Scope, trials: Trials) -> None:
        """Save which memories are suspected, replacing what was saved before."""
        scope_id, data = make_scope(connection, scope), {"resting": sorted(trials.resting), "doubted": trials.doubted}
        _CREDIT.run(connection, "delete_figures", scope_id, TRIALS)
        _CREDIT.run(connection, "add_figure", scope_id, TRIALS, float(len(trials.resting)), data, datetime.now(UTC))

    @reads
    def trials(self, connection: Connection, scope: Scope) -> Trials:
        kept = _CREDIT.rows(connection, "figures", scope, TRIALS)
        data: dict[str, Any] = json.loads(kept[-1][0]) if kept else {}
        return Trials(frozenset(data["resting"]), data["doubted"]) if data else Trials()

    @reads
    def items_by_day(self, connection: Connection, scope: Scope) -> dict[date, int]:
        """Return how many memories were made on each day (UTC) with any, whatever became of them."""
        rows = _CREDIT.rows(connection, "items_by_day", scope)
        return {date.fromisoformat(day): count for day, count in rows}


def _read(trajectory: str, verdict: str | None) -> tuple[Trajectory, Verdict | None]:
    judged = None if verdict is None else Verdict.model_validate_json(verdict)
    return Trajectory.model_validate_json(trajectory), judged


def _described(connection: Connection, seqs: Sequence[int]) -> list[RecordedTask]:
    known = {"outcome": OUTCOME, "removed": REMOVED, "forgotten": FORGOTTEN}
    rows = _TASKS.named(connection, "describe_tasks", seqs=seqs, chars=_SHOWN_CHARS, **known)
    return [made(RecordedTask, row, outcome=row["outcome"] and json.loads(row["outcome"])) for row in rows]


def _note_tried(connection: Connection, index: Index, scope_id: int, record: LearnRecord) -> None:
    """Note which memories a task tried; a candidate becomes a memory when a task of another session shows it helps."""
    of_task = {"task_id": record.trajectory.task_id, "session_id": record.trajectory.session_id}
    for signature, memory_id, worked in record.tried_fixes:
        if worked and signature:
            _FIXES.run(connection, "add_fix", signature=signature, id=memory_id, scope_id=scope_id)
            for found in _FIXES.rows(connection, "borne_out", id=memory_id, scope_id=scope_id, tried=TRIED, **of_task):
                change_status(connection, index, found, ("active", "a second task bears it out"))
        counted = {"id": memory_id, "tried": TRIED, "worked": worked}
        if signature or _FIXES.column(connection, "count_kept", **counted)[0] < _MOST_KEPT:
            tried = {"signature": signature, **of_task, "worked": worked}
            log_event(connection, scope_id, TRIED, memory_id, tried, record.at)


def _learned_before(connection: Connection, scope: Scope, trajectory: Trajectory) -> LearnedBefore | None:
    known = {"content_digest": trajectory.content_digest, "started_at": trajectory.started_at}
    row = _SQL.row(connection, "learned_before", scope_id=scope, task_id=trajectory.task_id, **known)
    if row is None:
        return None
    trajectory_id, task_id, run_id, verdict = row
    ids = tuple(_SQL.column(connection, "ids_of_run", run_id, scope))
    return LearnedBefore(trajectory_id, task_id, run_id, Verdict.model_validate_json(verdict), ids)


def add_trajectory(
    connection: Connection,
    scope_id: int,
    trajectory_id: str,
    trajectory: Trajectory,
    verdict: Verdict | None,
    at: datetime,
    **learned: Any,
) -> None:
    """Write a trajectory, or its newer verdict; `learned`: the `run_id` that learned from it, and its `failures`."""
    text = trajectory.model_dump_json(exclude_defaults=True)
    columns = trajectory.model_dump(include={"task_id", "source", "session_id", "agent_id", "started_at", "ended_at"})
    columns |= {
        "id": trajectory_id,
        "scope_id": scope_id,
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
    _SQL.run(connection, "add_trajectory", **columns, **{"run_id": None, "failures": None, **learned})


def reinforce(
    connection: Connection, scope: Scope, ids: Sequence[str], by: float, of_task: Mapping[str, str | None], at: datetime
) -> None:
    """Raise the confidence of items that a run found again; `of_task`: the ids of the run, its task and any session."""
    for seq, item_id, scope_id, _ in find_patterns(connection, (scope,), ids):
        _SQL.run(connection, "reinforce", by, at, seq)
        log_event(connection, scope_id, REINFORCED, item_id, {"by": by, **of_task}, at)


def _supersede(
    connection: Connection, index: Index, record: LearnRecord, scope_id: int, keep: set[str]
) -> tuple[str, ...]:
    """Archive the items that earlier versions of the task produced and this one did not."""
    values: dict[str, Any] = {"task_id": record.trajectory.task_id, "scope_id": scope_id, "run_id": record.run_id}
    values["replaces"] = record.replaces
    # As a task goes on, what the agent wrote stays, unless the task failed or the agent reports on it again.
    values["keeps_agents"] = record.verdict.judge != "agent" and record.verdict.label != "Failure"
    gone = [row for row in _SQL.rows(connection, "earlier_of_task", **values) if row[1] not in keep]
    why = f"superseded by a later version of its task ({record.run_id})"
    for row in gone:
        change_status(connection, index, row, ("archived", why))
    return tuple(row[1] for row in gone)


def _stored(connection: Connection, scope: Scope | int, task_id: str) -> tuple[OutcomeRecord | None, int | None]:
    """Return the outcome of a task, and the position of its figure."""
    row = _CREDIT.row(connection, "outcome_of", task_id=task_id, scope_id=scope, type=OUTCOME)
    if row is None:
        return None, None
    return OutcomeRecord.model_validate_json(row[0]), json.loads(row[0]).get("figure")


def _said(record: OutcomeRecord) -> tuple[object, ...]:
    uses = {(credit.memory_id, credit.method, credit.worked) for credit in record.credits}
    return record.digest, record.label, record.given, record.arm, uses


def _apply(
    connection: Connection,
    scopes: Sequence[Scope],
    record: OutcomeRecord,
    taken_back: Mapping[str, float],
    now: datetime,
) -> tuple[Credit, ...]:
    """Change the confidences; return the credits of the memories that exist, with what each really changed."""
    wanted = {credit.memory_id: credit for credit in record.credits}
    applied: dict[str, Credit] = {}
    for seq, memory_id, scope_id, _ in find_patterns(connection, scopes, [*wanted, *taken_back]):
        (confidence,) = _CREDIT.row(connection, "confidence_of", seq)
        undone = taken_back.get(memory_id, 0.0)
        before = credited(confidence, -undone)
        credit = wanted.get(memory_id)
        after = before if credit is None else credited(before, credit.change)
        if after != confidence:
            _BANK.run(connection, "set_confidence", after, now, seq)
        if credit is not None:
            applied[memory_id] = credit.model_copy(update={"applied": round(after - before, 9)})
        if undone or (credit is not None and credit.change):
            data = record.model_dump(include={"task_id", "label", "said_by"}) | {"from": confidence, "to": after}
            if credit is not None:
                data |= {"method": credit.method, "overlap": credit.overlap, "change": credit.change}
            if undone:
                data["taken_back"] = undone
            log_event(connection, scope_id, CREDITED, memory_id, data, now)
    return tuple(applied[memory_id] for memory_id in wanted if memory_id in applied)


def _figure(record: OutcomeRecord) -> tuple[str, float, dict[str, Any], datetime]:
    """Return the columns of a task's figure."""
    counted = {
        "task_id": record.task_id,
        "label": record.label,
        "arm": record.arm,
        "randomised": record.randomised,
        "injected": len(record.credits),
        "used": record.used,
        "shown": [each.memory_id for each in record.credits],
        "rested": record.rested,
        "figures": record.figures.model_dump(mode="json", exclude_none=True),
    }
    return FIGURE, _VALUES[record.label], counted, record.at
