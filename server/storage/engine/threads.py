"""The threads of one open bank: what runs where, under which lock, and what happens when its files are replaced."""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiosqlite

from swarm_memory.schema.errors import StorageError, StoreFull, StoreReadOnly, StoreReplaced
from swarm_memory.server.storage.driver import Driver, SqliteConnection
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import (
    close,
    connect,
    is_being_written,
    storage_errors,
    truncate_wal,
    write_transaction,
    writing,
)
from swarm_memory.server.storage.engine.engine import FORKED, Engine, writing_as
from swarm_memory.server.storage.engine.files import FileIdentity, inode_of, size_of, writer_lock
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.words import contains_text
from swarm_memory.tools.ports.models import Embedder

T = TypeVar("T")

END_WAIT_S = 2.0
"""Seconds to wait for the thread of a connection that failed to open."""

SAVE_WAIT_S = 10.0

MAX_REOPENINGS = 5
"""More than one: while a bank is being reopened, yet another process can be killed in a write."""

log = logging.getLogger(__name__)


class ConnectionThread(aiosqlite.Connection):
    """One connection on aiosqlite's thread, which runs whole functions one after another, without interruption.

    No function runs on a file that is no longer the one at its path: `StoreReplaced` is raised before anything is done.
    """

    def __init__(self, database: Path, driver: Driver, timeout_s: float, *, writes: bool) -> None:
        super().__init__(partial(self._reach, create=True), 64)
        self._thread.daemon = True  # an open connection must not keep the process alive
        self._process = os.getpid()
        self._database, self._driver, self._timeout_s, self._writes = database, driver, timeout_s, writes
        self._reached: SqliteConnection | None = None
        self._log = f"{database}-wal"
        self.opened = FileIdentity(database)
        """The files that the connection opened, for a check under the writer lock."""

    async def open(self) -> None:
        """Connect on the thread; a writer creates the bank if there is none. Raises what connecting raises."""
        try:
            await self
        except BaseException:
            # The thread still answers to this loop, which the caller may be about to close. The wait blocks, because
            # a cancelled caller that awaited the thread would be cancelled again immediately.
            self._thread.join(END_WAIT_S)
            self._reached = None
            raise

    async def run(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function on the thread to completion. Raises `StorageError`, also after a fork and after `close`."""
        return await self._do(partial(self._guarded, function))

    async def reconnect(self) -> None:
        """Open the file that is at the path now. Raises what connecting raises; then the thread has no connection."""
        await self._do(partial(self._reach, create=False))

    async def disconnect(self) -> None:
        """Close the connection; nothing runs until `reconnect`."""
        if self._reached is not None and os.getpid() == self._process:
            await self._do(self._leave)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        try:
            await self.disconnect()
        finally:
            if os.getpid() == self._process:
                await asyncio.shield(super().close())

    @property
    def is_right(self) -> bool:
        """Whether the connection is open on the files now at its path, and these are as they were last noted."""
        return self._reached is not None and self.opened.look() == "same" and registry.is_as_noted(self._database)

    async def _do(self, function: Callable[[], T]) -> T:
        if os.getpid() != self._process:
            raise StorageError(FORKED)
        try:
            return await asyncio.shield(self._execute(function))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except ValueError as error:
            if str(error) != "Connection closed":
                raise
            raise StorageError("the bank is closed") from error

    def _reach(self, *, create: bool) -> SqliteConnection:
        opened = FileIdentity(self._database)
        connection = connect(
            self._database, driver=self._driver, read_only=not self._writes, create=create, timeout_s=self._timeout_s
        )
        if not self._writes:
            connection.create_function("says", 2, contains_text, deterministic=True)
        opened.note()
        self._reached, self.opened = connection, opened
        return connection

    def _guarded(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function with the connection. Raises `StoreReplaced` if it is closed, or its files were changed."""
        with storage_errors(self._driver.module, self._database):
            if self._reached is None:
                raise StoreReplaced(f"{self._database} is not open")
            self.opened.note()
            found = self.opened.look()
            # A reader still has the deleted log; the writer will deal with the loss.
            if found == "moved" or (found == "log lost" and (self._writes or inode_of(self._log) is not None)):
                self.opened.check(found)
            is_left = self._writes or registry.is_as_noted(self._database, with_log=False)  # a write checks this itself
            if not (is_left or is_being_written(self._database)):
                raise StoreReplaced(f"{self._database} was changed while it was open")
            return function(self._reached)

    def _leave(self) -> None:
        connection, self._reached = self._reached, None
        if connection is None:  # another caller closed it meanwhile
            return
        found = self.opened.look()
        with storage_errors(self._driver.module, self._database):
            if self._writes and found == "same":
                close(connection, self._database)
                return
            if self._writes and found == "log lost":
                with writer_lock(self._database, SAVE_WAIT_S):
                    if size_of(self._log):
                        log.error(
                            "the log of %s was deleted while it was open, and another process has begun a new one: "
                            "what was written last may be lost unless that process saved it",
                            self._database,
                        )
                    else:  # only open connections still see the deleted log
                        truncate_wal(connection)
            connection.close()


class BankThreads(Engine):
    """Runs writes one after another on one thread, and reads on another, where they never wait for writes."""

    def __init__(self, path: Path, driver: Driver, embedder: Embedder, busy_timeout_s: float) -> None:
        super().__init__(embedder, Index(driver.vec_version is not None, driver.reason))
        self._path, self._driver, self._busy_timeout_s = path, driver, busy_timeout_s
        self._writer: ConnectionThread | None = ConnectionThread(path, driver, busy_timeout_s, writes=True)
        self._reader = ConnectionThread(path, driver, busy_timeout_s, writes=False)
        self._opening_again = asyncio.Lock()

    async def open_threads(self) -> None:
        """Connect to the bank in the file, creating it if it does not exist.

        Raises `StoreUntrusted` for a file that is not one of our banks, and `StorageError`. If this user may only
        read, or the disk is full, there is no writer.
        """
        assert self._writer is not None
        try:
            try:
                await self._writer.open()
            except (StoreReadOnly, StoreFull):
                self._writer = None
                if not await asyncio.to_thread(size_of, str(self._path)):
                    raise
            await self._reader.open()
        except BaseException:
            await self.close_threads()
            raise

    @property
    def _threads(self) -> tuple[ConnectionThread, ...]:
        """Every thread, the writer last: when it closes, it checkpoints the log into the database."""
        return tuple(each for each in (self._reader, self._writer) if each is not None)

    @property
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""
        return self._writer is None

    async def read(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function that only reads. Raises `StorageError`, as all of these methods do."""
        return await self._run(self._reader, function)

    async def write(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""

        def transaction(connection: SqliteConnection) -> T:
            opened = None if self._writer is None else self._writer.opened
            locked = write_transaction(connection, self._path, self._busy_timeout_s, opened)
            with locked, writing_as(self.person_id):
                return function(connection)

        return await self.on_writer(transaction)

    async def on_writer(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function on the writer's thread without a transaction. Raises `StoreReadOnly`."""
        if self._writer is None:
            raise StoreReadOnly(
                f"{self._path} is not writable: give this user write permission on it and its folder, and disk space"
            )
        return await self._run(self._writer, function)

    async def truncate_log(self) -> bool:
        """Checkpoint the log into the database and empty it, so that nothing that was deleted is left in it.

        Return False when a reader prevented it.
        """

        def truncate(connection: SqliteConnection) -> bool:
            with writing(self._path, self._busy_timeout_s):
                return truncate_wal(connection, for_good=True)

        return await self.on_writer(truncate)

    async def close_threads(self) -> None:
        """Close every connection."""
        for thread in self._threads:
            await thread.close()

    async def _run(self, thread: ConnectionThread, function: Callable[[SqliteConnection], T]) -> T:
        """Run a function on a thread; if the bank's files were replaced, reopen them and run it on the new ones."""
        for _ in range(MAX_REOPENINGS):
            try:
                return await thread.run(function)
            except StoreReplaced:
                await self._open_again()
            except StoreReadOnly:
                writer = self._writer
                if writer is None or thread is writer:
                    raise
                # Another process was cut off in a write with a rollback journal: only a writer can undo that.
                await writer.run(lambda connection: connection.execute("PRAGMA schema_version").fetchone())
                break
        return await thread.run(function)

    async def _open_again(self) -> None:
        """Close every connection before reopening any: those of one process share what they know of a log."""
        async with self._opening_again:
            if all(thread.is_right for thread in self._threads):
                return
            is_lost = any(thread.opened.look() != "same" for thread in self._threads)  # else a process was killed
            for thread in self._threads:
                await thread.disconnect()
            for thread in self._threads:
                await thread.reconnect()
            level = logging.WARNING if is_lost else logging.INFO
            log.log(level, "%s was replaced, or its log deleted, while it was open: it was opened again", self._path)
