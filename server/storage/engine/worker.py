"""Connections of the bank on threads of their own: whole functions run there, and a cancelled caller breaks none."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import aiosqlite

from swarm_memory.schema.errors import StorageError, StoreReplaced
from swarm_memory.server.storage.engine.connection import storage_errors, truncate_wal
from swarm_memory.server.storage.engine.files import OpenedFile
from swarm_memory.server.storage.engine.lock import writer_lock

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")

END_WAIT_S = 2.0
"""How long the thread of a connection that failed to open is waited for."""

SAVE_WAIT_S = 10.0

log = logging.getLogger(__name__)


class _Host(aiosqlite.Connection):
    """aiosqlite's thread, on which a whole function runs in one go; nothing else touches what is inside aiosqlite."""

    def __init__(self, connector: "Callable[[], Connection]") -> None:
        super().__init__(connector, 64)
        self._thread.daemon = True  # an open connection must not keep the process alive

    async def open(self) -> None:
        """Start the thread and connect there. Raises what the connector raises."""
        try:
            await self
        except BaseException:
            # The thread still answers to this loop, which the caller may be about to close. A cancelled caller could
            # not await it: it is cancelled again at once.
            self._thread.join(END_WAIT_S)
            raise

    @property
    def hosted(self) -> "Connection":
        """The connection, for what runs on the thread."""
        return self._conn

    def host(self, connection: "Connection") -> None:
        """Take another connection, from the thread."""
        self._connection = connection

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function on the thread. Raises `StorageError` after `close`."""
        try:
            return await self._execute(function)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except ValueError as error:
            if str(error) != "Connection closed":
                raise
            raise StorageError("the bank is closed") from error


class ConnectionThread:
    """One connection on one daemon thread. Functions run one after another, each to its end.

    None runs on a file that is no longer the one at its path: `StoreReplaced` says so, before anything was done.
    """

    def __init__(
        self,
        database: Path,
        module: ModuleType,
        host: _Host,
        opened: OpenedFile,
        again: "Callable[[], Connection]",
        writes: bool,
    ) -> None:
        self._database = database
        self._module = module
        self._host = host
        self._again = again
        self._writes = writes
        self._process = os.getpid()
        self._connected = True
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
        host = _Host(connector)
        await host.open()
        return cls(database, module, host, opened, again or connector, writes)

    async def run(self, function: "Callable[[Connection], T]") -> T:
        """Run a function on the thread and return its result, in errors of ours.

        A caller that is cancelled leaves at once; the function still runs to its end. Raises `StorageError` after a
        fork and after `close`.
        """
        if os.getpid() != self._process:
            raise StorageError("the bank was opened before this process forked: open it anew in the child")

        def guarded() -> T:
            with storage_errors(self._module, self._database):
                self._check()
                return function(self._host.hosted)

        work = asyncio.ensure_future(self._host.run(guarded))
        work.add_done_callback(_seen)
        return await asyncio.shield(work)

    async def close(self, closing: "Callable[[Connection], None]") -> None:
        """Run `closing`, which closes the connection, and end the thread."""
        if os.getpid() != self._process:
            return
        if self._connected:
            with suppress(StoreReplaced):
                await self.run(closing)
        await asyncio.shield(self._host.close())

    def _check(self) -> None:
        """Raise `StoreReplaced` when the connection is gone, or what it opened is."""
        if not self._connected:
            raise StoreReplaced(f"{self._database} is not open")
        self.opened.note()
        if self.opened.look() == "log lost" and not self._writes and not self.opened.log_is_there():
            return  # the deleted log still tells a reader all; the writer will see to it
        self.opened.check()

    @property
    def is_right(self) -> bool:
        """Whether the connection is open on what lies at its path."""
        return self._connected and self.opened.look() == "same"

    async def disconnect(self) -> None:
        """Close the connection for `reconnect`. A log that was deleted is written into the database first."""

        def disconnect() -> None:
            if self._connected:
                self._connected = False
                with storage_errors(self._module, self._database):
                    if self._writes and self.opened.look() == "log lost":
                        self._save_log()
                    self._host.hosted.close()

        await asyncio.shield(asyncio.ensure_future(self._host.run(disconnect)))

    async def reconnect(self) -> None:
        """Open what lies at the path now. Raises what connecting raises; then the thread stays without a connection."""

        def reconnect() -> None:
            opened = OpenedFile(self._database)
            self._host.host(self._again())
            self.opened, self._connected = opened, True

        await asyncio.shield(asyncio.ensure_future(self._host.run(reconnect)))

    def _save_log(self) -> None:
        """Write the deleted log, which only open connections still see, into the database."""
        with writer_lock(self._database, SAVE_WAIT_S):
            if self.opened.log_is_new():
                log.error(
                    "the log of %s was deleted while it was open, and another process has begun a new one: what was "
                    "written last may be lost unless that process saved it",
                    self._database,
                )
            else:
                truncate_wal(self._host.hosted)


def _seen(work: "asyncio.Future[T]") -> None:
    """Look at the error of work whose caller is gone, so that asyncio does not complain of it."""
    if not work.cancelled():
        work.exception()
