"""Opening a bank's file and writing to it: trust checks, settings, the write transaction, error translation.

A file is opened only if it belongs to this user and holds exactly our objects. A database that comes with a cloned
repository is hostile until shown otherwise: a trigger in it would fire on our INSERT, a symbolic link be followed.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Literal

from swarm_memory.schema.errors import (
    InputError,
    StorageError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUntrusted,
)
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
from swarm_memory.server.storage.driver import Driver, SqliteConnection
from swarm_memory.server.storage.engine import binding, registry
from swarm_memory.server.storage.engine.backup import MIGRATION, advice, back_up, list_backups
from swarm_memory.server.storage.engine.files import (
    FileIdentity,
    flush,
    make_folder,
    make_private,
    size_of,
    writer_lock,
)
from swarm_memory.server.storage.search.words import scoped

BankState = Literal["new", "bank", "outdated"]

_SIDECARS = ("-wal", "-shm", "-journal", ".lock", "")
"""The database comes last, so that it never appears to lag behind its log while another process creates it."""
_VECTOR_SHADOWS = ("info", "chunks", "rowids", "vector_chunks00")
_PLAIN_TABLE = re.compile(r"""CREATE TABLE [A-Za-z0-9_ ,()'"]+""")
_RUNS_SOMETHING = re.compile(r"\b(AS|CHECK|DEFAULT|GENERATED|REFERENCES|COLLATE|ON)\b", re.IGNORECASE)
"""Keywords that could make a plain table run something."""

_OBJECTS = "SELECT type, name, sql FROM sqlite_master"
_OF_SQLITE = {"sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}


def check_path(database: Path) -> bool:
    """Whether the file exists. It, its companions and folder may not be links; the files must be the user's or root's.

    Raises `StoreUntrusted`; `StoreDamaged` when the file is empty or gone but its log is not: the log would be lost.
    """
    if database.parent.is_symlink():
        raise StoreUntrusted(f"{database.parent} is a symbolic link: the bank must be in a real folder")
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
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
            raise StoreUntrusted(f"{path} is {kind}: it was not opened")
        if os.name == "posix" and status.st_uid not in (os.geteuid(), 0):
            raise StoreUntrusted(f"{path} belongs to another user (uid {status.st_uid}): it was not opened")
        sizes[suffix] = status.st_size
    if not sizes.get("") and sizes.get("-wal", 0) > 0:
        raise StoreDamaged(
            f"{database} is {'empty' if '' in sizes else 'gone'}, but its log {database.name}-wal is not: the file was "
            f"truncated or moved. Bring it back, or {advice(database)}; to start over, move the log away"
        )
    return "" in sizes


def check_content(connection: SqliteConnection, database: Path) -> BankState:
    """Return what an open database is: `new` (nothing in it), a `bank`, or `outdated`, a bank of an older schema.

    Raises `StoreUntrusted` for anything else.
    """
    with one_moment(connection):  # another process may be making the bank
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        objects: list[tuple[str, str, str | None]] = connection.execute(_OBJECTS).fetchall()
    if not objects and application_id in (0, APPLICATION_ID) and version == 0:
        return "new"
    if application_id != APPLICATION_ID:
        raise StoreUntrusted(
            f"{database} is not a swarm-memory bank: move it away, or name another file. It was not touched"
        )
    newest = newest_version()
    if version == 0:
        raise StoreUntrusted(f"{database} claims to be a bank but has no schema version: it was not opened")
    if version > newest:
        raise StoreUntrusted(
            f"{database} has schema {version}, but this swarm-memory only knows schemas up to {newest}: "
            "update swarm-memory. The file was not touched"
        )
    expected = schema_objects() if version == newest else _objects_of(connection, version)
    _check_objects(database, objects, expected)
    return "bank" if version == newest else "outdated"


def _objects_of(connection: SqliteConnection, version: int) -> dict[str, str]:
    """Return the objects of a bank with an older schema, by replaying its migrations in memory."""
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


def _check_objects(database: Path, objects: list[tuple[str, str, str | None]], expected: dict[str, str]) -> None:
    missing = sorted(set(expected) - {name for _, name, _ in objects})
    shadows = shadow_tables(expected)
    strange = sorted(name for kind, name, sql in objects if not _is_ours(kind, name, sql, expected, shadows))
    if strange or missing:
        what = (
            f"has unknown or changed objects ({', '.join(strange[:5])})"
            if strange
            else f"lacks {', '.join(missing[:5])}"
        )
        raise StoreUntrusted(
            f"{database} {what}: it was not made by swarm-memory alone, so it was not opened;"
            " put a backup in its place with `swarm-memory bank restore`, or move it away"
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
        # The length of the vectors, in numbers or in bits, does not matter.
        plain = re.sub(r"\[[0-9]+\]", "[0]", sql, count=1)
        made = (vector_table(prefix, space_id, element, "0") for element in ("int8", "float"))
        return plain == code_table(table) if coded else plain in made
    is_shadow = shadow in _VECTOR_SHADOWS if is_vector else not coded and name in shadows
    # A shadow table may hold only columns, types and keys.
    return is_shadow and _PLAIN_TABLE.fullmatch(sql) is not None and _RUNS_SOMETHING.search(sql) is None


LARGE_WAL_BYTES, _INDEX_BYTES = 64 * 1024 * 1024, 32 * 1024
JOURNAL = "wal"
_SIGNS_OF_DAMAGE = (
    "malformed",
    "vtable constructor failed",
    "fts5: corruption",
    "invalid fts5 file format",
    "opening blob failed",
    "sqlite-vec error",
    "user-defined function raised exception",
)
"""What SQLite, FTS5 and sqlite-vec report about damaged pages and shadow tables."""

_SETTINGS = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = EXTRA",  # FULL, and the end of a rollback journal is flushed too
    "PRAGMA secure_delete = ON",
    "PRAGMA wal_autocheckpoint = 1000",
    f"PRAGMA journal_size_limit = {LARGE_WAL_BYTES}",
    "PRAGMA mmap_size = 0",
    "PRAGMA temp_store = MEMORY",
)


def connect(
    database: Path, *, driver: Driver, read_only: bool = False, create: bool = True, timeout_s: float = 10.0
) -> SqliteConnection:
    """Open the bank in a trusted file; create or migrate it first where needed, unless `read_only`.

    Raises `StoreUntrusted`, `StoreReadOnly`, `StoreBusy`, `StorageError`. A refused file is left unchanged to the byte,
    unless a write to it was cut off: that write is undone first, as there is no other way to see what the file holds.
    """
    module = driver.module
    with storage_errors(module, database):
        exists = check_path(database)
        # Read before the content is checked: another process may complete the bank meanwhile.
        record = registry.check(database)
        banks = record.banks if record is not None and exists else []
        if not exists:
            if read_only or not create:
                raise StorageError(f"there is no bank at {database}")
            _make_folder(database)
        if not (exists and record) and not read_only:
            with writer_lock(database, timeout_s):  # another process may be completing it
                registry.begin(database, is_new=not exists and _make_file(database))
        state, found, is_held = _look(module, database, timeout_s)
        if banks and state == "new":
            raise StoreDamaged(f"{database} is empty but was a bank: {advice(database)}")
        if banks and not found and "" not in banks:
            raise StoreDamaged(f"{database} is only half a bank, as its log was truncated or lost: {advice(database)}")
        if banks and (found not in banks or not is_held):
            raise StoreUntrusted(f"{registry.replaced_message(database)} ({len(list_backups(database))} available)")
        if read_only and state != "bank":
            raise StoreReadOnly(f"the bank at {database} must be {'created' if state == 'new' else 'migrated'} first")
        if not (read_only or (os.access(database, os.W_OK) and os.access(database.parent, os.W_OK))):
            raise StoreReadOnly(f"{database} is not writable: give this user write permission on it and its folder")
        connection = _open(module, database, "ro" if read_only else "rw", timeout_s)
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
            connection.create_function("scoped", 3, scoped, deterministic=True)
            driver.prepare(connection)
            if not read_only:
                _complete(module, connection, database, state, timeout_s)
                binding.install_triggers(connection, registry.secret_of(database))
        except BaseException:
            connection.close()
            raise
        return connection


def close(connection: SqliteConnection, database: Path, wait_s: float = 1.0) -> None:
    """Close a connection that can write. The last one to close checkpoints, which needs the writer lock.

    If another process holds the lock, that process is connected too, so this connection is not the last.
    """
    try:
        with writing(database, wait_s):
            connection.close()
    except (StoreBusy, StoreReadOnly):
        connection.close()


@contextmanager
def writing(database: Path, timeout_s: float) -> Generator[None]:
    """Hold the writer lock, and note the files as the block leaves them, unless someone else changed them before."""
    with writer_lock(database, timeout_s):
        is_ours = registry.is_as_noted(database)
        try:
            yield
        finally:
            if is_ours:
                registry.note(database)


def is_being_written(database: Path) -> bool:
    """Whether one of our processes is writing to a database, or has just noted what it wrote. Does not wait."""
    try:
        with writer_lock(database, 0.0):
            return registry.is_as_noted(database, with_log=False)
    except StoreBusy:
        return True
    except StoreReadOnly:
        return False


@contextmanager
def write_transaction(
    connection: SqliteConnection, database: Path, timeout_s: float, opened: FileIdentity | None = None
) -> Generator[None]:
    """Hold the writer lock and one IMMEDIATE transaction: committed at the end of the block, rolled back on an error.

    Raises `StoreBusy` when the lock is not free within `timeout_s`, `StoreReplaced` when the files at the path are no
    longer those that the connection `opened`, or are not as they were last noted.
    """
    number: int | None = None
    with writer_lock(database, timeout_s):
        if opened is not None:
            opened.check()
        if not registry.is_as_noted(database):  # changed by a killed process, or by one not ours
            raise StoreReplaced(f"{database} was changed while it was open")
        try:
            with transaction(connection, "IMMEDIATE"):
                yield
                sealed = binding.seal(connection)
            number = sealed
            if size_of(f"{database}-wal") > LARGE_WAL_BYTES:
                truncate_wal(connection)
        finally:
            registry.note(database, number)


@contextmanager
def transaction(connection: SqliteConnection, kind: Literal["IMMEDIATE", "EXCLUSIVE"]) -> Generator[None]:
    """Run the block in one transaction: committed at its end, rolled back on an error."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        _undo(connection)
        raise


@contextmanager
def one_moment(connection: SqliteConnection) -> Generator[None]:
    """Read everything in the block from one snapshot."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        _undo(connection)


def _undo(connection: SqliteConnection) -> None:
    if connection.in_transaction:  # SQLite itself rolls back when it runs out of memory or disk
        connection.execute("ROLLBACK")


def truncate_wal(connection: SqliteConnection, *, for_good: bool = False) -> bool:
    """Checkpoint the log into the database and empty it; False when a reader prevents it. Needs the writer lock.

    SQLite flushes what it commits, not what it truncates: a power cut could bring back the log's content. With
    `for_good`, a commit that changes nothing follows, which puts the truncation on the disk too.
    """
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if for_good:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version:d}")
    return not busy


def fold_log(module: ModuleType, database: Path, timeout_s: float) -> bool:
    """Checkpoint a bank's log into its file over a separate connection; False when a reader prevents it.

    The caller holds the writer lock; nothing in the bank is executed. Raises what the driver raises.
    """
    with closing(_open(module, database, "rw", timeout_s)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        return truncate_wal(connection)


@contextmanager
def storage_errors(module: ModuleType, database: Path) -> Generator[None]:
    """Translate the driver's errors into ours: those of pysqlite3 are not `sqlite3.Error`s."""
    try:
        yield
    except module.Error as error:
        raise _translated(error, database) from error
    except UnicodeEncodeError as error:
        raise InputError("a text contains a lone surrogate: it is not valid Unicode and cannot be stored") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(f"{database} is damaged (a text is not valid UTF-8): {advice(database)}") from error
    except OSError as error:
        raise StorageError(f"{database}: {error.strerror or error}") from error


def _translated(error: Exception, database: Path) -> StorageError:
    text = str(error)
    name: str = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or "is locked" in text:
        return StoreBusy(f"{database} is locked by another process; try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or "readonly" in text:
        return StoreReadOnly(f"{database} is not writable: give this user write permission on it and its folder")
    if name.startswith("SQLITE_NOTADB") or "not a database" in text:
        if (record := registry.find(database)) is not None and record.banks:  # it was completed
            return StoreDamaged(f"{database} was a bank and is damaged ({text}): {advice(database)}")
        return StoreUntrusted(f"{database} is not an SQLite database: move it away, or name another file")
    if name.startswith("SQLITE_CORRUPT") or any(sign in text for sign in _SIGNS_OF_DAMAGE):
        return StoreDamaged(f"{database} is damaged ({text}): {advice(database)}")
    # Without room for the log's index SQLite cannot open a writable database, and reports only an I/O error.
    has_no_room = "disk I/O error" in text and shutil.disk_usage(database.parent).free < _INDEX_BYTES
    if name.startswith("SQLITE_FULL") or "disk is full" in text or has_no_room:
        return StoreFull(f"the disk of {database} is full: nothing was written; free some space and try again")
    return StorageError(f"{database}: {text}")


def _make_folder(database: Path) -> None:
    folder = database.parent
    try:
        make_folder(folder)
        if folder.name == ".swarm":
            with suppress(FileExistsError):
                make_private(folder / ".gitignore", b"*\n")
    except PermissionError as error:
        raise StoreReadOnly(f"{database} cannot be created: give this user write permission on {folder}") from error


def _make_file(database: Path) -> bool:
    """Create the empty file, for this user alone, before SQLite opens it; False if another process has created it."""
    is_new = not check_path(database)
    if is_new:
        make_private(database)
        flush(database.parent)
    return is_new


def _look(module: ModuleType, database: Path, timeout_s: float) -> tuple[BankState, str, bool]:
    """Return what the file holds, the bank's id, and whether it is as this user left it."""
    try:
        connection = open_read_only(module, database)  # it cannot write, not even by closing
    except module.Error as error:
        if "readonly" not in str(error) or not os.access(database.parent, os.W_OK):
            raise
        # A crash cut off a write: SQLite undoes it when a writable connection, alone with the file, opens it.
        with writing(database, timeout_s):
            _open(module, database, "rw", timeout_s).close()
        connection = open_read_only(module, database)
    with closing(connection):
        state, bank = check_content(connection, database), registry.identity(connection)
        return state, bank, not bank or binding.is_intact(connection, database)


def open_read_only(module: ModuleType, database: Path) -> SqliteConnection:
    """Open any database without trusting it: nothing in it is executed, nothing is written, not even by closing."""
    connection = _open(module, database, "ro", 10.0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _open(module: ModuleType, database: Path, mode: str, timeout_s: float) -> SqliteConnection:
    uri = f"{database.absolute().as_uri()}?mode={mode}"
    connection: SqliteConnection = module.connect(
        uri, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except module.Error as error:
        connection.close()
        held_back = size_of(f"{database}-wal") > 0 or size_of(f"{database}-journal") > 0
        if mode != "ro" or not isinstance(error, module.OperationalError) or held_back:
            raise
        # In a read-only folder SQLite cannot create the log's shared index, and there is no log to read.
        connection = module.connect(f"{uri}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection


def _complete(
    module: ModuleType, connection: SqliteConnection, database: Path, state: BankState, timeout_s: float
) -> None:
    """Create, migrate or bind a bank that lacks this schema, a write-ahead log, or its binding to this user."""
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if state == "bank" and registry.secret_of(database) and journal == JOURNAL:
        return
    with writing(database, timeout_s):
        state = "bank" if state == "bank" else check_content(connection, database)  # another process may have done it
        secret = registry.secret_of(database)
        is_bound = bool(secret) and state == "bank"
        secret = secret or os.urandom(32).hex()
        journal = _use_journal(module, connection, timeout_s)
        if state == "outdated":
            back_up(connection, module, database, MIGRATION)
            if registry.secret_of(database):  # its rows change: it is bound again
                registry.register(database, registry.identity(connection), "", journal=journal)
        if state != "bank":
            migrate(connection)
        if not is_bound:
            with transaction(connection, "IMMEDIATE"):
                number = binding.create_seal(connection, secret)
            registry.note(database, number)  # first: a kill must not leave a number above the new seal's
            registry.register(database, registry.identity(connection), secret, journal=journal)
    check_content(connection, database)


def _use_journal(module: ModuleType, connection: SqliteConnection, timeout_s: float) -> str:
    """Switch to a write-ahead log and return the mode now in use: without shared memory, a rollback journal."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return str(connection.execute(f"PRAGMA journal_mode = {JOURNAL}").fetchone()[0])
        except module.OperationalError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.005)  # SQLite itself does not wait here while another process is only reading


def migrate(connection: SqliteConnection) -> None:
    """Apply the migrations that are missing. The caller holds the writer lock."""
    for migration in migrations():
        with transaction(connection, "EXCLUSIVE"):
            # Read within the transaction: another process may have applied it while this one waited.
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version < migration.number:
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {migration.number:d}")
