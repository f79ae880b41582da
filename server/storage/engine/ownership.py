"""Whether a file may be opened as a bank: whose it is, and that it holds exactly our objects.

A database that comes with a cloned repository is hostile until shown otherwise: a trigger in it would fire on our
INSERT, a symbolic link would be followed.
"""

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from swarm_memory.schema.errors import StorageError, StoreDamaged, StoreUntrusted
from swarm_memory.schema.sqlite.statements import (
    APPLICATION_ID,
    VECTOR_PARTITIONS,
    code_table,
    migrations,
    newest_version,
    schema_objects,
    shadow_tables,
    vector_table,
)
from swarm_memory.server.storage.engine.backup import advice
from swarm_memory.server.storage.engine.lock import one_moment

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

BankState = Literal["new", "bank", "outdated"]

_SIDECARS = ("-wal", "-shm", "-journal", ".lock", "")
"""The database last: while another process makes it, it is never seen to lag behind its log."""
_VECTOR_SHADOWS = ("info", "chunks", "rowids", "vector_chunks00")
_PLAIN_TABLE = re.compile(r"""CREATE TABLE [A-Za-z0-9_ ,()'"]+""")
_RUNS_SOMETHING = re.compile(r"\b(AS|CHECK|DEFAULT|GENERATED|REFERENCES|COLLATE|ON)\b", re.IGNORECASE)
"""What could make a plain table run something."""

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_OF_SQLITE = {"sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}


def check_path(database: Path) -> bool:
    """Return whether the file exists. It, its folder and its companions must be no links and of this user.

    Raises `StoreUntrusted`; `StoreDamaged` when the file is empty or gone and its log is not: it would be lost.
    """
    if database.parent.is_symlink():
        raise StoreUntrusted(f"{database.parent} is a symbolic link: the bank must lie in a real folder")
    sizes: dict[str, int] = {}
    for suffix in _SIDECARS:
        path = database.with_name(database.name + suffix)
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        except (NotADirectoryError, PermissionError) as error:
            raise StorageError(f"{path} cannot be reached: {error.strerror}") from error
        if not stat.S_ISREG(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
            raise StoreUntrusted(f"{path} is {kind}: it was not opened")
        if os.name == "posix" and status.st_uid not in (os.geteuid(), 0):
            raise StoreUntrusted(f"{path} belongs to another user (uid {status.st_uid}): it was not opened")
        sizes[suffix] = status.st_size
    if not sizes.get("") and sizes.get("-wal", 0) > 0:
        raise StoreDamaged(
            f"{database} is {'empty' if '' in sizes else 'gone'}, but its log {database.name}-wal is not: the file was "
            f"cut off or moved. Bring it back, or {advice(database)}; move the log away to begin again"
        )
    return "" in sizes


def check_content(connection: "SqliteConnection", database: Path) -> BankState:
    """Look at an open database and say what it is: `new` (nothing in it), a `bank`, or one of an older schema.

    Raises `StoreUntrusted` for anything else.
    """
    with one_moment(connection):  # another process may be making the bank
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        objects: list[tuple[str, str, str, str | None]] = connection.execute(_OBJECTS).fetchall()
    if not objects and application_id in (0, APPLICATION_ID) and version == 0:
        return "new"
    if application_id != APPLICATION_ID:
        raise StoreUntrusted(
            f"{database} is not a bank of swarm-memory: move it away, or name another file. It was not touched"
        )
    newest = newest_version()
    if version == 0:
        raise StoreUntrusted(f"{database} claims to be a bank and has no schema version: it was not opened")
    if version > newest:
        raise StoreUntrusted(
            f"{database} has schema {version}, this swarm-memory knows schemas up to {newest}: "
            "update swarm-memory. The file was not touched"
        )
    expected = schema_objects() if version == newest else _objects_of(connection, version)
    _check_objects(database, objects, expected)
    return "bank" if version == newest else "outdated"


def _objects_of(connection: "SqliteConnection", version: int) -> dict[str, str]:
    """Return what a bank of an older schema holds, by replaying its migrations in memory."""
    replayed = type(connection)(":memory:", isolation_level=None)
    try:
        for migration in migrations()[:version]:
            for statement in migration.statements:
                replayed.execute(statement)
        rows = replayed.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        shadows = shadow_tables(dict(rows))
        return {name: sql for name, sql in rows if name not in shadows}
    finally:
        replayed.close()


def _check_objects(database: Path, objects: list[tuple[str, str, str, str | None]], expected: dict[str, str]) -> None:
    missing = sorted(set(expected) - {row[1] for row in objects})
    shadows = shadow_tables(expected)
    others = (row for row in objects if row[3] is None or expected.get(row[1]) != row[3])
    strange = sorted(name for kind, name, _, sql in others if not _is_ours(kind, name, sql, expected, shadows))
    if strange or missing:
        what = (
            f"has unknown or changed objects ({', '.join(strange[:5])})"
            if strange
            else f"lacks {', '.join(missing[:5])}"
        )
        raise StoreUntrusted(
            f"{database} {what}: it was not made by swarm-memory alone and was not opened;"
            " move it away, or name another file"
        )


def _is_ours(kind: str, name: str, sql: str | None, expected: dict[str, str], shadows: set[str]) -> bool:
    if kind == "index" and sql is None:
        return name.startswith("sqlite_autoindex_")
    if name in _OF_SQLITE:
        return kind == "table"
    if name in expected:
        return sql == expected[name]
    if kind != "table" or sql is None:
        return False
    coded, table = name.startswith("codes_"), name.removeprefix("codes_")
    prefix = next((start for start in VECTOR_PARTITIONS if table.startswith(start)), "")
    space_id, _, shadow = table.removeprefix(prefix).partition("_")
    is_vector = bool(prefix) and space_id.isascii() and space_id.isdecimal()
    if is_vector and not shadow:
        # Whatever the length of the vectors, in numbers or in bits.
        plain = re.sub(r"\[[0-9]+\]", "[0]", sql, count=1)
        made = (vector_table(prefix, space_id, element, "0") for element in ("int8", "float"))
        return plain == code_table(table, 0) if coded else plain in made
    is_shadow = shadow in _VECTOR_SHADOWS if is_vector else not coded and name in shadows
    # Of columns, types and keys alone.
    return is_shadow and _PLAIN_TABLE.fullmatch(sql) is not None and _RUNS_SOMETHING.search(sql) is None
