"""A bank in a real file for each test, on every driver of SQLite that this interpreter can stand on."""

import math
import random
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from driver_names import AVAILABLE
from laid_bank import laid
from made_items import HERE, made_item
from postgres_server import lent_database

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres
from swarm_memory.server.storage.store import SqliteStore, open_store
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.text.tokens import tokenize


@dataclass(frozen=True)
class Numbers:
    """An embedder whose vectors are made from the text by a seeded generator: unrelated, but always the same."""

    name: str = "numbers"
    dimensions: int = 16
    quantization: Literal["int8", "float32"] = "int8"
    fusion_weight: float = 0.5
    min_cosine: float = 0.0
    duplicate_cosine: float = 0.87

    def vector(self, text: str) -> Vector:
        rng = random.Random(text)
        values = [rng.gauss(0, 1) for _ in range(self.dimensions)]
        length = math.hypot(*values)
        return array("f", [value / length for value in values])

    async def embed_query(self, text: str) -> Vector:
        return self.vector(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [self.vector(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self.vector(text) for text in texts]


def stored(item: MemoryItem, embedder: Numbers | None = None) -> StoredMemory:
    """Return an item with its indexes' contents; without an embedder it has no vector."""
    return StoredMemory(
        item=item,
        vector=None if embedder is None else embedder.vector(item.embedding_text),
        title_tokens=tokenize(item.title),
        description_tokens=tokenize(item.description),
        content_tokens=tokenize(item.content),
    )


OpenBank = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture(params=AVAILABLE)
def driver_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def embedder() -> Numbers:
    return Numbers()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / ".swarm" / "memory.db"


@pytest.fixture
def open_bank(database: Path, embedder: Numbers, driver_name: str) -> OpenBank:
    """Open the test's bank, as often as wanted, on the test's driver_name or on another."""

    @asynccontextmanager
    async def opened(
        *, sqlite: str = driver_name, embedder: Numbers = embedder, busy_timeout_s: float = 2.0
    ) -> AsyncGenerator[SqliteStore]:
        store = await open_store(
            laid(database, sqlite), sqlite=sqlite, embedder=embedder, busy_timeout_s=busy_timeout_s
        )
        async with store:
            yield store

    return opened


@pytest.fixture
def bank_on(database: Path, embedder: Numbers) -> Iterator[Callable[[str], OpenBank]]:
    """Return what opens the test's bank on an engine: a driver of SQLite, or PostgreSQL in a database of its own."""
    lent = ExitStack()

    def on_engine(engine: str) -> OpenBank:
        url = lent.enter_context(lent_database()) if engine == "postgres" else ""

        @asynccontextmanager
        async def opened(*, embedder: Numbers = embedder) -> AsyncGenerator[SqliteStore | PostgresStore]:
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


@pytest.fixture
def item() -> Callable[..., MemoryItem]:
    return made_item


@pytest.fixture
def with_indexes() -> Callable[..., StoredMemory]:
    return stored


@pytest.fixture
def here() -> Scope:
    return HERE


@pytest.fixture
def driver_names() -> list[str]:
    """All driver_names that this interpreter can stand on."""
    return AVAILABLE
