"""How the stores of a bank reach its database: one thread that writes, two that read."""

from collections.abc import Callable
from functools import wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

T = TypeVar("T")
P = ParamSpec("P")


class Threads(Protocol):
    """Runs functions on the connections of one open bank. All errors are `StorageError`s."""

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function that only reads."""
        ...

    async def read_beside(self, function: "Callable[[Connection], T]") -> T:
        """The same on a second connection, for what can be read at the same time."""
        ...

    async def write(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""
        ...


class Access(Threads, Protocol):
    """All that the stores of one bank share."""

    @property
    def index(self) -> Index:
        """Whether this process has sqlite-vec, and the indexes of the memories."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""
        ...

    def quantization_of(self, embedder: str) -> Quantization:
        """Return how the vectors of an embedder's space are kept when the space is new."""
        ...

    async def truncate_log(self) -> bool:
        """Write the log into the database and empty it, so that nothing of what was deleted is left in it.

        False when a reader stood in the way.
        """
        ...


class Part:
    """A store that stands beside those that the bank itself is."""

    def __init__(self, bank: Access) -> None:
        self.bank = bank
        self.read, self.read_beside, self.write = bank.read, bank.read_beside, bank.write


S = TypeVar("S", bound=Threads)


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
