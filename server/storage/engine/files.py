"""A bank's files as the system sees them: flushing them, whether they are still those opened, and the writer lock.

A database is opened here only to be flushed: opening and closing its file alongside SQLite would drop SQLite's locks.

One process at a time writes to a bank: it holds a lock on a file next to it, around every write transaction and
checkpoint, because SQLite before 3.51.3 can lose a commit of a WAL database when several processes write and
checkpoint at the same time.
"""

import errno
import os
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from swarm_memory.schema.errors import StorageError, StoreBusy, StoreReadOnly, StoreReplaced

_NOT_FLUSHED_HERE = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""The errors of a file system that cannot flush folders, as some network file systems cannot."""

_FILES = ("", "-wal", "-shm")


def flush(path: Path) -> None:
    """Flush a file's content, or the names in a folder, to the disk. Raises `OSError` when the disk refuses.

    A flushed file is still lost if its name is: its folder must be flushed too, and that folder's name in its parent.
    A folder that this user may not read, or whose file system cannot flush it, is left to the system, as SQLite does.
    """
    if not path.is_dir():
        _flush(path, os.O_RDWR)
    elif os.name == "posix":
        try:
            _flush(path, os.O_RDONLY)
        except PermissionError:
            return
        except OSError as error:
            if error.errno not in _NOT_FLUSHED_HERE:
                raise


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder for this user alone, with any missing parents, and flush all of their names to the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another process may have made it and not yet flushed its name.
    for each in missing or [folder]:
        flush(each.parent)


def make_private(path: Path, content: bytes | bytearray = b"") -> None:
    """Create a file for this user alone. Raises `FileExistsError` if it exists, or a link is in its place."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def size_of(path: str) -> int:
    """Return the size of a file; 0 if there is none. No `Path` is built, as this is called after each write."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


Found: TypeAlias = Literal["same", "log lost", "moved"]


class FileIdentity:
    """A connection's files: the database as before connecting; the log only since, as an older one may be another's."""

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._files: dict[str, tuple[int, int]] = {}
        self.note([""])

    def note(self, suffixes: Iterable[str] = _FILES) -> None:
        """Remember files that were not there before. Call it while the connection is known to be on the right files."""
        for suffix in suffixes:
            if suffix not in self._files and (found := _identity(self._database + suffix)):
                self._files[suffix] = found

    def look(self) -> Found:
        """Return `moved` if the database was replaced or is gone, `log lost` if only its log was, else `same`."""
        others = [suffix for suffix, was in self._files.items() if _identity(self._database + suffix) != was]
        if "" in others or "" not in self._files:
            return "moved"
        return "log lost" if others else "same"

    def check(self, found: Found | None = None) -> None:
        """Raise `StoreReplaced` unless the files are the same; `found`: what `look` has just returned."""
        if (found or self.look()) != "same":
            raise StoreReplaced(
                f"{self._database} was moved, deleted or replaced while it was open: bring it back, "
                "or see `swarm-memory bank restore --list`"
            )


def inode_of(path: str) -> int | None:
    """Return the inode of a file; None if there is no file."""
    found = _identity(path)
    return None if found is None else found[1]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before each write
    except OSError:
        return None
    return status.st_dev, status.st_ino


FIRST_WAIT_S, LONGEST_WAIT_S = 0.001, 0.02

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def writer_lock(database: Path, timeout_s: float) -> Generator[None]:
    """Hold the writer lock of a database: a file next to it that one process at a time locks. Not reentrant.

    Raises `StoreBusy` when it is not free within `timeout_s`, `StoreReadOnly`, and `StorageError` when it is a link.
    """
    path = database.with_name(database.name + ".lock")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreReadOnly(f"{path} is not writable: give this user write permission on its folder") from error
        raise StorageError(f"the lock file {path} could not be opened: {error.strerror}") from error
    deadline, wait_s = time.monotonic() + timeout_s, FIRST_WAIT_S
    try:
        while not _try_lock(descriptor):
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreBusy(
                    f"another process has been writing to {database} for more than {timeout_s:g} s; try again"
                )
            time.sleep(min(wait_s, left))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        try:
            yield
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)
