"""The transcript that an event names, and what happened in its last turn, read from its end."""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.host import Said
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.tools.trajectory.shell import parse_command
from swarm_memory.tools.trajectory.tasks import is_own_tool

MAX_BYTES = 4_000_000
"""So much of the end is read: a turn that is longer has calls enough."""


class Turn(NamedTuple):
    """What happened between a prompt and the end of a transcript."""

    failed: list[bool]
    """Of each call of a tool but our own whether it failed, the newest first."""
    said: list[str]
    """The prompt."""
    seconds: float = 0.0
    taught: bool = False
    """Whether the agent called `remember`."""


def named_transcript(event: Said, folders: Iterable[str | os.PathLike[str]]) -> str | None:
    """Return the checked path of a session's transcript; None where there is none. Raises `InputError`."""
    session_id, named = str(event.get("session_id") or ""), str(event.get("transcript_path") or "")
    if not session_id.replace("-", "").replace("_", "").isalnum() or len(session_id) > 128:
        raise InputError(f"not a session's id: {session_id[:40]!r}")
    return checked_transcript(named, folders) if os.path.lexists(named) else None


def last_turn(transcript: str) -> Turn:
    """Return what happened in the last turn of a transcript."""
    failed: list[bool] = []
    errors: set[str] = set()
    times: list[str] = []
    taught = False
    for line in _from_the_end(transcript):
        content = _object(line.get("message")).get("content")
        blocks = [_object(block) for block in cast("list[Any]", content)] if isinstance(content, list) else []
        if line.get("isSidechain") is True or line.get("isMeta") is True:
            continue
        times += [str(line["timestamp"])] if line.get("timestamp") else []
        if line.get("type") == "assistant":
            calls = [block for block in blocks if block.get("type") == "tool_use"]
            names = [str(block.get("name")) for block in calls]
            taught |= any(is_own_tool(name) and name.endswith("remember") for name in names)
            failed += [
                block.get("id") in errors and not _only_looks(_object(block.get("input")))
                for block, name in zip(calls, names, strict=True)
                if not is_own_tool(name)
            ]
        elif line.get("type") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            errors |= {str(block.get("tool_use_id")) for block in results if block.get("is_error") is True}
            if not results:
                said = (
                    content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in blocks)
                )
                return Turn(failed, [said], _seconds(times), taught)
    return Turn(failed, [], _seconds(times), taught)


def _only_looks(given: dict[str, Any]) -> bool:
    """Whether a command line ends with a look: `grep` that finds nothing ends with 1, and nothing failed."""
    command = given.get("command")
    parts = parse_command(command).parts if isinstance(command, str) else ()
    return bool(parts) and parts[-1].purpose in ("search", "read", "print")


def _seconds(times: list[str]) -> float:
    """Return how long it took from the last of these moments to the first; 0 where they cannot be read."""
    try:
        return (datetime.fromisoformat(times[0]) - datetime.fromisoformat(times[-1])).total_seconds() if times else 0.0
    except (ValueError, TypeError):
        return 0.0


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
