"""Memory items in the bank: written with their indexes, read, put aside, forgotten; each function in one transaction.

The transaction is the caller's. Searching is next door.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import (
    content_hash,
    find_scope,
    find_scopes,
    item_of,
    make_scope,
    pattern_row,
    to_json,
    to_text,
)
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.tokens import pack, packed
from swarm_memory.server.storage.search.vectors import Quantization
from swarm_memory.tools.ports.bank import MemoryFilter, StoredMemory

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_QUERIES = queries()

CREATED, EDITED, FORGOTTEN = "reasoning_memory.created", "reasoning_memory.edited", "reasoning_memory.forgotten"


class MemoryWriter:
    """Writes items for one embedder: its vectors go into the space of its name and their dimensions."""

    def __init__(self, connection: "Connection", index: Index, embedder: str, quantization: Quantization) -> None:
        self._connection = connection
        self._index = index
        self._embedder = embedder
        self._quantization: Quantization = quantization
        self._now = to_text(datetime.now(UTC))

    def add(self, memory: StoredMemory) -> bool:
        """Write a new item with its indexes; False when its id is there already."""
        scope_id = make_scope(self._connection, memory.item.scope)
        row = pattern_row(memory.item, scope_id, self._now)
        cursor = self._connection.execute(_QUERIES["add_pattern"], row)
        if cursor.rowcount == 0:
            return False
        assert cursor.lastrowid is not None
        self._fill(cursor.lastrowid, scope_id, memory)
        source = memory.item.provenance
        origin = {"run_id": source.run_id, "task_id": source.task_id}
        known = {name: value for name, value in origin.items() if value is not None}
        log_event(self._connection, scope_id, CREATED, memory.item.id, known)
        return True

    def replace(self, memory: StoredMemory, reason: str) -> None:
        """Write a changed item and its indexes; its former text goes into an event.

        Raises `NotFoundError` when it is not there.
        """
        item = memory.item
        scope_id = find_scope(self._connection, item.scope)
        found = self._connection.execute(_QUERIES["find_pattern"], (item.id, scope_id)).fetchone()
        if scope_id is None or found is None:
            raise NotFoundError(f"there is no memory {item.id!r} in project {item.scope.project!r}")
        seq, status, data, confidence = found
        if status == "active":
            self._index.leave(self._connection, seq, scope_id)
        self._connection.execute(_QUERIES["delete_vectors"], (seq,))
        self._connection.execute(_QUERIES["delete_tags"], (seq,))
        self._connection.execute(_QUERIES["update_pattern"], {**pattern_row(item, scope_id, self._now), "seq": seq})
        self._fill(seq, scope_id, memory)
        before = {"pattern_data": data, "confidence": confidence, "status": status, "reason": reason}
        log_event(self._connection, scope_id, EDITED, item.id, before)

    def _fill(self, seq: int, scope_id: int, memory: StoredMemory) -> None:
        """Write tags, tokens and vector of an item and enter it into the indexes when it is active."""
        for tag in memory.item.tags:
            self._connection.execute(_QUERIES["add_tag"], (seq, tag))
        tokens = pack(memory.title_tokens, memory.description_tokens, memory.content_tokens)
        self._connection.execute(_QUERIES["put_tokens"], (seq, tokens))
        if memory.vector is not None:
            space = self._index.make_space(self._connection, self._embedder, len(memory.vector), self._quantization)
            self._index.put_vector(self._connection, seq, memory.vector, space, self._now)
        if memory.item.status == "active":
            self._index.enter(self._connection, seq, scope_id)


def get_memories(connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
    """Return those that exist in the scopes, in the order of `ids`."""
    values = {"ids": to_json(list(ids)), "scope_ids": to_json(list(find_scopes(connection, scopes)))}
    return [item_of(row) for row in connection.execute(_QUERIES["get_patterns"], values).fetchall()]


def list_memories(connection: "Connection", scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]:
    """Return the items that the filter lets through, newest first. Raises `InputError` for a bad limit."""
    if which.limit < 1 or which.offset < 0:
        raise InputError("limit must be at least 1 and offset at least 0")
    values = {
        "scope_ids": to_json(list(find_scopes(connection, scopes))),
        "statuses": to_json(list(which.statuses)),
        "domain": which.domain,
        "task_id": which.task_id,
        "tags": to_json(list(which.tags)),
        "text": which.text.casefold() if which.text else None,
        "limit": which.limit,
        "offset": which.offset,
    }
    return [item_of(row) for row in connection.execute(_QUERIES["list_patterns"], values).fetchall()]


def damaged(connection: "Connection") -> list[str]:
    """Return the ids of items whose text is not what was written: SQLite itself would not notice."""
    rows = connection.execute(_QUERIES["pattern_hashes"])
    return [item_id for item_id, data, written in rows.fetchall() if content_hash(item_id, data) != written]


def says(data: str, text: str) -> bool:
    """Return whether the title or content in an item's JSON column holds a case-folded text: Unicode, unlike LIKE."""
    item = json.loads(data)
    return text in item["title"].casefold() or text in item["content"].casefold()


def set_status(
    connection: "Connection",
    index: Index,
    scopes: Sequence[Scope],
    ids: Sequence[str],
    status: MemoryStatus,
    reason: str,
) -> int:
    """Change the status of items, and with it whether the indexes hold them; return how many changed."""
    changed = [row for row in find_patterns(connection, scopes, ids) if row[3] != status]
    for seq, item_id, scope_id, former in changed:
        change_status(connection, index, (seq, item_id, scope_id, former), status, reason)
    return len(changed)


def change_status(
    connection: "Connection", index: Index, found: tuple[int, str, int, str], status: MemoryStatus, reason: str
) -> None:
    """Change the status of one item, given as (seq, id, scope id, former status)."""
    seq, item_id, scope_id, former = found
    if former == "active":
        index.leave(connection, seq, scope_id)
    now = to_text(datetime.now(UTC))
    connection.execute(_QUERIES["set_status"], (status, reason, now, seq))
    if status == "active":
        index.enter(connection, seq, scope_id)
    log_event(connection, scope_id, f"reasoning_memory.{status}", item_id, {"from": former, "reason": reason})


def forget(connection: "Connection", index: Index, scopes: Sequence[Scope], ids: Sequence[str]) -> int:
    """Delete items, their indexes and their texts in events; return how many were there."""
    found = find_patterns(connection, scopes, ids)
    for seq, item_id, scope_id, status in found:
        if status == "active":
            index.leave(connection, seq, scope_id)
        connection.execute(_QUERIES["note_forgotten"], {"seq": seq})
        connection.execute(_QUERIES["delete_pattern"], (seq,))
        connection.execute(_QUERIES["clear_events_of"], (item_id,))
        log_event(connection, scope_id, FORGOTTEN, item_id, {})
    if found:
        connection.execute(_QUERIES["optimize_keyword_index"])
    return len(found)


def pack_tokens(connection: "Connection", after: int, limit: int) -> int | None:
    """Pack the tokens of so many items after a position that an older version kept as text; return the last position.

    None: there was none.
    """
    rows = connection.execute(_QUERIES["unpacked_tokens"], (after, limit)).fetchall()
    connection.executemany(_QUERIES["put_tokens"], ((seq, packed(fields)) for seq, fields in rows))
    return rows[-1][0] if rows else None


def log_event(
    connection: "Connection", scope_id: int, kind: str, subject_id: str | None, data: Any, at: datetime | None = None
) -> None:
    """Write a line of the audit trail."""
    moment = to_text(at or datetime.now(UTC))
    connection.execute(_QUERIES["add_event"], (scope_id, kind, subject_id, to_json(data), moment))


def find_patterns(
    connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str]
) -> list[tuple[int, str, int, str]]:
    """Return (seq, id, scope id, status) of those items that exist in the scopes."""
    values = {"ids": to_json(list(dict.fromkeys(ids))), "scope_ids": to_json(list(find_scopes(connection, scopes)))}
    return connection.execute(_QUERIES["find_patterns"], values).fetchall()
