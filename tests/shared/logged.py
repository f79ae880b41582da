"""Calls as a caller logs them, and a clock that is moved by hand."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from clock import NOW, SetClock
from laid_bank import laid

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings, ToolMemorySettings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.toolbox import Toolbox


def at(seconds: float) -> str:
    """Return a moment as a caller writes it."""
    return (NOW + timedelta(seconds=seconds)).isoformat()


def call(tool: str = "search", **fields: Any) -> dict[str, Any]:
    """Return a call that went well; what is not given has a default."""
    given: dict[str, Any] = {
        "tool_name": tool,
        "input": {"query": "weather in Rome"},
        "output": "Rome: fine weather",
        "success": True,
    }
    return given | fields


def failed(error: str = "Error: limit must be at most 100", tool: str = "search", **fields: Any) -> dict[str, Any]:
    """Return a call that failed."""
    return call(tool, output=error, success=False, **fields)


@asynccontextmanager
async def bank(folder: Path, chat: ChatModel | None = None, **settings: Any) -> AsyncGenerator[Toolbox]:
    """Open a bank; `settings` are those of the tool memory."""
    embedder = StaticEmbedder()
    store = await open_store(laid(folder / ".swarm" / "memory.db"), embedder=embedder)
    chosen = Settings(tool_memory=ToolMemorySettings.model_validate(settings))
    try:
        yield Toolbox(store, embedder, SetClock(), chosen, Scope(project="shop"), chat)
    finally:
        await store.close()
