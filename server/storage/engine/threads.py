"""The threads of one open bank: what runs where, under which lock, and what happens when its files are replaced."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
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
from swarm_memory.server.storage.engine.engine import FORKED, Engine
from swarm_memory.server.storage.engine.files import OpenedFile, inode_of, size_of
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
    """aiosqlite's thread, on which a whole function runs in one go: a transaction and the reading of its rows."""

    def __init__(self, connector: "Callable[[], SqliteConnection]") -> None:
        super().__init__(connector, 64)
        self._thread.daemon = True  # an open connection must not keep the process alive
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process whose thread it is."""
        return os.getpid() != self._process

    async def open(self) -> None:
        """Start the thread and connect there. Raises what the connector raises."""
        try:
            await self
        except BaseException:
            # The thread still answers to this loop, which the caller may be about to close. A cancelled caller could
            # not await it: it is cancelled again at once.
            self._thread.join(END_WAIT_S)
            raise

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function on the thread, to its end. Raises `StorageError` after a fork and after `close`."""
        if self.forked:
            raise StorageError(FORKED)
        try:
            return await asyncio.shield(self._execute(function))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except ValueError as error:
            if str(error) != "Connection closed":
                raise
            raise StorageError("the bank is closed") from error


class ConnectionThread:
    """One connection on one thread. Functions run one after another.

    None runs on a file that is no longer the one at its path: `StoreReplaced` says so, before anything was done.
    """

    def __init__(self, database: Path, driver: Driver, timeout_s: float, *, writes: bool) -> None:
        self._database = database
        self._driver = driver
        self._timeout_s = timeout_s
        self._writes = writes
        self._host = _Host(partial(self._connect, create=True))
        self._connection: SqliteConnection | None = None
        self.opened = OpenedFile(database, str(mark_file(database)))
        """What the connection opened, for a look under the writer lock."""

    async def open(self) -> Self:
        """Connect on a new thread; a writer makes the bank where there is none. Raises what connecting raises."""
        await self._host.open()
        return self

    async def run(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function on the thread and return its result. Raises `StorageError`."""

        def guarded() -> T:
            with storage_errors(self._driver.module, self._database):
                return function(self._checked())

        return await self._host.run(guarded)

    async def reconnect(self) -> None:
        """Open what lies at the path now. Raises what connecting raises; then the thread stays without a connection."""
        await self._host.run(partial(self._connect, create=False))

    async def disconnect(self) -> None:
        """Close the connection; until `reconnect` nothing runs."""
        if not self._host.forked:
            await self._host.run(self._disconnect)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        try:
            await self.disconnect()
        finally:
            if not self._host.forked:
                await asyncio.shield(self._host.close())

    @property
    def is_right(self) -> bool:
        """Whether the connection is open on what lies at its path."""
        return self._connection is not None and self.opened.look() == "same"

    def _connect(self, *, create: bool) -> "SqliteConnection":
        opened = OpenedFile(self._database, self.opened.mark_file)
        connection = connect(
            self._database,
            driver=self._driver,
            read_only=not self._writes,
            create=create,
            timeout_s=self._timeout_s,
        )
        if not self._writes:
            connection.create_function("says", 2, says, deterministic=True)
            connection.execute(f"PRAGMA cache_size = -{READ_CACHE_KB}")
        self._connection, self.opened = connection, opened
        return connection

    def _checked(self) -> "SqliteConnection":
        """Return the connection. Raises `StoreReplaced` when it is gone, or what it opened is."""
        if self._connection is None:
            raise StoreReplaced(f"{self._database} is not open")
        self.opened.note()
        found = self.opened.look()
        # To a reader the deleted log is still there; the writer will see to it.
        if found != "log lost" or self._writes or inode_of(f"{self._database}-wal") is not None:
            self.opened.check(found)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        found = self.opened.look()
        with storage_errors(self._driver.module, self._database):
            if self._writes and found == "same":
                close(connection, self._database)
                return
            if self._writes and found == "log lost":
                self._save_log(connection)
            connection.close()

    def _save_log(self, connection: "SqliteConnection") -> None:
        """Write the deleted log, which only open connections still see, into the database."""
        with writer_lock(self._database, SAVE_WAIT_S):
            if size_of(f"{self._database}-wal"):
                log.error(
                    "the log of %s was deleted while it was open, and another process has begun a new one: what was "
                    "written last may be lost unless that process saved it",
                    self._database,
                )
            else:
                truncate_wal(connection)


class Threads(NamedTuple):
    """The connections of one bank, each on a thread of its own."""

    writer: ConnectionThread | None
    """None where this user may only read."""
    reader: ConnectionThread
    beside: ConnectionThread
    """A second reader, for what can be read at the same time."""

    @property
    def all(self) -> tuple[ConnectionThread, ...]:
        """Every thread there is, the writer last: closing, it folds the log into the database."""
        return tuple(thread for thread in (self.reader, self.beside, self.writer) if thread is not None)


async def open_threads(path: Path, driver: Driver, timeout_s: float) -> Threads:
    """Connect to the bank in a file, which is made when it is not there.

    Raises `StoreUntrusted` for a file that is no bank of ours, `StorageError`. Where this user may only read, there is
    no writer.
    """
    async with AsyncExitStack() as opened:
        writer: ConnectionThread | None = None
        try:
            writer = await ConnectionThread(path, driver, timeout_s, writes=True).open()
            opened.push_async_callback(writer.close)
        except StoreReadOnly:
            if not await asyncio.to_thread(path.exists):
                raise
        reader = await ConnectionThread(path, driver, timeout_s, writes=False).open()
        opened.push_async_callback(reader.close)
        beside = await ConnectionThread(path, driver, timeout_s, writes=False).open()
        opened.pop_all()
    return Threads(writer, reader, beside)


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
        """Close every connection."""
        for thread in self._threads.all:
            await thread.close()

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
            await writer.run(lambda connection: connection.execute("PRAGMA schema_version").fetchone())
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
