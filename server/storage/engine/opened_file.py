"""Whether a path still leads to the files that a connection opened: a moved or deleted one would take writes unseen.

It opens nothing: opening and closing a database's file beside SQLite would drop SQLite's locks.
"""

import os
from pathlib import Path
from typing import Literal

from swarm_memory.schema.errors import StoreReplaced

_SIDECARS = ("-wal", "-shm")


class OpenedFile:
    """The files of one connection, by device and inode: the database, its log, the log's index."""

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._main = _identity(self._database)
        self._sidecars: dict[str, tuple[int, int]] = {}

    def note(self) -> None:
        """Remember files that were not there before; to be called while the connection is known to be right."""
        self._main = self._main or _identity(self._database)
        for suffix in _SIDECARS:
            if suffix not in self._sidecars and (found := _identity(self._database + suffix)):
                self._sidecars[suffix] = found

    def look(self) -> Literal["same", "log lost", "moved"]:
        """Return `moved` when the database is another file or none, `log lost` when only its log is."""
        if _identity(self._database) != self._main:
            return "moved"
        kept = all(_identity(self._database + suffix) == was for suffix, was in self._sidecars.items())
        return "same" if kept else "log lost"

    def log_is_there(self) -> bool:
        """Return whether there is a log at the path, whichever."""
        return _identity(f"{self._database}-wal") is not None

    def log_is_new(self) -> bool:
        """Return whether another process has begun a new log in the place of the one that was lost."""
        try:
            return os.stat(f"{self._database}-wal").st_size > 0  # noqa: PTH116 - no Path is built for a look
        except OSError:
            return False

    def check(self) -> None:
        """Raise `StoreReplaced` unless all is as it was."""
        if self.look() != "same":
            raise StoreReplaced(
                f"{self._database} was moved, deleted or replaced while it was open: bring it back, "
                "or see `swarm-memory restore --list`"
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before each write
    except OSError:
        return None
    return status.st_dev, status.st_ino
