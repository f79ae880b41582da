"""The tool memory in the bank: calls with their totals and window, evaluations, summaries, the index of past calls.

The window, the totals and the ids of calls that left the window are kept in the transaction that logs a call; the index
of words follows when calls are evaluated.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.tool_memory import Evaluation, KeptCall, ToolCall, ToolMemory, ToolSummary, ToolTotals
from swarm_memory.server.storage.engine.engine import Part, author, reads, reads_beside, writes
from swarm_memory.server.storage.search.packed import in_scope
from swarm_memory.server.storage.search.words import match_any, usable
from swarm_memory.server.storage.stores.rows import (
    find_scope,
    made,
    make_scope,
    named,
    optional_moment,
    to_json,
    to_moment,
    to_text,
)
from swarm_memory.tools.ports.journal import CORRECTED
from swarm_memory.tools.ports.tool_memory import EvaluatedCall, FailedEvaluation, Neighbour, PendingCalls

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

AROUND = 500
"""So many calls after those that are evaluated are looked at for what followed."""

SMALL_SCOPE = 600
"""In a scope with so few calls all of them are compared with a task."""

POOL = 150
"""Calls that a search by words gives."""

MAX_POSTINGS, SURE_TOKENS = 4000, 4
"""The rarest tokens of a query are searched: the first four, then as many as stand in 4,000 calls together."""

WHOLE_SESSION = "\x01"
"""In older banks: every call of a session that has none left in the window; no id can be that."""

_QUERIES = queries("tool_memory")


class PastCall(NamedTuple):
    """A call that was evaluated, as far as ranking needs it."""

    tool_name: str
    score: float
    tokens: str
    """Joined by spaces, each once."""


class PastCalls(NamedTuple):
    """What a search of past calls gives."""

    calls: tuple[PastCall, ...]
    documents: int
    """Calls in the windows of the scope."""
    document_frequency: Mapping[str, int]
    """Of each token of the query: in how many calls it stands."""


class ToolMemoryCounts(NamedTuple):
    """How the tool memory of a scope stands."""

    tools: int
    calls: int
    """Over all time."""
    kept: int
    not_evaluated: int
    """Of those kept."""
    summarized: int
    """Tools with a summary."""


class ToolCalls(Part):
    """The tool memory of one bank."""

    @writes
    def add_calls(self, connection: "Connection", calls: Sequence[ToolCall], window: int) -> int:
        """Write calls, count them, and trim each tool to the `window` newest, in one transaction.

        A call whose session and call id were seen before, even of one that has left the window, is left alone.
        Return how many were new.
        """
        scope_ids = {scope: make_scope(connection, scope) for scope in dict.fromkeys(call.scope for call in calls)}
        return sum(_add_call(connection, scope_ids[call.scope], call, window) for call in calls)

    @reads
    def known_calls(
        self, connection: "Connection", scope: Scope, ids: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Return which of these ids of session (empty: none) and call were seen before, as `add_calls` tells them."""
        values = {"scope_id": find_scope(connection, scope), "ids": to_json(list(ids)), "whole": WHOLE_SESSION}
        return {ids[place] for (place,) in connection.execute(_QUERIES["known_calls"], values)}

    @writes
    def put_schema(self, connection: "Connection", scope: Scope, tool_name: str, schema: str) -> None:
        """Keep what a tool says of itself."""
        connection.execute(_QUERIES["put_tool_schema"], (schema, find_scope(connection, scope), tool_name))

    @reads
    def recent_calls(self, connection: "Connection", scope: Scope, tool_name: str, limit: int) -> list[KeptCall]:
        """Return the newest calls of a tool, newest first."""
        values = (find_scope(connection, scope), tool_name, limit)
        return [_kept(scope, row) for row in named(connection, _QUERIES["recent_calls"], values)]

    @reads
    def failed_calls(self, connection: "Connection", scope: Scope, tool_name: str | None, limit: int) -> list[KeptCall]:
        """Return the newest calls of a tool, or of all, that were reported to have failed, newest first."""
        values = {"scope_id": find_scope(connection, scope), "tool_name": tool_name, "limit": limit}
        return [_kept(scope, row) for row in named(connection, _QUERIES["failed_calls"], values)]

    @reads
    def pending_calls(
        self,
        connection: "Connection",
        scope: Scope,
        *,
        now: datetime,
        until: datetime,
        tools: Sequence[str] | None,
        after: int,
        limit: int,
    ) -> PendingCalls:
        """Return calls made until a moment that are not evaluated and not to be retried later, after a position."""
        scope_id = find_scope(connection, scope)
        values = {"scope_id": scope_id, "now": to_text(now), "until": to_text(until), "tools": _names(tools)}
        rows = named(connection, _QUERIES["pending_calls"], values | {"after": after, "limit": limit})
        calls = tuple(_kept(scope, row) for row in rows)
        if not calls:
            return PendingCalls((), (), {})
        limits = (calls[0].seq, calls[-1].seq + AROUND, scope_id)
        found = connection.execute(_QUERIES["calls_between"], limits).fetchall()
        around = tuple(
            Neighbour(seq, tool, session_id or None, told, bool(success), to_moment(at))
            for seq, tool, session_id, told, success, at in found
        )
        corrections: dict[str, tuple[datetime, ...]] = {}
        for session_id in {each.call.session_id for each in calls if each.call.session_id}:
            moments = connection.execute(_QUERIES["corrections_of"], (session_id, scope_id, CORRECTED)).fetchall()
            corrections[session_id] = tuple(to_moment(at) for (at,) in moments)
        return PendingCalls(calls, around, corrections)

    @writes
    def save_evaluations(
        self,
        connection: "Connection",
        scope: Scope,
        evaluated: Sequence[EvaluatedCall],
        failed: Sequence[FailedEvaluation],
        *,
        now: datetime,
        retry_after_s: float,
    ) -> int:
        """Write evaluations and failures in one transaction; what left the window meanwhile is passed over.

        An evaluation is written once: of two the first stays. Return how many evaluations were written.
        """
        scope_id = make_scope(connection, scope)
        _unindex_trimmed(connection)
        written = sum(_save_evaluation(connection, scope_id, each, to_text(now)) for each in evaluated)
        first_retry = to_text(now + timedelta(seconds=retry_after_s))
        again = {"scope_id": scope_id, "first_retry": first_retry, "now": to_text(now), "wait_s": retry_after_s}
        connection.executemany(_QUERIES["put_failed_evaluation"], [again | each._asdict() for each in failed])
        return written

    @reads_beside
    def memories(self, connection: "Connection", scope: Scope, tools: Sequence[str] | None) -> list[ToolMemory]:
        """Return what is known of tools, or of all, by name; tools that were never called are left out."""
        values = {"scope_id": find_scope(connection, scope), "tools": _names(tools)}
        return [
            made(
                ToolMemory,
                row,
                totals=made(ToolTotals, row),
                summary=json.loads(row["summary"]) if row["summary"] else None,
            )
            for row in named(connection, _QUERIES["tool_memories"], values)
        ]

    @reads
    def new_calls(self, connection: "Connection", scope: Scope, tool_name: str, recent: int) -> int:
        """Return how many of the newest calls are evaluated and in no summary yet."""
        values = (find_scope(connection, scope), tool_name, recent)
        return int(connection.execute(_QUERIES["count_new_calls"], values).fetchone()[0])

    @writes
    def save_summary(
        self,
        connection: "Connection",
        scope: Scope,
        tool_name: str,
        summary: ToolSummary,
        seqs: Sequence[int],
        at: datetime,
    ) -> None:
        """Write a summary and mark the calls that it has seen, in one transaction."""
        values = (summary.model_dump_json(), to_text(at), find_scope(connection, scope), tool_name)
        connection.execute(_QUERIES["put_summary"], values)
        connection.execute(_QUERIES["mark_summarized"], (to_json(list(seqs)),))

    @reads
    def past_calls(
        self, connection: "Connection", scope: Scope, tokens: Sequence[str], tools: Sequence[str] | None
    ) -> PastCalls:
        """Return evaluated calls that may be similar: those of the tools, all of a small scope, or those that share
        the rarest tokens."""
        scope_id = find_scope(connection, scope)
        if scope_id is None:
            return PastCalls((), 0, {})
        (documents,) = connection.execute(_QUERIES["count_kept"], (scope_id,)).fetchone()
        frequency = {token: _frequency(connection, scope_id, token) for token in usable(tokens)}
        if tools is not None or documents <= SMALL_SCOPE:
            values: dict[str, Any] = {"scope_id": scope_id, "tools": _names(tools)}
            rows = connection.execute(_QUERIES["evaluated_calls"], values).fetchall()
        else:
            searched = _rarest(frequency)
            values = {"expression": match_any(scope_id, searched), "limit": POOL, "scope_id": scope_id}
            rows = connection.execute(_QUERIES["similar_calls"], values).fetchall() if searched else []
        prefix = in_scope(scope_id, "")
        calls = tuple(PastCall(tool, score, told.replace(prefix, "")) for tool, score, told in rows)
        return PastCalls(calls, documents, frequency)

    @reads
    def last_warning(self, connection: "Connection", scope: Scope, tool_name: str) -> datetime | None:
        row = connection.execute(_QUERIES["last_warning"], (find_scope(connection, scope), tool_name)).fetchone()
        return optional_moment(row[0]) if row else None

    @writes
    def claim_warning(
        self, connection: "Connection", scope: Scope, tool_name: str, now: datetime, since: datetime
    ) -> bool:
        """Note that a warning is given; False when one was given after `since`."""
        values = {
            "scope_id": find_scope(connection, scope),
            "tool_name": tool_name,
            "now": to_text(now),
            "since": to_text(since),
        }
        return connection.execute(_QUERIES["claim_warning"], values).rowcount == 1

    async def forget_tools(self, scope: Scope, tools: Sequence[str] | None) -> int:
        """Delete tools, or all, with every trace; return how many there were."""
        forgotten = await self._forget(scope, tools)
        if forgotten:
            await self.bank.truncate_log()
        return forgotten

    @writes
    def _forget(self, connection: "Connection", scope: Scope, tools: Sequence[str] | None) -> int:
        scope_id = find_scope(connection, scope)
        values: dict[str, Any] = {"scope_id": scope_id, "tools": _names(tools)}
        names = [row[0] for row in connection.execute(_QUERIES["tool_memories"], values).fetchall()]
        _unindex_trimmed(connection)
        for name in names:
            for seq in connection.execute(_QUERIES["calls_of_tool"], (scope_id, name)).fetchall():
                connection.execute(_QUERIES["unindex_call"], seq)
                connection.execute(_QUERIES["drop_call"], seq)
            connection.execute(_QUERIES["drop_trimmed"], (scope_id, name))
            connection.execute(_QUERIES["drop_tool"], (scope_id, name))
        if names:
            connection.execute(_QUERIES["optimize_tool_index"])
        return len(names)

    @writes
    def put_totals(self, connection: "Connection", scope: Scope, totals: ToolTotals) -> None:
        """Write the totals of a tool that were counted elsewhere."""
        values = totals.model_dump(exclude={"kept", "first_at", "last_at"})
        moments = {"first_at": totals.first_at, "last_at": totals.last_at}
        values |= {name: to_text(moment) if moment else "" for name, moment in moments.items()}
        connection.execute(_QUERIES["put_totals"], values | {"scope_id": find_scope(connection, scope)})

    @reads_beside
    def counts(self, connection: "Connection", scope: Scope) -> ToolMemoryCounts:
        values = {"scope_id": find_scope(connection, scope)}
        return ToolMemoryCounts(*connection.execute(_QUERIES["count_tool_memory"], values).fetchone())


def _add_call(connection: "Connection", scope_id: int, call: ToolCall, window: int) -> bool:
    values: dict[str, Any] = call.model_dump(exclude={"scope", "task"}) | {
        "scope_id": scope_id,
        "created_at": to_text(call.created_at),
        "session_id": call.session_id or "",
        "timed": int(call.time_cost_s is not None),
        "time_cost_us": round((call.time_cost_s or 0.0) * 1_000_000),
        "counted": int(call.token_cost is not None),
        "tokens": call.token_cost or 0,
        "whole": WHOLE_SESSION,
        "person_id": author(),
    }
    if call.call_id is not None and connection.execute(_QUERIES["is_trimmed"], values).fetchone():
        return False
    written = connection.execute(_QUERIES["add_call"], values)
    if written.rowcount != 1:
        return False
    if call.task:
        connection.execute(_QUERIES["add_call_task"], (written.lastrowid, call.task))
    ((kept,),) = connection.execute(_QUERIES["count_call"], values).fetchall()
    if kept > window:
        oldest = connection.execute(_QUERIES["oldest_calls"], (scope_id, call.tool_name, kept - window)).fetchall()
        leave_window(connection, [seq for (seq,) in oldest])
    return True


def leave_window(connection: "Connection", seqs: Sequence[int]) -> Counter[tuple[int, str]]:
    """Take calls out of the windows of their tools; their ids and totals stay. Return how many of (scope id, tool)."""
    tools: Counter[tuple[int, str]] = Counter()
    for seq in seqs:
        if found := connection.execute(_QUERIES["tool_of_call"], (seq,)).fetchone():
            tools[found] += 1
            connection.execute(_QUERIES["remember_call_id"], (seq,))
            connection.execute(_QUERIES["unindex_later"], (seq,))
            connection.execute(_QUERIES["drop_call"], (seq,))
    for (scope_id, tool_name), gone in tools.items():
        connection.execute(_QUERIES["shrink_window"], (gone, scope_id, tool_name))
    return tools


def _unindex_trimmed(connection: "Connection") -> None:
    """Take the words of calls that left the window out of the index, before a position may be used again."""
    trimmed = connection.execute(_QUERIES["calls_to_unindex"]).fetchall()
    for seq in trimmed:
        connection.execute(_QUERIES["unindex_call"], seq)
    if trimmed:
        connection.execute(_QUERIES["forget_calls_to_unindex"])


def _save_evaluation(connection: "Connection", scope_id: int, done: EvaluatedCall, now: str) -> bool:
    tokens = usable(done.tokens)
    values: dict[str, Any] = done.evaluation.model_dump() | {
        "seq": done.seq,
        "scope_id": scope_id,
        "terms": len(tokens),
        "now": now,
        "good": int(done.evaluation.score >= 1.0),
    }
    if connection.execute(_QUERIES["put_evaluation"], values).rowcount != 1:
        return False
    connection.execute(_QUERIES["count_evaluation"], values)
    if tokens:
        indexed = " ".join(in_scope(scope_id, token) for token in tokens)
        connection.execute(_QUERIES["index_call"], (done.seq, indexed))
    return True


def _frequency(connection: "Connection", scope_id: int, token: str) -> int:
    row = connection.execute(_QUERIES["term_frequency"], (in_scope(scope_id, token),)).fetchone()
    return int(row[0]) if row else 0


def _rarest(frequency: dict[str, int]) -> list[str]:
    chosen: list[str] = []
    postings = 0
    for token, count in sorted(((token, count) for token, count in frequency.items() if count), key=lambda at: at[1]):
        postings += count
        if len(chosen) >= SURE_TOKENS and postings > MAX_POSTINGS:
            break
        chosen.append(token)
    return chosen


def _names(tools: Sequence[str] | None) -> str | None:
    return None if tools is None else to_json(list(tools))


def _kept(scope: Scope, row: Mapping[str, Any]) -> KeptCall:
    evaluation = None if row["score"] is None else made(Evaluation, row)
    return made(KeptCall, row, call=made(ToolCall, row, scope=scope), evaluation=evaluation)
