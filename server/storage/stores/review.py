"""What a reviewer of memories reads, and the decisions made about them."""

import json
from collections.abc import Sequence
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, MemoryLink
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.sqlite.events import BRIEFING, INJECTED, OUTCOME, RETRIEVED, WITHHELD
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Part, reads, writes
from swarm_memory.server.storage.stores.memories import find_patterns, items_at, put_status_unlogged, replace_item
from swarm_memory.server.storage.stores.rows import Queries, events, find_scopes, log_event, make_scope, to_moment
from swarm_memory.tools.ports.records import DECIDED, TAKEN_BACK, BankEvent, ReviewChange, Showing

_TASK_CHARS = 300
_MOVING = {"confidence", "usage_count", "last_used"}
"""The fields of a memory that tasks change, whatever is decided about it."""

_MAX_FACET = 100

_SQL = Queries("review")


class Review(Part):
    """The review of one bank's memories."""

    @reads
    def showings(self, connection: Connection, scopes: Sequence[Scope], memory_id: str, limit: int) -> list[Showing]:
        """Return when a memory was shown in the scopes, or withheld from a task, newest first."""
        values = {"scopes": find_scopes(connection, scopes), "id": memory_id, "limit": limit, "chars": _TASK_CHARS}
        kinds = {"retrieved": RETRIEVED, "withheld": WITHHELD, "injected": INJECTED, "outcome": OUTCOME}
        rows = _SQL.rows(connection, "showings", **values, **kinds, briefing=BRIEFING)
        return [shown for row in rows if (shown := _showing(memory_id, row)) is not None]

    @reads
    def contradicting(self, connection: Connection, scopes: Sequence[Scope], limit: int) -> list[MemoryLink]:
        """Return the links between active memories that contradict each other, newest first."""
        scope_ids = find_scopes(connection, scopes)
        return _SQL.models(connection, MemoryLink, "contradicting", scopes=scope_ids, limit=limit)

    @reads
    def most_shown(self, connection: Connection, scopes: Sequence[Scope], limit: int) -> list[MemoryItem]:
        """Return the active memories that were shown most often, without those never shown."""
        ids = _SQL.column(connection, "most_shown", scopes=find_scopes(connection, scopes), limit=limit)
        return items_at(connection, scopes, ids)

    @reads
    def decisions(self, connection: Connection, scopes: Sequence[Scope]) -> list[BankEvent]:
        """Return the events of decisions about memories, and of decisions taken back, oldest first."""
        scope_ids = find_scopes(connection, scopes)
        return events(_SQL.rows(connection, "events_of_types", scopes=scope_ids, types=(DECIDED, TAKEN_BACK)))

    @reads
    def facets(self, connection: Connection, scopes: Sequence[Scope]) -> dict[str, dict[str, int]]:
        """Return the domains, tags and agents of active memories, with how many have each, most frequent first.

        Also return the tenant's projects, by name, with how many active memories each has.
        """
        found: dict[str, dict[str, int]] = {"domains": {}, "tags": {}, "agents": {}}
        for facet, value, items in _SQL.rows(connection, "facets", scopes=find_scopes(connection, scopes)):
            if len(found[facet]) < _MAX_FACET:
                found[facet][value] = items
        return found | {"projects": dict(_SQL.rows(connection, "projects", scopes[0].tenant_id))}

    @writes
    def write_decision(
        self,
        connection: Connection,
        changes: Sequence[ReviewChange],
        embedder: str,
        links: Sequence[MemoryLink],
        unlinked: Sequence[MemoryLink],
    ) -> bool:
        """Write a decision in one transaction; return False, and write nothing, if a memory is not as it was seen."""
        found: list[tuple[int, str, int, str]] = []
        for seen in (each.before for each in changes):
            now = items_at(connection, (seen.scope,), [seen.id])
            if not now or now[0].model_dump(exclude=_MOVING) != seen.model_dump(exclude=_MOVING):
                return False
            found += find_patterns(connection, (seen.scope,), (seen.id,))
        index = self.bank.index
        for (before, after, stored, reason, event), (seq, item_id, former, status) in zip(changes, found, strict=True):
            scope_id = make_scope(connection, after.scope)
            if scope_id != former:
                if status == "active":
                    index.leave(connection, seq, former)
                _SQL.run(connection, "move_pattern", scope_id, event.at, seq)
                _SQL.run(connection, "move_events", scope_id=scope_id, id=item_id, former=former)
                if status == "active":
                    index.enter(connection, seq, scope_id)
            wanted = (after.status, after.status_reason)
            if wanted != (before.status, before.status_reason):
                put_status_unlogged(connection, index, (seq, item_id, scope_id, status), wanted, event.at)
            if stored is not None:
                replace_item(connection, self.bank, stored, embedder, reason)
            log_event(connection, scope_id, event.kind, item_id, event.data, event.at)
        for name, which in (("link", links), ("unlink", unlinked)):
            for link in which:
                _SQL.run(connection, name, **link.model_dump(), at=changes[0].event.at)
        index.tidy(connection)
        return True


def _showing(memory_id: str, row: Sequence[Any]) -> Showing | None:
    """Return the showing that a row records; None if the row only names the memory in its query."""
    kind, at, subject, text, outcome, task = row
    data: dict[str, Any] = json.loads(text)
    retrieved = kind == RETRIEVED
    if memory_id not in (data.get("scores", {}) if retrieved else data.get("ids", ())):
        return None
    record = None if outcome is None else OutcomeRecord.model_validate_json(outcome)
    credit = next((each for each in record.credits if each.memory_id == memory_id), None) if record else None
    return Showing(
        at=to_moment(at),
        withheld=kind == WITHHELD,
        at_failure="failure" in data,
        query=data.get("query", ""),
        via=data.get("via"),
        score=data["scores"][memory_id] if retrieved else None,
        task_id=data.get("task_id") if retrieved else subject,
        session_id=data.get("session_id"),
        task=task or "",
        label=None if record is None else record.label,
        use=None if credit is None else credit.method,
        change=None if credit is None else credit.applied,
    )
