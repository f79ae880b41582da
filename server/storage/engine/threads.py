"""The threads of one open bank: what runs where, under which lock, and what happens when its files are replaced."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial, wraps
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from swarm_memory.schema.errors import StoreReadOnly, StoreReplaced
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine.connection import close, connect, truncate_wal, write_transaction
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.engine.worker import ConnectionThread
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization
from swarm_memory.server.storage.search.words import says
from swarm_memory.tools.ports.models import Embedder

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")
P = ParamSpec("P")

log = logging.getLogger(__name__)


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


async def open_threads(path: Path, driver: Driver, *, create: bool, timeout_s: float) -> Threads:
    """Connect to the bank in a file, which is made when it is not there and `create` says so.

    Raises `StoreUntrusted` for a file that is no bank of ours, `StorageError`. Where this user may only read, there is
    no writer.
    """
    writer: ConnectionThread | None = None
    try:
        writer = await ConnectionThread.open(
            path,
            driver.module,
            lambda: connect(path, driver=driver, create=create, timeout_s=timeout_s),
            again=lambda: connect(path, driver=driver, create=False, timeout_s=timeout_s),
            writes=True,
        )
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
    def open_connection() -> "Connection":
        connection = connect(path, driver=driver, read_only=True, timeout_s=timeout_s)
        connection.create_function("says", 2, says, deterministic=True)
        return connection

    reader = await ConnectionThread.open(path, driver.module, open_connection)
    opened.push_async_callback(reader.close, _close)
    return reader


def _close(connection: "Connection") -> None:
    connection.close()


def _look(connection: "Connection") -> None:
    connection.execute("PRAGMA schema_version").fetchone()


class BankThreads:
    """Writes run one after another on one thread, reads on two others and never wait for them."""

    def __init__(
        self, path: Path, driver: Driver, index: Index, embedder: Embedder, threads: Threads, busy_timeout_s: float
    ) -> None:
        self._path = path
        self._driver = driver
        self._index = index
        self._embedder = embedder
        self._threads = threads
        self._busy_timeout_s = busy_timeout_s
        self._opening_again = asyncio.Lock()

    @property
    def index(self) -> Index:
        """Whether this process has sqlite-vec, and the indexes of the memories."""
        return self._index

    @property
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""
        return self._threads.writer is None

    def quantization_of(self, embedder: str) -> Quantization:
        """Return how the vectors of an embedder's space are kept when the space is new."""
        return self._embedder.quantization if embedder == self._embedder.name else "float32"

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function that only reads. Raises `StorageError`, as all of these do."""
        return await self._run(self._threads.reader, function)

    async def read_beside(self, function: "Callable[[Connection], T]") -> T:
        """The same on a second connection, for what can be read at the same time."""
        return await self._run(self._threads.beside, function)

    async def write(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""

        def transaction(connection: "Connection") -> T:
            opened = None if self._threads.writer is None else self._threads.writer.opened
            with write_transaction(connection, self._path, self._busy_timeout_s, opened):
                return function(connection)

        return await self.on_writer(transaction)

    async def on_writer(self, function: "Callable[[Connection], T]") -> T:
        """Run a function on the writer's thread without a transaction. Raises `StoreReadOnly`."""
        if self._threads.writer is None:
            raise StoreReadOnly(f"{self._path} can only be read: give this user the file and its folder")
        return await self._run(self._threads.writer, function)

    async def truncate_log(self) -> bool:
        """Write the log into the database and empty it, so that nothing of what was deleted is left in it.

        False when a reader stood in the way.
        """

        def truncate(connection: "Connection") -> bool:
            with writer_lock(self._path, self._busy_timeout_s):
                return truncate_wal(connection, for_good=True)

        return await self.on_writer(truncate)

    async def close_threads(self) -> None:
        """Close every connection, the writer last: it folds the log into the database."""
        for reader in (self._threads.reader, self._threads.beside):
            await reader.close(_close)
        if self._threads.writer is not None:
            await self._threads.writer.close(partial(close, database=self._path))

    async def _run(self, thread: ConnectionThread, function: "Callable[[Connection], T]") -> T:
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
            log.warning("%s was replaced, or its log deleted, while it was open: it was opened anew", self._path)


class Part:
    """A store that stands beside those that the bank itself is."""

    def __init__(self, bank: BankThreads) -> None:
        self.bank = bank
        self.read, self.read_beside, self.write = bank.read, bank.read_beside, bank.write


class Runs(Protocol):
    """What runs functions on the connections of a bank: the bank itself, or a part of it."""

    async def read(self, function: "Callable[[Connection], T]") -> T: ...

    async def read_beside(self, function: "Callable[[Connection], T]") -> T: ...

    async def write(self, function: "Callable[[Connection], T]") -> T: ...


S = TypeVar("S", bound=Runs)


def reads(
    method: "Callable[Concatenate[S, Connection, P], T]",
) -> "Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]":
    """Have a method, which gets the connection, run on the thread that reads."""

    @wraps(method)
    async def run(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(_call(method, self, *args, **kwargs))

    return run


def reads_beside(
    method: "Callable[Concatenate[S, Connection, P], T]",
) -> "Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]":
    """The same on the second thread that reads."""

    @wraps(method)
    async def run(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read_beside(_call(method, self, *args, **kwargs))

    return run


def writes(
    method: "Callable[Concatenate[S, Connection, P], T]",
) -> "Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]":
    """Have a method, which gets the connection, run in one transaction on the thread that writes."""

    @wraps(method)
    async def run(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(_call(method, self, *args, **kwargs))

    return run


def _call(
    method: "Callable[Concatenate[S, Connection, P], T]", store: S, *args: P.args, **kwargs: P.kwargs
) -> "Callable[[Connection], T]":
    def call(connection: "Connection") -> T:
        return method(store, connection, *args, **kwargs)

    return call
