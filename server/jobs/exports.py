"""Files of memories and tool calls that `memories export` wrote: what is in one is told by its first line."""

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from swarm_memory.tools.memories.transfer import Imported, import_memories
from swarm_memory.tools.tool_memory.transfer import import_tools
from swarm_memory.tools.toolbox import Toolbox

Format: TypeAlias = Literal["memories", "tools"]

MAX_FIRST_BYTES = 4_000_000

_SIGNS = (b'"rm_', b'"totals"', b'"call"')


def format_of(path: Path) -> Format | None:
    """Return what a file holds by its first line: memories, or what is known of tools; None: neither."""
    with path.open("rb") as file:
        line = file.readline(MAX_FIRST_BYTES)
    if not any(sign in line for sign in _SIGNS):
        return None
    try:
        first: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict):
        return None
    record = cast("dict[str, Any]", first)
    if str(record.get("id")).startswith("rm_") and {"title", "content"} <= record.keys():
        return "memories"
    return "tools" if record.get("kind") in ("tool", "call") and {"totals", "call"} & record.keys() else None


async def import_export(toolbox: Toolbox, path: Path, quarantine: bool) -> Imported:
    """Take in a file that `format_of` knows, and say what became of it. Doing it again adds nothing.

    Raises `InputError`, `StorageError`.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        if format_of(path) == "memories":
            return await import_memories(toolbox, lines, source=path.name, quarantine=quarantine)
        tools = await import_tools(toolbox, lines)
    return Imported(calls=tools.calls, known_calls=tools.known, faulty=tools.faulty, faults=tools.faults)
