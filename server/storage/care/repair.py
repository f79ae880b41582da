"""Mending a bank: indexes rebuilt from the rows, texts brought back from backups, a damaged file read into a new one.

What stood there before is always kept: as a backup, or as `<name>.corrupt-<time>` when it cannot be copied. Nothing
leaves a bank but by being forgotten, and that deletes the backups that hold it: what a backup has and the bank has not
was lost.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from swarm_memory.schema.base import Scope, counted
from swarm_memory.schema.errors import StorageError, StoreBusy, StoreDamaged, StoreReadOnly
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.care.damaged_file import Salvage, open_damaged
from swarm_memory.server.storage.care.restore import put_in_place, remove
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine.backup import REPAIR, advice, back_up, list_backups
from swarm_memory.server.storage.engine.connection import (
    close,
    connect,
    open_read_only,
    storage_errors,
    write_transaction,
)
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.engine.ownership import check_content
from swarm_memory.server.storage.inspection import inspect
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.packed import unpack
from swarm_memory.server.storage.search.vectors import all_spaces
from swarm_memory.server.storage.search.words import pack
from swarm_memory.server.storage.stores.memories import change_status
from swarm_memory.server.storage.stores.rows import content_hash, find_scope, make_scope, to_json
from swarm_memory.tools.ports.care import Inspection, Repaired
from swarm_memory.tools.text.tokens import tokenize

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

_QUERIES = queries("repair")
_TEXTS = {"patterns": "pattern_data", "task_trajectories": "trajectory_json"}
"""The tables, and the column whose hash each row holds."""

_AT_ONCE = 200
_QUARANTINED = "its text is not what was written, and no backup has it"


def repair(database: Path, driver: Driver, timeout_s: float) -> Repaired:
    """Find what is wrong with a bank and mend it. No other process may write meanwhile: the writer lock is held.

    Raises `StoreDamaged` when nothing can be read from the file any more: then it is left as it is, and a backup is the
    way back; `StoreUntrusted`, `StoreBusy`, `StoreReadOnly`.
    """
    try:
        with storage_errors(driver.module, database):
            done = _mend(database, driver, timeout_s)
    except (StoreBusy, StoreReadOnly):
        raise
    except StoreDamaged:
        done = None
    return done if done is not None else _salvage(database, driver, timeout_s)


def _mend(database: Path, driver: Driver, timeout_s: float) -> Repaired | None:
    """Mend a bank in its file; None when its pages are damaged."""
    connection = connect(database, driver=driver, create=False, timeout_s=timeout_s)
    try:
        try:
            found = inspect(connection, driver.vec_version is not None)
            if found.sound:
                return Repaired()
            if found.pages:
                return None
            kept = back_up(connection, driver.module, database, REPAIR)
            with write_transaction(connection, database, timeout_s):
                return Repaired(tuple(_mend_rows(connection, database, driver, found)), kept)
        except (driver.module.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_READONLY")):
                raise
            return None
    finally:
        close(connection, database)


def _mend_rows(connection: "SqliteConnection", database: Path, driver: Driver, found: Inspection) -> list[str]:
    actions = [*found.indexes]
    for model, dims, seqs in found.vectors:
        connection.executemany(_QUERIES["drop_vector"], ((seq, model, dims) for seq in seqs))
    for space in all_spaces(connection):
        size = space.dims * (1 if space.quantization == "int8" else 4)
        connection.execute(_QUERIES["drop_vectors_of_wrong_size"], (space.model, space.dims, size))
    make_tokens(connection)
    index, backups = Index(driver.vec_version is not None, driver.reason), _Backups(database, driver.module)
    actions += _heal_memories(connection, index, backups, found.memories)
    actions += _heal_trajectories(connection, backups, found.trajectories)
    _rebuild(connection, index)
    return [*actions, "indexes rebuilt from the rows"]


def _rebuild(connection: "SqliteConnection", index: Index) -> None:
    """Make every pair of indexes again: that of the memories and that of the sources."""
    index.rebuild(connection)
    Index(index.searchable, index.reason, queries("sources")).rebuild(connection)


def make_tokens(connection: "SqliteConnection") -> None:
    """Make the tokens of memories that have none, or none that can be read. Within a write transaction."""
    for seq, packed in connection.execute(_QUERIES["all_tokens"]).fetchall():
        try:
            unpack(packed)
        except StoreDamaged:
            connection.execute(_QUERIES["drop_tokens"], (seq,))
    for seq, data in connection.execute(_QUERIES["without_tokens"]).fetchall():
        item = _parsed(data)
        tokens = pack(*(tokenize(item.get(name) or "") for name in ("title", "description", "content")))
        connection.execute(queries("memories")["put_tokens"], (seq, tokens))


def _heal_memories(connection: "SqliteConnection", index: Index, backups: "_Backups", ids: Sequence[str]) -> list[str]:
    actions: list[str] = []
    for memory_id in ids:
        place = connection.execute(_QUERIES["place_of_pattern"], (memory_id,)).fetchone()
        text = backups.text("pattern_text", memory_id)
        if text is not None:
            connection.execute(_QUERIES["put_pattern_text"], (text, content_hash(memory_id, text), memory_id))
            actions.append(f"memory {memory_id}: its text was brought back from a backup")
            continue
        (data, _) = connection.execute(_QUERIES["pattern_text"], (memory_id,)).fetchone()
        if _parsed(data):
            if place[3] == "active":
                change_status(connection, index, place, "quarantined", _QUARANTINED)
            connection.execute(_QUERIES["put_pattern_text"], (data, content_hash(memory_id, data), memory_id))
            actions.append(f"memory {memory_id}: quarantined, {_QUARANTINED}")
        else:
            connection.execute(queries("memories")["delete_pattern"], (place[0],))
            actions.append(f"memory {memory_id}: deleted, it cannot be read and no backup has it")
    return actions


def _heal_trajectories(connection: "SqliteConnection", backups: "_Backups", ids: Sequence[str]) -> list[str]:
    actions: list[str] = []
    for trajectory_id in ids:
        text = backups.text("trajectory_text", trajectory_id)
        if text is None:
            connection.execute(_QUERIES["delete_trajectory"], (trajectory_id,))
            actions.append(f"trajectory {trajectory_id}: deleted, it is not what was written and no backup has it")
        else:
            values = (text, content_hash(trajectory_id, text), trajectory_id)
            connection.execute(_QUERIES["put_trajectory_text"], values)
            actions.append(f"trajectory {trajectory_id}: brought back from a backup")
    return actions


def _parsed(data: object) -> dict[str, str]:
    """Return a memory's JSON when it is one that can be shown, else nothing."""
    try:
        item: object = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(item, dict):
        return {}
    known = cast("dict[str, str]", item)
    return known if all(name in known for name in ("title", "description", "content", "tags", "domain")) else {}


def _salvage(database: Path, driver: Driver, timeout_s: float) -> Repaired:
    """Read what can be read into a new bank and put that in the damaged one's place."""
    fresh = database.with_name(f"{database.name}.repairing-{os.getpid()}")
    grafted = database.with_name(f"{database.name}.header-{os.getpid()}")
    try:
        with storage_errors(driver.module, database), writer_lock(database, timeout_s):
            target = connect(fresh, driver=driver)
            try:
                actions = _carry_over(database, grafted, fresh, target, driver)
            finally:
                close(target, fresh)
            kept = put_in_place(database, fresh, keep=True)
    finally:
        remove(fresh)
        remove(grafted)
    return Repaired(tuple(actions), kept)


def _carry_over(database: Path, grafted: Path, fresh: Path, target: "SqliteConnection", driver: Driver) -> list[str]:
    with closing(open_damaged(database, grafted, driver.module)) as damaged:
        target.execute("PRAGMA foreign_keys = OFF")
        with write_transaction(target, fresh, 10.0):
            result = Salvage(damaged, target, driver.module)
            result.carry_over()
            backups = _Backups(database, driver.module)
            for (scope_id,) in target.execute(_QUERIES["lost_scopes"]).fetchall():
                scope = backups.scope_of(scope_id)
                if scope is None or find_scope(target, scope) is not None:
                    scope = Scope(project=f"recovered-{scope_id}")
                target.execute(_QUERIES["make_lost_scope"], (scope_id, scope.tenant_id, scope.project))
            orphans = result.drop_orphans()
            recovered = backups.bring_back(target)
        target.execute("PRAGMA foreign_keys = ON")
    if not any(result.rows.get(table) for table in ("patterns", "task_trajectories", "events")):
        raise StoreDamaged(f"nothing can be read from {database}: {advice(database, repairable=False)}")
    with write_transaction(target, fresh, 10.0):
        make_tokens(target)
        _rebuild(target, Index(driver.vec_version is not None, driver.reason))
    found = inspect(target, driver.vec_version is not None)
    with write_transaction(target, fresh, 10.0):
        healed = _mend_rows(target, database, driver, found) if not found.sound else []
    rows = _counted(result.rows)
    lost = [f"not read to its end: {', '.join(result.broken)}"] if result.broken else []
    back = [f"brought back from backups: {_counted(recovered)}"] if any(recovered.values()) else []
    gone = [f"left out, for their memory or scope is lost: {counted(orphans, 'row')}"] if orphans else []
    return [f"a new bank was made of what could be read: {rows}", *lost, *gone, *back, *healed]


def _counted(rows: Mapping[str, int]) -> str:
    return f"{counted(rows.get('patterns', 0), 'memory')}, {counted(rows.get('task_trajectories', 0), 'trajectory')}"


class _Backups:
    """What can be read of a bank's backups, the newest first; what cannot is passed over."""

    def __init__(self, database: Path, module: ModuleType) -> None:
        self._paths = [backup.path for backup in list_backups(database)]
        self._module = module

    def scope_of(self, scope_id: int) -> Scope | None:
        """Return the scope that a number stood for."""
        for path in self._paths:
            for row in self._rows(path, "SELECT tenant_id, project FROM scopes WHERE id = ?", (scope_id,)):
                return Scope(tenant_id=row[0], project=row[1])
        return None

    def text(self, query: str, row_id: str) -> str | None:
        """Return a row's text from the newest backup in which it is what its hash says."""
        for path in self._paths:
            for text, written in self._rows(path, _QUERIES[query], (row_id,)):
                if content_hash(row_id, text) == written:
                    return str(text)
        return None

    def bring_back(self, bank: "SqliteConnection") -> dict[str, int]:
        """Add to the bank, within a transaction, the memories and records that it lacks; return how many of each table.

        A row is taken that is what its hash says. Its tokens, vectors and indexes are the caller's.
        """
        return {table: sum(self._add(bank, path, table) for path in self._paths) for table in _TEXTS}

    def _add(self, bank: "SqliteConnection", path: Path, table: str) -> int:
        there = {row[1] for row in self._rows(path, f"PRAGMA table_info({table})")}
        columns = [row[1] for row in bank.execute(f"PRAGMA table_info({table})") if row[1] in there and row[1] != "seq"]
        if "content_hash" not in columns:
            return 0  # a schema before the hashes: what it says cannot be checked
        names, places = ", ".join(columns), ", ".join(f":{column}" for column in columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - our own names
        return sum(_add_row(bank, insert, table, row) for row in self._lacking(bank, path, table, columns))

    def _lacking(
        self, bank: "SqliteConnection", path: Path, table: str, columns: Sequence[str]
    ) -> Iterator[tuple[dict[str, Any], Scope]]:
        """Yield the rows of a table that the bank has not, each with its scope."""
        known = {row[0] for row in bank.execute(f"SELECT id FROM {table}")}  # noqa: S608 - our own names
        ids = [row[0] for row in self._rows(path, f"SELECT id FROM {table}") if row[0] not in known]  # noqa: S608
        select = (
            f"SELECT s.tenant_id, s.project, {', '.join(f't.{column}' for column in columns)} "  # noqa: S608 - our own names
            f"FROM {table} AS t JOIN scopes AS s ON s.id = t.scope_id WHERE t.id IN (SELECT value FROM json_each(?))"
        )
        for start in range(0, len(ids), _AT_ONCE):
            for tenant, project, *values in self._rows(path, select, (to_json(ids[start : start + _AT_ONCE]),)):
                yield dict(zip(columns, values, strict=True)), Scope(tenant_id=tenant, project=project)

    def _rows(self, path: Path, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield what a backup answers, up to where it is damaged."""
        unreadable = (StorageError, self._module.Error, UnicodeDecodeError)
        try:
            backup = open_read_only(self._module, path)
        except unreadable:
            return
        with closing(backup):
            try:
                check_content(backup, path)
                cursor = backup.execute(query, values)
            except unreadable:
                return
            while True:
                try:
                    row = cursor.fetchone()
                except unreadable:
                    return
                if row is None:
                    return
                yield row


def _add_row(bank: "SqliteConnection", insert: str, table: str, found: tuple[dict[str, Any], Scope]) -> int:
    row, scope = found
    if content_hash(row["id"], row[_TEXTS[table]]) != row["content_hash"]:
        return 0
    added = bank.execute(insert, {**row, "scope_id": make_scope(bank, scope)})
    if added.rowcount and table == "patterns":
        tags = dict.fromkeys(json.loads(row["pattern_data"])["tags"])
        bank.executemany(queries("memories")["add_tag"], [(added.lastrowid, tag) for tag in tags])
    return added.rowcount
