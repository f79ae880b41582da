"""A bank in a real file whose clock stands still until it is set, and a way to fill it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from clock import NOW
from laid_bank import opened_bank
from made_items import made_item, put

from swarm_memory.schema.base import Scope
from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """A toolbox over an empty bank, in the project `shop`."""
    async with opened_bank(tmp_path / ".swarm" / "memory.db") as opened:
        yield opened


Add = Callable[..., Awaitable[str]]


@pytest.fixture
def add(toolbox: Toolbox) -> Add:
    """Return a function that puts one memory into the bank and returns its id."""

    async def add_one(title: str, content: str = "1. Do it.", project: str = "shop", **fields: Any) -> str:
        given = {"scope": Scope(project=project), "content": content, "created_at": NOW, **fields}
        (added,) = await put(toolbox, made_item(title, **given))
        return added

    return add_one
