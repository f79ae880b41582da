"""The Store on SQLite: the ports that need more than the bank's threads, and the bank as a whole.

What is done with a connection stands in the modules beside, where it runs and under which lock in `threads`, and the
ports that need nothing else in modules of their own.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StoreBusy
from swarm_memory.schema.status import BankStatistics, StorageHealth
from swarm_memory.server.storage import journal, memories, outcomes, reembed, spending
from swarm_memory.server.storage.benchmarks import BenchmarkTables
from swarm_memory.server.storage.care.inspection import health, inspect
from swarm_memory.server.storage.engine.backup import FORGET, back_up, drop_backups_with
from swarm_memory.server.storage.engine.driver import Driver, choose
from swarm_memory.server.storage.engine.threads import BankThreads, Threads, open_threads
from swarm_memory.server.storage.forgetting import forget, take_out_of_log
from swarm_memory.server.storage.job_port import SqliteJobs
from swarm_memory.server.storage.learning_port import SqliteLearning
from swarm_memory.server.storage.memory_port import SqliteMemories
from swarm_memory.server.storage.recorder import Record, Recorder
from swarm_memory.server.storage.rollout_port import SqliteRollouts
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.sources import SqliteSources
from swarm_memory.server.storage.tool_memory import ToolMemoryTables
from swarm_memory.server.storage.traces import Traces, find_traces
from swarm_memory.server.storage.upkeep_port import SqliteUpkeep
from swarm_memory.tools.ports.bank import Forgotten, RetrievalRecord
from swarm_memory.tools.ports.care import Inspection
from swarm_memory.tools.ports.credit import TaskInjections
from swarm_memory.tools.ports.journal import ChatRecord, ChatSpending
from swarm_memory.tools.ports.models import Embedder, Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_PACKED_AT_ONCE = 2_000
"""Items whose tokens are packed in one transaction: other writers wait no longer than for that."""

log = logging.getLogger(__name__)


async def open_store(
    path: Path,
    *,
    sqlite: str = "auto",
    busy_timeout_s: float = 10.0,
    embedder: Embedder,
    create: bool = True,
    consolidate_every: int = 20,
) -> "SqliteStore":
    """Open the bank in a file, which is made when it is not there and `create` says so.

    Raises `ConfigError` when the SQLite that `sqlite` names cannot be used, `StoreUntrusted` for a file that is no bank
    of ours, `StorageError`. A bank that this user may only read opens read-only.
    """
    driver = await asyncio.to_thread(choose, sqlite)
    threads = await open_threads(path, driver, create=create, timeout_s=busy_timeout_s)
    store = SqliteStore(path, driver, embedder, threads, busy_timeout_s, consolidate_every)
    try:
        await store.refresh()
    except StoreBusy:
        log.info("the vector index is filled again later: %s is busy", path)
    except BaseException:
        await store.close()
        raise
    return store


class SqliteStore(BankThreads, SqliteMemories, SqliteLearning, SqliteJobs, SqliteUpkeep, SqliteRollouts):
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
        index = Index(driver.vec_version is not None, driver.reason)
        super().__init__(path, driver, index, embedder, threads, busy_timeout_s)
        self._consolidate_every = consolidate_every
        self._recorder = Recorder(self._write_records)
        self._unwritable: list[ChatRecord] = []
        self._closed = False
        self._sources = SqliteSources(self)

    @property
    def sources(self) -> SqliteSources:
        return self._sources

    @property
    def tool_memory(self) -> ToolMemoryTables:
        """Tool calls and what is known from them."""
        return ToolMemoryTables(self)

    @property
    def benchmarks(self) -> BenchmarkTables:
        """Runs of benchmarks."""
        return BenchmarkTables(self)

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._recorder.close()
        await self.close_threads()

    async def forget(
        self, scopes: Sequence[Scope], ids: Sequence[str], *, with_trajectories: bool = False
    ) -> Forgotten:
        await self._recorder.settle()  # a retrieval that is written later would bring its query back
        # Looking through all texts takes longest, and holds up no writer.
        traces = await self.read(
            lambda connection: find_traces(connection, scopes, ids, with_trajectories=with_trajectories)
        )
        forgotten = await self.write(lambda connection: forget(connection, self._index, scopes, traces))
        if forgotten.ids:
            await self.on_writer(lambda connection: self._forget_in_backups(connection, traces))
            await asyncio.to_thread(take_out_of_log, self._path.parent, traces)
            await self.truncate_log()
        return forgotten

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        if not self.read_only:
            self._recorder.add(record)

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        await self._recorder.settle()
        return await self.read(lambda connection: outcomes.injections(connection, scope, task_id))

    def record_chat(self, record: ChatRecord) -> None:
        if self.read_only:
            self._unwritable.append(record)
        else:
            self._recorder.add(record)

    async def chat_spending(self, since: datetime) -> ChatSpending:
        await self._recorder.settle()
        # Taken before the look at the database: a call that is written meanwhile counts twice rather than not at all.
        waiting = [record for record in self._recorder.waiting if isinstance(record, ChatRecord)]
        unwritten = (*waiting, *self._unwritable)
        return await self.read(lambda connection: spending.chat_spending(connection, since, unwritten))

    async def statistics(self, scope: Scope, embedder: str) -> BankStatistics:
        return await self.read(
            lambda connection: journal.statistics(connection, scope, embedder, self._consolidate_every)
        )

    async def health(self) -> StorageHealth:
        read_only, dropped = self.read_only, self._recorder.dropped
        return await self.read(lambda connection: health(connection, self._path, self._driver, read_only, dropped))

    async def inspect(self) -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        return await self.read(lambda connection: inspect(connection, self._index.searchable))

    async def damaged_memories(self) -> list[str]:
        """Return the ids of memories whose text is not what was written."""
        return await self.read(memories.damaged)

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use; return where the checked copy is. Raises `InputError` for a taken name."""
        return await self.read_beside(
            lambda connection: back_up(connection, self._driver.module, self._path, target=target)
        )

    async def refresh(self) -> int:
        """Fill vector indexes again that a process without sqlite-vec left behind; return how many."""
        if self.read_only or not self._index.searchable:
            return 0
        stale = await self.read(reembed.stale_spaces)
        refilled = await self.write(self._index.refresh) if stale else 0
        return refilled + await self._sources.refresh()

    async def reindex(self) -> None:
        """Make the keyword index and the vector indexes anew from the plain tables; pack what is kept as text."""
        after: int | None = 0
        while after is not None:
            after = await self.write(partial(memories.pack_tokens, after=after, limit=_PACKED_AT_ONCE))
        await self.write(self._index.rebuild)
        await self._sources.reindex()

    async def without_vector(
        self, embedder: str, dimensions: int, limit: int, after: int = 0
    ) -> list[tuple[int, str, str]]:
        """Return (position, id, text to embed) of items without a vector of the embedder, after a position."""
        return await self.read(
            lambda connection: reembed.without_vector(connection, embedder, dimensions, limit, after)
        )

    async def put_vectors(self, embedder: str, vectors: Mapping[str, Vector]) -> int:
        """Write vectors by memory id, with their index; return how many items were there."""
        quantization = self.quantization_of(embedder)
        return await self.write(
            lambda connection: reembed.put_vectors(connection, self._index, embedder, vectors, quantization)
        )

    async def drop_other_spaces(self, embedder: str, dimensions: int) -> list[str]:
        """Delete the vectors of every other embedder; return their names."""
        dropped = await self.write(
            lambda connection: reembed.drop_other_spaces(connection, self._index, embedder, dimensions)
        )
        others = await self._sources.drop_other_spaces(embedder, dimensions)
        return list(dict.fromkeys([*dropped, *others]))

    def _forget_in_backups(self, connection: "Connection", traces: Traces) -> None:
        """Delete the backups that hold what was forgotten, and make one without it."""
        if drop_backups_with(self._driver.module, self._path, (*traces.ids, *traces.trajectory_ids)):
            back_up(connection, self._driver.module, self._path, FORGET)

    async def _write_records(self, records: Sequence[Record]) -> None:
        def write(connection: "Connection") -> None:
            journal.write_retrievals(connection, [each for each in records if isinstance(each, RetrievalRecord)])
            spending.write_calls(connection, [each for each in records if isinstance(each, ChatRecord)])

        await self.write(write)
