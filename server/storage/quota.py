"""How much agents and hooks added to a project today, of all processes: one line in `meta`, in their transaction."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import QuotaReached
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import find_scope, make_scope, to_text
from swarm_memory.tools.ports.bank import DayLimit

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_QUERIES = queries("quota")


def added_on(connection: "Connection", scope: Scope, at: datetime) -> int:
    """Return how much was added on the day of a moment, in UTC."""
    scope_id = find_scope(connection, scope)
    return 0 if scope_id is None else _added(connection, scope_id, _day(at))


def count_added(connection: "Connection", scope_id: int, added: int, limit: int, at: datetime) -> None:
    """Count what is being added. Raises `QuotaReached` when the day's limit does not hold it: nothing is written."""
    total = _added(connection, scope_id, _day(at)) + added
    if total > limit:
        raise QuotaReached(limit)
    connection.execute(_QUERIES["put_added"], {"scope_id": scope_id, "value": f"{_day(at)} {total}"})


def count_items(connection: "Connection", items: Sequence[MemoryItem], limit: DayLimit) -> None:
    """Count items, each in its scope. Raises `QuotaReached`."""
    for scope, count in Counter(item.scope for item in items).items():
        count_added(connection, make_scope(connection, scope), count, limit.new_per_day, limit.at)


def _added(connection: "Connection", scope_id: int, day: str) -> int:
    row = connection.execute(_QUERIES["added"], (scope_id,)).fetchone()
    counted_on, _, count = row[0].partition(" ") if row else ("", "", "")
    return int(count) if counted_on == day else 0


def _day(at: datetime) -> str:
    return to_text(at)[:10]
