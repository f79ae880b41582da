"""The banks that this user made, or trusts, on this machine: a private record of each, outside every project.

What a clone, a pull or an archive brings can be a bank of ours in every byte. But it has no record here, or it is not
the file that the record names; that is seen before SQLite opens anything, since a log or a journal beside a database
is played back by opening it.
"""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.errors import StorageError, StoreBusy, StoreUntrusted
from swarm_memory.schema.sqlite.statements import APPLICATION_ID
from swarm_memory.server.folders import own_state
from swarm_memory.server.location import write_private
from swarm_memory.server.storage.engine.files import flush, inode_of, make_folder, make_private, size_of, writer_lock

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

FOLDER = "banks"
TRUST = "look into it and take it over with `swarm-memory bank trust`"
_LOOK_WAIT_S = 2.0

_PLAYED = ("", "-wal", "-journal")
_ENDED, _BEGUN = b"ended", b"begun "
_HEADER_BYTES, _SALTS = 32, slice(16, 24)
_MAX_GENERATIONS = 1000
"""So many times a log may have begun again, by the `sqlite3` command say, since it was last noted."""

_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The last eight bytes of a rollback journal that names another file (SQLite's pager.c); ours never do."""


class Record(NamedTuple):
    """One bank. Files are known by their inodes: whoever replaces one makes another."""

    path: str
    files: list[int]
    """Of the database: one; two while another is put in its place."""
    banks: list[str]
    """The ids that may stand in it: none until the bank is complete."""
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
            known = json.load(file).items()  # those of former versions hold more
            record = Record(**{name: value for name, value in known if name in Record._fields})
        except (ValueError, TypeError, AttributeError) as error:
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
        _write(Record(_place(database), [file], []))


def sign(database: Path, bank: str, file: Path | None = None, journal: str = "wal") -> None:
    """Note that the complete bank at a path is this user's: its id, and `file`, which is to be moved there."""
    inode = inode_of(str(file or database)) or 0
    _write(Record(_place(database), [inode], [bank], journal))
    note_end(database)


def note_log(database: Path) -> None:
    """Note by its salts which log was committed to; of an empty one, which file it is. The caller holds the lock.

    It is noted before a commit, which may be cut off, and after it.
    """
    log = f"{database}-wal"
    _note(_mark_of(database), _salts_of(log) or _begun(log))


def note_end(database: Path) -> None:
    """Note that no log holds anything, where that is so: one that does is none of ours. The caller holds the lock."""
    if not size_of(f"{database}-wal") and _file(database).is_file():
        _note(_mark_of(database), _ENDED)


@contextmanager
def replacing(database: Path, fresh: Path) -> Generator[None]:
    """Let a bank be moved into another's place in the block; until that is done, either may lie there."""
    former, coming = find(database), find(fresh)
    if coming is None:
        raise StorageError(f"{fresh} was not made here by this user")
    record = coming._replace(path=_place(database))
    if former is not None:
        _write(record._replace(files=[*former.files, *record.files], banks=[*former.banks, *record.banks]))
    yield
    _write(record)
    note_end(database)
    forget(fresh)


def forget(database: Path) -> None:
    """Drop the record of a bank that is deleted."""
    for suffix in (".json", ".log", ".noticed"):
        _file(database).with_suffix(suffix).unlink(missing_ok=True)


def throw_away(database: Path) -> None:
    """Drop the record of a bank in a folder for temporary files, and the folders that held nothing else."""
    forget(database)
    root = Path(own_state(), FOLDER)
    with suppress(OSError):  # a folder in which there are records of other banks
        for folder in list(_file(database).relative_to(root).parents)[:-1]:
            (root / folder).rmdir()


def is_first_notice(database: Path) -> bool:
    """Return whether it was not yet asked about the file at a path, which is not trusted; this asking counts."""
    noticed, inode = _file(database).with_suffix(".noticed"), str(inode_of(str(database)))
    with suppress(FileNotFoundError):
        if noticed.read_text("ascii") == inode:
            return False
    make_folder(noticed.parent)
    noticed.unlink(missing_ok=True)
    make_private(noticed, inode.encode())
    return True


def check(database: Path) -> Record | None:
    """Return the record of the bank at a path; None where there is none, nor any file that could hold something.

    No database is opened. Raises `StoreUntrusted` for a bank, a log or a journal that is not the one that was left
    there.
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
            f"{left} is not a bank of swarm-memory: move it away, or name another file. It was not touched"
        )
    if inode_of(str(database)) not in (None, *record.files):
        raise StoreUntrusted(replaced(database))
    if record.banks:
        _check_log(database)
    _check_journal(database, record)
    return record


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


def _check_log(database: Path) -> None:
    """Raise `StoreUntrusted` for a log that cannot be the one that was noted."""
    # What is noted and the log are two files: looked at again while nobody is filling or emptying it. Whoever writes
    # meanwhile has read the log.
    if not _follows(database):
        with suppress(StoreBusy), writer_lock(database, _LOOK_WAIT_S):
            if not _follows(database):
                raise StoreUntrusted(
                    f"{database}-wal is not the log that swarm-memory left beside its bank: nothing of it was read; "
                    "delete it if a pull or an archive brought it"
                )


def _follows(database: Path) -> bool:
    """Whether a log holds nothing, or can be the one that was noted, or that one begun again."""
    log = f"{database}-wal"
    noted, salts = _noted(_mark_of(database)), _salts_of(log)
    if not size_of(log) or not noted:
        return True
    if noted == _ENDED:
        return False
    if noted.startswith(_BEGUN):
        return noted in (_begun(log), _begun(""))  # where there was no file yet, SQLite has made one since
    if not salts or salts == noted:
        return True  # SQLite reads nothing of a log without a header
    ahead = (int.from_bytes(salts[:4]) - int.from_bytes(noted[:4])) % 2**32
    return 0 < ahead <= _MAX_GENERATIONS


def _begun(log: str) -> bytes:
    return _BEGUN + str(inode_of(log)).encode()


def _salts_of(log: str) -> bytes:
    """Return the salts of a log; nothing where it has no header.

    The first is a number that grows by one each time the log begins again, the second is random ("Database File
    Format", section 4.1): whoever has not read this log cannot make one that follows it. The log may be opened and
    closed beside SQLite, which locks nothing of it.
    """
    with suppress(OSError), open(log, "rb") as file:  # noqa: PTH123 - asked after each write
        header = file.read(_HEADER_BYTES)
        return header[_SALTS] if len(header) == _HEADER_BYTES else b""
    return b""


def _mark_of(database: Path) -> Path:
    """Return where it is noted which log a bank has."""
    return _file(database).with_suffix(".log")


def _noted(mark: Path) -> bytes:
    try:
        return mark.read_bytes()
    except OSError:
        return b""


def _note(mark: Path, content: bytes) -> None:
    """Write a note; where that cannot be written the former one stands."""
    if content != _noted(mark):
        with suppress(OSError):
            write_private(mark, content.decode(errors="surrogateescape"))


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
            f"{path} could not be written: {error.strerror}; by it this user's banks are known from those of a clone"
        ) from error
