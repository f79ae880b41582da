"""Connections of the bank on threads of their own: whole functions run there, and a cancelled caller breaks none."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import aiosqlite

from swarm_memory.schema.errors import StorageError
from swarm_memory.server.storage.connection import storage_errors

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")

END_WAIT_S = 2.0
"""How long the thread of a connection that failed to open is waited for."""


class ConnectionThread:
    """One connection on one daemon thread. Functions run one after another, each to its end."""

    def __init__(self, database: Path, module: ModuleType, connection: aiosqlite.Connection) -> None:
        self._database = database
        self._module = module
        self._connection = connection
        self._process = os.getpid()

    @classmethod
    async def open(
        cls, database: Path, module: ModuleType, connector: "Callable[[], Connection]"
    ) -> "ConnectionThread":
        """Connect on a new thread. Raises what `connector` raises."""
        connection = aiosqlite.Connection(connector, 64)
        # An open connection must not keep the process alive: aiosqlite's thread is none that ends by itself.
        thread = connection._thread  # pyright: ignore[reportPrivateUsage]
        thread.daemon = True
        try:
            return cls(database, module, await connection)
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
                return function(self._connection._conn)  # pyright: ignore[reportPrivateUsage]

        try:
            # The only way to run a whole transaction in one go; each public call would be a step of its own.
            return await self._connection._execute(guarded)  # pyright: ignore
        except ValueError as error:
            if str(error) != "Connection closed":
                raise
            raise StorageError("the bank is closed") from error


def _seen(work: "asyncio.Future[T]") -> None:
    """Look at the error of work whose caller is gone, so that asyncio does not complain of it."""
    if not work.cancelled():
        work.exception()
