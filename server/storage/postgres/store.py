"""The Store on PostgreSQL: one database for many projects, people and servers.

Whole functions run on worker threads, each with a connection of its own.
"""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

import psycopg

from swarm_memory.schema.errors import ConfigError, StorageError
from swarm_memory.schema.postgres.statements import SCHEMA, migrations, queries
from swarm_memory.schema.source import SourceKind
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import FORKED, reads, writing_as
from swarm_memory.server.storage.postgres.connection import (
    COLLISIONS,
    LostInCommit,
    Place,
    PostgresConnection,
    RawConnection,
    connect,
    is_lost,
    postgres_errors,
    set_up,
)
from swarm_memory.server.storage.postgres.index import PostgresIndex
from swarm_memory.server.storage.postgres.search import search_memories, search_passages
from swarm_memory.server.storage.store import Store
from swarm_memory.server.storage.stores.sources import Sources
from swarm_memory.tools.ports.memories import SearchQuery, SearchResult
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.ports.sources import SourceResult

T = TypeVar("T")

_OWN = queries("postgres")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.5
"""The pause before a retry after a collision or a lost connection is random, below a limit that doubles each time."""

MOST_COLLISIONS = 20

OLDEST = 15
"""PostgreSQL 15 introduced views that run with the rights of their reader."""

_LOCK = 0x53574D4D
"""The advisory lock held to change the schema: `SWMM`."""


async def open_postgres(place: Place, *, pool_size: int = 8, embedder: Embedder) -> "PostgresStore":
    """Open the bank in a database, creating or migrating its schema where needed.

    Raises `ConfigError`, `StorageError`.
    """
    place.check()
    await asyncio.to_thread(make_ready, place)
    return PostgresStore(place, pool_size, embedder)


def make_ready(place: Place) -> None:
    """Create or migrate the schema where needed.

    Raises `ConfigError` for a server that is too old or lacks pgvector, `StorageError` for a schema of a newer version.
    """
    with postgres_errors(place), connect(place) as raw:
        set_up(raw, place)
        if raw.info.server_version < OLDEST * 10_000:
            raise ConfigError(f"{place} is PostgreSQL {raw.info.server_version // 10_000}: {OLDEST} or newer is needed")
        newest = len(migrations())
        found = version(raw)
        if found > newest:
            raise StorageError(f"{place} holds a bank from a newer version of swarm-memory: update this one")
        if found < newest:
            _migrate(raw, place)


def version(raw: RawConnection) -> int:
    """Return the number of the last migration; 0 where there is no bank."""
    if raw.execute("SELECT to_regclass('schema_migrations')").fetchone() == (None,):
        return 0
    row = raw.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return 0 if row is None else int(row[0])


def _migrate(raw: RawConnection, place: Place) -> None:
    raw.execute("SET statement_timeout = 0; SET lock_timeout = 0")
    raw.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    try:
        if version(raw) == 0:
            _begin(raw, place)
        for migration in migrations()[version(raw) :]:
            with raw.transaction():
                raw.execute(migration.script.encode())
                raw.execute(
                    "INSERT INTO schema_migrations (version, name) VALUES (%s, %s)", (migration.number, migration.name)
                )
    finally:
        if not raw.closed:
            raw.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))


def _begin(raw: RawConnection, place: Place) -> None:
    vector = "SELECT installed_version IS NOT NULL FROM pg_available_extensions WHERE name = 'vector'"
    found = raw.execute(vector).fetchone()
    if found is None:
        raise ConfigError(f"{place} has no pgvector: install it there (https://github.com/pgvector/pgvector)")
    if not found[0]:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    raw.execute(
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS {SCHEMA}.schema_migrations ("
        "version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())".encode()
    )


class PostgresSources(Sources):
    """The passages of one bank."""

    index: PostgresIndex

    async def search(
        self, query: SearchQuery, kinds: Sequence[SourceKind], neighbours: Mapping[SourceKind, int]
    ) -> SourceResult:
        asked = partial(search_passages, index=self.index, query=query, kinds=kinds, neighbours=neighbours)
        return await self.read(asked)


class PostgresStore(Store):
    """One bank in one database: at most one function runs per connection of the pool; the others wait for a thread.

    A function whose transaction collided with another is rolled back and run again. One that met a lost connection is
    run again on a new connection, unless the old one was lost during the commit.
    """

    index: PostgresIndex

    def __init__(self, place: Place, pool_size: int, embedder: Embedder) -> None:
        super().__init__(embedder, PostgresIndex(searchable=True, reason="pgvector compares vectors in the database"))
        self.place = place
        self._threads, self._process = ThreadPoolExecutor(pool_size, "bank"), os.getpid()
        self._own = threading.local()
        self._connections: set[RawConnection] = set()
        self.hold_stores()

    def _add_parts(self) -> None:
        super()._add_parts()
        self.sources = PostgresSources(self)

    @property
    def read_only(self) -> bool:
        """Always False: a role that may only read is refused at its first write."""
        return False

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run a function that only reads; each statement sees its own snapshot of the bank."""
        return await self._run(lambda raw: function(PostgresConnection(raw)))

    async def write(self, function: Callable[[Connection], T]) -> T:
        """Run a function in one transaction; a scope that it looks up stays locked until the end."""
        return await self._run(partial(self._commit, function))

    async def truncate_log(self) -> bool:
        """Do nothing: the database's log is not the bank's own, and its administrator decides how long it is kept."""
        return True

    async def close_threads(self) -> None:
        """Wait for running functions to end, and close every connection."""
        await asyncio.to_thread(self._threads.shutdown)
        for raw in self._connections:
            raw.close()

    async def _run(self, function: Callable[[RawConnection], T]) -> T:
        """Run a function on a thread to completion; a cancelled caller returns immediately without stopping it."""
        if os.getpid() != self._process:
            raise StorageError(FORKED)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, self._persist, function)
        except RuntimeError as error:
            if "shutdown" not in str(error):  # but that no thread can be started, say
                raise
            raise StorageError("the bank is closed") from error
        return await asyncio.shield(running)

    def _persist(self, function: Callable[[RawConnection], T]) -> T:
        started, limit, collisions = time.monotonic(), FIRST_PAUSE_S, 0
        while True:
            try:
                with postgres_errors(self.place):
                    return function(self._connection())
            except StorageError as error:
                cause = error.__cause__
                lost, collided = is_lost(cause), isinstance(cause, COLLISIONS)
                collisions += collided
                if lost:
                    self._drop()
                waits_s = self.place.connect_timeout_s if lost else self.place.busy_timeout_s
                over = collisions > MOST_COLLISIONS or time.monotonic() + limit > started + waits_s
                if over or not (lost or collided) or isinstance(error, LostInCommit):
                    raise
            time.sleep(random.uniform(0, limit))
            limit = min(2 * limit, LONGEST_PAUSE_S)

    def _commit(self, function: Callable[[Connection], T], raw: RawConnection) -> T:
        done = False
        try:
            with raw.transaction(), writing_as(self.person_id):
                result = function(PostgresConnection(raw, in_write=True))
                done = True
        except psycopg.Error as error:
            if done and is_lost(error):
                raise LostInCommit(
                    f"the connection to {self.place} broke while a change was being committed: see whether it was made"
                ) from error
            raise
        return result

    def _connection(self) -> RawConnection:
        """Return this thread's connection, making one if there is none."""
        raw: RawConnection | None = getattr(self._own, "raw", None)
        if raw is None or raw.closed:
            self._drop()
            raw = connect(self.place)
            set_up(raw, self.place)
            self._own.raw = raw
            self._connections.add(raw)
        return raw

    def _drop(self) -> None:
        raw: RawConnection | None = getattr(self._own, "raw", None)
        if raw is not None:
            self._own.raw = None
            self._connections.discard(raw)
            with suppress(psycopg.Error):
                raw.close()

    async def search(self, query: SearchQuery) -> SearchResult:
        return await self.read(partial(search_memories, index=self.index, query=query))

    @reads
    def health(self, connection: Connection) -> StorageHealth:
        version, server, vector, size, bypasses, role = connection.execute(_OWN["health"]).fetchone()
        notices: list[str] = []
        if bypasses:
            notices.append(
                f"row-level security does not apply to the role {role} (a superuser, or BYPASSRLS): serve a team "
                "with a role made as docs/TEAM.md describes"
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
