"""Calls to chat models and what they cost, written and read; the transaction is the caller's."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import make_scope, to_json, to_text
from swarm_memory.tools.ports.journal import ChatRecord, ChatSpending

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

CHAT_TOKENS = "chat_tokens"
"""The metric of a call; its value is the tokens of input and output."""

_QUERIES = queries()


def write_calls(connection: "Connection", records: Iterable[ChatRecord]) -> None:
    """Write one figure for each call."""
    for record in records:
        usage = record.usage.model_dump(exclude_none=True)
        told = {"purpose": record.purpose, "model": record.model, "outcome": record.outcome, **usage}
        figure = to_json(told | {"latency_ms": round(record.latency_ms, 1)})
        scope_id = make_scope(connection, record.scope)
        values = (scope_id, CHAT_TOKENS, tokens_of(record), figure, to_text(record.at))
        connection.execute(_QUERIES["add_metric"], values)


def chat_spending(connection: "Connection", since: datetime, unwritten: Iterable[ChatRecord] = ()) -> ChatSpending:
    """Return what was spent since then, with the calls of this process that are not written yet."""
    row = connection.execute(_QUERIES["chat_spending"], (CHAT_TOKENS, to_text(since))).fetchone()
    calls, tokens, cost = int(row[0]), int(row[1]), row[2]
    for record in unwritten:
        if record.at >= since:
            calls, tokens = calls + 1, tokens + tokens_of(record)
            if record.usage.cost_usd is not None:
                cost = (cost or 0.0) + record.usage.cost_usd
    return ChatSpending(calls, tokens, cost)


def tokens_of(record: ChatRecord) -> int:
    """Return the tokens of input and output."""
    return record.usage.input_tokens + record.usage.output_tokens
