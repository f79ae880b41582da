"""The writer lock, a file beside the database that one writer of all processes holds, and blocks of one moment.

The lock stands around every write transaction and checkpoint, because SQLite before 3.51.3 can lose a commit of a WAL
database when several processes write and checkpoint at once.
"""

import errno
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from swarm_memory.schema.errors import StorageError, StoreBusy, StoreReadOnly

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

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
    """Hold the writer lock. Not reentrant.

    Raises `StoreBusy` when it was not free within `timeout_s`, `StoreReadOnly` when the lock file cannot be written,
    `StorageError` when it is a link.
    """
    path = database.with_name(database.name + ".lock")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreReadOnly(f"{path} cannot be written: give this user the folder and its files") from error
        raise StorageError(f"the lock file {path} could not be opened: {error.strerror}") from error
    try:
        _acquire(descriptor, database, timeout_s)
        try:
            yield
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, database: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    wait_s = FIRST_WAIT_S
    while not _try_lock(descriptor):
        left = deadline - time.monotonic()
        if left <= 0:
            raise StoreBusy(f"another process has been writing to {database} for more than {timeout_s:g} s; try again")
        time.sleep(min(wait_s, left))
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)


@contextmanager
def transaction(connection: "SqliteConnection", kind: Literal["IMMEDIATE", "EXCLUSIVE"]) -> Generator[None]:
    """Write the block in one transaction: committed at its end, undone by an exception."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        _undo(connection)
        raise


@contextmanager
def one_moment(connection: "SqliteConnection") -> Generator[None]:
    """Have all that is read in the block be of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        _undo(connection)


def _undo(connection: "SqliteConnection") -> None:
    if connection.in_transaction:  # SQLite undoes one itself where it has no memory or no disk
        connection.execute("ROLLBACK")
