"""Opening a bank's file and writing to it: trust checks, settings, the write transaction, errors translated once."""

import os
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import (
    InputError,
    StorageError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    StoreUntrusted,
)
from swarm_memory.schema.sqlite.statements import Migration, migrations
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.backup import MIGRATION, advice, back_up
from swarm_memory.server.storage.engine.files import (
    OpenedFile,
    flush,
    make_folder,
    make_private,
    note_log,
    size_of,
)
from swarm_memory.server.storage.engine.lock import transaction, writer_lock
from swarm_memory.server.storage.engine.ownership import BankState, check_content, check_path
from swarm_memory.server.storage.search.words import scoped

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

LARGE_WAL_BYTES = 64 * 1024 * 1024
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
"""What SQLite, FTS5 and sqlite-vec say of pages and shadow tables that are not what they must be."""

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
    database: Path,
    *,
    driver: Driver,
    read_only: bool = False,
    create: bool = True,
    timeout_s: float = 10.0,
) -> "SqliteConnection":
    """Open the bank in a file that is trusted; make or migrate it first where that is needed and `read_only` is not.

    Raises `StoreUntrusted`, `StoreReadOnly`, `StoreBusy`, `StorageError`; a file that is refused is left as it was, to
    the byte, unless a write to it was cut off: that is undone first, for there is no other way to see what the file
    holds.
    """
    module = driver.module
    with storage_errors(module, database):
        exists = check_path(database)
        # Asked before the look: another process may complete the bank meanwhile.
        record = registry.check(database)
        banks = record.banks if record is not None and exists else []
        if not exists:
            if read_only or not create:
                raise StorageError(f"there is no bank at {database}")
            _make_file(database)
        if not (exists and record) and not read_only:
            registry.begin(database)
        state, found = _look(module, database, timeout_s)
        if banks and state == "new":
            raise StoreDamaged(f"{database} is empty and was a bank: {advice(database)}")
        if banks and not found and "" not in banks:
            raise StoreDamaged(f"{database} is half of a bank, its log was cut off or lost: {advice(database)}")
        if banks and found not in banks:
            raise StoreUntrusted(registry.replaced(database))
        if read_only and state != "bank":
            raise StoreReadOnly(f"the bank at {database} must be {'made' if state == 'new' else 'migrated'} first")
        if not (read_only or (os.access(database, os.W_OK) and os.access(database.parent, os.W_OK))):
            raise StoreReadOnly(f"{database} cannot be written: give this user the file and its folder")
        connection = _open(module, database, "ro" if read_only else "rw", timeout_s)
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
            connection.create_function("scoped", 3, scoped, deterministic=True)
            driver.prepare(connection)
            if not read_only:
                _complete(module, connection, database, state, timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection


def close(connection: "SqliteConnection", database: Path, wait_s: float = 1.0) -> None:
    """Close a connection that could write. The last one to close checkpoints, which needs the writer lock.

    When another process holds the lock it is connected too: then this one is not the last.
    """
    try:
        with writer_lock(database, wait_s):
            connection.close()
            registry.note_end(database)
    except (StoreBusy, StoreReadOnly):
        connection.close()


@contextmanager
def write_transaction(
    connection: "SqliteConnection", database: Path, timeout_s: float, opened: OpenedFile | None = None
) -> Generator[None]:
    """Hold the writer lock and one IMMEDIATE transaction: committed at the end of the block, undone by an exception.

    Raises `StoreBusy` when the lock is not free within `timeout_s`, `StoreReplaced` when `opened`, what the connection
    opened, is no longer what lies there.
    """
    with writer_lock(database, timeout_s):
        if opened is not None:
            opened.check()
        log, mark = f"{database}-wal", str(registry.mark_file(database))
        note_log(log, mark)
        with transaction(connection, "IMMEDIATE"):
            yield
        note_log(log, mark)
        if size_of(log) > LARGE_WAL_BYTES:
            truncate_wal(connection)


def truncate_wal(connection: "SqliteConnection", *, for_good: bool = False) -> bool:
    """Write the log into the database and empty it; False when a reader stood in the way. Needs the writer lock.

    SQLite flushes what it commits, not what it truncates: a power cut could bring back what stood in the log. With
    `for_good` a commit that changes nothing follows, and with it the truncation is on the disk.
    """
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if for_good:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version:d}")
    return not busy


def fold_log(module: ModuleType, database: Path, timeout_s: float) -> bool:
    """Write a bank's log into its file over a connection of its own; False when a reader stands in the way.

    The caller holds the writer lock; nothing of the bank is run. Raises what the driver raises.
    """
    with closing(_open(module, database, "rw", timeout_s)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        return truncate_wal(connection)


@contextmanager
def storage_errors(module: ModuleType, database: Path) -> Generator[None]:
    """Turn what the driver raises into errors of ours: those of pysqlite3 are no `sqlite3.Error`s."""
    try:
        yield
    except module.Error as error:
        raise _translated(error, database) from error
    except UnicodeEncodeError as error:
        raise InputError("a text holds a lone surrogate: it is not valid Unicode and cannot be stored") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(f"{database} is damaged (a text is no text): {advice(database)}") from error
    except OSError as error:
        raise StorageError(f"{database}: {error.strerror or error}") from error


def _translated(error: Exception, database: Path) -> StorageError:
    text = str(error)
    name: str = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or "is locked" in text:
        return StoreBusy(f"{database} is locked by another process; try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or "readonly" in text:
        return StoreReadOnly(f"{database} cannot be written: give this user the file and its folder")
    if name.startswith("SQLITE_NOTADB") or "not a database" in text:
        if registry.is_complete(database):
            return StoreDamaged(f"{database} was a bank and is damaged ({text}): {advice(database)}")
        return StoreUntrusted(f"{database} is not an SQLite database: move it away, or name another file")
    if name.startswith("SQLITE_CORRUPT") or any(sign in text for sign in _SIGNS_OF_DAMAGE):
        return StoreDamaged(f"{database} is damaged ({text}): {advice(database)}")
    if name.startswith("SQLITE_FULL") or "disk is full" in text:
        return StoreFull(f"the disk of {database} is full: nothing was written; make room and try again")
    return StorageError(f"{database}: {text}")


def _make_file(database: Path) -> None:
    """Make the empty file, for this user alone, before SQLite opens it."""
    folder = database.parent
    try:
        make_folder(folder)
        if folder.name == ".swarm":
            with suppress(FileExistsError):
                make_private(folder / ".gitignore", b"*\n")
        with suppress(FileExistsError):
            make_private(database)
        flush(folder)
    except PermissionError as error:
        raise StoreReadOnly(f"{database} cannot be made: give this user the folder {folder}") from error
    check_path(database)


def _look(module: ModuleType, database: Path, timeout_s: float) -> tuple[BankState, str]:
    """Check the content over a connection that cannot write, not even by closing; return also the bank's id."""
    try:
        connection = open_read_only(module, database)
    except module.Error as error:
        if "readonly" not in str(error) or not os.access(database.parent, os.W_OK):
            raise
        # A write was cut off by a crash: SQLite undoes it, alone with the file, when one opens it that could write.
        _open(module, database, "rw", timeout_s).close()
        connection = open_read_only(module, database)
    with closing(connection):
        return check_content(connection, database), registry.identity(connection)


def open_read_only(module: ModuleType, database: Path) -> "SqliteConnection":
    """Open any database without trusting it: nothing in it is run, nothing is written, not even by closing."""
    connection = _open(module, database, "ro", 10.0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _open(module: ModuleType, database: Path, mode: str, timeout_s: float) -> "SqliteConnection":
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
        # A folder that cannot be written has no room for the shared index of the log; there is no log to read either.
        connection = module.connect(f"{uri}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection


def _complete(
    module: ModuleType, connection: "SqliteConnection", database: Path, state: BankState, timeout_s: float
) -> None:
    """Make or migrate what is not yet a bank of this schema, with a write-ahead log."""
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if state == "bank" and registry.is_complete(database) and journal == JOURNAL:
        return
    log, mark = f"{database}-wal", str(registry.mark_file(database))
    with writer_lock(database, timeout_s):
        note_log(log, mark)
        journal = _use_journal(module, connection, database, timeout_s)
        if state == "outdated" and check_content(connection, database) == "outdated":
            back_up(connection, module, database, MIGRATION)
        if state != "bank":
            migrate(connection)
        note_log(log, mark)
        registry.sign(database, registry.identity(connection), journal=journal)
    check_content(connection, database)


def _use_journal(module: ModuleType, connection: "SqliteConnection", database: Path, timeout_s: float) -> str:
    """Switch to the log and return what SQLite uses now: it keeps a rollback journal where it cannot share memory.

    SQLite does not wait here by itself while another process only looks.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return str(connection.execute(f"PRAGMA journal_mode = {JOURNAL}").fetchone()[0])
        except module.OperationalError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def migrate(connection: "SqliteConnection") -> int:
    """Apply what is missing; return how many migrations that were. The caller holds the writer lock."""
    return sum(_apply(connection, migration) for migration in migrations())


def _apply(connection: "SqliteConnection", migration: Migration) -> bool:
    """Apply one migration unless it is there: the version is looked at again inside the exclusive transaction."""
    with transaction(connection, "EXCLUSIVE"):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        missing = version < migration.number
        if missing:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {migration.number:d}")
    return missing
