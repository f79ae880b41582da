"""The Store on SQLite: one bank in one file, of which each module beside holds a part."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StoreBusy
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine.backup import FORGET, back_up, drop_backups_with
from swarm_memory.server.storage.engine.threads import Threads, open_threads, reads
from swarm_memory.server.storage.inspection import health, inspect
from swarm_memory.server.storage.stores import memories
from swarm_memory.server.storage.stores.credit import SqliteCredit
from swarm_memory.server.storage.stores.forgetting import Traces, find_traces, forget, take_out_of_log
from swarm_memory.server.storage.stores.jobs import SqliteJobs
from swarm_memory.server.storage.stores.journal import Recorder, SqliteBenchmarks
from swarm_memory.server.storage.stores.memories import SqliteMemories
from swarm_memory.server.storage.stores.review import SqliteReview
from swarm_memory.server.storage.stores.rollouts import SqliteRollouts
from swarm_memory.server.storage.stores.sources import SqliteSources
from swarm_memory.server.storage.stores.tool_memory import SqliteToolMemory
from swarm_memory.server.storage.stores.trajectories import SqliteTrajectories
from swarm_memory.server.storage.stores.upkeep import SqliteRetention, SqliteUpkeep, SqliteVectors
from swarm_memory.tools.ports.care import Inspection
from swarm_memory.tools.ports.memories import Forgotten
from swarm_memory.tools.ports.models import Embedder

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

_PACKED_AT_ONCE = 2_000
"""Items whose tokens are packed in one transaction: other writers wait no longer than for that."""

log = logging.getLogger(__name__)


async def open_store(
    path: Path,
    *,
    sqlite: str = "auto",
    busy_timeout_s: float = 10.0,
    embedder: Embedder,
    consolidate_every: int = 20,
) -> "SqliteStore":
    """Open the bank in a file, which is made when it is not there.

    Raises `ConfigError` when the SQLite that `sqlite` names cannot be used, `StoreUntrusted` for a file that is no bank
    of ours, `StorageError`. A bank that this user may only read opens read-only.
    """
    driver = await asyncio.to_thread(choose, sqlite)
    threads = await open_threads(path, driver, busy_timeout_s)
    store = SqliteStore(path, driver, embedder, threads, busy_timeout_s, consolidate_every)
    try:
        await store.refresh()
    except StoreBusy:
        log.info("the vector index is filled again later: %s is busy", path)
    except BaseException:
        await store.close()
        raise
    return store


class SqliteStore(SqliteMemories, SqliteTrajectories, SqliteJobs, SqliteCredit, SqliteUpkeep, SqliteRollouts):
    """One bank in one file."""

    def __init__(
        self,
        path: Path,
        driver: Driver,
        embedder: Embedder,
        threads: Threads,
        busy_timeout_s: float,
        consolidate_every: int,
    ) -> None:
        super().__init__(path, driver, embedder, threads, busy_timeout_s)
        self.consolidate_every = consolidate_every
        self.recorder = Recorder(self.write_records)
        self.unwritable = []
        self._closed = False
        self.vectors = SqliteVectors(self, self.index)
        self.sources = SqliteSources(self)
        self.tool_memory = SqliteToolMemory(self)
        self.benchmarks = SqliteBenchmarks(self)
        self.retention = SqliteRetention(self)
        self.review = SqliteReview(self)

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await self.recorder.close()
        await self.close_threads()

    async def forget(
        self, scopes: Sequence[Scope], ids: Sequence[str], *, with_trajectories: bool = False
    ) -> Forgotten:
        await self.recorder.settle()  # a retrieval that is written later would bring its query back
        # Looking through all texts takes longest, and holds up no writer.
        traces = await self.read(partial(find_traces, scopes=scopes, ids=ids, with_trajectories=with_trajectories))
        forgotten = await self.write(partial(forget, index=self.index, scopes=scopes, traces=traces))
        if forgotten.ids:
            await self.on_writer(partial(self._forget_in_backups, traces=traces))
            await asyncio.to_thread(take_out_of_log, self._path.parent, traces)
            await self.truncate_log()
        return forgotten

    @reads
    def health(self, connection: "Connection") -> StorageHealth:
        return health(connection, self._path, self._driver, self.read_only, self.recorder.dropped)

    @reads
    def inspect(self, connection: "Connection") -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        return inspect(connection, self.index.searchable)

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use; return where the checked copy is. Raises `InputError` for a taken name."""
        return await self.read_beside(partial(back_up, module=self._driver.module, database=self._path, target=target))

    async def refresh(self) -> int:
        """Fill vector indexes again that a process without sqlite-vec left behind; return how many."""
        return 0 if self.read_only else await self.vectors.refresh() + await self.sources.vectors.refresh()

    async def reindex(self) -> None:
        """Make the keyword index and the vector indexes anew from the plain tables; pack what is kept as text."""
        after: int | None = 0
        while after is not None:
            after = await self.write(partial(memories.pack_tokens, after=after, limit=_PACKED_AT_ONCE))
        await self.vectors.rebuild()
        await self.sources.vectors.rebuild()

    async def drop_other_spaces(self, embedder: str, dimensions: int) -> list[str]:
        """Delete the vectors of every other embedder; return their names."""
        dropped = await self.vectors.drop_others(embedder, dimensions)
        others = await self.sources.vectors.drop_others(embedder, dimensions)
        return list(dict.fromkeys([*dropped, *others]))

    def _forget_in_backups(self, connection: "Connection", traces: Traces) -> None:
        """Delete the backups that hold what was forgotten, and make one without it."""
        if drop_backups_with(self._driver.module, self._path, (*traces.ids, *traces.trajectory_ids)):
            back_up(connection, self._driver.module, self._path, FORGET)
