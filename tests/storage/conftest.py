"""A bank in a real file for each test, on every SQLite driver that this interpreter can use."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from driver_names import AVAILABLE
from indexed_items import NUMBERS, Numbers
from laid_bank import laid
from postgres_server import lent_database

from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres
from swarm_memory.server.storage.sqlite import SqliteStore, open_store

OpenBank = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture(params=AVAILABLE)
def driver_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def driver(driver_name: str) -> Driver:
    return choose(driver_name)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / ".swarm" / "memory.db"


@pytest.fixture
def open_bank(database: Path, driver_name: str) -> OpenBank:
    """Return a function that opens the test's bank, any number of times, on the test's driver or on another."""

    @asynccontextmanager
    async def opened(
        *, sqlite: str = driver_name, embedder: Numbers = NUMBERS, busy_timeout_s: float = 2.0
    ) -> AsyncGenerator[SqliteStore]:
        store = await open_store(
            laid(database, sqlite), sqlite=sqlite, embedder=embedder, busy_timeout_s=busy_timeout_s
        )
        async with store:
            yield store

    return opened


@pytest.fixture
async def store(open_bank: OpenBank) -> AsyncGenerator[SqliteStore]:
    """The test's bank, open."""
    async with open_bank() as store:
        yield store


@pytest.fixture
def place() -> Iterator[Place]:
    """An empty bank on PostgreSQL."""
    with lent_database() as url:
        yield Place(url)


@pytest.fixture
def bank_on(database: Path) -> Iterator[Callable[[str], OpenBank]]:
    """Return a function that opens the test's bank on an engine: an SQLite driver, or a PostgreSQL database."""
    lent = ExitStack()

    def on_engine(engine: str) -> OpenBank:
        url = lent.enter_context(lent_database()) if engine == "postgres" else ""

        @asynccontextmanager
        async def opened(*, embedder: Numbers = NUMBERS) -> AsyncGenerator[SqliteStore | PostgresStore]:
            store = (
                await open_postgres(Place(url), pool_size=3, embedder=embedder)
                if url
                else await open_store(laid(database, engine), sqlite=engine, embedder=embedder, busy_timeout_s=2.0)
            )
            async with store:
                yield store

        return opened

    with lent:
        yield on_engine
