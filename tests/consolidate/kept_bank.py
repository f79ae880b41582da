"""A bank whose maintenance is tested: ways to fill it, to see all that it shows, and to see all that is in its file."""

import json
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock import SetClock
from laid_bank import DRIVER, laid
from made_items import made_item, put
from patience import HANG_S

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Consolidation, MemoryItem, MemoryLink
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.tools.memories.manage import list_memories
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

SQLITE = choose(DRIVER).module
"""The only SQLite library of the process: a second one next to an open bank would crash sqlite-vec."""

SHOP = Scope(project="shop")
EMBEDDER = StaticEmbedder()
EVERY_STATUS = MemoryFilter(statuses=("active", "quarantined", "archived"), limit=500)

MIGRATIONS = "Run the migrations before the tests"
ADVICE = (
    (MIGRATIONS, "1. Apply pending migrations to the test database.\n2. Start the suite."),
    ("Always run the migrations before the tests", "1. Apply pending migrations to the test database.\n2. Start it."),
    ("Never run the migrations before the tests", "1. Start the suite on the database as it is."),
    ("Back off when the API answers 429", "1. Wait twice as long before each retry.\n2. Add jitter."),
    ("Quote variables in shell scripts", "1. Put double quotes around each variable, because of spaces."),
    ("Read the stack trace to the deepest own frame", "1. Find the last frame of your code.\n2. Change that."),
)
"""Two memories that say the same, one that says the opposite of both, and three about something else."""


@dataclass
class Kept:
    """A bank with its toolbox and clock."""

    store: SqliteStore
    database: Path
    clock: SetClock = field(default_factory=SetClock)
    settings: Settings = field(default_factory=Settings)

    @property
    def toolbox(self) -> Toolbox:
        return Toolbox(self.store, EMBEDDER, self.clock, self.settings, SHOP)

    async def add(self, title: str, content: str = "1. Do it.", **fields: Any) -> str:
        """Put one memory into the bank and return its id."""
        (added,) = await self.add_all([(title, content)], **fields)
        return added

    async def add_all(self, texts: Sequence[tuple[str, str]], **fields: Any) -> list[str]:
        """Put memories into the bank and return their ids."""
        given = {"created_at": self.clock.at, "scope": SHOP, **fields}
        return await put(self.toolbox, *(made_item(title, content=content, **given) for title, content in texts))

    async def item(self, memory_id: str) -> MemoryItem:
        (found,) = await self.store.get_memories([SHOP], [memory_id])
        return found

    async def status(self, memory_id: str) -> str:
        return (await self.item(memory_id)).status

    async def active(self) -> set[str]:
        return {item.id for item in await self.store.list_memories([SHOP], MemoryFilter(limit=500))}

    async def links(self, *ids: str) -> list[MemoryLink]:
        return await self.store.memory_links((SHOP,), ids)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return everything in the plain tables of the file, except the seal of each commit."""
        with _reading(self.database) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
            )
            names = [name for (name,) in tables if not name.startswith(("vec_", "pattern_fts", "sqlite_"))]
            rows = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
        return rows | {"meta": [row for row in rows["meta"] if row[0] not in ("content", "seal")]}

    def runs(self) -> list[str]:
        """Return the runs that changed something, the latest first."""
        with _reading(self.database) as connection:
            found = connection.execute(
                "SELECT subject_id FROM events WHERE type = 'consolidation.changed' ORDER BY seq DESC"
            )
            return list(dict.fromkeys(run_id for (run_id,) in found))

    async def shown(self, *queries: str) -> str:
        """Return all that the bank shows, as text; it queries a copy, because a query counts as a use."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / ".swarm" / "memory.db"
            copy.parent.mkdir(mode=0o700)
            with _reading(self.database) as source, SQLITE.connect(copy) as target:
                source.backup(target)
            target.close()
            registry.forget(copy)
            registry.begin(copy)
            async with opened(Path(folder), clock=self.clock) as asked:
                return json.dumps([await _listed(asked), *[await _retrieved(asked, query) for query in queries]])


@asynccontextmanager
async def opened(
    folder: Path, *, clock: SetClock | None = None, settings: Settings | None = None
) -> AsyncGenerator[Kept]:
    """Open the bank of a folder."""
    database = folder / ".swarm" / "memory.db"
    async with await open_store(laid(database), sqlite=DRIVER, embedder=EMBEDDER, busy_timeout_s=HANG_S) as store:
        yield Kept(store, database, clock or SetClock(), settings or Settings())


@asynccontextmanager
async def own_bank() -> AsyncGenerator[Kept]:
    """Open a bank in a folder of its own, for one example of a property."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as kept:
            yield kept


def figures(done: Consolidation) -> dict[str, Any]:
    """Return what a run did, without what differs between runs."""
    return done.model_dump(mode="json", exclude={"run_id", "dry_run"})


async def _listed(bank: Kept) -> list[str]:
    items = await list_memories(bank.toolbox, EVERY_STATUS)
    got = await bank.store.get_memories([SHOP], [item.id for item in items])
    return [item.model_dump_json() for item in (*items, *got)]


async def _retrieved(bank: Kept, query: str) -> str:
    found = await retrieve(bank.toolbox, query, k=10)
    return found.model_dump_json(exclude={"retrieval_id", "latency_ms"})


@contextmanager
def _reading(database: Path) -> Generator[sqlite3.Connection]:
    connection = SQLITE.connect(f"{database.as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()
