"""Putting another file in a bank's place: a backup to restore, or what repair makes of the bank's own rows.

Repair copies the rows whose text is what was written into a new bank and makes its indexes again. If SQLite cannot read
every row, the file is left as it is: a backup is the way back. The file that is replaced is always kept: as a backup,
or as `<name>.corrupt-<time>` when it cannot be copied; and no crash leaves an empty file there.
"""

import json
import os
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from swarm_memory.schema.base import counted, new_id
from swarm_memory.schema.errors import InputError, NotFoundError, StorageError, StoreDamaged, StoreUntrusted
from swarm_memory.schema.sqlite.statements import queries, schema_objects
from swarm_memory.server.storage.driver import Driver, SqliteConnection
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.backup import REPAIR, RESTORE, advice, back_up, copy_bank, list_backups
from swarm_memory.server.storage.engine.binding import is_intact
from swarm_memory.server.storage.engine.connection import (
    check_content,
    check_path,
    close,
    connect,
    fold_log,
    open_read_only,
    storage_errors,
    write_transaction,
)
from swarm_memory.server.storage.engine.files import flush, make_folder, writer_lock
from swarm_memory.server.storage.inspection import Inspection, damaged_trajectories, inspect
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import all_spaces
from swarm_memory.server.storage.search.words import pack, unpack
from swarm_memory.server.storage.stores.memories import damaged
from swarm_memory.tools.text.tokens import tokenize

_QUERIES = queries("repair")
_AT_ONCE = 1000


class Repaired(NamedTuple):
    """What was done; if there are no actions, nothing was wrong."""

    actions: tuple[str, ...] = ()
    kept: Path | None = None
    """Where the old bank is."""


def repair(database: Path, driver: Driver, timeout_s: float) -> Repaired:
    """Find what is wrong with a bank and repair it. The writer lock keeps other processes from writing meanwhile.

    Raises `StoreDamaged` when a row can no longer be read: the file is then left as it is, and a backup is the way
    back. Also raises `StoreUntrusted`, `StoreBusy`, `StoreReadOnly`.
    """
    fresh = database.with_name(f"{database.name}.repairing-{os.getpid()}")
    try:
        with storage_errors(driver.module, database):
            found: Inspection | None = None
            with (
                suppress(StoreDamaged),
                storage_errors(driver.module, database),
            ):  # the damage may prevent any inspection
                connection = connect(database, driver=driver, create=False, timeout_s=timeout_s)
                try:
                    found = inspect(connection, driver.vec_version is not None)
                finally:
                    close(connection, database)
            if found is not None and found.sound:
                return Repaired()
            with writer_lock(database, timeout_s):
                target = connect(fresh, driver=driver)
                try:
                    actions = _made_again(database, target, fresh, driver, found or Inspection())
                finally:
                    close(target, fresh)
                kept = copy_or_none(database, driver, timeout_s, REPAIR)
                kept = put_in_place(database, fresh, keep=kept is None) or kept
    except StoreDamaged as error:
        raise StoreDamaged(f"{error}. It cannot be repaired: {advice(database, repairable=False)}") from error
    finally:
        remove(fresh)
    return Repaired(tuple(actions), kept)


def _made_again(database: Path, target: SqliteConnection, fresh: Path, driver: Driver, found: Inspection) -> list[str]:
    """Fill a new bank with the sound rows of a damaged one; return what was done. Raises `StoreDamaged`."""
    searchable = driver.vec_version is not None
    index = Index(searchable, driver.reason)
    target.execute("PRAGMA foreign_keys = OFF")
    with closing(open_read_only(driver.module, database)) as source, write_transaction(target, fresh, 10.0):
        if check_content(source, database) == "new":
            raise StoreDamaged(f"{database} is empty but was a bank")
        carry_over(source, target)
        memories, trajectories = damaged(target), damaged_trajectories(target)
        target.executemany(_QUERIES["delete_pattern"], ((each,) for each in memories))
        target.executemany(_QUERIES["delete_trajectory"], ((each,) for each in trajectories))
        orphans = drop_orphans(target)
        for model, dims, seqs in found.vectors:
            target.executemany(_QUERIES["drop_vector"], ((seq, model, dims) for seq in seqs))
        _make_indexes(target, index)
    target.execute("PRAGMA foreign_keys = ON")
    left = inspect(target, searchable)
    if not left.sound:
        raise StoreDamaged(f"{database} is damaged ({(*left.pages, *left.indexes, *left.memories)[0]})")
    named = [f"memory {each}" for each in memories] + [f"trajectory {each}" for each in trajectories]
    changed = [f"{each}: left out, because its text does not match what was written" for each in named]
    gone = [f"left out, because the parent row is lost: {counted(orphans, 'row')}"] if orphans else []
    return [*found.pages, *found.indexes, *changed, *gone, "a new bank was made from the rows, with new indexes"]


def carry_over(source: SqliteConnection, target: SqliteConnection, tables: Sequence[str] | None = None) -> None:
    """Copy the rows of tables, by default of all that are not an index, into a bank that has none of those rows.

    Call it in a write transaction of the target, with foreign keys off. A row that its table forbids is left out.
    """
    for table in tables or _plain_tables():
        there = {row[1] for row in source.execute(f"PRAGMA table_info({table})")}
        columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})") if row[1] in there]
        if not columns:
            continue  # the source is of a version that had no such table
        names = ", ".join(columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names
        rows = source.execute(f"SELECT {names} FROM {table} NOT INDEXED")  # noqa: S608
        while batch := rows.fetchmany(_AT_ONCE):
            target.executemany(insert, batch)


def drop_orphans(target: SqliteConnection) -> int:
    """Delete rows whose parent row does not exist, until no such row is left; return how many."""
    statements = [
        f"DELETE FROM {table} WHERE {column} IS NOT NULL AND NOT EXISTS "  # noqa: S608 - our own names
        f"(SELECT 1 FROM {parent} AS p WHERE p.{key} = {table}.{column})"
        for table in _plain_tables()
        for _, _, parent, column, key, *_ in target.execute(f"PRAGMA foreign_key_list({table})").fetchall()
    ]
    dropped = 0
    while changed := sum(target.execute(each).rowcount for each in statements):
        dropped += changed
    return dropped


def _plain_tables() -> list[str]:
    """Return the tables that hold rows of their own."""
    return [name for name, sql in schema_objects().items() if sql.startswith("CREATE TABLE ")]


def _make_indexes(connection: SqliteConnection, index: Index) -> None:
    """Rebuild every index, and make the tokens that are missing; vectors of a wrong size are dropped."""
    for space in all_spaces(connection):
        size = space.dims * (1 if space.quantization == "int8" else 4)
        connection.execute(_QUERIES["drop_vectors_of_wrong_size"], (space.model, space.dims, size))
    make_tokens(connection)
    index.rebuild(connection)
    index.beside(queries("sources")).rebuild(connection)


def make_tokens(connection: SqliteConnection) -> None:
    """Make the tokens of memories that have none, or unreadable ones. Call it within a write transaction."""
    for seq, packed in connection.execute(_QUERIES["all_tokens"]).fetchall():
        try:
            unpack(packed)
        except StoreDamaged:
            connection.execute(_QUERIES["drop_tokens"], (seq,))
    for seq, data in connection.execute(_QUERIES["without_tokens"]).fetchall():
        item = json.loads(data)
        tokens = pack(*(tokenize(item.get(name) or "") for name in ("title", "description", "content")))
        connection.execute(queries("memories")["put_tokens"], (seq, tokens))


_BESIDE = ("-wal", "-shm", "-journal")


class Restored(NamedTuple):
    """What was put in the bank's place."""

    source: Path
    kept: Path | None
    """Where the old bank is now: a backup too, or `<name>.corrupt-<time>` if it is damaged; None if there was none."""


def restore(database: Path, source: Path | None, driver: Driver, timeout_s: float) -> Restored:
    """Put a copy of a backup, by default of the newest, in the bank's place.

    Processes that have the bank open switch to the new file at their next call. Raises `NotFoundError` if there is no
    backup, `StoreDamaged` for an unsound one, `StoreUntrusted`, `StoreBusy`.
    """
    found = [source.absolute()] if source else [each.path for each in list_backups(database)]
    if not found:
        raise NotFoundError(f"there is no backup of {database}: name a file")
    chosen = found[0]
    fresh = database.with_name(f"{database.name}.restoring-{os.getpid()}")
    make_folder(database.parent)
    try:
        with storage_errors(driver.module, chosen):
            _copy_sound(driver.module, chosen, fresh)
            with closing(driver.module.connect(str(fresh), isolation_level=None)) as copy:
                # Restart a team's count of changes: clients that had read beyond the backup would miss new changes.
                if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'team_revisions'").fetchone():
                    copy.execute(queries("team")["restamp"], {"stamp": new_id("ts")})
        with storage_errors(driver.module, database), writer_lock(database, timeout_s):
            kept = copy_or_none(database, driver, timeout_s, RESTORE)
            kept = put_in_place(database, fresh, keep=kept is None) or kept
    finally:
        remove(fresh)
    return Restored(chosen, kept)


def put_in_place(database: Path, fresh: Path, *, keep: bool, aside: str = "corrupt") -> Path | None:
    """Replace a bank with a new file; with `keep`, the old one is kept as `<name>.<aside>-<time>`.

    The caller holds the writer lock, has no connection to either file, and has flushed the new file to the disk.
    """
    kept = _set_aside(database, aside) if keep and database.exists() else None
    for suffix in _BESIDE:
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    flush(database.parent)  # a power cut that brought the old log back next to the new file would mix the two
    with registry.replacing(database, fresh):
        fresh.replace(database)
    flush(database.parent)
    return kept


def remove(fresh: Path) -> None:
    """Delete a file that was to be put in a bank's place, with its log, journal and lock files."""
    for suffix in ("", *_BESIDE, ".lock"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    registry.forget(fresh)


def _set_aside(database: Path, aside: str) -> Path:
    """Give the file a second name and move its log along; until the new file is there, the path is never empty."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = database.with_name(f"{database.name}.{aside}-{stamp}")
    try:
        os.link(database, kept)
    except OSError:
        # The file system has no hard links. SQLite in this process does not have the file open: it may be read.
        kept.write_bytes(database.read_bytes())
        kept.chmod(0o600)
    for suffix in _BESIDE:
        beside = database.with_name(database.name + suffix)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + suffix))
    return kept


def _copy_sound(module: ModuleType, source: Path, fresh: Path) -> None:
    if not check_path(source):
        raise InputError(f"there is no file {source}")
    registry.check(source)
    with closing(open_read_only(module, source)) as connection:
        if check_content(connection, source) == "new":
            raise InputError(f"{source} is empty: it is not a backup")
        if not is_intact(connection, source):
            raise StoreUntrusted(registry.replaced_message(source))
        if wrong := damaged(connection):
            raise StoreDamaged(f"{source} is damaged: memories that are not as written: {len(wrong)}")
        copy_bank(connection, module, fresh, registry.secret_of(source))


def copy_or_none(database: Path, driver: Driver, timeout_s: float, reason: str) -> Path | None:
    """Back up the bank that will be replaced; None if there is no bank, or it cannot be fully read or checkpointed.

    The caller holds the writer lock.
    """
    if not database.exists():
        return None
    try:
        connection = connect(database, driver=driver, read_only=True, timeout_s=timeout_s)
    except StorageError:
        return None
    try:
        copy = back_up(connection, driver.module, database, reason)
    except (StoreDamaged, driver.module.Error, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    # Until the new file is there, a power cut may leave the old one without its log.
    return copy if fold_log(driver.module, database, timeout_s) else None
