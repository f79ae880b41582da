"""The upkeep of the bank: what a consolidation reads, writes and takes back, vectors, and what goes once it is old.

What is to be changed, and why, is decided elsewhere; here is only checked that an item is still as it was seen. A batch
leaves one event that holds all that is needed to undo it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import MemoryLink, MemoryStatus
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.engine import Engine, Part, reads, reads_beside, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.credit import OUTCOME
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN, Task, blank_task
from swarm_memory.server.storage.stores.memories import put_status
from swarm_memory.server.storage.stores.rows import (
    find_scope,
    log_event,
    made,
    make_scope,
    named,
    now_text,
    optional_moment,
    optional_text,
    to_json,
    to_moment,
    to_text,
)
from swarm_memory.server.storage.stores.tool_memory import leave_window
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.ports.upkeep import (
    FINISHED,
    RETAINED,
    Aging,
    Retained,
    UpkeepBatch,
    UpkeepChange,
    UpkeepEnd,
    UpkeepItem,
    UpkeepState,
    UpkeepWritten,
)

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

CHANGED, UNDONE = "consolidation.changed", "consolidation.undone"
TOOK = "consolidation_ms"
"""The metric of a run that ended; the event of that run says what it did."""

REMOVED = "(removed: older than retention.trajectories_days)"
"""Stands where the words of a trajectory stood: the memories that came of it still name it."""

_RETENTION_ROWS: Mapping[Retained, tuple[str, ...]] = {
    "trajectories": ("trajectories",),
    "events": ("events", "jobs"),
    "metrics": ("metrics",),
    "tool_calls": ("tool_calls",),
}
"""The rows that go with each kind: their queries `old_…` and `drop_…`."""

_QUERIES, _BANK, _JOURNAL = queries("upkeep"), queries("bank"), queries("journal")
_RETENTION = queries("retention")


class PendingUpkeep(NamedTuple):
    """What in a scope waits for upkeep."""

    new: int
    """Active items that no consolidation has compared yet, counted up to a number."""
    not_embedded: int
    """Active items without a vector of the embedder."""


class UpkeepUndone(NamedTuple):
    """What taking back one batch restored."""

    restored: tuple[str, ...]
    skipped: tuple[str, ...]
    links_removed: int


class Upkeep(Engine):
    """What the upkeep of one bank reads and writes."""

    @reads
    def upkeep_state(self, connection: "Connection", scope: Scope) -> UpkeepState:
        row = connection.execute(_QUERIES["upkeep_state"], (find_scope(connection, scope),)).fetchone()
        if row is None:
            return UpkeepState(0, 0, 0, None)
        consolidated, last, active, aging = row
        return UpkeepState(consolidated, last, active, _aging_of(aging))

    @reads
    def pending_upkeep(self, connection: "Connection", scope: Scope, embedder: str, most: int) -> PendingUpkeep:
        """Return what waits; new items are counted up to `most`. As fast in a large bank as in a small one."""
        values = {"scope_id": find_scope(connection, scope), "model": embedder, "most": most}
        row = connection.execute(_QUERIES["pending_upkeep"], values).fetchone()
        return PendingUpkeep(0, 0) if row is None else PendingUpkeep(*row)

    @reads
    def upkeep_items(
        self, connection: "Connection", scope: Scope, embedder: str, dimensions: int, *, after: int, limit: int
    ) -> list[UpkeepItem]:
        """Return active items after a position, by position."""
        values = {**_space(connection, scope, embedder, dimensions), "after": after, "limit": limit}
        return [upkeep_item(row) for row in connection.execute(_QUERIES["upkeep_items"], values).fetchall()]

    @reads
    def upkeep_items_of(
        self, connection: "Connection", scope: Scope, embedder: str, dimensions: int, ids: Sequence[str]
    ) -> list[UpkeepItem]:
        """Return those of the items that are active in the scope, in any order."""
        values = {**_space(connection, scope, embedder, dimensions), "ids": to_json(list(ids))}
        return [upkeep_item(row) for row in connection.execute(_QUERIES["upkeep_items_of"], values).fetchall()]

    @reads
    def memory_links(self, connection: "Connection", scope: Scope, ids: Sequence[str]) -> list[MemoryLink]:
        """Return every link from or to one of the items."""
        values = {"scope_id": find_scope(connection, scope), "ids": to_json(list(ids))}
        return [made(MemoryLink, row) for row in named(connection, _QUERIES["links_of"], values)]

    @writes
    def write_upkeep(self, connection: "Connection", scope: Scope, batch: UpkeepBatch) -> UpkeepWritten:
        """Write a batch in one transaction; items that were changed since they were seen are skipped."""
        scope_id = make_scope(connection, scope)
        if batch.aging is not None and _read_aging(connection, scope_id) != batch.aging[0]:
            return UpkeepWritten(refused=True)
        writer = _BatchWriter(connection, self.index, scope_id, batch.run_id, batch.at)
        told: list[dict[str, Any]] = []
        skipped: list[str] = []
        for change in batch.changes:
            done = writer.change(change)
            told.append(done) if done else skipped.append(change.seen.id)
        changed = [done["id"] for done in told]
        links = [link for link in batch.links if link.relation != "duplicate_of" or link.src_id in changed]
        added = [[link.src_id, link.dst_id, link.relation, link.weight] for link in links if writer.link(link)]
        if batch.aging is not None:
            connection.execute(_QUERIES["put_aging"], (scope_id, _aging_text(batch.aging[1])))
        if told or added or batch.aging is not None:
            record: dict[str, Any] = {
                "changes": told,
                "links": added,
                "origins": [dict(origin) for origin in batch.origins],
            }
            if batch.aging is not None:
                record["aging"] = [_aging_text(state) for state in batch.aging]
            log_event(connection, scope_id, CHANGED, batch.run_id, record, batch.at)
        return UpkeepWritten(tuple(changed), tuple(skipped))

    @writes
    def finish_upkeep(self, connection: "Connection", scope: Scope, end: UpkeepEnd) -> None:
        """Write that a run ended (an event with what it did, a figure with how long it took), and tidy the indexes."""
        scope_id = make_scope(connection, scope)
        connection.execute(_QUERIES["mark_consolidated"], (end.consolidated, scope_id))
        log_event(connection, scope_id, FINISHED, end.run_id, dict(end.summary), end.at)
        figure = (scope_id, TOOK, end.took_ms, to_json({"run_id": end.run_id}), to_text(end.at))
        connection.execute(_JOURNAL["add_metric"], figure)
        self.index.tidy(connection)

    @reads
    def upkeep_batches(self, connection: "Connection", scope: Scope, run_id: str) -> list[int]:
        """Return the numbers of a run's batches that were not undone, the latest first. Raises `NotFoundError`."""
        return _batches(connection, scope, run_id)

    @writes
    def undo_upkeep(
        self, connection: "Connection", scope: Scope, run_id: str, batch: int, at: datetime
    ) -> UpkeepUndone:
        """Restore what a batch changed, in one transaction, wherever it is still as the batch left it."""
        scope_id = find_scope(connection, scope)
        if scope_id is None or batch not in _batches(connection, scope, run_id):
            return UpkeepUndone((), (), 0)
        rows = connection.execute(_QUERIES["events_of_run"], (run_id, scope_id)).fetchall()
        record: dict[str, Any] = next(json.loads(data) for seq, _, data in rows if seq == batch)
        writer = _BatchWriter(connection, self.index, scope_id, run_id, at)
        restored: list[str] = []
        skipped: list[str] = []
        for change in record["changes"]:
            (restored if writer.restore(change) else skipped).append(change["id"])
        removed = sum(
            connection.execute(_QUERIES["delete_link"], (src, dst, relation)).rowcount
            for src, dst, relation, _ in record["links"]
        )
        if "aging" in record:
            _restore_aging(connection, scope_id, *record["aging"])
        log_event(connection, scope_id, UNDONE, run_id, {"batch": batch, "skipped": skipped}, at)
        self.index.tidy(connection)
        return UpkeepUndone(tuple(restored), tuple(skipped), removed)

    @property
    def _light_name(self) -> str | None:
        return None if self.light is None else self.light.name

    @reads
    def unembedded(self, connection: "Connection", scope: Scope, limit: int, after: int) -> list[tuple[int, str]]:
        """Return (position, text to embed) of items of any status without a vector, but for one of a light embedder."""
        values = {"scope_id": find_scope(connection, scope), "limit": limit, "after": after, "light": self._light_name}
        return texts_to_embed(connection.execute(_QUERIES["unembedded"], values).fetchall())

    @writes
    def put_first_vectors(self, connection: "Connection", embedder: str, vectors: Mapping[int, Vector]) -> int:
        """Write vectors by position, with their index, of those that `unembedded` would give; return how many."""
        # One edited meanwhile has the vector of its new text.
        values = {"seqs": to_json(list(vectors)), "light": self._light_name}
        rows = connection.execute(_QUERIES["unembedded_of"], values).fetchall()
        lacking = {seq: vectors[seq] for (seq,) in rows}
        return self.index.put_vectors(connection, embedder, lacking, self.quantization_of(embedder), now_text())


class Vectors(Part):
    """The vectors of all that stands in one index, of every scope, and the index itself."""

    def __init__(self, bank: Engine, index: Index) -> None:
        super().__init__(bank)
        self._index = index

    @reads
    def without_vector(
        self, connection: "Connection", embedder: str, dimensions: int, limit: int, after: int
    ) -> list[tuple[int, str]]:
        """Return (position, text to embed) of what has no vector of the embedder, by position, after one."""
        values = {"model": embedder, "dims": dimensions, "limit": limit, "after": after}
        return texts_to_embed(connection.execute(self._index.statements["without_vector"], values).fetchall())

    @writes
    def put_vectors(self, connection: "Connection", embedder: str, vectors: Mapping[int, Vector]) -> int:
        """Write vectors by position, with their index; return how many of the items were there."""
        return self._index.put_vectors(connection, embedder, vectors, self.bank.quantization_of(embedder), now_text())

    @writes
    def drop_others(self, connection: "Connection", embedder: str, dimensions: int) -> list[str]:
        """Delete the vectors of every other embedder; return their names."""
        light = self.bank.light
        kept = {(embedder, dimensions), *(() if light is None else [(light.name, light.dimensions)])}
        return self._index.drop_spaces_but(connection, kept)

    async def refresh(self) -> int:
        """Fill vector indexes again that a process without sqlite-vec left behind; return how many."""
        return await self.write(self._index.refresh) if await self.read(self._index.lacks) else 0

    async def rebuild(self) -> None:
        """Make the keyword index and the vector indexes again from the plain tables."""
        await self.write(self._index.rebuild)


class Retention(Part):
    """The age of what one bank keeps."""

    @reads
    def oldest(self, connection: "Connection", scope: Scope) -> dict[Retained, datetime]:
        """Return when the oldest of each kind that may go was written; a call of a tool: when it was made."""
        values = _old_values(connection, scope)
        found: dict[Retained, datetime] = {}
        for kind in RETAINED:
            row = connection.execute(_RETENTION[f"oldest_{kind}"], values).fetchone()
            if row and row[0]:
                found[kind] = to_moment(row[0])
        return found

    @reads
    def expired(self, connection: "Connection", scope: Scope, before: Mapping[Retained, datetime]) -> list[Retained]:
        """Return the kinds of which something is older than a moment."""
        values = _old_values(connection, scope)
        return [kind for kind, limit in before.items() if any(_old(connection, kind, values, limit, 1).values())]

    async def remove(self, scope: Scope, kind: Retained, before: datetime, limit: int) -> int:
        """Remove about `limit` of the oldest before a moment, in one short transaction; return how many: 0 when done.

        Of a trajectory the words go, and a line that says so stands there: that it was learned from stays known.
        """
        found = await self._look(scope, kind, before, limit)
        return await self._drop(scope, found) if any(found.values()) else 0

    @reads_beside
    def _look(
        self, connection: "Connection", scope: Scope, kind: Retained, before: datetime, limit: int
    ) -> dict[str, list[Any]]:
        return _old(connection, kind, _old_values(connection, scope), before, limit)

    @writes
    def _drop(self, connection: "Connection", scope: Scope, found: Mapping[str, Sequence[Any]]) -> int:
        scope_id, gone = find_scope(connection, scope), 0
        for name, keys in found.items():
            if name == "trajectories" and scope_id is not None:
                gone += sum(blank_task(connection, Task(scope_id, task_id), REMOVED) for task_id in keys)
            elif name == "tool_calls":
                gone += leave_window(connection, keys).total()
            elif keys:
                gone += connection.execute(_RETENTION[f"drop_{name}"], (to_json(list(keys)),)).rowcount
        return gone


class _BatchWriter:
    """Writes the changes of one batch, or takes them back."""

    def __init__(self, connection: "Connection", index: Index, scope_id: int, run_id: str, at: datetime) -> None:
        self._connection = connection
        self._index = index
        self._scope_id = scope_id
        self._run_id = run_id
        self._at = at

    def change(self, change: UpkeepChange) -> dict[str, Any] | None:
        """Write a change; return what undoes it, or None when the item is not as it was seen."""
        seen = change.seen
        row = self._found(seen.id)
        if row is None or row[1] != "active" or row[4] != seen.version:
            return None
        seq, status, reason, confidence, _, last_used = row
        if change.unless_used and last_used != optional_text(seen.last_used):
            return None
        needed = ("", "active") if change.needs is None else self._found(change.needs)
        if needed is None or needed[1] != "active":
            return None
        wanted = change.reason if change.status != "active" else reason
        self._put(seq, seen.id, status, (change.status, wanted, change.confidence), wanted)
        return {
            "id": seen.id,
            "before": [status, reason, confidence],
            "after": [change.status, wanted, change.confidence],
        }

    def restore(self, change: Mapping[str, Any]) -> bool:
        """Take a change back; False when the item is gone or was changed since."""
        row = self._found(change["id"])
        if row is None or list(row[1:4]) != change["after"]:
            return False
        before: tuple[MemoryStatus, str | None, float] = tuple(change["before"])
        self._put(row[0], change["id"], row[1], before, f"{self._run_id} was undone")
        return True

    def link(self, link: MemoryLink) -> bool:
        """Write a link; False when it is there already or cannot be."""
        values = {**link.model_dump(), "scope_id": self._scope_id, "at": to_text(self._at)}
        return self._connection.execute(_QUERIES["add_link"], values).rowcount == 1

    def _put(
        self, seq: int, item_id: str, former: str, wanted: tuple[MemoryStatus, str | None, float], told: str | None
    ) -> None:
        status, reason, confidence = wanted
        self._connection.execute(_BANK["set_confidence"], (confidence, to_text(self._at), seq))
        if status != former:
            put_status(self._connection, self._index, (seq, self._scope_id, former), (status, reason), self._at)
            data = {"from": former, "reason": told, "run_id": self._run_id}
            log_event(self._connection, self._scope_id, f"reasoning_memory.{status}", item_id, data, self._at)

    def _found(self, item_id: str) -> tuple[int, str, str | None, float, str, str | None] | None:
        return self._connection.execute(_QUERIES["pattern_as_it_is"], (item_id, self._scope_id)).fetchone()


def _batches(connection: "Connection", scope: Scope, run_id: str) -> list[int]:
    """Return the batches of a run that were not undone, the latest first. Raises `NotFoundError` for an unknown run."""
    rows = connection.execute(_QUERIES["events_of_run"], (run_id, find_scope(connection, scope))).fetchall()
    if not any(kind in (CHANGED, FINISHED) for _, kind, _ in rows):
        raise NotFoundError(f"no consolidation {run_id[:60]!r} was made in project {scope.project!r}")
    undone = {json.loads(data)["batch"] for _, kind, data in rows if kind == UNDONE}
    return [seq for seq, kind, _ in rows if kind == CHANGED and seq not in undone]


def texts_to_embed(rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, str]]:
    """Return (position, text to embed) of rows of (position, title, description, content)."""
    return [(seq, "\n".join(part for part in texts if part)) for seq, *texts in rows]


def _space(connection: "Connection", scope: Scope, embedder: str, dimensions: int) -> dict[str, Any]:
    return {"scope_id": find_scope(connection, scope), "model": embedder, "dims": dimensions}


def upkeep_item(row: Sequence[Any]) -> UpkeepItem:
    item = UpkeepItem(*row)
    return item._replace(created_at=to_moment(row[4]), last_used=optional_moment(row[5]))


def _read_aging(connection: "Connection", scope_id: int) -> Aging | None:
    row = connection.execute(_QUERIES["get_aging"], (scope_id,)).fetchone()
    return None if row is None else _aging_of(row[0])


def _aging_of(text: str | None) -> Aging | None:
    if text is None:
        return None
    data = json.loads(text)
    return Aging(to_moment(data["at"]), data["through"], optional_moment(data["since"]))


def _aging_text(aging: Aging | None) -> str | None:
    if aging is None:
        return None
    return to_json({"at": to_text(aging.at), "through": aging.through, "since": optional_text(aging.since)})


def _restore_aging(connection: "Connection", scope_id: int, former: str | None, written: str) -> None:
    """Bring back the state before, unless a later run has moved it on."""
    if _read_aging(connection, scope_id) != _aging_of(written):
        return
    if former is None:
        connection.execute(_QUERIES["delete_aging"], (scope_id,))
    else:
        connection.execute(_QUERIES["put_aging"], (scope_id, former))


def _old_values(connection: "Connection", scope: Scope) -> dict[str, Any]:
    known = {"outcome": OUTCOME, "removed": REMOVED, "forgotten": FORGOTTEN}
    return known | {"scope_id": find_scope(connection, scope)}


def _old(
    connection: "Connection", kind: Retained, values: Mapping[str, Any], before: datetime, limit: int
) -> dict[str, list[Any]]:
    """Return the keys of what is old, by the rows they are of."""
    asked = {**values, "before": to_text(before), "limit": limit}
    return {
        name: [row[0] for row in connection.execute(_RETENTION[f"old_{name}"], asked).fetchall()]
        for name in _RETENTION_ROWS[kind]
    }
