"""The threads of one open bank: what runs where, under which lock, and what happens when its files are replaced.

Whole functions run on a connection's thread, and a cancelled caller breaks none.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import aiosqlite

from swarm_memory.schema.errors import StorageError, StoreReadOnly, StoreReplaced
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine.connection import (
    close,
    connect,
    storage_errors,
    truncate_wal,
    write_transaction,
)
from swarm_memory.server.storage.engine.engine import Engine
from swarm_memory.server.storage.engine.files import OpenedFile
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.engine.registry import mark_file
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.words import says
from swarm_memory.tools.ports.models import Embedder

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection

T = TypeVar("T")

READ_CACHE_KB = 16_000
"""Pages that a reader keeps. With SQLite's 2 MB a search of 100,000 memories reads most of its pages again."""

END_WAIT_S = 2.0
"""How long the thread of a connection that failed to open is waited for."""

SAVE_WAIT_S = 10.0

log = logging.getLogger(__name__)


class _Host(aiosqlite.Connection):
    """aiosqlite's thread, on which a whole function runs in one go; nothing else touches what is inside aiosqlite."""

    def __init__(self, connector: "Callable[[], SqliteConnection]") -> None:
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
    def hosted(self) -> "SqliteConnection":
        """The connection, for what runs on the thread."""
        return self._conn

    def host(self, connection: "SqliteConnection") -> None:
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
        connector: "Callable[[], SqliteConnection]",
        *,
        again: "Callable[[], SqliteConnection] | None" = None,
        writes: bool = False,
    ) -> None:
        """`again` connects to what was put in the file's place; without it `connector` does."""
        self._database = database
        self._module = module
        self._again = again or connector
        self._writes = writes
        self._process = os.getpid()
        self._connected = True
        self.opened = OpenedFile(database, str(mark_file(database)))
        """What the connection opened, for a look under the writer lock."""
        self._host = _Host(connector)

    async def open(self) -> Self:
        """Connect on a new thread. Raises what connecting raises."""
        await self._host.open()
        return self

    async def run(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function on the thread and return its result, in errors of ours.

        A caller that is cancelled leaves at once; the function still runs to its end. Raises `StorageError` after a
        fork and after `close`.
        """
        if os.getpid() != self._process:
            raise StorageError("the bank was opened before this process forked: open it again in the child")

        def guarded() -> T:
            with storage_errors(self._module, self._database):
                self._check()
                return function(self._host.hosted)

        return await self._host.run(guarded)

    async def close(self, closing: "Callable[[SqliteConnection], None]") -> None:
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
        found = self.opened.look()
        if found == "log lost" and not self._writes and not self.opened.log_is_there():
            return  # the deleted log still tells a reader all; the writer will see to it
        self.opened.check(found)

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
            opened = OpenedFile(self._database, self.opened.mark_file)
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


class Threads(NamedTuple):
    """The connections of one bank, each on a thread of its own."""

    writer: ConnectionThread | None
    """None where this user may only read."""
    reader: ConnectionThread
    beside: ConnectionThread
    """A second reader, for what can be read at the same time."""

    @property
    def all(self) -> tuple[ConnectionThread, ...]:
        """Every thread there is, the writer first."""
        return tuple(thread for thread in self if thread is not None)


async def open_threads(path: Path, driver: Driver, timeout_s: float) -> Threads:
    """Connect to the bank in a file, which is made when it is not there.

    Raises `StoreUntrusted` for a file that is no bank of ours, `StorageError`. Where this user may only read, there is
    no writer.
    """
    writer: ConnectionThread | None = None
    try:
        writer = await ConnectionThread(
            path,
            driver.module,
            lambda: connect(path, driver=driver, timeout_s=timeout_s),
            again=lambda: connect(path, driver=driver, create=False, timeout_s=timeout_s),
            writes=True,
        ).open()
    except StoreReadOnly:
        if not await asyncio.to_thread(path.exists):
            raise
    async with AsyncExitStack() as opened:
        if writer is not None:
            opened.push_async_callback(writer.close, partial(close, database=path))
        reader, beside = [await _open_reader(path, driver, timeout_s, opened) for _ in range(2)]
        opened.pop_all()
    return Threads(writer, reader, beside)


async def _open_reader(path: Path, driver: Driver, timeout_s: float, opened: AsyncExitStack) -> ConnectionThread:
    def open_connection() -> "SqliteConnection":
        connection = connect(path, driver=driver, read_only=True, timeout_s=timeout_s)
        connection.create_function("says", 2, says, deterministic=True)
        connection.execute(f"PRAGMA cache_size = -{READ_CACHE_KB}")
        return connection

    reader = await ConnectionThread(path, driver.module, open_connection).open()
    opened.push_async_callback(reader.close, _close)
    return reader


def _close(connection: "SqliteConnection") -> None:
    connection.close()


def _look(connection: "SqliteConnection") -> None:
    connection.execute("PRAGMA schema_version").fetchone()


class BankThreads(Engine):
    """Writes run one after another on one thread, reads on two others and never wait for them."""

    def __init__(self, path: Path, driver: Driver, embedder: Embedder, threads: Threads, busy_timeout_s: float) -> None:
        super().__init__(embedder, Index(driver.vec_version is not None, driver.reason))
        self._path = path
        self._driver = driver
        self._threads = threads
        self._busy_timeout_s = busy_timeout_s
        self._opening_again = asyncio.Lock()

    @property
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""
        return self._threads.writer is None

    async def read(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function that only reads. Raises `StorageError`, as all of these do."""
        return await self._run(self._threads.reader, function)

    async def read_beside(self, function: "Callable[[SqliteConnection], T]") -> T:
        """The same on a second connection, for what can be read at the same time."""
        return await self._run(self._threads.beside, function)

    async def transact(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""

        def transaction(connection: "SqliteConnection") -> T:
            opened = None if self._threads.writer is None else self._threads.writer.opened
            with write_transaction(connection, self._path, self._busy_timeout_s, opened):
                return function(connection)

        return await self.on_writer(transaction)

    async def on_writer(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function on the writer's thread without a transaction. Raises `StoreReadOnly`."""
        if self._threads.writer is None:
            raise StoreReadOnly(f"{self._path} can only be read: give this user the file and its folder")
        return await self._run(self._threads.writer, function)

    async def truncate_log(self) -> bool:
        """Write the log into the database and empty it, so that nothing of what was deleted is left in it.

        False when a reader stood in the way.
        """

        def truncate(connection: "SqliteConnection") -> bool:
            with writer_lock(self._path, self._busy_timeout_s):
                return truncate_wal(connection, for_good=True)

        return await self.on_writer(truncate)

    async def close_threads(self) -> None:
        """Close every connection, the writer last: it folds the log into the database."""
        for reader in (self._threads.reader, self._threads.beside):
            await reader.close(_close)
        if self._threads.writer is not None:
            await self._threads.writer.close(partial(close, database=self._path))

    async def _run(self, thread: ConnectionThread, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function on a thread; when the bank's files were replaced, on what is there now."""
        try:
            return await thread.run(function)
        except StoreReplaced:
            await self._open_again()
            return await thread.run(function)
        except StoreReadOnly:
            writer = self._threads.writer
            if writer is None or thread is writer:
                raise
            # Another process was cut off in a write with a rollback journal: only one that could write can undo it.
            await writer.run(_look)
            return await thread.run(function)

    async def _open_again(self) -> None:
        """Close every connection before one is opened: those of one process share what they know of a log."""
        async with self._opening_again:
            if all(thread.is_right for thread in self._threads.all):
                return
            for thread in self._threads.all:
                await thread.disconnect()
            for thread in self._threads.all:
                await thread.reconnect()
            log.warning("%s was replaced, or its log deleted, while it was open: it was opened again", self._path)
