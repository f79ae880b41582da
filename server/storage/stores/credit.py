"""Outcomes of tasks in the bank, and what they change in memories.

The newest `task.outcome` event of a task is its outcome. Beside it stands one figure in `performance_metrics`, which a
later outcome of the same task replaces, so that every task is counted once.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.outcome import Credit, OutcomeRecord, TaskFigures
from swarm_memory.schema.sqlite.events import BRIEFING, FILE, INJECTED, RESTED, WITHHELD
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import reads, writes
from swarm_memory.server.storage.stores.journal import Journal
from swarm_memory.server.storage.stores.memories import find_patterns
from swarm_memory.server.storage.stores.rows import Sql, find_scope, log_event, make_scope, to_moment
from swarm_memory.tools.credit.outcome import credited
from swarm_memory.tools.ports.trajectories import TaskInjections, TaskOutcome, Trials

OUTCOME = "task.outcome"
CREDITED = "reasoning_memory.credited"
FIGURE = "task_outcome"
"""The metric of a task's outcome; its value is 1 for a success, 0 for a failure, 0.5 where nothing is known."""

_VALUES = {"Success": 1.0, "Failure": 0.0, "Undecided": 0.5}
TRIALS = "memory_trials"
"""The metric of which memories are suspected."""

_SQL, _BANK = Sql("credit"), Sql("bank")


class Outcomes(Journal):
    """Outcomes of tasks in one bank."""

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        """Return what was retrieved for a task; what this store has queued is written first."""
        await self.recorder.settle()
        return await self._injections(scope, task_id)

    @reads
    def _injections(self, connection: Connection, scope: Scope, task_id: str) -> TaskInjections:
        values = {"task_id": task_id, "scope_id": find_scope(connection, scope)}
        kinds = {"injected": INJECTED, "withheld": WITHHELD, "rested": RESTED}
        seen: dict[str, dict[str, datetime]] = {kind: {} for kind in ("given", "beside", WITHHELD, RESTED)}
        held_out = False
        for kind, text, at in _SQL.rows(connection, "injections_of", **values, **kinds):
            held_out = held_out or kind == WITHHELD
            data = json.loads(text)
            way = ("beside" if data.get("via") in (BRIEFING, FILE) else "given") if kind == INJECTED else kind
            for memory_id in data.get("ids", ()):
                seen[way].setdefault(memory_id, to_moment(at))
        return TaskInjections(seen["given"], tuple(seen[WITHHELD]), held_out, seen["beside"], tuple(seen[RESTED]))

    @reads
    def get_outcome(self, connection: Connection, scope: Scope, task_id: str) -> OutcomeRecord | None:
        scope_id = find_scope(connection, scope)
        return None if scope_id is None else _stored(connection, scope_id, task_id)[0]

    @writes
    def save_outcome(self, connection: Connection, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        """Write the outcome of a task of the first scope and change the memories of all, in one transaction.

        The same outcome a second time changes nothing (`already_credited`); another one of the same task takes back
        what the former one changed before it is applied. Return it with what was really applied.
        """
        now = datetime.now(UTC)
        scope_id = make_scope(connection, scopes[0])
        former, figure = _stored(connection, scope_id, record.task_id)
        if former is not None and _said(former) == _said(record):
            return former.model_copy(update={"status": "already_credited"})
        if figure is not None:
            _SQL.run(connection, "delete_figure", figure, scope_id, FIGURE)
        taken_back = {} if former is None else {each.memory_id: each.applied for each in former.credits}
        written = record.model_copy(update={"credits": _apply(connection, scopes, record, taken_back, now)})
        (figure,) = _SQL.rows(connection, "add_figure", scope_id, *_figure(written))[0]
        data = {**written.model_dump(mode="json", exclude_defaults=True), "figure": figure}
        log_event(connection, scope_id, OUTCOME, record.task_id, data, now)
        return written

    @reads
    def list_outcomes(self, connection: Connection, scope: Scope) -> list[TaskOutcome]:
        """Return what is counted of every task, oldest first."""
        rows = _SQL.rows(connection, "figures", find_scope(connection, scope), FIGURE)
        return [_task_outcome(json.loads(data), to_moment(at)) for data, at in rows]

    @writes
    def save_trials(self, connection: Connection, scope: Scope, trials: Trials) -> None:
        """Keep which memories are suspected, in the place of what was kept before."""
        scope_id, data = make_scope(connection, scope), {"resting": sorted(trials.resting), "doubted": trials.doubted}
        _SQL.run(connection, "delete_figures", scope_id, TRIALS)
        _SQL.run(connection, "add_figure", scope_id, TRIALS, float(len(trials.resting)), data, datetime.now(UTC))

    @reads
    def trials(self, connection: Connection, scope: Scope) -> Trials:
        kept = _SQL.rows(connection, "figures", find_scope(connection, scope), TRIALS)
        data: dict[str, Any] = json.loads(kept[-1][0]) if kept else {}
        return Trials(frozenset(data["resting"]), data["doubted"]) if data else Trials()

    @reads
    def items_by_day(self, connection: Connection, scope: Scope) -> dict[date, int]:
        """Return how many memories were made on each day (UTC) on which any was, whatever became of them."""
        rows = _SQL.rows(connection, "items_by_day", find_scope(connection, scope))
        return {date.fromisoformat(day): count for day, count in rows}


def _stored(connection: Connection, scope_id: int, task_id: str) -> tuple[OutcomeRecord | None, int | None]:
    """Return the outcome of a task, and where its figure stands."""
    row = _SQL.row(connection, "outcome_of", task_id=task_id, scope_id=scope_id, type=OUTCOME)
    return (None, None) if row is None else (outcome_in(row[0]), json.loads(row[0]).get("figure"))


def outcome_in(text: str) -> OutcomeRecord:
    """Return the outcome in an event's data."""
    data = json.loads(text)
    for name in ("figure", "weight"):
        data.pop(name, None)
    data.get("figures", {}).pop("repeats", None)
    return OutcomeRecord.model_validate(data)


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
        (confidence,) = _SQL.row(connection, "confidence_of", seq)
        undone = taken_back.get(memory_id, 0.0)
        before = credited(confidence, -undone)
        credit = wanted.get(memory_id)
        after = before if credit is None else credited(before, credit.change)
        if after != confidence:
            _BANK.run(connection, "set_confidence", after, now, seq)
        if credit is not None:
            applied[memory_id] = credit.model_copy(update={"applied": round(after - before, 9)})
        if undone or (credit is not None and credit.change):
            data: dict[str, Any] = {"task_id": record.task_id, "label": record.label, "from": confidence, "to": after}
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


def _task_outcome(counted: dict[str, Any], at: datetime) -> TaskOutcome:
    figures = TaskFigures.model_construct(**{"steps": None, "tokens": None, **counted["figures"]})
    known: dict[str, Any] = counted | {"figures": figures, "at": at}
    known |= {name: tuple(counted.get(name, ())) for name in ("shown", "rested")}
    known.pop("weight", None)
    return TaskOutcome(**known)
