"""Copies of a bank: made while it is in use, checked, and only a few of them kept.

SQLite itself makes each copy (`VACUUM INTO`): one consistent snapshot, without blocking a writer.
"""

import json
import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from swarm_memory.schema.errors import InputError, StorageError, StoreDamaged
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import SqliteConnection
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.files import flush, make_folder, make_private, size_of
from swarm_memory.tools.text.cleaning import lazy

FOLDER = "backups"
KEEP = 5
"""At most this many copies are kept for each reason."""

DAYS_BYTES = 64 * 1024 * 1024
"""The limit on the total size of the daily copies, which are kept outside the project."""

ASKED, MIGRATION, REPAIR, RESTORE, FORGET, DAY = "asked", "migration", "repair", "restore", "forget", "day"
"""Why a copy was made: on request; before a migration, a repair or a restore; to replace copies that held what was
forgotten; as the day's copy."""

_NAME = lazy(r"(?P<stem>.+)-(?P<stamp>\d{8}T\d{6}\.\d{6}Z)-(?P<reason>[a-z]+)\.db")
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_LEFT_BEHIND_S = 3600.0
"""No copy takes this long to make."""

_MADE_BESIDE = ("repairing", "restoring", "trusting")
"""The word before the process id in the names of files that are to replace the bank."""


class Backup(NamedTuple):
    """One copy of a bank."""

    path: Path
    made: datetime
    reason: str
    size_bytes: int


def backup_folder(database: Path) -> Path:
    """Return the folder where copies of a bank are kept by default."""
    return database.parent / FOLDER


def _folders(database: Path) -> tuple[Path, Path]:
    return backup_folder(database), registry.daily_backup_folder(database)


def list_backups(database: Path) -> list[Backup]:
    """Return the copies of a bank that this user made here: those next to it and the daily ones.

    The newest is first.
    """
    found: list[Backup] = []
    folders = [each for each in _folders(database) if each.is_dir() and not each.is_symlink()]
    for path in (path for folder in folders for path in folder.iterdir()):
        name = _NAME.fullmatch(path.name)
        if name and name["stem"] == database.stem and not path.is_symlink() and registry.knows(path):
            made = datetime.strptime(name["stamp"], _STAMP).replace(tzinfo=UTC)
            found.append(Backup(path, made, name["reason"], size_of(str(path))))
    return sorted(found, key=lambda backup: (backup.made, backup.path.name), reverse=True)


def advice(database: Path, *, repairable: bool = True) -> str:
    """Return advice on what can be done about a bank that cannot be read."""
    found, repair = list_backups(database), "run `swarm-memory doctor --repair`"
    if not found:
        return f"{repair}; there is no backup" if repairable else "there is no backup"
    restore = f"`swarm-memory bank restore` for the backup of {found[0].made:%F %T} UTC ({len(found)} available)"
    return f"{repair}, or {restore}" if repairable else f"run {restore}"


def back_up(
    connection: SqliteConnection, module: ModuleType, database: Path, reason: str = ASKED, target: Path | None = None
) -> Path:
    """Copy an open bank, for this user alone, to `target` or our own folder, and return the checked copy's path.

    The connection must not be in a transaction. In our own folder, the oldest copies beyond `KEEP` for the same reason
    are deleted. Raises `InputError` when the target already exists, `StoreDamaged` when the copy is not sound, and what
    the driver raises: then nothing is left behind.
    """
    if target is None:
        folder = backup_folder(database)
        if folder.is_symlink():
            raise StorageError(
                f"{folder} is a symbolic link, which may lead anywhere: delete it, or name a file to copy to"
            )
        make_folder(folder)
        path = _named(folder, database, reason)
    else:
        path = target.absolute()
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} already exists: name a file that does not, or delete it first")
    copy_bank(connection, module, path, registry.secret_of(database))
    if target is None:
        for backup in [each for each in list_backups(database) if each.reason == reason][KEEP:]:
            _drop(backup)
        for half in abandoned_copies(database):
            half.unlink(missing_ok=True)
    return path


def _named(folder: Path, database: Path, reason: str) -> Path:
    return folder / f"{database.stem}-{datetime.now(UTC).strftime(_STAMP)}-{reason}.db"


def back_up_day(connection: SqliteConnection, module: ModuleType, database: Path, keep: int) -> None:
    """Copy a bank out of the project's reach, unless that was done today (UTC) or it alone exceeds `DAYS_BYTES`."""
    days = [each for each in list_backups(database) if each.reason == DAY]
    size = os.path.getsize(database)  # noqa: PTH202
    if size > DAYS_BYTES or (days and days[0].made.date() == datetime.now(UTC).date()):
        return
    folder = registry.daily_backup_folder(database)
    make_folder(folder)
    copy_bank(connection, module, _named(folder, database, DAY), registry.secret_of(database))
    for number, backup in enumerate(days, 2):
        size += backup.size_bytes
        if number > keep or size > DAYS_BYTES:
            _drop(backup)


def copy_bank(connection: SqliteConnection, module: ModuleType, path: Path, secret: str) -> None:
    """Copy an open bank into a file that is complete, checked and on the disk before it gets its name.

    The copy is bound by the bank's `secret`.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        make_private(part)
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
            with closing(module.connect(f"{part.absolute().as_uri()}?mode=ro", uri=True)) as copy:
                if (found := copy.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
                    raise StoreDamaged(f"the copy is unsound ({found[0]}), as is the bank: run `swarm-memory doctor`")
            flush(part)  # `VACUUM INTO` does not flush it
            registry.register(path, registry.identity(connection), secret, file=part)
            part.replace(path)
            flush(path.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"the copy {path} could not be made: {error.strerror or error}") from error


def drop_backups_with(module: ModuleType, database: Path, ids: Sequence[str]) -> int:
    """Delete the copies that hold any of these memories, trajectories or people, or cannot be read; return how many.

    Half copies are deleted unread: those that a killed process left, and those being made, whose making then fails.
    """
    dropped = 0
    for half in unfinished_copies(database):
        half.unlink(missing_ok=True)
    for backup in list_backups(database):
        if _holds(module, backup.path, ids):
            _drop(backup)
            dropped += 1
    return dropped


def unfinished_copies(database: Path) -> list[Path]:
    """Return the files in which a copy or a replacement is being made, or was when a process was killed."""
    folders = [each for each in _folders(database) if not each.is_symlink()]
    found = [path for each in folders for path in each.glob(f"{escape(database.stem)}-*.part*")]
    for made in _MADE_BESIDE:
        found.extend(database.parent.glob(f"{escape(database.name)}.{made}-*"))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def abandoned_copies(database: Path) -> list[Path]:
    """Return the half copies that no process can still be working on."""
    latest = time.time() - _LEFT_BEHIND_S
    found: list[Path] = []
    for path in unfinished_copies(database):
        with suppress(FileNotFoundError):  # it was just completed
            found.extend([path] if path.stat().st_mtime < latest else ())
    return sorted(found)


def _drop(backup: Backup) -> None:
    backup.path.unlink(missing_ok=True)
    registry.forget(backup.path)


def _holds(module: ModuleType, path: Path, ids: Sequence[str]) -> bool:
    try:
        with closing(module.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            values = {"ids": json.dumps(list(ids))}
            if connection.execute(queries("forgetting")["holds_any"], values).fetchone() is not None:
                return True
            knows_people = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'people'").fetchone()
            holds = queries("people")["holds_people"]
            return knows_people is not None and connection.execute(holds, (values["ids"],)).fetchone() is not None
    except module.Error:
        return True
