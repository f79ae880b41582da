"""The Store on PostgreSQL: one database for many projects, people and servers."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.postgres.statements import queries
from swarm_memory.schema.source import SourceKind
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.storage.bank import Bank
from swarm_memory.server.storage.engine.engine import Engine, Recorder, reads
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.index import PostgresIndex
from swarm_memory.server.storage.postgres.migrate import make_ready
from swarm_memory.server.storage.postgres.search import nearest_memories, search_memories, search_passages
from swarm_memory.server.storage.postgres.threads import PostgresThreads
from swarm_memory.server.storage.stores.sources import Sources
from swarm_memory.server.storage.stores.upkeep import Vectors
from swarm_memory.tools.ports.memories import SearchQuery, SearchResult
from swarm_memory.tools.ports.models import Embedder, Vector
from swarm_memory.tools.ports.sources import SourceResult

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

T = TypeVar("T")

_OWN = queries("postgres")

log = logging.getLogger(__name__)


async def open_postgres(
    place: Place, *, pool_size: int = 8, embedder: Embedder, consolidate_every: int = 20
) -> "PostgresStore":
    """Open the bank in a database, whose schema is made or brought up to date where it is not.

    Raises `ConfigError`, `StorageError`.
    """
    place.check()
    await asyncio.to_thread(make_ready, place)
    return PostgresStore(place, pool_size, embedder, consolidate_every)


class PostgresVectors(Vectors):
    """The vectors of all that stands in one index, and the index itself."""

    async def refresh(self) -> int:
        """Give partitions that have become large an index each; return how many. It takes its time."""
        return await self.read(self._index.refresh)


class PostgresSources(Sources):
    """The passages of one bank."""

    _index: PostgresIndex

    def __init__(self, bank: Engine) -> None:
        super().__init__(bank)
        self.vectors = PostgresVectors(bank, self._index)

    @property
    def index(self) -> PostgresIndex:
        return self._index

    async def search(
        self, query: SearchQuery, kinds: Sequence[SourceKind], neighbours: Mapping[SourceKind, int]
    ) -> SourceResult:
        asked = partial(search_passages, index=self._index, query=query, kinds=kinds, neighbours=neighbours)
        return await self.read(asked)


class PostgresStore(PostgresThreads, Bank):
    """One bank in one database."""

    index: PostgresIndex

    def __init__(self, place: Place, pool_size: int, embedder: Embedder, consolidate_every: int) -> None:
        index = PostgresIndex(searchable=True, reason="pgvector compares vectors in the database")
        super().__init__(place, pool_size, embedder, index)
        self._indexing: set[asyncio.Task[None]] = set()
        self.hold_stores(consolidate_every, Recorder(self.write_records))

    def _add_parts(self) -> None:
        super()._add_parts()
        self.vectors = PostgresVectors(self, self.index)
        self.sources = PostgresSources(self)

    async def transact(self, function: "Callable[[Connection], T]") -> T:
        result = await super().transact(function)
        for index, vectors in ((self.index, self.vectors), (self.sources.index, self.sources.vectors)):
            if index.outgrown:
                index.outgrown = False
                task = asyncio.create_task(self._refresh(vectors))
                self._indexing.add(task)
                task.add_done_callback(self._indexing.discard)
        return result

    async def _refresh(self, vectors: Vectors) -> None:
        try:
            await vectors.refresh()
        except StorageError as error:
            log.warning("a large scope has no index of vectors yet, and is searched one by one: %s", error)

    async def close_threads(self) -> None:
        await asyncio.gather(*self._indexing)
        await super().close_threads()

    async def search(self, query: SearchQuery) -> SearchResult:
        return await self.read(partial(search_memories, index=self.index, query=query))

    @reads
    def nearest(
        self, connection: "Connection", scopes: Sequence[Scope], embedder: str, vector: Vector, k: int
    ) -> list[tuple[str, float]]:
        return nearest_memories(connection, self.index, scopes, embedder, vector, k)

    @reads
    def health(self, connection: "Connection") -> StorageHealth:
        version, server, vector, size, bypasses, role = connection.execute(_OWN["health"]).fetchone()
        notices: list[str] = []
        if bypasses:
            notices.append(
                f"the role {role} is held by no row-level security (a superuser, or BYPASSRLS): serve a team by a role "
                "of `swarm-memory team database-role`"
            )
        if self.recorder.dropped:
            notices.append(f"{self.recorder.dropped} retrievals were not recorded: the database was busy for too long")
        return StorageHealth(
            path=str(self.place),
            driver="postgresql",
            driver_reason="storage.url names it",
            sqlite_version=server,
            sqlite_vec_version=vector,
            vector_search="pgvector",
            wal_reset_safe=True,
            schema_version=version,
            read_only=False,
            size_bytes=size,
            notices=tuple(notices),
        )
