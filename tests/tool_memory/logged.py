"""Calls as a caller logs them, and a clock that is set by hand."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

from clock import NOW, SetClock
from laid_bank import opened_bank

from swarm_memory.schema.settings import Settings, ToolMemorySettings
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.tool_memory.log import LogResult, log_tool_calls, read_calls
from swarm_memory.tools.toolbox import Toolbox


def at(seconds: float) -> str:
    """Return a moment as a caller writes it."""
    return (NOW + timedelta(seconds=seconds)).isoformat()


def call(tool: str = "search", **fields: Any) -> dict[str, Any]:
    """Return a call that succeeded; fields that are not given have defaults."""
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


def forward(toolbox: Toolbox, seconds: float) -> None:
    """Move the clock forward."""
    assert isinstance(toolbox.clock, SetClock)
    toolbox.clock.at += timedelta(seconds=seconds)


async def log_calls(toolbox: Toolbox, calls: Sequence[Mapping[str, Any]]) -> LogResult:
    """Validate and log calls as a caller sends them."""
    return await log_tool_calls(toolbox, read_calls(calls))


def bank(folder: Path, chat: ChatModel | None = None, **settings: Any) -> AbstractAsyncContextManager[Toolbox]:
    """Open a bank with these settings of the tool memory."""
    chosen = Settings(tool_memory=ToolMemorySettings.model_validate(settings))
    return opened_bank(folder / ".swarm" / "memory.db", settings=chosen, chat=chat)
