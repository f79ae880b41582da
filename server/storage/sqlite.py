"""The Store on SQLite: one bank in one file; the modules next to this one implement its parts."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from swarm_memory.schema.errors import StoreBusy
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.storage.driver import Connection, Driver, SqliteConnection, choose
from swarm_memory.server.storage.engine.backup import FORGET, back_up, back_up_day, drop_backups_with
from swarm_memory.server.storage.engine.connection import connect, storage_errors
from swarm_memory.server.storage.engine.engine import reads
from swarm_memory.server.storage.engine.files import size_of
from swarm_memory.server.storage.engine.threads import BankThreads
from swarm_memory.server.storage.inspection import Inspection, inspect
from swarm_memory.server.storage.search.vectors import all_spaces
from swarm_memory.server.storage.store import Store
from swarm_memory.server.storage.stores.forgetting import Traces, take_out_of_log
from swarm_memory.tools.ports.models import Embedder

T = TypeVar("T")

log = logging.getLogger(__name__)


async def open_store(
    path: Path, *, sqlite: str = "auto", busy_timeout_s: float = 10.0, embedder: Embedder
) -> "SqliteStore":
    """Open the bank in a file, creating it if it does not exist.

    Raises `ConfigError` when the driver that `sqlite` names cannot be used, `StoreUntrusted` for a file that is not one
    of our banks, and `StorageError`. A bank that this user may only read opens read-only.
    """
    driver = await asyncio.to_thread(choose, sqlite)
    store = SqliteStore(path, driver, embedder, busy_timeout_s)
    await store.open_threads()
    try:
        await store.refresh()
    except StoreBusy:
        log.info("the vector index is filled again later: %s is busy", path)
    except BaseException:
        await store.close()
        raise
    return store


class SqliteStore(BankThreads, Store):
    """One bank in one file."""

    def __init__(self, path: Path, driver: Driver, embedder: Embedder, busy_timeout_s: float) -> None:
        super().__init__(path, driver, embedder, busy_timeout_s)
        self.hold_stores()

    async def forget_outside(self, traces: Traces) -> None:
        """Replace the backups that hold what was forgotten with one without it; then remove it from both logs."""

        def forget_in_backups(connection: SqliteConnection) -> None:
            if drop_backups_with(self._driver.module, self._path, (*traces.ids, *traces.trajectory_ids)):
                back_up(connection, self._driver.module, self._path, FORGET)

        await self.on_writer(forget_in_backups)
        await asyncio.to_thread(take_out_of_log, self._path.parent, traces)
        await self.truncate_log()

    @reads
    def health(self, connection: Connection) -> StorageHealth:
        """Return the driver, the versions, the size, and notices of what is degraded."""
        driver = self._driver
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        notices: list[str] = []
        if driver.vec_version is None:
            notices.append(f"sqlite-vec is not loaded ({driver.reason}): every vector is compared one by one")
        if self.read_only:
            notices.append("the bank is read-only: nothing is learned and no use is counted")
        if dropped := self.recorder.dropped:
            notices.append(f"{dropped} retrievals were not recorded: the database was busy for too long")
        stale = [space.model for space in all_spaces(connection) if space.stale]
        if stale and driver.vec_version is not None:
            notices.append(f"the vector index of {', '.join(stale)} is not up to date: run `swarm-memory bank reembed`")
        return StorageHealth(
            path=str(self._path),
            driver=driver.name,
            driver_reason=driver.reason,
            sqlite_version=driver.sqlite_version,
            sqlite_vec_version=driver.vec_version,
            vector_search="vec0" if driver.vec_version else "exact_scan",
            wal_reset_safe=driver.wal_reset_safe,
            schema_version=version,
            read_only=self.read_only,
            size_bytes=sum(size_of(f"{self._path}{suffix}") for suffix in ("", "-wal")),
            notices=tuple(notices),
        )

    async def inspect(self) -> Inspection:
        """Check for damage and for indexes out of step; this reads the whole bank."""
        return await self.read(partial(inspect, searchable=self.index.searchable))

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use; return the checked copy's path. Raises `InputError` for a taken name."""
        copy = partial(back_up, module=self._driver.module, database=self._path, target=target)
        return await asyncio.to_thread(self._on_own_connection, copy)

    async def back_up_day(self, keep: int = 7) -> None:
        """Make today's copy over a separate connection, so that nothing waits for it; the newest `keep` stay."""
        copy = partial(back_up_day, module=self._driver.module, database=self._path, keep=keep)
        if keep:
            await asyncio.to_thread(self._on_own_connection, copy)

    def _on_own_connection(self, function: Callable[[SqliteConnection], T]) -> T:
        opened = closing(connect(self._path, driver=self._driver, read_only=True))
        with storage_errors(self._driver.module, self._path), opened as connection:
            return function(connection)
