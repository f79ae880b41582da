"""What happened in the last turn of a transcript of Claude Code, read from its end."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from swarm_memory.server.hosts.records import Record, all_text, as_list, as_object, parsed
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


def last_turn(transcript: str) -> Turn:
    """Return what happened in the last turn of a transcript."""
    failed: list[bool] = []
    errors: set[str] = set()
    times: list[datetime] = []
    said: list[str] = []
    taught = False
    for line in _from_the_end(transcript):
        content = line.object("message").get("content")
        blocks = list(map(as_object, as_list(content)))
        if line.get("isSidechain") is True or line.get("isMeta") is True:
            continue
        times += filter(None, [line.time("timestamp")])
        if line.get("type") == "assistant":
            for block in (block for block in blocks if block.get("type") == "tool_use"):
                name = block.text("name")
                if is_own_tool(name):
                    taught |= name.endswith("remember")
                else:
                    failed.append(block.get("id") in errors and not _only_looks(block.object("input")))
        elif line.get("type") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            errors |= {block.text("tool_use_id") for block in results if block.get("is_error") is True}
            if not results:
                said.append(all_text(content))
                break
    return Turn(failed, said, (times[0] - times[-1]).total_seconds() if times else 0.0, taught)


def _only_looks(given: Record) -> bool:
    """Whether a command line ends with a look: `grep` that finds nothing ends with 1, and nothing failed."""
    parts = parse_command(given.text("command")).parts
    return bool(parts) and parts[-1].purpose in ("search", "read", "print")


def _from_the_end(transcript: str) -> Iterator[Record]:
    with Path(transcript).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_BYTES))
        lines = file.read(MAX_BYTES).splitlines()
    for line in reversed(lines):  # the first may be cut off, and the last is perhaps being written
        yield as_object(parsed(line.decode("utf-8", "replace")))
