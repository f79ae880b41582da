"""The bank for one prompt that no server answers: what a prompt asks for, on one connection.

There is no thread and no event loop, and no store is loaded that a prompt does not need: that takes longer than it all.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from swarm_memory.schema.errors import StorageError, StoreReadOnly
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import close, connect, storage_errors, write_transaction
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.jobs import Jobs
from swarm_memory.server.storage.stores.journal import Journal
from swarm_memory.server.storage.stores.memories import Memories
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.models import Embedder

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import SqliteConnection
    from swarm_memory.server.storage.stores.team.sharing import SharedMemories

T = TypeVar("T")

WRITES_WAIT_S = 2.0
"""So long the writes of a hook wait for another process, all together: a person waits for them."""

log = logging.getLogger(__name__)


class HookStore(Memories, Jobs, Journal):
    """One bank in one file; nothing that is awaited of it waits for a loop."""

    team: "SharedMemories"
    """What a team shares; only where one does."""

    def __init__(self, path: Path, embedder: Embedder, sqlite: str, busy_timeout_s: float) -> None:
        """Open the bank as `open_store` does, but for vector indexes, which are not filled again. Raises as that."""
        driver = choose(sqlite)
        super().__init__(embedder, Index(driver.vec_version is not None, driver.reason))
        self._path, self._module = path, driver.module
        self._wait_s = min(busy_timeout_s, WRITES_WAIT_S)
        self._by: float | None = None
        self._read_only = False
        self.unwritable = []
        try:
            self._connection = connect(path, driver=driver, timeout_s=self._wait_s)
        except StoreReadOnly:
            if not path.exists():
                raise
            self._connection = connect(path, driver=driver, read_only=True, timeout_s=self._wait_s)
            self._read_only = True

    @property
    def read_only(self) -> bool:
        """Whether this user may only read the bank."""
        return self._read_only

    async def read(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function that only reads. Raises `StorageError`."""
        with storage_errors(self._module, self._path):
            return function(self._connection)

    async def read_beside(self, function: "Callable[[SqliteConnection], T]") -> T:
        """The same: there is one connection."""
        return await self.read(function)

    async def transact(self, function: "Callable[[SqliteConnection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""
        if self._read_only:
            raise StoreReadOnly(f"{self._path} can only be read: give this user the file and its folder")
        now = time.monotonic()
        self._by = self._by or now + self._wait_s
        with (
            storage_errors(self._module, self._path),
            write_transaction(self._connection, self._path, max(0.0, self._by - now)),
        ):
            return function(self._connection)

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        """Write the record. Raises `StorageError`, which is logged."""
        try:
            if not self._read_only:
                await self.write_records([record])
        except StorageError as error:
            log.warning("a retrieval was not recorded: %s", error)
            raise

    async def truncate_log(self) -> bool:
        """Say that it was not done: nothing is deleted here."""
        return False

    async def close_threads(self) -> None:
        """Close the connection: the last one folds the log into the database."""
        with storage_errors(self._module, self._path):
            if self._read_only:
                self._connection.close()
            else:
                close(self._connection, self._path)

    close = close_threads
