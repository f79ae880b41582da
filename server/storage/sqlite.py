"""The Store on SQLite: every port's function, each one call of the writer's or the reader's thread.

What is done with a connection stands in the modules beside, and so do the ports that need nothing but the threads; here
is only where it runs and under which lock.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StoreBusy, StoreReadOnly, StoreReplaced
from swarm_memory.schema.host_session import HostSession
from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.status import BankStatistics, StorageHealth
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.schema.verdict import Verdict
from swarm_memory.server.storage import (
    journal,
    memories,
    outcomes,
    quota,
    reembed,
    spending,
    trajectories,
)
from swarm_memory.server.storage.backup import FORGET, back_up, drop_backups_with
from swarm_memory.server.storage.benchmarks import BenchmarkTables
from swarm_memory.server.storage.connection import close, connect, truncate_wal, write_transaction
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.forgetting import forget, take_out_of_log
from swarm_memory.server.storage.health import health
from swarm_memory.server.storage.index import Index
from swarm_memory.server.storage.inspection import Inspection, inspect
from swarm_memory.server.storage.job_port import SqliteJobs
from swarm_memory.server.storage.lock import writer_lock
from swarm_memory.server.storage.recorder import Record, Recorder
from swarm_memory.server.storage.rollout_port import SqliteRollouts
from swarm_memory.server.storage.search import join, keyword_leg, near_leg, nearest
from swarm_memory.server.storage.sources import SqliteSources
from swarm_memory.server.storage.tool_memory import ToolMemoryTables
from swarm_memory.server.storage.traces import Traces, find_traces
from swarm_memory.server.storage.upkeep_port import SqliteUpkeep
from swarm_memory.server.storage.vectors import Quantization
from swarm_memory.server.storage.worker import ConnectionThread
from swarm_memory.tools.journal_ports import ChatRecord, ChatSpending, Event
from swarm_memory.tools.memory_ports import (
    DayLimit,
    Forgotten,
    MemoryFilter,
    RetrievalRecord,
    SearchQuery,
    SearchResult,
    StoredMemory,
)
from swarm_memory.tools.model_ports import Embedder, Vector
from swarm_memory.tools.outcome_ports import TaskInjections, TaskOutcome
from swarm_memory.tools.trajectory_ports import LearnedBefore, LearnRecord

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")

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
    index = Index(driver.vec_version is not None, driver.reason)
    writer: ConnectionThread | None = None
    try:
        writer = await ConnectionThread.open(
            path,
            driver.module,
            lambda: connect(path, driver=driver, create=create, timeout_s=busy_timeout_s),
            again=lambda: connect(path, driver=driver, create=False, timeout_s=busy_timeout_s),
            writes=True,
        )
    except StoreReadOnly:
        if not await asyncio.to_thread(path.exists):
            raise
    async with AsyncExitStack() as opened:
        if writer is not None:
            opened.push_async_callback(writer.close, lambda connection: close(connection, path))
        reader, keyword_reader = [await _open_reader(path, driver, busy_timeout_s, opened) for _ in range(2)]
        opened.pop_all()
    store = SqliteStore(
        path, driver, index, writer, reader, keyword_reader, busy_timeout_s, embedder, consolidate_every
    )
    try:
        await store.refresh()
    except StoreBusy:
        log.info("the vector index is filled again later: %s is busy", path)
    except BaseException:
        await store.close()
        raise
    return store


async def _open_reader(path: Path, driver: Driver, timeout_s: float, opened: AsyncExitStack) -> ConnectionThread:
    def open_connection() -> "Connection":
        connection = connect(path, driver=driver, read_only=True, timeout_s=timeout_s)
        connection.create_function("says", 2, memories.says, deterministic=True)
        return connection

    reader = await ConnectionThread.open(path, driver.module, open_connection)
    opened.push_async_callback(reader.close, lambda connection: connection.close())
    return reader


class SqliteStore(SqliteJobs, SqliteUpkeep, SqliteRollouts):
    """One bank in one file. Writes run one after another on one thread, reads on others and never wait for them.

    The two legs of a search run at the same time, each on a thread of its own.
    """

    def __init__(
        self,
        path: Path,
        driver: Driver,
        index: Index,
        writer: ConnectionThread | None,
        reader: ConnectionThread,
        keyword_reader: ConnectionThread,
        busy_timeout_s: float,
        embedder: Embedder,
        consolidate_every: int,
    ) -> None:
        self._path = path
        self._driver = driver
        self._index = index
        self._writer = writer
        self._reader = reader
        self._keyword_reader = keyword_reader
        self._busy_timeout_s = busy_timeout_s
        self._embedder = embedder
        self._consolidate_every = consolidate_every
        self._recorder = Recorder(self._write_records)
        self._unwritable: list[ChatRecord] = []
        self._closed = False
        self._opening_again = asyncio.Lock()
        self._sources = SqliteSources(self)

    async def search(self, query: SearchQuery) -> SearchResult:
        near, keywords = await asyncio.gather(
            self.read(lambda connection: near_leg(connection, self._index, query)),
            self.read_beside(lambda connection: keyword_leg(connection, self._index, query)),
        )
        return await self.read(lambda connection: join(connection, self._index, query, near, keywords))

    async def get_memories(self, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
        return await self.read(lambda connection: memories.get_memories(connection, scopes, ids))

    async def list_memories(self, scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]:
        return await self.read(lambda connection: memories.list_memories(connection, scopes, which))

    async def add_memories(
        self, memories: Sequence[StoredMemory], embedder: str, limit: DayLimit | None = None
    ) -> list[str]:
        def add(connection: "Connection") -> list[str]:
            writer = self._memory_writer(connection, embedder)
            new = [memory.item for memory in memories if writer.add(memory)]
            if limit is not None:
                quota.count_items(connection, new, limit)
            return [item.id for item in new]

        return await self.write(add)

    async def added_on(self, scope: Scope, at: datetime) -> int:
        return await self.read(lambda connection: quota.added_on(connection, scope, at))

    async def replace_memory(self, memory: StoredMemory, embedder: str, reason: str) -> None:
        def replace(connection: "Connection") -> None:
            self._memory_writer(connection, embedder).replace(memory, reason)
            self._index.tidy(connection)

        await self.write(replace)

    async def set_status(self, scopes: Sequence[Scope], ids: Sequence[str], status: MemoryStatus, reason: str) -> int:
        def change(connection: "Connection") -> int:
            changed = memories.set_status(connection, self._index, scopes, ids, status, reason)
            self._index.tidy(connection)
            return changed

        return await self.write(change)

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
            await self._on_writer(lambda connection: self._forget_in_backups(connection, traces))
            await asyncio.to_thread(take_out_of_log, self._path.parent, traces)
            await self.truncate_log()
        return forgotten

    async def nearest(self, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int) -> list[tuple[str, float]]:
        return await self.read(lambda connection: nearest(connection, self._index, scopes, embedder, vector, k))

    async def record_retrieval(self, record: RetrievalRecord) -> None:
        if self._writer is not None:
            self._recorder.add(record)

    async def memory_history(self, scopes: Sequence[Scope], memory_id: str) -> list[Event]:
        return await self.read(lambda connection: journal.history(connection, scopes, memory_id))

    async def memory_histories(
        self, scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
    ) -> dict[str, list[Event]]:
        return await self.read(lambda connection: journal.histories(connection, scopes, ids, kinds))

    async def learned_before(self, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
        return await self.read(
            lambda connection: trajectories.learned_before(connection, scope, task_id, content_digest)
        )

    async def save_learning(self, record: LearnRecord) -> tuple[str, ...]:
        quantization = self.quantization_of(record.embedder)
        return await self.write(
            lambda connection: trajectories.save_learning(connection, self._index, record, quantization)
        )

    async def save_verdict(self, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict) -> None:
        at = datetime.now(UTC)
        await self.write(
            lambda connection: trajectories.save_verdict(connection, scope, trajectory_id, trajectory, verdict, at)
        )

    async def get_trajectory(self, scope: Scope, trajectory_id: str) -> tuple[Trajectory, Verdict | None] | None:
        return await self.read(lambda connection: trajectories.get_trajectory(connection, scope, trajectory_id))

    async def get_session(self, scope: Scope, session_id: str) -> HostSession | None:
        return await self.read(lambda connection: journal.get_session(connection, scope, session_id))

    async def put_session(self, session: HostSession) -> None:
        await self.write(lambda connection: journal.put_session(connection, session))

    async def add_event(self, scope: Scope, event: Event) -> None:
        await self.write(lambda connection: journal.add_event(connection, scope, event))

    async def events_of_kind(self, scope: Scope, kind: str, limit: int) -> list[Event]:
        return await self.read(lambda connection: journal.events_of_kind(connection, scope, kind, limit))

    def record_chat(self, record: ChatRecord) -> None:
        if self._writer is not None:
            self._recorder.add(record)
        else:
            self._unwritable.append(record)

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
        read_only, dropped = self._writer is None, self._recorder.dropped
        return await self.read(lambda connection: health(connection, self._path, self._driver, read_only, dropped))

    async def injections(self, scope: Scope, task_id: str) -> TaskInjections:
        await self._recorder.settle()
        return await self.read(lambda connection: outcomes.injections(connection, scope, task_id))

    async def get_outcome(self, scope: Scope, task_id: str) -> OutcomeRecord | None:
        return await self.read(lambda connection: outcomes.get_outcome(connection, scope, task_id))

    async def save_outcome(self, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        now = datetime.now(UTC)
        return await self.write(lambda connection: outcomes.save_outcome(connection, scopes, record, now))

    async def list_outcomes(self, scope: Scope) -> list[TaskOutcome]:
        return await self.read(lambda connection: outcomes.list_outcomes(connection, scope))

    async def item_times(self, scope: Scope) -> list[datetime]:
        return await self.read(lambda connection: outcomes.item_times(connection, scope))

    @property
    def sources(self) -> SqliteSources:
        return self._sources

    async def refresh(self) -> int:
        """Fill vector indexes again that a process without sqlite-vec left behind; return how many."""
        if self._writer is None or not self._index.searchable:
            return 0
        stale = await self.read(reembed.stale_spaces)
        refilled = await self.write(self._index.refresh) if stale else 0
        return refilled + await self._sources.refresh()

    async def inspect(self) -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        return await self.read(lambda connection: inspect(connection, self._index.searchable))

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use; return where the checked copy is. Raises `InputError` for a taken name."""
        return await self.read_beside(
            lambda connection: back_up(connection, self._driver.module, self._path, target=target)
        )

    async def damaged_memories(self) -> list[str]:
        """Return the ids of memories whose text is not what was written."""
        return await self.read(memories.damaged)

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

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._recorder.close()
        for reader in (self._reader, self._keyword_reader):
            await reader.close(lambda connection: connection.close())
        if self._writer is not None:
            await self._writer.close(lambda connection: close(connection, self._path))

    @property
    def tool_memory(self) -> ToolMemoryTables:
        """Tool calls and what is known from them."""
        return ToolMemoryTables(self)

    @property
    def benchmarks(self) -> BenchmarkTables:
        """Runs of benchmarks."""
        return BenchmarkTables(self)

    @property
    def index(self) -> Index:
        """The bank's indexes, and whether this process has sqlite-vec."""
        return self._index

    def quantization_of(self, embedder: str) -> Quantization:
        """Return how a space of that name is kept when it is new."""
        return self._embedder.quantization if embedder == self._embedder.name else "float32"

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function that only reads."""
        return await self._run(self._reader, function)

    async def read_beside(self, function: "Callable[[Connection], T]") -> T:
        """The same on a second connection, for what can be read at the same time."""
        return await self._run(self._keyword_reader, function)

    async def write(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one transaction under the writer lock. Raises `StoreBusy`, `StoreReadOnly`."""

        def transaction(connection: "Connection") -> T:
            opened = None if self._writer is None else self._writer.opened
            with write_transaction(connection, self._path, self._busy_timeout_s, opened):
                return function(connection)

        return await self._on_writer(transaction)

    async def truncate_log(self) -> None:
        """Write the log into the database and empty it, so that nothing of what was deleted is left in it."""
        await self._on_writer(self._truncate_log)

    async def _on_writer(self, function: "Callable[[Connection], T]") -> T:
        if self._writer is None:
            raise StoreReadOnly(f"{self._path} can only be read: give this user the file and its folder")
        return await self._run(self._writer, function)

    async def _run(self, thread: ConnectionThread, function: "Callable[[Connection], T]") -> T:
        """Run a function on a thread; when the bank's files were replaced, on what is there now."""
        try:
            return await thread.run(function)
        except StoreReplaced:
            await self._open_again()
            return await thread.run(function)
        except StoreReadOnly:
            if self._writer is None or thread is self._writer:
                raise
            # Another process was cut off in a write with a rollback journal: only one that could write can undo it.
            await self._writer.run(lambda connection: connection.execute("PRAGMA schema_version").fetchone())
            return await thread.run(function)

    async def _open_again(self) -> None:
        """Close every connection before one is opened: those of one process share what they know of a log."""
        threads = [thread for thread in (self._writer, self._reader, self._keyword_reader) if thread is not None]
        async with self._opening_again:
            if all(thread.is_right for thread in threads):
                return
            for thread in threads:
                await thread.disconnect()
            for thread in threads:
                await thread.reconnect()
            log.warning("%s was replaced, or its log deleted, while it was open: it was opened anew", self._path)

    def _truncate_log(self, connection: "Connection") -> bool:
        with writer_lock(self._path, self._busy_timeout_s):
            return truncate_wal(connection, for_good=True)

    def _forget_in_backups(self, connection: "Connection", traces: Traces) -> None:
        """Delete the backups that hold what was forgotten, and make one without it."""
        if drop_backups_with(self._driver.module, self._path, (*traces.ids, *traces.trajectory_ids)):
            back_up(connection, self._driver.module, self._path, FORGET)

    async def _write_records(self, records: Sequence[Record]) -> None:
        def write(connection: "Connection") -> None:
            journal.write_retrievals(connection, [each for each in records if isinstance(each, RetrievalRecord)])
            spending.write_calls(connection, [each for each in records if isinstance(each, ChatRecord)])

        await self.write(write)

    def _memory_writer(self, connection: "Connection", embedder: str) -> memories.MemoryWriter:
        return memories.MemoryWriter(connection, self._index, embedder, self.quantization_of(embedder))
