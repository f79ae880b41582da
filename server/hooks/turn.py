"""What happened in the last turn of a transcript, read from its end with the standard library alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from swarm_memory.tools.trajectory.tasks import is_own_tool

MAX_BYTES = 4_000_000
"""So much of the end is read: a turn that is longer has calls enough."""


def last_turn(transcript: str) -> tuple[list[bool], list[str]]:
    """Return of each call of a tool but our own whether it failed, the newest first, and the prompt."""
    failed: list[bool] = []
    errors: set[str] = set()
    for line in _from_the_end(transcript):
        content = _object(line.get("message")).get("content")
        blocks = [_object(block) for block in cast("list[Any]", content)] if isinstance(content, list) else []
        if line.get("isSidechain") is True or line.get("isMeta") is True:
            continue
        if line.get("type") == "assistant":
            calls = [block for block in blocks if block.get("type") == "tool_use"]
            own = [is_own_tool(str(block.get("name"))) for block in calls]
            failed += [block.get("id") in errors for block, is_own in zip(calls, own, strict=True) if not is_own]
        elif line.get("type") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            errors |= {str(block.get("tool_use_id")) for block in results if block.get("is_error") is True}
            if not results:
                said = (
                    content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in blocks)
                )
                return failed, [said]
    return failed, []


def _from_the_end(transcript: str) -> Iterator[dict[str, Any]]:
    with Path(transcript).open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - MAX_BYTES))
        lines = file.read(MAX_BYTES).splitlines()
    for line in reversed(lines):
        try:
            yield _object(json.loads(line))
        except (ValueError, RecursionError):
            continue  # cut off, or being written


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
