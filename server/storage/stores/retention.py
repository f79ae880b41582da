"""What is removed from the bank once it is old. Memories are not, nor what happened to them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.threads import Part, reads, reads_beside, writes
from swarm_memory.server.storage.stores.credit import OUTCOME
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN, Task, blank_task
from swarm_memory.server.storage.stores.rows import find_scope, to_json, to_moment, to_text
from swarm_memory.server.storage.stores.tool_memory import leave_window
from swarm_memory.tools.ports.upkeep import RETAINED, Retained

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

REMOVED = "(removed: older than retention.trajectories_days)"
"""Stands where the words of a trajectory stood: the memories that came of it still name it."""

_QUERIES = queries("retention")
_FOUND: Mapping[Retained, tuple[str, ...]] = {
    "trajectories": ("trajectories",),
    "events": ("events", "jobs"),
    "metrics": ("metrics",),
    "tool_calls": ("tool_calls",),
}
"""The rows that go with each kind: their queries `old_…` and `drop_…`."""


class SqliteRetention(Part):
    """The age of what one bank keeps."""

    @reads
    def oldest(self, connection: "Connection", scope: Scope) -> dict[Retained, datetime]:
        values = _values(connection, scope)
        found: dict[Retained, datetime] = {}
        for kind in RETAINED:
            row = connection.execute(_QUERIES[f"oldest_{kind}"], values).fetchone()
            if row and row[0]:
                found[kind] = to_moment(row[0])
        return found

    @reads
    def expired(self, connection: "Connection", scope: Scope, before: Mapping[Retained, datetime]) -> list[Retained]:
        values = _values(connection, scope)
        return [kind for kind, limit in before.items() if any(_old(connection, kind, values, limit, 1).values())]

    async def remove(self, scope: Scope, kind: Retained, before: datetime, limit: int) -> int:
        found = await self._look(scope, kind, before, limit)
        return await self._drop(scope, found) if any(found.values()) else 0

    @reads_beside
    def _look(
        self, connection: "Connection", scope: Scope, kind: Retained, before: datetime, limit: int
    ) -> dict[str, list[Any]]:
        return _old(connection, kind, _values(connection, scope), before, limit)

    @writes
    def _drop(self, connection: "Connection", scope: Scope, found: Mapping[str, Sequence[Any]]) -> int:
        scope_id, gone = find_scope(connection, scope), 0
        for name, keys in found.items():
            if name == "trajectories" and scope_id is not None:
                gone += sum(blank_task(connection, Task(scope_id, task_id), REMOVED) for task_id in keys)
            elif name == "tool_calls":
                gone += leave_window(connection, keys)
            elif keys:
                gone += connection.execute(_QUERIES[f"drop_{name}"], (to_json(list(keys)),)).rowcount
        return gone


def _values(connection: "Connection", scope: Scope) -> dict[str, Any]:
    known = {"outcome": OUTCOME, "removed": REMOVED, "forgotten": FORGOTTEN}
    return known | {"scope_id": find_scope(connection, scope)}


def _old(
    connection: "Connection", kind: Retained, values: Mapping[str, Any], before: datetime, limit: int
) -> dict[str, list[Any]]:
    """Return the keys of what is old, by the rows they are of."""
    asked = {**values, "before": to_text(before), "limit": limit}
    return {name: _first(connection.execute(_QUERIES[f"old_{name}"], asked).fetchall()) for name in _FOUND[kind]}


def _first(rows: Iterable[Sequence[Any]]) -> list[Any]:
    return [row[0] for row in rows]
