"""How the ports of a bank reach its database: one thread that writes, two that read."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

T = TypeVar("T")


class Access(Protocol):
    """The threads of one open bank. All errors are `StorageError`s."""

    @property
    def index(self) -> Index:
        """Whether this process has sqlite-vec, and the bank's own indexes."""
        ...

    def quantization_of(self, embedder: str) -> Quantization:
        """Return how the vectors of an embedder's space are kept when the space is new."""
        ...

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function that only reads."""
        ...

    async def read_beside(self, function: "Callable[[Connection], T]") -> T:
        """The same on a second connection, for what can be read at the same time."""
        ...

    async def write(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""
        ...

    async def truncate_log(self) -> bool:
        """Write the log into the database and empty it, so that nothing of what was deleted is left in it.

        False when a reader stood in the way.
        """
        ...
