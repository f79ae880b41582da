"""Calls as a caller logs them, and a clock that is moved by hand."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Still:
    """A clock that is moved by hand."""

    time: datetime = NOW

    def now(self) -> datetime:
        return self.time


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
