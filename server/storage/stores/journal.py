"""What is noted of what happened: sessions of hosts, events, retrievals, calls to chat models, runs of benchmarks."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.sqlite.events import CLEARED, FILE, INJECTED, RESTED, RETRIEVED, WITHHELD
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.status import BankStatistics, ChatDay
from swarm_memory.server.storage.engine.engine import Engine, Part, reads, writes, writing_as
from swarm_memory.server.storage.stores.rows import (
    event_of,
    find_scope,
    log_event,
    made,
    make_scope,
    named,
    optional_text,
    to_json,
    to_text,
)
from swarm_memory.tools.ports.journal import ChatRecord, Event, HostSession
from swarm_memory.tools.ports.memories import RetrievalRecord

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.server.storage.engine.recorder import Record, Recorder

CHAT_TOKENS = "chat_tokens"
"""The metric of a call; its value is the tokens of input and output."""

_QUERIES, _BENCHMARKS = queries("journal"), queries("benchmarks")


class ChatSpending(NamedTuple):
    """What calls to chat models cost together."""

    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """Of the calls whose cost is known; None where that is none."""


class Journal(Engine):
    """Sessions of hosts, events and figures of one bank; what a store queues is written behind by its recorder."""

    recorder: "Recorder"
    unwritable: list[ChatRecord]
    """Calls to chat models where this user may only read: they are known to this process alone."""
    consolidate_every: int

    @reads
    def get_session(self, connection: "Connection", scope: Scope, session_id: str) -> HostSession | None:
        rows = named(connection, _QUERIES["get_session"], (find_scope(connection, scope), session_id))
        return made(HostSession, rows[0], scope=scope) if rows else None

    async def shown_in(self, scope: Scope, session_id: str, task_ids: Sequence[str]) -> frozenset[str]:
        """Return the memories that tasks of a host's session were shown since its context was last cleared."""
        # Taken before the look at the database: what is written meanwhile is in both rather than in neither.
        waiting = [each for each in self.recorder.waiting if isinstance(each, RetrievalRecord) and not each.withheld]
        unwritten = {each for record in waiting if record.task_id in task_ids for each in record.scores}
        return await self._shown_in(scope, session_id, task_ids) | unwritten

    @reads
    def _shown_in(
        self, connection: "Connection", scope: Scope, session_id: str, task_ids: Sequence[str]
    ) -> frozenset[str]:
        values = {"scope_id": find_scope(connection, scope), "tasks": to_json(list(task_ids)), "injected": INJECTED}
        values |= {"session_id": session_id, "cleared": CLEARED}
        rows = connection.execute(_QUERIES["shown_in"], values).fetchall()
        return frozenset(memory_id for (data,) in rows for memory_id in json.loads(data).get("ids", ()))

    @writes
    def put_session(self, connection: "Connection", session: HostSession) -> None:
        values = session.model_dump(exclude={"scope"})
        values |= {"scope_id": make_scope(connection, session.scope), "updated_at": to_text(session.updated_at)}
        connection.execute(_QUERIES["put_session"], values)

    @writes
    def add_event(self, connection: "Connection", scope: Scope, event: Event) -> None:
        log_event(connection, make_scope(connection, scope), event.kind, event.subject_id, dict(event.data), event.at)

    @reads
    def events_of_kind(self, connection: "Connection", scope: Scope, kind: str, limit: int) -> list[Event]:
        """Return the newest lines of the audit trail of one kind, newest first."""
        values = (find_scope(connection, scope), kind, limit)
        return [event_of(row) for row in connection.execute(_QUERIES["events_of_kind"], values).fetchall()]

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        if not self.read_only:
            self.recorder.add(record._replace(person_id=self.person_id))

    def record_chat(self, record: ChatRecord) -> None:
        """Queue the record and return at once; the store writes it behind, at the latest when it closes."""
        if self.read_only:
            self.unwritable.append(record)
        else:
            self.recorder.add(record)

    async def chat_spending(self, since: datetime) -> ChatSpending:
        """Return what was spent since then by every process and in every scope of the database."""
        await self.recorder.settle()
        # Taken before the look at the database: a call that is written meanwhile counts twice rather than not at all.
        waiting = [each for each in self.recorder.waiting if isinstance(each, ChatRecord)]
        calls, tokens, cost = await self._written_spending(since)
        for record in (each for each in (*waiting, *self.unwritable) if each.at >= since):
            calls, tokens = calls + 1, tokens + record.usage.input_tokens + record.usage.output_tokens
            if record.usage.cost_usd is not None:
                cost = (cost or 0.0) + record.usage.cost_usd
        return ChatSpending(calls, tokens, cost)

    async def chat_days(self, since: datetime) -> list[ChatDay]:
        """Return the days (UTC) since then on which models were asked, as `chat_spending` counts, the newest first."""
        await self.recorder.settle()
        return await self._written_days(since)

    @reads
    def _written_days(self, connection: "Connection", since: datetime) -> list[ChatDay]:
        rows = connection.execute(_QUERIES["chat_days"], (CHAT_TOKENS, to_text(since))).fetchall()
        return [ChatDay(day=day, calls=calls, tokens=tokens, cost_usd=cost) for day, calls, tokens, cost in rows]

    @reads
    def _written_spending(self, connection: "Connection", since: datetime) -> tuple[int, int, float | None]:
        calls, tokens, cost = connection.execute(_QUERIES["chat_spending"], (CHAT_TOKENS, to_text(since))).fetchone()
        return int(calls), int(tokens), cost

    @reads
    def statistics(self, connection: "Connection", scope: Scope, embedder: str) -> BankStatistics:
        scope_id = find_scope(connection, scope)
        memories = _counts(connection, "count_patterns", scope_id)
        verdicts = _counts(connection, "count_trajectories", scope_id)
        embedded = _counts(connection, "count_embedded", scope_id)
        described = connection.execute(_QUERIES["describe_patterns"], {"scope_id": scope_id}).fetchone()
        oldest, newest, mean_confidence, new = described
        (retrievals,) = connection.execute(_QUERIES["count_events"], (scope_id, RETRIEVED)).fetchone()
        return BankStatistics(
            scope=scope,
            memories={"active": 0, "quarantined": 0, "archived": 0} | memories,
            by_outcome=_counts(connection, "count_outcomes", scope_id),
            trajectories=sum(verdicts.values()),
            verdicts={label: count for label, count in verdicts.items() if label},
            retrievals=retrievals,
            jobs=_counts(connection, "count_jobs", scope_id),
            embedded=embedded,
            not_embedded=memories.get("active", 0) - embedded.get(embedder, 0),
            new_since_consolidation=new,
            consolidation_due=new >= self.consolidate_every,
            oldest=oldest,
            newest=newest,
            mean_confidence=mean_confidence,
        )

    @writes
    def write_records(self, connection: "Connection", records: "Sequence[Record]") -> None:
        """Write what was queued."""
        for record in records:
            if isinstance(record, RetrievalRecord):
                _write_retrieval(connection, record)
            else:
                _write_call(connection, record)


def _write_retrieval(connection: "Connection", record: RetrievalRecord) -> None:
    """Write a retrieval: an event and a figure, and a use of each memory that was given."""
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
        told: dict[str, Any] = {
            "query": record.query,
            "scores": dict(record.scores),
            "latency_ms": record.latency_ms,
            "task_id": record.task_id,
            "session_id": record.session_id,
            **via,
            **({"gone": dict(record.gone)} if record.gone else {}),
            **({} if record.failure is None else {"failure": record.failure}),
        }
        log_event(connection, scope_id, RETRIEVED, record.retrieval_id, told, record.at)
    figure = to_json({"retrieval_id": record.retrieval_id, "ids": ids})
    connection.execute(
        _QUERIES["add_metric"], (scope_id, "retrieval_ms", record.latency_ms, figure, to_text(record.at))
    )
    if ids:
        used = {"ids": to_json(ids), "tenant_id": record.scope.tenant_id, "at": to_text(record.at)}
        connection.execute(_QUERIES["use_patterns"], used)


def _write_call(connection: "Connection", record: ChatRecord) -> None:
    made = {"purpose": record.purpose, "model": record.model, "outcome": record.outcome}
    call = {**made, **asdict(record.usage), "latency_ms": round(record.latency_ms, 1)}
    figure = to_json({name: value for name, value in call.items() if value is not None})
    tokens = record.usage.input_tokens + record.usage.output_tokens
    values = (make_scope(connection, record.scope), CHAT_TOKENS, tokens, figure, to_text(record.at))
    connection.execute(_QUERIES["add_metric"], values)


def _counts(connection: "Connection", query: str, scope_id: int | None) -> dict[str, int]:
    return dict(connection.execute(_QUERIES[query], (scope_id,)).fetchall())


class Benchmarks(Part):
    """The benchmark runs of a bank; the values of single cases are left to a run's file, which may be long."""

    @writes
    def save_benchmark(self, connection: "Connection", scope: Scope, run: BenchmarkRun) -> None:
        """Write a run, new or as it stands now."""
        kept = run.results.model_copy(update={"cases": (), "case_ids": ()})
        values = {
            "run_id": run.run_id,
            "scope_id": make_scope(connection, scope),
            "suite": run.suite,
            "status": run.status,
            "settings": to_json(run.model_dump(mode="json", exclude={"results"})),
            "results": to_json(kept.model_dump(mode="json", exclude_defaults=True)),
            "created_at": to_text(run.started_at),
            "ended_at": optional_text(run.ended_at),
        }
        connection.execute(_BENCHMARKS["save_benchmark_run"], values)

    @reads
    def get_benchmark(self, connection: "Connection", scope: Scope, run_id: str) -> BenchmarkRun | None:
        row = connection.execute(_BENCHMARKS["find_benchmark_run"], (run_id, find_scope(connection, scope))).fetchone()
        return None if row is None else _benchmark(row)

    @reads
    def list_benchmarks(self, connection: "Connection", scope: Scope, limit: int) -> list[BenchmarkRun]:
        rows = connection.execute(_BENCHMARKS["list_benchmark_runs"], (find_scope(connection, scope), limit)).fetchall()
        return [_benchmark(row) for row in rows]


def _benchmark(row: Sequence[Any]) -> BenchmarkRun:
    described, results = row
    return BenchmarkRun.model_validate({**json.loads(described), "results": json.loads(results or "{}")})
