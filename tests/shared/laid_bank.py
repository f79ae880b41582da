"""An empty bank that is created once and copied where a test needs one (`storage` tests how banks are created)."""

import atexit
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from clock import SetClock

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import EmbeddingSettings, Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import open_postgres
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.tools.ports.models import ChatModel, Clock, Embedder
from swarm_memory.tools.toolbox import Toolbox

EMBEDDER = StaticEmbedder()
BY_TABLE = EmbeddingSettings(provider="static")
"""The embedder of tests that are about something else: the static table needs no loading."""

SHOP = Scope(project="shop")

DRIVER = os.environ.get("SWARM_MEMORY_SQLITE") or "auto"
"""The driver that hooks in the same process use: two SQLite libraries with the same file open would damage it."""


@asynccontextmanager
async def opened_bank(
    database: Path,
    *,
    embedder: Embedder = EMBEDDER,
    clock: Clock | None = None,
    settings: Settings | None = None,
    scope: Scope = SHOP,
    chat: ChatModel | None = None,
    url: str | None = None,
    sqlite: str = DRIVER,
) -> AsyncGenerator[Toolbox]:
    """Open a toolbox on the bank at a path, or at a URL; its clock stands still. Opening it again is a restart."""
    store = (
        await open_store(laid(database, sqlite), sqlite=sqlite, embedder=embedder)
        if url is None
        else await open_postgres(Place(url), pool_size=2, embedder=embedder)
    )
    async with store:
        yield Toolbox(store, embedder, clock or SetClock(), settings or Settings(), scope, chat)


class _Made(NamedTuple):
    """An empty bank to copy, and its id, secret and seal number from its record."""

    database: Path
    bank: str
    secret: str
    number: int


def laid(database: Path, sqlite: str = DRIVER) -> Path:
    """Put an empty bank where there is no file, recorded as this user's, complete and bound; return the path."""
    if not database.exists():
        made = _made(sqlite)
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(made.database, database)
        database.chmod(0o600)
        registry.register(database, made.bank, made.secret)
        registry.note(database, made.number)
    return database


@cache
def _made(sqlite: str) -> _Made:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    database = folder / "memory.db"
    close(connect(database, driver=choose(sqlite)), database)
    record = registry.find(database)
    assert record is not None
    return _Made(database, record.banks[0], record.secrets[0], registry.noted_number(database))
