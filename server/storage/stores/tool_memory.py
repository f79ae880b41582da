"""The tool memory in the bank: calls with their totals and window, evaluations, summaries, the index of past calls.

The window, the totals and the ids of calls that left the window are updated in the transaction that logs a call.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.tool_memory import Evaluation, KeptCall, ToolCall, ToolMemory, ToolSummary, ToolTotals
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Part, author, reads, writes
from swarm_memory.server.storage.search.words import in_scope, match_any, rarest, usable
from swarm_memory.server.storage.stores.rows import Queries, find_scope, made, make_scope, to_moment
from swarm_memory.tools.ports.records import CORRECTED, EvaluatedCall, PendingCalls

AROUND = 500
"""At most this many calls after those being evaluated are examined for what followed."""

SMALL_SCOPE = 600
"""In a scope with at most this many calls, all of them are compared with a task."""

POOL = 150
"""At most this many calls are returned by a search by words."""

WHOLE_SESSION = "\x01"
"""In older banks, stands for every call of a session that has none left in the window; no real id equals it."""

_SQL = Queries("tool_memory")


class PastCall(NamedTuple):
    """What ranking needs to know of an evaluated call."""

    tool_name: str
    score: float
    tokens: str
    """Joined by spaces, each once."""


class PastCalls(NamedTuple):
    """The result of a search of past calls."""

    calls: tuple[PastCall, ...]
    documents: int
    """How many calls the windows of the scope hold."""
    document_frequency: Mapping[str, int]
    """For each token of the query, how many calls contain it."""
    sessions: Mapping[str, int]
    """For each tool of these calls, how many sessions have evaluated ones; a call without a session counts as one."""


class ToolMemoryCounts(NamedTuple):
    """The counts of a scope's tool memory."""

    tools: int
    calls: int
    """Over all time."""
    kept: int
    not_evaluated: int
    """Among those kept."""
    summarized: int
    """Tools with a summary."""


class ToolCalls(Part):
    """The tool memory of one bank."""

    @writes
    def add_calls(self, connection: Connection, calls: Sequence[ToolCall], window: int) -> int:
        """Write calls, count them, and trim each tool to the `window` newest, in one transaction.

        Return how many were new: a call whose session and id were seen before, even beyond the window, is skipped.
        """
        scope_ids = {scope: make_scope(connection, scope) for scope in dict.fromkeys(call.scope for call in calls)}
        return sum(_add_call(connection, scope_ids[call.scope], call, window) for call in calls)

    @reads
    def known_calls(self, connection: Connection, scope: Scope, ids: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which (session id or empty, call id) pairs were seen before, by the same test as in `add_calls`."""
        known = _SQL.column(connection, "known_calls", scope_id=scope, ids=ids, whole=WHOLE_SESSION)
        return {ids[place] for place in known}

    @writes
    def put_schema(self, connection: Connection, scope: Scope, tool_name: str, schema: str) -> None:
        """Save a tool's schema: its description of itself."""
        _SQL.run(connection, "put_tool_schema", schema, scope, tool_name)

    @reads
    def recent_calls(self, connection: Connection, scope: Scope, tool_name: str, limit: int) -> list[KeptCall]:
        """Return the newest calls of a tool, newest first."""
        return [_kept(scope, row) for row in _SQL.named(connection, "recent_calls", scope, tool_name, limit)]

    @reads
    def failed_calls(
        self, connection: Connection, scope: Scope, tools: Sequence[str] | None, limit: int
    ) -> list[KeptCall]:
        """Return the newest calls of tools, or of all, that were reported to have failed, newest first."""
        values = {"scope_id": scope, "tools": tools, "limit": limit}
        return [_kept(scope, row) for row in _SQL.named(connection, "failed_calls", **values)]

    @reads
    def pending_calls(
        self,
        connection: Connection,
        scope: Scope,
        *,
        now: datetime,
        until: datetime,
        tools: Sequence[str] | None,
        after: int,
        limit: int,
    ) -> PendingCalls:
        """Return calls after a position, made by `until`, that are not evaluated and not waiting for a later retry."""
        values = {"scope_id": scope, "now": now, "until": until, "tools": tools, "after": after, "limit": limit}
        calls = tuple(_kept(scope, row) for row in _SQL.named(connection, "pending_calls", **values))
        if not calls:
            return PendingCalls((), (), {})
        around = _SQL.named(connection, "calls_between", calls[0].seq, calls[-1].seq + AROUND, scope)
        corrections: dict[str, list[datetime]] = {}
        sessions = list({each.call.session_id for each in calls if each.call.session_id})
        for session_id, at in _SQL.rows(
            connection, "corrections_of", sessions=sessions, scope_id=scope, type=CORRECTED
        ):
            corrections.setdefault(session_id, []).append(to_moment(at))
        return PendingCalls(calls, tuple(_kept(scope, row) for row in around), corrections)

    @writes
    def save_evaluations(
        self,
        connection: Connection,
        scope: Scope,
        evaluated: Sequence[EvaluatedCall],
        failed: Mapping[int, str],
        *,
        now: datetime,
        retry_after_s: float,
    ) -> int:
        """Write evaluations, and why calls (by position) could not be evaluated, in one transaction.

        Calls that left the window are skipped, and of two evaluations the first is kept. Return how many were written.
        """
        scope_id = make_scope(connection, scope)
        written = sum(_save_evaluation(connection, scope_id, each, now) for each in evaluated)
        first_retry = now + timedelta(seconds=retry_after_s)
        again = {"scope_id": scope_id, "first_retry": first_retry, "now": now, "wait_s": retry_after_s}
        for seq, reason in failed.items():
            _SQL.run(connection, "put_failed_evaluation", **again, seq=seq, reason=reason)
        return written

    @reads
    def memories(self, connection: Connection, scope: Scope, tools: Sequence[str] | None) -> list[ToolMemory]:
        """Return what is known of tools, or of all, by name; tools that were never called are left out."""
        return [
            made(ToolMemory, row, totals=made(ToolTotals, row), summary=row["summary"] and json.loads(row["summary"]))
            for row in _SQL.named(connection, "tool_memories", scope_id=scope, tools=tools)
        ]

    @reads
    def new_calls(self, connection: Connection, scope: Scope, tool_name: str, recent: int) -> int:
        """Return how many of the newest calls are evaluated and in no summary yet."""
        return int(_SQL.row(connection, "count_new_calls", scope, tool_name, recent)[0])

    @writes
    def save_summary(
        self,
        connection: Connection,
        scope: Scope,
        tool_name: str,
        summary: ToolSummary,
        seqs: Sequence[int],
        at: datetime,
    ) -> None:
        """Write a summary and mark the calls that it covers, in one transaction."""
        _SQL.run(connection, "put_summary", summary.model_dump_json(), at, scope, tool_name)
        _SQL.run(connection, "mark_summarized", seqs)

    @reads
    def past_calls(
        self, connection: Connection, scope: Scope, tokens: Sequence[str], tools: Sequence[str] | None
    ) -> PastCalls:
        """Return evaluated calls that may be similar: of `tools`, all of a small scope, or with the rarest tokens."""
        scope_id = find_scope(connection, scope)
        if scope_id is None:
            return PastCalls((), 0, {}, {})
        (documents,) = _SQL.row(connection, "count_kept", scope_id)
        known = usable(tokens)
        counts = ((_SQL.row(connection, "term_frequency", in_scope(scope_id, token)) or (0,))[0] for token in known)
        frequency = dict(zip(known, map(int, counts), strict=True))
        if tools is not None or documents <= SMALL_SCOPE:
            rows = _SQL.rows(connection, "evaluated_calls", scope_id=scope_id, tools=tools)
        else:
            stand = [(place, frequency[token]) for place, token in enumerate(known) if frequency[token]]
            searched = rarest(known, stand)
            values = {"expression": match_any(scope_id, searched), "limit": POOL, "scope_id": scope_id}
            rows = _SQL.rows(connection, "similar_calls", **values) if searched else []
        calls = tuple(PastCall(tool, score, words.replace(in_scope(scope_id, ""), "")) for tool, score, words in rows)
        values = {"scope_id": scope_id, "tools": list({each.tool_name for each in calls})}
        return PastCalls(calls, documents, frequency, dict(_SQL.rows(connection, "sessions_of_tools", **values)))

    async def forget_tools(self, scope: Scope, tools: Sequence[str] | None) -> int:
        """Delete tools, or all, with every trace; return how many there were."""

        def drop(connection: Connection) -> int:
            names = _SQL.column(connection, "tool_memories", scope_id=scope, tools=tools)
            for name in names:
                leave_window(connection, _SQL.column(connection, "calls_of_tool", scope, name))
                _SQL.run(connection, "drop_trimmed", scope, name)
                _SQL.run(connection, "drop_tool", scope, name)
            if names:
                forget_words(connection)
            return len(names)

        if forgotten := await self.write(drop):
            await self.bank.truncate_log()
        return forgotten

    @reads
    def counts(self, connection: Connection, scope: Scope) -> ToolMemoryCounts:
        return ToolMemoryCounts(*_SQL.row(connection, "count_tool_memory", scope_id=scope))


def _add_call(connection: Connection, scope_id: int, call: ToolCall, window: int) -> bool:
    values: dict[str, Any] = call.model_dump(exclude={"scope", "task"}) | {
        "scope_id": scope_id,
        "session_id": call.session_id or "",
        "timed": int(call.time_cost_s is not None),
        "time_cost_us": round((call.time_cost_s or 0.0) * 1_000_000),
        "counted": int(call.token_cost is not None),
        "tokens": call.token_cost or 0,
        "whole": WHOLE_SESSION,
        "person_id": author(),
    }
    if call.call_id is not None and _SQL.row(connection, "is_trimmed", **values):
        return False
    written = _SQL.run(connection, "add_call", **values)
    if written.rowcount != 1:
        return False
    if call.task:
        _SQL.run(connection, "add_call_task", written.lastrowid, call.task)
    (kept,) = _SQL.column(connection, "count_call", **values)
    if kept > window:
        leave_window(connection, _SQL.column(connection, "oldest_calls", scope_id, call.tool_name, kept - window))
    return True


def leave_window(connection: Connection, seqs: Sequence[int]) -> Counter[tuple[int, str]]:
    """Remove calls from their tools' windows; ids and totals stay. Return how many for each (scope id, tool)."""
    tools: Counter[tuple[int, str]] = Counter()
    for seq in seqs:
        if found := _SQL.row(connection, "tool_of_call", seq):
            tools[found] += 1
            for query in ("remember_call_id", "unindex_call", "drop_call"):
                _SQL.run(connection, query, seq)
    for tool, gone in tools.items():
        _SQL.run(connection, "shrink_window", gone, *tool)
    return tools


def forget_words(connection: Connection) -> None:
    """Purge the words of deleted calls from the index's pages, including those that earlier versions left there."""
    _SQL.run(connection, "unindex_gone")
    _SQL.run(connection, "optimize_tool_index")


def _save_evaluation(connection: Connection, scope_id: int, done: EvaluatedCall, now: datetime) -> bool:
    tokens = usable(done.tokens)
    values: dict[str, Any] = done.evaluation.model_dump() | {
        "seq": done.seq,
        "scope_id": scope_id,
        "terms": len(tokens),
        "now": now,
        "good": int(done.evaluation.score >= 1.0),
    }
    if _SQL.run(connection, "put_evaluation", **values).rowcount != 1:
        return False
    _SQL.run(connection, "count_evaluation", **values)
    if tokens:
        _SQL.run(connection, "unindex_call", done.seq)  # an earlier version left a deleted call's words
        _SQL.run(connection, "index_call", done.seq, " ".join(in_scope(scope_id, token) for token in tokens))
    return True


def _kept(scope: Scope, row: Mapping[str, Any]) -> KeptCall:
    evaluation = None if row["score"] is None else made(Evaluation, row)
    return made(KeptCall, row, call=made(ToolCall, row, scope=scope), evaluation=evaluation)
