"""Putting another file in the place of a bank, under its writer lock, so that no crash leaves an empty one there.

The file that stood there is kept under another name when it could not be copied.
"""

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import InputError, NotFoundError, StorageError, StoreDamaged
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.backup import RESTORE, back_up, copy_bank, list_backups
from swarm_memory.server.storage.engine.connection import (
    check_content,
    check_path,
    connect,
    fold_log,
    open_read_only,
    storage_errors,
)
from swarm_memory.server.storage.engine.files import flush, make_folder
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.stores.memories import damaged

_BESIDE = ("-wal", "-shm", "-journal")


class Restored(NamedTuple):
    """What was put in the bank's place."""

    source: Path
    kept: Path | None
    """Where what stood there is now: a backup too, or `<name>.corrupt-<time>` when it is damaged; None without any."""


def restore(database: Path, source: Path | None, driver: Driver, timeout_s: float) -> Restored:
    """Put a copy of a backup, or of the newest, in the bank's place.

    Processes that have the bank open go over to the new file at their next call. Raises `NotFoundError` without a
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
            _restamp(driver.module, fresh)
        with storage_errors(driver.module, database), writer_lock(database, timeout_s):
            kept = copy_or_none(database, driver, timeout_s, RESTORE)
            kept = put_in_place(database, fresh, keep=kept is None) or kept
    finally:
        remove(fresh)
    return Restored(chosen, kept)


def put_in_place(database: Path, fresh: Path, *, keep: bool, aside: str = "corrupt") -> Path | None:
    """Replace a bank by a new file; the old one is kept as `<name>.<aside>-<time>` when `keep` says so.

    The caller holds the writer lock, has no connection to either, and has the new file's content on the disk.
    """
    kept = _set_aside(database, aside) if keep and database.exists() else None
    for suffix in _BESIDE:
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    flush(database.parent)  # a power cut that brought the old log back beside the new file would mix the two
    with registry.replacing(database, fresh):
        fresh.replace(database)
    flush(database.parent)
    return kept


def remove(fresh: Path) -> None:
    """Delete a file that was to be put in a bank's place, with all that lies beside it."""
    for suffix in ("", *_BESIDE, ".lock"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    registry.forget(fresh)


def _set_aside(database: Path, aside: str) -> Path:
    """Give the file a second name and its log the same: until the new one is there, the path is never empty."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = database.with_name(f"{database.name}.{aside}-{stamp}")
    try:
        os.link(database, kept)
    except OSError:
        # A file system without second names. SQLite of this process has the file not open: it may be read.
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
            raise InputError(f"{source} is empty: it is no backup")
        if wrong := damaged(connection):
            raise StoreDamaged(f"{source} is damaged: {len(wrong)} memories are not what was written")
        copy_bank(connection, module, fresh)


def _restamp(module: ModuleType, fresh: Path) -> None:
    """Renew a team's count of changes: those who followed it further than the backup would miss what comes next."""
    with closing(module.connect(str(fresh), isolation_level=None)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'team_revisions'").fetchone():
            connection.execute(queries("team")["restamp"], {"stamp": new_id("ts")})


def copy_or_none(database: Path, driver: Driver, timeout_s: float, reason: str) -> Path | None:
    """Make a backup of the bank that will be replaced; None when there is none, or it cannot be read to its end.

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
