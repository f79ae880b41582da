"""Reading what can still be read of a damaged bank into a new one, row by row. It writes to the new one alone."""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.sqlite.statements import APPLICATION_ID, schema_objects

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

MAX_STEPS = 200_000
"""So many single rows of a table are tried between the last that was read from the front and from the back."""

PAGE_BYTES = 4096
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"


@dataclass(slots=True)
class Salvaged:
    """How many rows of each table were carried over, and which tables could not be read to their end."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    broken: list[str] = field(default_factory=list[str])


def plain_tables() -> list[str]:
    """Return the tables of the newest schema that hold rows of their own."""
    return [name for name, sql in schema_objects().items() if sql.startswith("CREATE TABLE ")]


def salvage(damaged: "Connection", fresh: "Connection", module: ModuleType) -> Salvaged:
    """Carry every row that can be read over into a new, empty bank, and drop those whose parents are lost.

    Within a write transaction of the new bank, whose foreign keys are not enforced meanwhile.
    """
    result = Salvaged()
    for table in plain_tables():
        columns = _shared_columns(damaged, fresh, module, table)
        if not columns:
            result.broken.append(table)
            continue
        names = ", ".join(columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names
        whole, count = _Whole(), 0
        for row in _rows(damaged, module, table, names, whole):
            try:
                count += fresh.execute(insert, row).rowcount
            except module.Error:
                whole.broken = True  # a value that its column forbids: not what was written
        result.rows[table] = count
        if whole.broken:
            result.broken.append(table)
    return result


def drop_orphans(fresh: "Connection") -> int:
    """Delete the rows whose parents are lost, until none is left; return how many."""
    dropped = changed = -1
    while changed:
        changed = sum(_drop_orphans_of(fresh, table) for table in plain_tables())
        dropped = changed if dropped < 0 else dropped + changed
    return dropped


def with_new_header(damaged: Path, copy: Path, version: int | None) -> bool:
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
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content[: pages * PAGE_BYTES])
    log = damaged.with_name(f"{damaged.name}-wal")
    if log.exists():
        copy.with_name(f"{copy.name}-wal").write_bytes(log.read_bytes())
    return True


@dataclass(slots=True)
class _Whole:
    broken: bool = False


def _shared_columns(damaged: "Connection", fresh: "Connection", module: ModuleType, table: str) -> list[str]:
    wanted = [row[1] for row in fresh.execute(f"PRAGMA table_info({table})")]
    try:
        there = {row[1] for row in damaged.execute(f"PRAGMA table_info({table})")}
    except (module.Error, UnicodeDecodeError):
        return []
    return [column for column in wanted if column in there]


def _rows(damaged: "Connection", module: ModuleType, table: str, names: str, whole: _Whole) -> Iterator[Sequence[Any]]:
    """Yield rows from the front; after the first fault from the back, and then one by one those between."""
    keyed = "WITHOUT ROWID" not in schema_objects()[table]
    select = f"SELECT {'rowid' if keyed else '0'}, {names} FROM {table} NOT INDEXED"  # noqa: S608 - our own names
    last: int | None = None
    try:
        cursor = damaged.execute(f"{select} ORDER BY rowid" if keyed else select)
        while rows := cursor.fetchmany(1):
            last = rows[0][0]
            yield rows[0][1:]
        return
    except (module.Error, UnicodeDecodeError):
        whole.broken = True
    if not keyed:
        return
    first: int | None = None
    try:
        cursor = damaged.execute(f"{select} ORDER BY rowid DESC")
        while (rows := cursor.fetchmany(1)) and (last is None or rows[0][0] > last):
            first = rows[0][0]
            yield rows[0][1:]
    except (module.Error, UnicodeDecodeError):
        pass
    for rowid in range((last or 0) + 1, min(first or MAX_STEPS, (last or 0) + MAX_STEPS)):
        try:
            row = damaged.execute(f"{select} WHERE rowid = ?", (rowid,)).fetchone()
        except (module.Error, UnicodeDecodeError):
            continue
        if row is not None:
            yield row[1:]


def _drop_orphans_of(fresh: "Connection", table: str) -> int:
    dropped = 0
    for row in fresh.execute(f"PRAGMA foreign_key_list({table})").fetchall():
        parent, child_column, parent_column = row[2], row[3], row[4]
        statement = (
            f"DELETE FROM {table} WHERE {child_column} IS NOT NULL AND NOT EXISTS "  # noqa: S608 - our own names
            f"(SELECT 1 FROM {parent} AS p WHERE p.{parent_column} = {table}.{child_column})"
        )
        dropped += fresh.execute(statement).rowcount
    return dropped
