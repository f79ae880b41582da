"""What the stores stand on, whichever engine holds the bank: whole functions run with a connection, off the loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from swarm_memory.server.storage.search.codes import Quantization
from swarm_memory.server.storage.search.index import Index
from swarm_memory.tools.ports.models import Accompanied, Embedder

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")
P = ParamSpec("P")

_author: ContextVar[str | None] = ContextVar("author", default=None)


def author() -> str | None:
    """Return the id of the person for whom this transaction runs, which every new row carries; None: the bank's own."""
    return _author.get()


@contextmanager
def writing_as(person_id: str | None) -> Generator[None]:
    """Have the rows that a block writes carry a person's id."""
    before = _author.set(person_id)
    try:
        yield
    finally:
        _author.reset(before)


FORKED = "the bank was opened before this process forked: open it again in the child"


class Engine(ABC):
    """An open bank: each function that is given runs to its end, and a cancelled caller breaks none."""

    person_id: str | None = None
    """For whom it writes; None: the bank's own user."""

    def __init__(self, embedder: Embedder, index: Index) -> None:
        self.index = index
        """The indexes of the memories."""
        self._embedder = embedder
        self.light = embedder.light if isinstance(embedder, Accompanied) else None

    def quantization_of(self, embedder: str) -> Quantization:
        """Return how the vectors of an embedder's space are kept when the space is new."""
        for known in (self._embedder, self.light):
            if known is not None and known.name == embedder:
                return known.quantization
        return "float32"

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""

    @abstractmethod
    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function that only reads. Raises `StorageError`, as all of these do."""

    async def read_beside(self, function: "Callable[[Connection], T]") -> T:
        """The same, for what can be read at the same time: on a second connection where there is but one for reads."""
        return await self.read(function)

    async def write(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction, whose new rows name the person for whom this bank is open.

        Raises `StoreBusy`, `StoreReadOnly`.
        """

        def authored(connection: "Connection") -> T:
            with writing_as(self.person_id):
                return function(connection)

        return await self.transact(authored)

    @abstractmethod
    async def transact(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction, which sees what every earlier one in its scope wrote."""

    @abstractmethod
    async def truncate_log(self) -> bool:
        """Take what was deleted out of the engine's log too, where that is the bank's own; False when it could not."""

    @abstractmethod
    async def close_threads(self) -> None:
        """Close every connection."""


class Part:
    """A store that stands beside those that the bank itself is."""

    def __init__(self, bank: Engine) -> None:
        self.bank = bank
        self.read, self.read_beside, self.write = bank.read, bank.read_beside, bank.write


S = TypeVar("S", bound=Engine | Part)


Method: TypeAlias = "Callable[Concatenate[S, Connection, P], T]"
Door: TypeAlias = "Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]"


def _through(name: Literal["read", "read_beside", "write"], method: "Method[S, P, T]") -> "Door[S, P, T]":
    @wraps(method)
    async def run(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        def call(connection: "Connection") -> T:
            return method(self, connection, *args, **kwargs)

        return await getattr(self, name)(call)

    return run


def reads(method: "Method[S, P, T]") -> "Door[S, P, T]":
    """Have a method, which gets the connection, run by `Engine.read`."""
    return _through("read", method)


def reads_beside(method: "Method[S, P, T]") -> "Door[S, P, T]":
    """Have a method run by `Engine.read_beside`."""
    return _through("read_beside", method)


def writes(method: "Method[S, P, T]") -> "Door[S, P, T]":
    """Have a method run by `Engine.write`."""
    return _through("write", method)
