"""The base of the stores on either engine, which runs whole functions with a connection, off the event loop; and the
recorder, which gathers records for a moment, writes them in the background, and retries while the bank is busy.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.ports.records import ChatRecord

T = TypeVar("T")
P = ParamSpec("P")

_author: ContextVar[str | None] = ContextVar("author", default=None)


def author() -> str | None:
    """Return the id of the person this transaction runs for, which every new row carries; None: the bank's own user."""
    return _author.get()


@contextmanager
def writing_as(person_id: str | None) -> Generator[None]:
    """Attribute the rows that the block writes to a person."""
    before = _author.set(person_id)
    try:
        yield
    finally:
        _author.reset(before)


FORKED = "the bank was opened before this process forked: open it again in the child"


class Engine(ABC):
    """An open bank. Each function that it is given runs to completion, even if the caller is cancelled."""

    person_id: str | None = None
    """The person it writes for; None: the bank's own user."""
    recorder: "WriteBehindQueue"

    def __init__(self, embedder: Embedder, index: Index) -> None:
        self.index = index
        """The indexes of the memories."""
        self._embedder = embedder
        self.light = embedder.light
        self.unwritable: list[ChatRecord] = []
        """Calls to chat models that a read-only bank cannot record: only this process knows of them."""

    def quantization_of(self, embedder: str) -> Quantization:
        """Return the quantization with which a new space for an embedder's vectors is made."""
        for known in (self._embedder, self.light):
            if known is not None and known.name == embedder:
                return known.quantization
        return "float32"

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""

    @abstractmethod
    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run a function that only reads. Raises `StorageError`, as all of these methods do."""

    @abstractmethod
    async def write(self, function: Callable[[Connection], T]) -> T:
        """Run a function in one transaction, which sees what every earlier one in its scope wrote.

        New rows carry the id of the person this bank is open for. Raises `StoreBusy`, `StoreReadOnly`.
        """

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        """Queue the record; it is written in the background, at the latest when the bank closes."""
        if not self.read_only:
            self.recorder.add(record._replace(person_id=self.person_id))

    def record_chat(self, record: ChatRecord) -> None:
        """Queue the record as `record_retrieval` does; a read-only bank keeps it in `unwritable`."""
        if self.read_only:
            self.unwritable.append(record)
        else:
            self.recorder.add(record)

    @abstractmethod
    async def truncate_log(self) -> bool:
        """Remove what was deleted from the engine's log too, if the log is the bank's own; False when that failed."""

    @abstractmethod
    async def close_threads(self) -> None:
        """Close every connection."""


class Part:
    """A store that is an attribute of the bank rather than one of its base classes."""

    def __init__(self, bank: Engine) -> None:
        self.bank = bank
        self.read, self.write = bank.read, bank.write


S = TypeVar("S", bound=Engine | Part)


Method: TypeAlias = "Callable[Concatenate[S, Connection, P], T]"
AsyncMethod: TypeAlias = "Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]"


def _run_by(name: Literal["read", "write"]) -> "Callable[[Method[S, P, T]], AsyncMethod[S, P, T]]":
    """Return a decorator that makes `Engine.<name>` run a method and pass it the connection."""

    def door(method: "Method[S, P, T]") -> "AsyncMethod[S, P, T]":
        @wraps(method)
        async def run(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
            run_in: Callable[[Callable[[Connection], T]], Awaitable[T]] = getattr(self, name)
            return await run_in(lambda connection: method(self, connection, *args, **kwargs))

        return run

    return door


reads, writes = _run_by("read"), _run_by("write")
"""Decorators for the methods of stores: a decorated method is called without the connection, and awaited."""


Record = RetrievalRecord | ChatRecord

MAX_WAITING = 1000
GATHER_S, RETRY_S, CLOSE_LIMIT_S = 0.2, 0.5, 2.0

log = logging.getLogger(__name__)


class WriteBehindQueue:
    """Gathers records for a moment and passes them to `write` in one batch; retries while the database is busy."""

    def __init__(self, write: Callable[[Sequence[Record]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: deque[Record] = deque()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self.dropped = 0
        """How many records were given up because too many were waiting."""

    @property
    def waiting(self) -> tuple[Record, ...]:
        """Records that are not written yet."""
        return tuple(self._waiting)

    def add(self, record: Record) -> None:
        """Queue a record; the oldest is dropped when too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(record)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_behind())

    async def settle(self) -> None:
        """Wait, for at most two seconds, until what is queued is written."""
        if self._task is not None and not self._task.done():
            self._wanted.set()
            await asyncio.wait([self._task], timeout=CLOSE_LIMIT_S)

    async def close(self) -> None:
        """Write what is queued, for at most two seconds; the rest is lost, and a warning is logged."""
        await self.settle()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._waiting:
            log.warning("%d records were not written: time is up", len(self._waiting))

    async def _write_behind(self) -> None:
        wait_s, most = GATHER_S, MAX_WAITING
        while self._waiting:
            # More records may come; stop waiting for them once a caller waits for those already queued.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            self._wanted.clear()
            batch = list(self._waiting)[:most]
            try:
                await self._write(batch)
            except StorageError as error:
                log.info("records wait to be written: %s", error)
                wait_s = RETRY_S
                continue
            except InputError as error:  # a record that the database cannot hold must not block the others
                if len(batch) > 1:
                    wait_s, most = 0.0, 1
                    continue
                log.warning("a record was not written: %s", error)
            for record in batch:
                if self._waiting and self._waiting[0] is record:  # the oldest may have been dropped meanwhile
                    self._waiting.popleft()
            wait_s = GATHER_S if most > 1 else 0.0
