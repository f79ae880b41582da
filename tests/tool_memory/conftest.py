"""A bank in a real file for each test, with a clock that is moved by hand; calls as a caller logs them."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from logged import Still

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings, ToolMemorySettings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.toolbox import Toolbox

OpenBank = Callable[..., AbstractAsyncContextManager[Toolbox]]


@asynccontextmanager
async def bank(folder: Path, chat: ChatModel | None = None, **settings: Any) -> AsyncGenerator[Toolbox]:
    """Open a bank; `settings` are those of the tool memory."""
    embedder = StaticEmbedder()
    store = await open_store(folder / ".swarm" / "memory.db", embedder=embedder)
    chosen = Settings(tool_memory=ToolMemorySettings.model_validate(settings))
    try:
        yield Toolbox(store, embedder, Still(), chosen, Scope(project="shop"), chat)
    finally:
        await store.close()


@pytest.fixture
def open_bank(tmp_path: Path) -> OpenBank:
    """Return what opens the test's bank."""
    return partial(bank, tmp_path)


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncGenerator[Toolbox]:
    """An empty bank with default settings and no chat model."""
    async with bank(tmp_path) as opened:
        yield opened
