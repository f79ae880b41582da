"""Bringing back from its backups what a damaged bank lost: memories, records of tasks, the names of scopes.

Nothing leaves a bank but by being forgotten, and that deletes the backups that hold it: what a backup has and the bank
has not was lost.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.care.backup import list_backups
from swarm_memory.server.storage.care.ownership import check_content
from swarm_memory.server.storage.engine.connection import open_read_only
from swarm_memory.server.storage.rows import content_hash, make_scope, to_json

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_TEXTS = {"patterns": "pattern_data", "task_trajectories": "trajectory_json"}
"""The tables, and the column whose hash each row holds."""

_AT_ONCE = 200


class Backups:
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

    def bring_back(self, bank: "Connection") -> dict[str, int]:
        """Add to the bank, within a transaction, the memories and records that it lacks; return how many of each table.

        A row is taken that is what its hash says. Its tokens, vectors and indexes are the caller's.
        """
        return {table: sum(self._add(bank, path, table) for path in self._paths) for table in _TEXTS}

    def _add(self, bank: "Connection", path: Path, table: str) -> int:
        there = {row[1] for row in self._rows(path, f"PRAGMA table_info({table})")}
        columns = [row[1] for row in bank.execute(f"PRAGMA table_info({table})") if row[1] in there and row[1] != "seq"]
        if "content_hash" not in columns:
            return 0  # a schema before the hashes: what it says cannot be checked
        names, places = ", ".join(columns), ", ".join(f":{column}" for column in columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - our own names
        return sum(_add_row(bank, insert, table, row) for row in self._lacking(bank, path, table, columns))

    def _lacking(
        self, bank: "Connection", path: Path, table: str, columns: Sequence[str]
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


def _add_row(bank: "Connection", insert: str, table: str, found: tuple[dict[str, Any], Scope]) -> int:
    row, scope = found
    if content_hash(row["id"], row[_TEXTS[table]]) != row["content_hash"]:
        return 0
    added = bank.execute(insert, {**row, "scope_id": make_scope(bank, scope)})
    if added.rowcount and table == "patterns":
        tags = dict.fromkeys(json.loads(row["pattern_data"])["tags"])
        bank.executemany(queries()["add_tag"], [(added.lastrowid, tag) for tag in tags])
    return added.rowcount
