"""A bank in a real file whose clock stands still until it is set, and a way to fill it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from clock import NOW, SetClock
from laid_bank import laid

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """A toolbox over an empty bank, in the project `shop`."""
    embedder = StaticEmbedder()
    store = await open_store(laid(tmp_path / ".swarm" / "memory.db"), embedder=embedder)
    yield Toolbox(store, embedder, SetClock(), Settings(), Scope(project="shop"))
    await store.close()


Add = Callable[..., Awaitable[str]]


@pytest.fixture
def add(toolbox: Toolbox) -> Add:
    """Put one memory into the bank and return its id."""

    async def add_one(title: str, content: str = "1. Do it.", project: str = "shop", **fields: Any) -> str:
        values: dict[str, Any] = {"confidence": 0.5, "created_at": NOW, **fields}
        item = MemoryItem(id=new_id(MEMORY), scope=Scope(project=project), title=title, content=content, **values)
        (added,) = await toolbox.store.add_memories(await prepare(toolbox, [item]), toolbox.embedder.name)
        return added

    return add_one
