"""The banks that this user made, or trusts, on this machine: a private record of each, outside every project.

What a clone, a pull or an archive brings can be a bank of ours in every byte. But it has no record here, or it is not
the file that the record names; that is seen before SQLite opens anything, since a log or a journal beside a database
is played back by opening it.
"""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.errors import StorageError, StoreBusy, StoreReadOnly, StoreUntrusted
from swarm_memory.schema.sqlite.statements import APPLICATION_ID
from swarm_memory.server.folders import own_state
from swarm_memory.server.location import state_folder
from swarm_memory.server.storage.engine.files import (
    end_log,
    flush,
    follows,
    inode_of,
    make_folder,
    make_private,
    size_of,
)
from swarm_memory.server.storage.engine.lock import writer_lock

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

FOLDER = "banks"
TRUST = "look into it and take it over with `swarm-memory bank trust`"
SETTLE_S = 2.0
"""How long another process may take to note the log that it has begun."""

_PLAYED = ("", "-wal", "-journal")
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The last eight bytes of a rollback journal that names another file (SQLite's pager.c); ours never do."""


class Record(NamedTuple):
    """One bank. Files are told apart by their inodes: whoever replaces one makes another."""

    path: str
    files: list[int]
    """Of the database: one; two while another is put in its place."""
    banks: list[str]
    """The ids that may stand in it: none until the bank is complete."""
    log: int = 0
    """Of the write-ahead log; 0 until there was one."""
    journal: str = "wal"
    """How SQLite keeps its changes: `delete` where the file system does not let it have a write-ahead log."""


def find(database: Path) -> Record | None:
    """Return the record of the bank at a path. Raises `StorageError` when it cannot be read, or is another user's."""
    try:
        descriptor = os.open(_file(database), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{_file(database)} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8") as file:
        if os.name == "posix" and os.fstat(descriptor).st_uid != os.geteuid():
            raise StorageError(f"{_file(database)} belongs to another user: delete it, or set XDG_STATE_HOME")
        try:
            record = Record(**json.load(file))
        except (ValueError, TypeError) as error:
            raise StorageError(f"{_file(database)} is no record of a bank: delete it, and {TRUST}") from error
    return record if record.path == _place(database) else None


def is_complete(database: Path) -> bool:
    """Return whether a bank was completed at this path: an empty or unreadable file there is then no new one."""
    record = find(database)
    return record is not None and bool(record.banks)


def knows(database: Path) -> bool:
    """Return whether the file at a path is the one of its record."""
    record = find(database)
    return record is not None and inode_of(str(database)) in record.files


def begin(database: Path) -> None:
    """Note that this user has made the empty file at a path, which will be a bank."""
    record, file = find(database), inode_of(str(database)) or 0
    if record is None or file not in record.files:
        _drop_scratch()
        _write(Record(_place(database), [file], []))


def sign(database: Path, bank: str, file: Path | None = None, journal: str = "wal") -> None:
    """Note that the complete bank at a path is this user's: its id, and `file`, which is to be moved there."""
    inode = inode_of(str(file or database)) or 0
    _write(Record(_place(database), [inode], [bank], inode_of(f"{database}-wal") or 0, journal))


def note_log(database: Path) -> None:
    """Note the log that lies beside the bank now, before anything is committed to it."""
    record, log = find(database), inode_of(f"{database}-wal")
    with suppress(StoreBusy, StoreReadOnly), writer_lock(database, 0):  # whoever holds it is about to fill the log
        note_end(database)
    if record is not None and log is not None and record.log != log:
        _write(record._replace(log=log))


def note_end(database: Path) -> None:
    """Note that no log holds anything, where that is so. The caller holds the writer lock.

    A file system may give the number of a deleted log to the next file: the number alone tells no stranger's.
    """
    if not size_of(f"{database}-wal") and _file(database).is_file():
        end_log(str(mark_file(database)))


@contextmanager
def replacing(database: Path, fresh: Path) -> Generator[None]:
    """Let a bank be moved into another's place in the block; until that is done, either may lie there."""
    former, coming = find(database), find(fresh)
    if coming is None:
        raise StorageError(f"{fresh} was not made here by this user")
    record = coming._replace(path=_place(database), log=0)
    if former is not None:
        _write(record._replace(files=[*former.files, *record.files], banks=[*former.banks, *record.banks]))
    yield
    _write(record)
    forget(fresh)


def forget(database: Path) -> None:
    """Drop the record of a bank that is deleted."""
    for suffix in (".json", ".log", ".told"):
        _file(database).with_suffix(suffix).unlink(missing_ok=True)


def throw_away(database: Path) -> None:
    """Drop the record of a bank in a folder for temporary files, and the folders that held nothing else."""
    forget(database)
    root = state_folder() / FOLDER
    with suppress(OSError):  # a folder in which there are records of other banks
        for folder in _file(database).parents:
            if folder == root:
                break
            folder.rmdir()


def tell_once(database: Path) -> bool:
    """Return whether it was not yet asked about the file at a path, which is not trusted; this asking counts."""
    told, inode = _file(database).with_suffix(".told"), str(inode_of(str(database)))
    with suppress(FileNotFoundError):
        if told.read_text("ascii") == inode:
            return False
    make_folder(told.parent)
    told.unlink(missing_ok=True)
    make_private(told, inode.encode())
    return True


def check(database: Path, wait_s: float = SETTLE_S) -> Record | None:
    """Return the record of the bank at a path; None where there is none, nor any file that could hold something.

    Nothing but the names and sizes of files is looked at; another process may take `wait_s` to note the log that it has
    begun. Raises `StoreUntrusted` for a bank, a log or a journal that is not the one that was left there.
    """
    left = next((each for suffix in _PLAYED if size_of(each := f"{database}{suffix}") > 0), None)
    record = find(database)  # last: another process may begin the bank meanwhile
    if record is None:
        if left is not None:
            raise StoreUntrusted(_foreign(database, Path(left)))
        return None
    if inode_of(str(database)) not in (None, *record.files):
        raise StoreUntrusted(replaced(database))
    _check_log(database, record, wait_s)
    _check_journal(database, record)
    return record


def _foreign(database: Path, left: Path) -> str:
    """Return what is said of a file that has no record."""
    with left.open("rb") as file:  # no connection of this process has it open: it may be read
        header = file.read(100)
    if left == database and header[68:72] != APPLICATION_ID.to_bytes(4):
        if not header.startswith(b"SQLite format 3\0"):
            return f"{left} is not an SQLite database: move it away, or name another file"
        return f"{left} is not a bank of swarm-memory: move it away, or name another file. It was not touched"
    return f"{left} was not made here by this user, or it was moved or copied. It was not opened: {TRUST}, or delete it"


def replaced(database: Path) -> str:
    """Return what is said of another file in a bank's place."""
    return (
        f"{database} is not the bank that swarm-memory left there: it was replaced, by a pull, a copy or an archive; "
        f"{TRUST}, or put the former one back with `swarm-memory bank restore`"
    )


def identity(connection: "SqliteConnection") -> str:
    """Return the id of an open bank; empty for one of a schema that had none, and for one that is yet empty."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return ""
    found = connection.execute("SELECT value FROM meta WHERE key = 'bank'").fetchone()
    return "" if found is None else str(found[0])


def _check_log(database: Path, record: Record, wait_s: float) -> None:
    log, give_up = Path(f"{database}-wal"), time.monotonic() + wait_s
    while record.banks and size_of(str(log)) > 0 and inode_of(str(log)) != record.log:
        if time.monotonic() > give_up:
            raise StoreUntrusted(_not_the_log(log))
        time.sleep(0.01)
        record = find(database) or record
    if not record.banks:
        return
    mark = str(mark_file(database))
    if not follows(str(log), mark):
        # What is noted and the log are two files: looked at again while nobody is filling or emptying it. Whoever
        # writes meanwhile has read the log.
        with suppress(StoreBusy), writer_lock(database, wait_s):
            if not follows(str(log), mark):
                raise StoreUntrusted(_not_the_log(log))


def _not_the_log(log: Path) -> str:
    return (
        f"{log} is not the log that swarm-memory left beside its bank: nothing of it was read; delete it if a pull "
        "or an archive brought it"
    )


def mark_file(database: Path) -> Path:
    """Return where it is noted which log a bank has."""
    return _file(database).with_suffix(".log")


def _check_journal(database: Path, record: Record) -> None:
    """A bank with a write-ahead log leaves no journal once it is complete; no journal of ours names another file."""
    journal = Path(f"{database}-journal")
    if size_of(str(journal)) == 0:
        return
    try:
        with journal.open("rb") as file:
            file.seek(-min(len(_SUPER_JOURNAL), file.seek(0, os.SEEK_END)), os.SEEK_END)
            names_another = file.read() == _SUPER_JOURNAL
    except FileNotFoundError:  # another process that makes the bank deletes it at any moment
        return
    if names_another or (record.banks and record.journal == "wal"):
        raise StoreUntrusted(f"{journal} was not left by swarm-memory: nothing of it was played back; delete it")


def _place(database: Path) -> str:
    return str(Path(os.path.realpath(database.parent), database.name))


def _file(database: Path) -> Path:
    """Return where the record of a bank is: below the folder of records as the bank is below the root."""
    return _filed(own_state(), _place(database))


@lru_cache(maxsize=8)
def _filed(state: str, place: str) -> Path:
    return Path(state, FOLDER, record_of(Path(place)))


def record_of(place: PurePath) -> PurePath:
    """Return the path of a record in the folder of records, of a bank on a drive or a share of Windows too."""
    drive = place.drive.replace(":", "").strip("\\?").replace("\\", "/")
    return type(place)(drive, *place.parts[1:-1], f"{place.name}.json")


def _drop_scratch() -> None:
    """Drop the records of banks in the system's folder for temporary files that are no more."""
    import tempfile

    scratch = os.path.realpath(tempfile.gettempdir())
    for path in _file(Path(scratch, "any")).parent.rglob("*.json"):
        with suppress(OSError, ValueError, KeyError):
            if not os.path.lexists(place := json.loads(path.read_bytes())["path"]):
                forget(Path(place))


def _write(record: Record) -> None:
    path = _file(Path(record.path))
    part = path.with_suffix(f".{os.urandom(8).hex()}.part")
    try:
        make_folder(path.parent)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record._asdict(), file)
        flush(part)
        part.replace(path)
        flush(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror}; it tells this user's banks from those that a clone brings"
        ) from error
