"""Connections of the bank on threads of their own: whole functions run there, and a cancelled caller breaks none."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import aiosqlite

from swarm_memory.schema.errors import StorageError, StoreReplaced
from swarm_memory.server.storage.connection import storage_errors, truncate_wal
from swarm_memory.server.storage.lock import writer_lock
from swarm_memory.server.storage.opened_file import OpenedFile

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")

END_WAIT_S = 2.0
"""How long the thread of a connection that failed to open is waited for."""

SAVE_WAIT_S = 10.0

log = logging.getLogger(__name__)


class ConnectionThread:
    """One connection on one daemon thread. Functions run one after another, each to its end.

    When another file was put in the place of the open one, it is opened before the next function runs.
    """

    def __init__(
        self,
        database: Path,
        module: ModuleType,
        connection: aiosqlite.Connection,
        opened: OpenedFile,
        again: "Callable[[], Connection]",
        writes: bool,
    ) -> None:
        self._database = database
        self._module = module
        self._connection = connection
        self._again = again
        self._writes = writes
        self._process = os.getpid()
        self.opened = opened
        """What the connection opened, for a look under the writer lock."""

    @classmethod
    async def open(
        cls,
        database: Path,
        module: ModuleType,
        connector: "Callable[[], Connection]",
        *,
        again: "Callable[[], Connection] | None" = None,
        writes: bool = False,
    ) -> "ConnectionThread":
        """Connect on a new thread, and later by `again` to what was put in the file's place. Raises what they raise."""
        opened = OpenedFile(database)
        connection = aiosqlite.Connection(connector, 64)
        # An open connection must not keep the process alive: aiosqlite's thread is none that ends by itself.
        thread = connection._thread  # pyright: ignore[reportPrivateUsage]
        thread.daemon = True
        try:
            return cls(database, module, await connection, opened, again or connector, writes)
        except BaseException:
            # The thread still answers to this loop, which the caller may be about to close. A cancelled caller could
            # not await it: it is cancelled again at once.
            thread.join(END_WAIT_S)
            raise

    async def run(self, function: "Callable[[Connection], T]") -> T:
        """Run a function on the thread and return its result, in errors of ours.

        A caller that is cancelled leaves at once; the function still runs to its end. Raises `StorageError` after a
        fork and after `close`.
        """
        if os.getpid() != self._process:
            raise StorageError("the bank was opened before this process forked: open it anew in the child")
        work = asyncio.ensure_future(self._run(function))
        work.add_done_callback(_seen)
        return await asyncio.shield(work)

    async def close(self, closing: "Callable[[Connection], None]") -> None:
        """Run `closing`, which closes the connection, and end the thread."""
        if os.getpid() != self._process:
            return
        await self.run(closing)
        await asyncio.shield(self._connection.close())

    async def _run(self, function: "Callable[[Connection], T]") -> T:
        def guarded() -> T:
            with storage_errors(self._module, self._database):
                self._follow()
                try:
                    return function(self._connection._conn)  # pyright: ignore[reportPrivateUsage]
                except StoreReplaced:
                    # Raised under the lock, before anything was done: the file was replaced while it waited.
                    self._follow()
                    return function(self._connection._conn)  # pyright: ignore[reportPrivateUsage]

        try:
            # The only way to run a whole transaction in one go; each public call would be a step of its own.
            return await self._connection._execute(guarded)  # pyright: ignore
        except ValueError as error:
            if str(error) != "Connection closed":
                raise
            raise StorageError("the bank is closed") from error

    def _follow(self) -> None:
        """Open what lies at the path if it is another file than the open one, or its log is."""
        self.opened.note()
        state = self.opened.look()
        if state == "same" or (state == "log lost" and not self._writes and not self.opened.log_is_there()):
            return
        if state == "log lost" and self._writes:
            self._save_log()
        opened = OpenedFile(self._database)
        fresh = self._again()
        self._connection._conn.close()  # pyright: ignore[reportPrivateUsage]
        self._connection._connection = fresh  # pyright: ignore[reportPrivateUsage]
        self.opened = opened
        log.warning("%s was replaced, or its log deleted, while it was open: it was opened anew", self._database)

    def _save_log(self) -> None:
        """Write the deleted log, which only open connections still see, into the database."""
        with writer_lock(self._database, SAVE_WAIT_S):
            if self.opened.log_is_new():
                log.error(
                    "the log of %s was deleted while it was open and another process began a new one: "
                    "the last writes may be lost; run `swarm-memory doctor`",
                    self._database,
                )
            else:
                truncate_wal(self._connection._conn)  # pyright: ignore[reportPrivateUsage]


def _seen(work: "asyncio.Future[T]") -> None:
    """Look at the error of work whose caller is gone, so that asyncio does not complain of it."""
    if not work.cancelled():
        work.exception()
