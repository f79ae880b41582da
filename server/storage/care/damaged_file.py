"""A bank's file that is damaged: opened in spite of that, and what can still be read carried over into a new one."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.errors import StorageError, StoreDamaged
from swarm_memory.schema.sqlite.statements import APPLICATION_ID, migrations, schema_objects
from swarm_memory.server.storage.care.restore import remove
from swarm_memory.server.storage.engine.backup import advice
from swarm_memory.server.storage.engine.connection import open_read_only
from swarm_memory.server.storage.engine.files import make_private
from swarm_memory.server.storage.engine.ownership import check_content

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

MAX_STEPS = 200_000
"""So many single rows of a table are tried between the last that was read from the front and from the back."""

PAGE_BYTES = 4096
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"


def open_damaged(database: Path, copy: Path, module: ModuleType) -> "SqliteConnection":
    """Open a damaged bank for reading: as it is, with a right count of pages, or with a header of one schema's banks.

    With another header it is a `copy` that is opened. Raises `StoreDamaged` when it cannot be read as a bank, whatever
    stands in its header.
    """
    for version in (0, None, *range(len(migrations()), 0, -1)):
        path = copy if version != 0 else database
        if version != 0:
            remove(copy)
            if not _with_new_header(database, copy, version):
                continue
        try:
            connection = open_read_only(module, path)
        except (module.Error, UnicodeDecodeError):
            continue
        try:
            check_content(connection, path)
            return connection
        except (StorageError, module.Error, UnicodeDecodeError):
            connection.close()
    raise StoreDamaged(f"{database} cannot be read as a bank: {advice(database, repairable=False)}")


def _with_new_header(damaged: Path, copy: Path, version: int | None) -> bool:
    """Copy a database with another header: its own with a right count of pages, or one of a bank of a schema `version`.

    Returns whether there was anything to copy. No connection of this process may have the damaged file open. What its
    log holds is copied too. The fields are those of "Database File Format", section 1.3.
    """
    content = bytearray(damaged.read_bytes())
    pages = len(content) // PAGE_BYTES
    if not pages or (version is None and not content.startswith(_MAGIC)):
        return False
    if version is not None:
        content[:_HEADER_BYTES] = struct.pack(
            ">16sH6B12I20x2I", _MAGIC, PAGE_BYTES, 2, 2, 0, 64, 32, 32,
            1, pages, 0, 0, 1, 4, 0, 0, 1, version, 0, APPLICATION_ID, 1, 3_040_001,
        )  # fmt: skip
    content[28:40] = struct.pack(">3I", pages, 0, 0)  # no free pages are known
    content[92:96] = content[24:28]  # the count of pages is of this change
    make_private(copy, content[: pages * PAGE_BYTES])
    log = damaged.with_name(f"{damaged.name}-wal")
    if log.exists():
        copy.with_name(f"{copy.name}-wal").write_bytes(log.read_bytes())
    return True


class Salvage:
    """Carries every row that can be read over into a new, empty bank.

    Within a write transaction of the new bank, whose foreign keys are not enforced meanwhile.
    """

    def __init__(self, damaged: "SqliteConnection", fresh: "SqliteConnection", module: ModuleType) -> None:
        self._damaged = damaged
        self._fresh = fresh
        self._module = module
        self._unreadable = (module.Error, UnicodeDecodeError)
        self.rows: dict[str, int] = {}
        """How many rows of each table were carried over."""
        self.broken: dict[str, None] = {}
        """The tables that could not be read to their end."""

    def carry_over(self, tables: Sequence[str] | None = None) -> None:
        """Carry over all tables that hold rows of their own, or those that are named."""
        for table in tables or _plain_tables():
            if columns := self._shared_columns(table):
                self.rows[table] = self._carry_over(table, columns)
            else:
                self.broken[table] = None

    def _carry_over(self, table: str, columns: Sequence[str]) -> int:
        names, count = ", ".join(columns), 0
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names
        for row in self._rows(table, names):
            try:
                count += self._fresh.execute(insert, row).rowcount
            except self._module.Error:
                self.broken[table] = None  # a value that its column forbids: not what was written
        return count

    def _shared_columns(self, table: str) -> list[str]:
        wanted = [row[1] for row in self._fresh.execute(f"PRAGMA table_info({table})")]
        try:
            there = {row[1] for row in self._damaged.execute(f"PRAGMA table_info({table})")}
        except self._unreadable:
            return []
        return [column for column in wanted if column in there]

    def _rows(self, table: str, names: str) -> Iterator[Sequence[Any]]:
        """Yield rows from the front; after the first fault from the back, and then one by one those between."""
        keyed = "WITHOUT ROWID" not in schema_objects()[table]
        select = f"SELECT {'rowid' if keyed else '0'}, {names} FROM {table} NOT INDEXED"  # noqa: S608 - our own names
        last: int | None = None
        try:
            cursor = self._damaged.execute(f"{select} ORDER BY rowid" if keyed else select)
            while rows := cursor.fetchmany(1):
                last = rows[0][0]
                yield rows[0][1:]
            return
        except self._unreadable:
            self.broken[table] = None
        if not keyed:
            return
        first: int | None = None
        try:
            cursor = self._damaged.execute(f"{select} ORDER BY rowid DESC")
            while (rows := cursor.fetchmany(1)) and (last is None or rows[0][0] > last):
                first = rows[0][0]
                yield rows[0][1:]
        except self._unreadable:
            pass
        for rowid in range((last or 0) + 1, min(first or MAX_STEPS, (last or 0) + MAX_STEPS)):
            try:
                row = self._damaged.execute(f"{select} WHERE rowid = ?", (rowid,)).fetchone()
            except self._unreadable:
                continue
            if row is not None:
                yield row[1:]

    def drop_orphans(self) -> int:
        """Delete the rows whose parents are lost, until none is left; return how many."""
        dropped = 0
        while changed := sum(_drop_orphans(self._fresh, table) for table in _plain_tables()):
            dropped += changed
        return dropped


def _plain_tables() -> list[str]:
    return [name for name, sql in schema_objects().items() if sql.startswith("CREATE TABLE ")]


def _drop_orphans(fresh: "SqliteConnection", table: str) -> int:
    dropped = 0
    for row in fresh.execute(f"PRAGMA foreign_key_list({table})").fetchall():
        parent, child_column, parent_column = row[2], row[3], row[4]
        statement = (
            f"DELETE FROM {table} WHERE {child_column} IS NOT NULL AND NOT EXISTS "  # noqa: S608 - our own names
            f"(SELECT 1 FROM {parent} AS p WHERE p.{parent_column} = {table}.{child_column})"
        )
        dropped += fresh.execute(statement).rowcount
    return dropped
