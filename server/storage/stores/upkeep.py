"""The maintenance of the bank: what a consolidation reads, writes and undoes, vectors, and the removal of old data.

What to change, and why, is decided elsewhere; this module only checks that an item is still as it was seen. A batch
leaves one event that holds everything needed to undo it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import MemoryLink, MemoryStatus, Undone
from swarm_memory.schema.sqlite.events import OUTCOME
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, Part, reads, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN, Task, blank_task
from swarm_memory.server.storage.stores.memories import change_status
from swarm_memory.server.storage.stores.rows import (
    Queries,
    log_event,
    make_scope,
    now_text,
    to_column,
    to_json,
    to_moment,
)
from swarm_memory.server.storage.stores.tool_memory import leave_window
from swarm_memory.tools.ports.models import Embedder, Vector
from swarm_memory.tools.ports.records import (
    FINISHED,
    Aging,
    Retained,
    UpkeepBatch,
    UpkeepChange,
    UpkeepItem,
    UpkeepState,
    UpkeepWritten,
)

CHANGED, UNDONE = "consolidation.changed", "consolidation.undone"
REMOVED = "(removed: older than retention.trajectories_days)"
"""Replaces the text of a trajectory, which stays because the memories made from it still name it."""

_SQL, _BANK, _RETENTION = Queries("upkeep"), Queries("bank"), Queries("retention")


class PendingUpkeep(NamedTuple):
    """What waits for maintenance in a scope."""

    new: int
    """Active items that no consolidation has compared yet, counted up to a limit."""
    not_embedded: int
    """Active items without a vector of the embedder."""
    consolidated: int
    """The position up to which a consolidation has compared items."""


class Upkeep(Engine):
    """What the maintenance of one bank reads and writes."""

    @reads
    def upkeep_state(self, connection: Connection, scope: Scope) -> UpkeepState:
        consolidated, last, active, aging = _SQL.row(connection, "upkeep_state", scope) or (0, 0, 0, None)
        return UpkeepState(consolidated, last, active, _aging_of(aging))

    @reads
    def pending_upkeep(self, connection: Connection, scope: Scope, embedder: str, most: int) -> PendingUpkeep:
        """Return what waits, counting new items only up to `most`: a large bank takes no longer than a small one."""
        row = _SQL.row(connection, "pending_upkeep", scope_id=scope, model=embedder, most=most)
        return PendingUpkeep(*(row or (0, 0, 0)))

    @reads
    def upkeep_items(
        self, connection: Connection, scope: Scope, embedder: Embedder, *, after: int, limit: int
    ) -> list[UpkeepItem]:
        """Return active items after a position, by position."""
        return _items(connection, "upkeep_items", scope, embedder, after=after, limit=limit)

    @reads
    def upkeep_items_of(
        self, connection: Connection, scope: Scope, embedder: Embedder, ids: Sequence[str]
    ) -> list[UpkeepItem]:
        """Return those of the items that are active in the scope, in any order."""
        return _items(connection, "upkeep_items_of", scope, embedder, ids=ids)

    @writes
    def write_upkeep(self, connection: Connection, scope: Scope, batch: UpkeepBatch) -> UpkeepWritten:
        """Write a batch in one transaction; items that were changed since they were seen are skipped."""
        scope_id = make_scope(connection, scope)
        if batch.aging is not None and _read_aging(connection, scope_id) != batch.aging[0]:
            return UpkeepWritten(refused=True)
        writer = _BatchWriter(connection, self.index, scope_id, batch.run_id, batch.at)
        done = [change for each in batch.changes if (change := writer.change(each))]
        changed = tuple(change["id"] for change in done)
        links = [link for link in batch.links if link.relation != "duplicate_of" or link.src_id in changed]
        added = [[link.src_id, link.dst_id, link.relation, link.weight] for link in links if writer.link(link)]
        if done or added or batch.aging is not None:
            record: dict[str, Any] = {"changes": done, "links": added, "origins": batch.origins}
            if batch.aging is not None:
                record["aging"] = [None if state is None else to_json(state.model_dump()) for state in batch.aging]
                _SQL.run(connection, "put_aging", scope_id, record["aging"][1])
            log_event(connection, scope_id, CHANGED, batch.run_id, record, batch.at)
        skipped = tuple(each.seen.id for each in batch.changes if each.seen.id not in changed)
        return UpkeepWritten(changed, skipped)

    @writes
    def finish_upkeep(
        self,
        connection: Connection,
        scope: Scope,
        run_id: str,
        at: datetime,
        consolidated: int,
        summary: Mapping[str, JsonValue],
    ) -> None:
        """Record that a run ended, up to which position items are compared, and what it did; tidy the indexes."""
        scope_id = make_scope(connection, scope)
        _SQL.run(connection, "mark_consolidated", consolidated, scope_id)
        log_event(connection, scope_id, FINISHED, run_id, summary, at)
        self.index.tidy(connection)

    @reads
    def upkeep_batches(self, connection: Connection, scope: Scope, run_id: str) -> list[int]:
        """Return the numbers of a run's batches that were not undone, the latest first. Raises `NotFoundError`."""
        return list(_batches(connection, scope, run_id))

    @writes
    def undo_upkeep(self, connection: Connection, scope: Scope, run_id: str, batch: int, at: datetime) -> Undone:
        """Restore what a batch changed, in one transaction, wherever it is still as the batch left it."""
        text = _batches(connection, scope, run_id).get(batch)
        if text is None:
            return Undone(run_id=run_id, restored=0, links_removed=0)
        record: dict[str, Any] = json.loads(text)
        scope_id = make_scope(connection, scope)
        writer = _BatchWriter(connection, self.index, scope_id, run_id, at)
        restored = [change["id"] for change in record["changes"] if writer.restore(change)]
        skipped = [change["id"] for change in record["changes"] if change["id"] not in restored]
        removed = sum(_SQL.run(connection, "delete_link", *link).rowcount for *link, _ in record["links"])
        former, written = record.get("aging", (None, None))
        if written is not None and _read_aging(connection, scope_id) == _aging_of(written):  # no later run moved it on
            if former is None:
                _SQL.run(connection, "delete_aging", scope_id)
            else:
                _SQL.run(connection, "put_aging", scope_id, former)
        log_event(connection, scope_id, UNDONE, run_id, {"batch": batch, "skipped": skipped}, at)
        self.index.tidy(connection)
        return Undone(run_id=run_id, restored=len(restored), links_removed=removed, skipped=tuple(skipped))

    @reads
    def unembedded(self, connection: Connection, scope: Scope, limit: int, after: int) -> list[tuple[int, str]]:
        """Return (position, text to embed) of items of any status that have no vector, or only a light embedder's."""
        values = {"scope_id": scope, "limit": limit, "after": after, "light": self.light and self.light.name}
        return _texts_to_embed(_SQL.rows(connection, "unembedded", **values))

    @writes
    def put_first_vectors(self, connection: Connection, embedder: str, made: Mapping[int, Vector]) -> dict[str, Vector]:
        """Write and index vectors, by position, for items that `unembedded` would return; return them by id."""
        # An item that was edited meanwhile already has the vector of its new text.
        rows = _SQL.rows(connection, "unembedded_of", seqs=list(made), light=self.light and self.light.name)
        found = {seq: made[seq] for seq, _ in rows}
        self.index.put_vectors(connection, embedder, found, self.quantization_of(embedder), now_text())
        return {memory_id: made[seq] for seq, memory_id in rows}


class Vectors(Part):
    """The vectors of everything in one index, in all scopes."""

    def __init__(self, bank: Engine, index: Index) -> None:
        super().__init__(bank)
        self._index = index

    @reads
    def without_vector(
        self, connection: Connection, embedder: str, dimensions: int, limit: int, after: int
    ) -> list[tuple[int, str]]:
        """Return (position, text to embed) of items without a vector of the embedder, in order, after a position."""
        values = {"model": embedder, "dims": dimensions, "limit": limit, "after": after}
        return _texts_to_embed(connection.execute(self._index.statements["without_vector"], values).fetchall())

    @writes
    def put_vectors(self, connection: Connection, embedder: str, vectors: Mapping[int, Vector]) -> int:
        """Write and index vectors by position; return how many were written."""
        return self._index.put_vectors(connection, embedder, vectors, self.bank.quantization_of(embedder), now_text())


class Retention(Part):
    """The removal of old data from one bank."""

    @reads
    def expired(self, connection: Connection, scope: Scope, before: Mapping[Retained, datetime]) -> list[Retained]:
        """Return the kinds of data of which something is older than the moment given for it."""
        return [kind for kind, limit in before.items() if any(_old(connection, scope, kind, limit, 1).values())]

    async def remove(self, scope: Scope, kind: Retained, before: datetime, limit: int) -> int:
        """Remove about `limit` of the oldest before a moment, in one short transaction; return how many: 0 when done.

        A trajectory loses its text, replaced by a line that says so: that it was learned from stays known.
        """
        found = await self.read(lambda connection: _old(connection, scope, kind, before, limit))

        def drop(connection: Connection) -> int:
            scope_id, gone = make_scope(connection, scope), 0
            for name, keys in found.items():
                if name == "trajectories":
                    gone += sum(blank_task(connection, Task(scope_id, task_id), REMOVED) for task_id in keys)
                elif name == "tool_calls":
                    gone += leave_window(connection, keys).total()
                elif keys:
                    gone += _RETENTION.run(connection, f"drop_{name}", keys).rowcount
            return gone

        return await self.write(drop) if any(found.values()) else 0


@dataclass(slots=True)
class _BatchWriter:
    """Writes the changes of one batch, or undoes them."""

    connection: Connection
    index: Index
    scope_id: int
    run_id: str
    at: datetime

    def change(self, change: UpkeepChange) -> dict[str, Any] | None:
        """Write a change; return what undoes it, or None when the item is not as it was seen."""
        seen = change.seen
        row = self._found(seen.id)
        if row is None or row[1] != "active" or row[4] != seen.version:
            return None
        seq, status, reason, confidence, _, last_used = row
        if change.unless_used and last_used != to_column(seen.last_used):
            return None
        if change.needs is not None and ((needed := self._found(change.needs)) is None or needed[1] != "active"):
            return None
        wanted = change.reason if change.status != "active" else reason
        after = (change.status, wanted, change.confidence)
        self._put(seq, seen.id, status, after, wanted)
        return {"id": seen.id, "before": [status, reason, confidence], "after": after}

    def restore(self, change: Mapping[str, Any]) -> bool:
        """Undo a change; False when the item is gone or was changed since."""
        row = self._found(change["id"])
        if row is None or list(row[1:4]) != change["after"]:
            return False
        before: tuple[MemoryStatus, str | None, float] = tuple(change["before"])
        self._put(row[0], change["id"], row[1], before, f"{self.run_id} was undone")
        return True

    def link(self, link: MemoryLink) -> bool:
        """Write a link; False when it already exists or cannot exist."""
        values = {**link.model_dump(), "scope_id": self.scope_id, "at": self.at}
        return _SQL.run(self.connection, "add_link", **values).rowcount == 1

    def _put(
        self, seq: int, item_id: str, former: str, wanted: tuple[MemoryStatus, str | None, float], why: str | None
    ) -> None:
        _BANK.run(self.connection, "set_confidence", wanted[2], self.at, seq)
        if wanted[0] != former:
            found, reason = (seq, item_id, self.scope_id, former), {"reason": why, "run_id": self.run_id}
            change_status(self.connection, self.index, found, wanted[:2], self.at, **reason)

    def _found(self, item_id: str) -> tuple[int, str, str | None, float, str, str | None] | None:
        return _SQL.row(self.connection, "pattern_as_it_is", item_id, self.scope_id)


def _batches(connection: Connection, scope: Scope, run_id: str) -> dict[int, str]:
    """Return what a run's batches wrote, except those undone, by number, the latest first."""
    rows = _SQL.rows(connection, "events_of_run", run_id, scope)
    if not any(kind in (CHANGED, FINISHED) for _, kind, _ in rows):
        raise NotFoundError(f"no consolidation {run_id[:60]!r} was run in project {scope.project!r}")
    undone = {json.loads(data)["batch"] for _, kind, data in rows if kind == UNDONE}
    return {seq: data for seq, kind, data in rows if kind == CHANGED and seq not in undone}


def _texts_to_embed(rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, str]]:
    """Return (position, text to embed) of rows of (position, title, description, content)."""
    return [(seq, "\n".join(part for part in texts if part)) for seq, *texts in rows]


def _items(connection: Connection, query: str, scope: Scope, embedder: Embedder, **which: Any) -> list[UpkeepItem]:
    values = {"scope_id": scope, "model": embedder.name, "dims": embedder.dimensions, **which}
    return [
        UpkeepItem(seq, memory_id, confidence, uses, to_moment(made_at), used_at and to_moment(used_at), *rest)
        for seq, memory_id, confidence, uses, made_at, used_at, *rest in _SQL.rows(connection, query, **values)
    ]


def _read_aging(connection: Connection, scope_id: int) -> Aging | None:
    row = _SQL.row(connection, "get_aging", scope_id)
    return None if row is None else _aging_of(row[0])


def _aging_of(text: str | None) -> Aging | None:
    return None if text is None else Aging.model_validate_json(text)


def _old(connection: Connection, scope: Scope, kind: Retained, before: datetime, limit: int) -> dict[str, list[Any]]:
    """Return the keys of old rows, by table; jobs are removed with the audit trail."""
    known = {"outcome": OUTCOME, "removed": REMOVED, "forgotten": FORGOTTEN}
    asked = {**known, "scope_id": scope, "before": before, "limit": limit}
    names = ("events", "jobs") if kind == "events" else (kind,)
    return {name: _RETENTION.column(connection, f"old_{name}", **asked) for name in names}
