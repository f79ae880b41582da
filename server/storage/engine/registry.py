"""The banks that this user made, or trusts, on this machine: a private record of each, outside every project.

A file in a clone can match one of our banks in every byte, but it has no record here. This is checked before SQLite
opens anything, since opening a database plays back a log or a journal next to it. What a pull or an archive writes over
a bank is detected by what the record keeps: the files, as the system sees them, and the secret of `binding`.
"""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePath
from typing import NamedTuple

from swarm_memory.schema.errors import StorageError, StoreUntrusted
from swarm_memory.schema.sqlite.statements import APPLICATION_ID
from swarm_memory.server.folders import user_state_folder
from swarm_memory.server.storage.driver import SqliteConnection
from swarm_memory.server.storage.engine.files import flush, inode_of, make_folder, make_private, size_of

FOLDER = "banks"
TRUST = "inspect it and take it over with `swarm-memory bank trust`"

_PLAYED = ("", "-wal", "-journal")
_NOTE_BYTES = 256
_own_notes: dict[str, tuple[str, str]] = {}
"""What this process last noted of each bank, so that it need not open the file of notes while nobody else writes."""

_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The last eight bytes of a rollback journal that names another file (SQLite's pager.c); ours never do."""


class Record(NamedTuple):
    """One bank. Its files are noted by inode, which tells a bank not yet bound from another file in its place."""

    path: str
    files: list[int]
    """Inodes of the database: one, or two while another file is put in its place."""
    banks: list[str]
    """The bank ids that the file may hold: none until the bank is complete."""
    secrets: tuple[str, ...] | list[str] = ()
    """For each file the secret that binds its rows to this user; empty if they are not yet bound."""
    journal: str = "wal"
    """The journal mode that SQLite uses: on some file systems a rollback journal."""


def find(database: Path) -> Record | None:
    """Return the record of the bank at a path. Raises `StorageError` if it is unreadable, or not this user's alone."""
    try:
        descriptor = os.open(_file(database), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{_file(database)} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8") as file:
        status = os.fstat(descriptor)
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            raise StorageError(f"{_file(database)} is not this user's alone: delete it, or set XDG_STATE_HOME")
        try:
            known = json.load(file).items()  # records of former versions hold more
            record = Record(**{name: value for name, value in known if name in Record._fields})
        except (ValueError, TypeError, AttributeError) as error:
            raise StorageError(f"{_file(database)} is not a record of a bank: delete it, and {TRUST}") from error
    return record if record.path == _place(database) else None


def knows(database: Path) -> bool:
    """Whether the file at a path can be the one in its record; for a bound bank, its rows decide the rest."""
    record, inode = find(database), inode_of(str(database))
    return record is not None and inode is not None and (any(record.secrets) or inode in record.files)


def begin(database: Path, *, is_new: bool = False) -> None:
    """Record that this user has made the empty file at a path for a bank; a new file may reuse a former inode.

    The caller holds the writer lock.
    """
    record, file = find(database), inode_of(str(database)) or 0
    if is_new or record is None or file not in record.files:
        _write(Record(_place(database), [file], []))


def register(database: Path, bank: str, secret: str, file: Path | None = None, journal: str = "wal") -> None:
    """Record that the complete bank at a path, with its id, is this user's; `file`: the one still to be moved there."""
    inode = inode_of(str(file or database)) or 0
    _write(Record(_place(database), [inode], [bank], [secret], journal))
    if not secret:  # an earlier version may write to it without noting anything
        _drop_note(database)


def secret_of(database: Path) -> str:
    """Return the secret of the file at a path; empty for one that is not bound, or has no record.

    A bound bank may have become another file (copied over, or on a remounted disk): the same secret applies to it.
    """
    record = find(database)
    if record is None or not record.secrets:
        return ""
    by_file = dict(zip(record.files, record.secrets, strict=False))
    return by_file.get(inode_of(str(database)) or 0, record.secrets[-1] or record.secrets[0])


def status_of(database: Path) -> tuple[str, str]:
    """Return what the system reports about a database and its log; an empty log counts as a missing one.

    No program can set the time of change. Where there is none (Windows), an archive can set everything compared here.
    """
    return _seen(str(database)), _seen(f"{database}-wal", is_log=True)


def note(database: Path, number: int | None = None, seen: tuple[str, str] | None = None) -> None:
    """Note the files of a bound bank, as they are or were `seen`, and its seal's number; None: keep the former number.

    The caller holds the writer lock, or has read all rows since. If the note cannot be written, this process keeps it
    in memory, and others have to read all rows.
    """
    mark = _mark_of(database)
    if number is None and not size_of(mark):
        return
    _own_notes[str(database)] = seen = seen or status_of(database)
    line = " ".join((str(noted_number(database) if number is None else number), *seen))
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with suppress(OSError):
        descriptor = os.open(mark, flags, 0o600)
        try:
            os.write(descriptor, line.ljust(_NOTE_BYTES).encode())  # in place: it needs no room on a full disk
        finally:
            os.close(descriptor)


def _drop_note(database: Path) -> None:
    _own_notes.pop(str(database), None)
    Path(_mark_of(database)).unlink(missing_ok=True)


def is_as_noted(database: Path, *, with_log: bool = True) -> bool:
    """Whether the files are as they were last noted; also True if nothing was noted."""
    parts, seen = 2 if with_log else 1, status_of(database)
    if seen[:parts] == _own_notes.get(str(database), ())[:parts]:
        return True
    noted = _noted(database)
    return not noted or noted[1:][:parts] == [*seen[:parts]]


def noted_number(database: Path) -> int:
    """Return the seal's number that was last noted; -1 if none was."""
    noted = _noted(database)
    return int(noted[0]) if noted and noted[0].isdecimal() else -1


@contextmanager
def replacing(database: Path, fresh: Path) -> Generator[None]:
    """Allow the block to move one bank into another's place; until that is done, either may be there."""
    former, coming = find(database), find(fresh)
    if coming is None:
        raise StorageError(f"{fresh} was not made here by this user")
    record = coming._replace(path=_place(database))
    if former is not None:
        former = former._replace(secrets=former.secrets or [""] * len(former.files))
        both = {name: [*getattr(record, name), *getattr(former, name)] for name in ("files", "banks", "secrets")}
        _write(record._replace(**both))
    note(database, 0, ("", ""))  # the new bank's number may be lower, and a kill may follow the block
    yield
    _write(record)
    note(database, 0)
    if not any(record.secrets):
        _drop_note(database)
    forget(fresh)


def forget(database: Path) -> None:
    """Drop the record of a bank that is deleted."""
    for suffix in (".json", ".log", ".seen", ".noticed"):
        _file(database).with_suffix(suffix).unlink(missing_ok=True)


def forget_temporary(database: Path) -> None:
    """Drop the record of a bank in a temporary folder, and the folders of records that are then empty."""
    forget(database)
    root = Path(user_state_folder(), FOLDER)
    with suppress(OSError):  # a folder that holds records of other banks
        for folder in list(_file(database).relative_to(root).parents)[:-1]:
            (root / folder).rmdir()


def claim_first_notice(database: Path) -> bool:
    """Whether this is the first notice about the untrusted file at a path; the call itself marks it as given."""
    noticed, inode = _file(database).with_suffix(".noticed"), str(inode_of(str(database)))
    with suppress(FileNotFoundError):
        if noticed.read_text("ascii") == inode:
            return False
    make_folder(noticed.parent)
    noticed.unlink(missing_ok=True)
    make_private(noticed, inode.encode())
    return True


def check(database: Path) -> Record | None:
    """Return the record of the bank at a path; None if there is neither a record nor a file with any content.

    No database is opened. Raises `StoreUntrusted` for a bank or a journal that is not the one that was left there.
    """
    left = next((each for suffix in _PLAYED if size_of(each := f"{database}{suffix}") > 0), None)
    record = find(database)  # last: another process may begin the bank meanwhile
    if record is None:
        if left is None:
            return None
        with open(left, "rb") as file:  # noqa: PTH123 - no connection of this process has it open: it may be read
            header = file.read(100)
        if left != str(database) or header[68:72] == APPLICATION_ID.to_bytes(4):
            raise StoreUntrusted(
                f"{left} was not made here by this user, or it was moved or copied. It was not opened: {TRUST}, or "
                "delete it"
            )
        if not header.startswith(b"SQLite format 3\0"):
            raise StoreUntrusted(f"{left} is not an SQLite database: move it away, or name another file")
        raise StoreUntrusted(
            f"{left} is not a swarm-memory bank: move it away, or name another file. It was not touched"
        )
    if not any(record.secrets) and inode_of(str(database)) not in (None, *record.files):
        raise StoreUntrusted(replaced_message(database))
    _check_journal(database, record)
    return record


def replaced_message(database: Path) -> str:
    """Return the message about another file in a bank's place."""
    return (
        f"{database} is not as swarm-memory left it: a pull, a copy or an archive changed it; "
        f"{TRUST}, or put a backup in its place with `swarm-memory bank restore`"
    )


def identity(connection: SqliteConnection) -> str:
    """Return the id of an open bank; empty if its schema had no ids yet, or the bank is still empty."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return ""
    found = connection.execute("SELECT value FROM meta WHERE key = 'bank'").fetchone()
    return "" if found is None else str(found[0])


def _seen(path: str, *, is_log: bool = False) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before and after each write
    except OSError:
        return ""
    # As root, SQLite sets a log's owner again whenever it opens the log, which updates the time of change.
    changed = status.st_mtime_ns if is_log and os.name == "posix" and os.geteuid() == 0 else status.st_ctime_ns
    if is_log and not status.st_size:
        return ""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{changed}"


def _mark_of(database: Path) -> str:
    return _marked(user_state_folder(), str(database))


@lru_cache(maxsize=8)
def _marked(state: str, database: str) -> str:
    del state  # only a key of the cache: the record's folder depends on it
    return str(_file(Path(database)).with_suffix(".seen"))


def _noted(database: Path) -> list[str]:
    """Return the number and what was seen of the two files; empty if nothing was noted."""
    try:
        with open(_mark_of(database), "rb") as file:  # noqa: PTH123 - asked before and after each write
            return [*file.read(_NOTE_BYTES).decode("ascii", "replace").rstrip().split(" "), ""]
    except OSError:
        return []


def _check_journal(database: Path, record: Record) -> None:
    """Raise `StoreUntrusted` for a journal that names another file, which SQLite would delete, or any of a WAL bank."""
    journal = Path(f"{database}-journal")
    if size_of(str(journal)) == 0:
        return
    # With 0 or nothing noted, a bank is being bound or restored: a kill as it switches to its log leaves a journal.
    is_foreign = record.journal == "wal" and noted_number(database) > 0
    with suppress(FileNotFoundError), journal.open("rb") as file:  # other processes delete theirs at any moment
        file.seek(-min(len(_SUPER_JOURNAL), file.seek(0, os.SEEK_END)), os.SEEK_END)
        if is_foreign or file.read() == _SUPER_JOURNAL:
            raise StoreUntrusted(f"{journal} was not left by swarm-memory: none of it was played back; delete it")


def _place(database: Path) -> str:
    return str(Path(os.path.realpath(database.parent), database.name))


def _file(database: Path) -> Path:
    """Return the path of a bank's record: below the folder of records it repeats the bank's own path."""
    return Path(user_state_folder(), FOLDER, record_path(Path(_place(database))))


def daily_backup_folder(database: Path) -> Path:
    """Return the folder for a bank's daily copies, which is next to its record."""
    return _file(database).with_suffix(".days")


def record_path(place: PurePath) -> PurePath:
    """Return the path of a bank's record within the folder of records, also for a Windows drive or share."""
    drive = place.drive.replace(":", "").strip("\\?").replace("\\", "/")
    return type(place)(drive, *place.parts[1:-1], f"{place.name}.json")


def _write(record: Record) -> None:
    path = _file(Path(record.path))
    part = path.with_suffix(f".{os.urandom(8).hex()}.part")
    try:
        make_folder(path.parent)
        make_private(part, json.dumps(record._asdict()).encode())
        flush(part)
        part.replace(path)
        flush(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror}; it tells this user's banks from those of a clone"
        ) from error
