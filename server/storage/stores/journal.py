"""Records of what happened: hosts' sessions, events, retrievals, calls to chat models, benchmark runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.sqlite.events import CLEARED, FILE, INJECTED, RESTED, RETRIEVED, WITHHELD
from swarm_memory.schema.status import BankStatistics, ChatDay
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, Part, Record, reads, writes, writing_as
from swarm_memory.server.storage.stores.rows import Queries, events, log_event, made, make_scope
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent, ChatRecord, HostSession

CHAT_TOKENS = "chat_tokens"
"""The metric of a call; its value is the number of input and output tokens."""

_SQL, _BENCHMARKS = Queries("journal"), Queries("benchmarks")


class Journal(Engine):
    """Sessions of hosts, events and figures of one bank."""

    @reads
    def get_session(self, connection: Connection, scope: Scope, session_id: str) -> HostSession | None:
        rows = _SQL.named(connection, "get_session", scope, session_id)
        return made(HostSession, rows[0], scope=scope) if rows else None

    async def shown_in(
        self, scope: Scope, session_id: str, task_ids: Sequence[str], kind: str = INJECTED
    ) -> frozenset[str]:
        """Return the memories that tasks of a host's session were shown since its context was last cleared.

        With `LISTED`, return those for which the session was shown when they matter; `task_ids` is then its own id.
        """
        # Taken before the database is read: what is written meanwhile is in both rather than in neither.
        waiting = [each for each in self.recorder.waiting if isinstance(each, RetrievalRecord) and not each.withheld]
        unwritten = {each for record in waiting if record.task_id in task_ids for each in record.scores}
        known = {"injected": kind, "cleared": CLEARED, "session_id": session_id, "tasks": task_ids}

        def written(connection: Connection) -> set[str]:
            found = _SQL.column(connection, "shown_in", **known, scope_id=scope)
            return {memory_id for data in found for memory_id in json.loads(data).get("ids", ())}

        return frozenset(unwritten | await self.read(written))

    @writes
    def put_session(self, connection: Connection, session: HostSession) -> None:
        scope_id = make_scope(connection, session.scope)
        _SQL.run(connection, "put_session", scope_id=scope_id, **session.model_dump(exclude={"scope"}))

    @writes
    def add_event(self, connection: Connection, scope: Scope, event: BankEvent) -> None:
        """Write an event; what it says was shown to a task counts as a use of each of these memories."""
        log_event(connection, make_scope(connection, scope), event.kind, event.subject_id, event.data, event.at)
        if event.kind == INJECTED:
            _SQL.run(connection, "use_patterns", ids=event.data["ids"], tenant_id=scope.tenant_id, at=event.at)

    @reads
    def events_of_kind(
        self, connection: Connection, scope: Scope, kind: str, limit: int, since: datetime | None = None
    ) -> list[BankEvent]:
        """Return the newest events of one kind, newest first; with `since`, none older than that."""
        return events(_SQL.rows(connection, "events_of_kind", scope, kind, since or "", limit))

    async def chat_spending(self, since: datetime) -> ChatDay:
        """Return what every process spent since then, in every scope of the database, summed up as one day."""
        await self.recorder.settle()
        # Taken before the database is read: a call that is written meanwhile counts twice rather than not at all.
        waiting = [each for each in self.recorder.waiting if isinstance(each, ChatRecord)]
        days = await self.chat_days(since)
        unwritten = [record for record in (*waiting, *self.unwritable) if record.at >= since]
        known = [cost for day in days if (cost := day.cost_usd) is not None]
        known += [cost for record in unwritten if (cost := record.usage.cost_usd) is not None]
        return ChatDay(
            day=since.date().isoformat(),
            calls=sum(day.calls for day in days) + len(unwritten),
            tokens=sum(day.tokens for day in days) + sum(map(_tokens_of, unwritten)),
            cost_usd=sum(known) if known else None,
        )

    async def chat_days(self, since: datetime) -> list[ChatDay]:
        """Return the days (UTC) since then on which models were called, counted as in `chat_spending`, newest first."""
        await self.recorder.settle()
        return await self.read(lambda connection: _SQL.models(connection, ChatDay, "chat_days", CHAT_TOKENS, since))

    @reads
    def statistics(self, connection: Connection, scope: Scope, embedder: str) -> BankStatistics:
        counts: dict[str, dict[str, int]] = {}
        asked = {"scope_id": scope, "tenant_id": scope.tenant_id, "retrieved": RETRIEVED}
        for what, name, count in _SQL.rows(connection, "counts", **asked):
            counts.setdefault(what, {})[name] = count
        memories = {"active": 0, "quarantined": 0, "archived": 0} | counts.get("memories", {})
        verdicts, embedded = counts.get("verdicts", {}), counts.get("embedded", {})
        (new,) = _SQL.row(connection, "new_patterns", scope_id=scope)
        return BankStatistics(
            scope=scope,
            memories=memories,
            projects=counts.get("projects", {}),
            trajectories=sum(verdicts.values()),
            verdicts={label: count for label, count in verdicts.items() if label},
            retrievals=sum(counts.get("events", {}).values()),
            jobs=counts.get("jobs", {}),
            embedded=embedded,
            not_embedded=memories["active"] - embedded.get(embedder, 0),
            new_since_consolidation=new,
        )

    @writes
    def write_records(self, connection: Connection, records: Sequence[Record]) -> None:
        """Write queued records."""
        for record in records:
            if isinstance(record, RetrievalRecord):
                _write_retrieval(connection, record)
                continue
            call = {"purpose": record.purpose, "model": record.model, "outcome": record.outcome, **asdict(record.usage)}
            call["latency_ms"] = round(record.latency_ms, 1)
            figure = {name: value for name, value in call.items() if value is not None}
            scope_id = make_scope(connection, record.scope)
            _SQL.run(connection, "add_metric", scope_id, CHAT_TOKENS, _tokens_of(record), figure, record.at)


def _write_retrieval(connection: Connection, record: RetrievalRecord) -> None:
    """Write a retrieval: its events, and a use of each memory that it returned."""
    scope_id, ids = make_scope(connection, record.scope), list(record.scores)
    via = {} if record.via is None else {"via": record.via}
    of_task: list[tuple[str, dict[str, Any]]] = []
    if record.withheld or ids:
        shown = {"retrieval_id": record.retrieval_id, "ids": ids}
        of_task.append((WITHHELD if record.withheld else INJECTED, shown | via))
    if record.read:
        of_task.append((INJECTED, {"retrieval_id": record.retrieval_id, "ids": record.read, "via": FILE}))
    if record.rested:
        of_task.append((RESTED, {"retrieval_id": record.retrieval_id, "ids": record.rested}))
    with writing_as(record.person_id):
        for kind, data in of_task if record.task_id is not None else ():
            log_event(connection, scope_id, kind, record.task_id, data, record.at)
        if record.withheld:
            return
        retrieved: dict[str, Any] = {
            "query": record.query,
            "scores": record.scores,
            "latency_ms": record.latency_ms,
            "task_id": record.task_id,
            "session_id": record.session_id,
            **via,
            **({"gone": record.gone} if record.gone else {}),
            **({} if record.failure is None else {"failure": record.failure}),
        }
        log_event(connection, scope_id, RETRIEVED, record.retrieval_id, retrieved, record.at)
    if ids:
        _SQL.run(connection, "use_patterns", ids=ids, tenant_id=record.scope.tenant_id, at=record.at)


def _tokens_of(record: ChatRecord) -> int:
    return record.usage.input_tokens + record.usage.output_tokens


class Benchmarks(Part):
    """The benchmark runs of a bank."""

    @writes
    def save_benchmark(self, connection: Connection, scope: Scope, run: BenchmarkRun) -> None:
        """Write a new run, or the current state of a known one."""
        values = {
            "run_id": run.run_id,
            "scope_id": make_scope(connection, scope),
            "suite": run.suite,
            "status": run.status,
            "settings": run.model_dump(mode="json", exclude={"results"}),
            "results": run.results.model_dump(mode="json", exclude_defaults=True),
            "created_at": run.started_at,
            "ended_at": run.ended_at,
        }
        _BENCHMARKS.run(connection, "save_benchmark_run", **values)

    @reads
    def get_benchmark(self, connection: Connection, scope: Scope, run_id: str) -> BenchmarkRun | None:
        row = _BENCHMARKS.row(connection, "find_benchmark_run", run_id, scope)
        return None if row is None else _benchmark(row)

    @reads
    def list_benchmarks(self, connection: Connection, scope: Scope, limit: int) -> list[BenchmarkRun]:
        return [_benchmark(row) for row in _BENCHMARKS.rows(connection, "list_benchmark_runs", scope, limit)]


def _benchmark(row: Sequence[Any]) -> BenchmarkRun:
    described, results = row
    return BenchmarkRun.model_validate({**json.loads(described), "results": json.loads(results or "{}")})
