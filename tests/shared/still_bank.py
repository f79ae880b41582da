"""A bank in a real file whose clock stands still until it is set, and a way to fill it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from clock import NOW
from laid_bank import opened_bank

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """A toolbox over an empty bank, in the project `shop`."""
    async with opened_bank(tmp_path / ".swarm" / "memory.db") as opened:
        yield opened


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
