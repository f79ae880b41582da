"""Files of memories and tool calls: what is in one, told by its content, however a program has laid it out since."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from swarm_memory.schema.errors import InputError
from swarm_memory.tools.memories.transfer import Imported, import_memories
from swarm_memory.tools.tool_memory.transfer import import_tools
from swarm_memory.tools.toolbox import Toolbox

Format: TypeAlias = Literal["memories", "tools"]

HEAD_BYTES = 65_536
FIRST_BYTES = 4_000_000
"""The first record is looked at where the head speaks of one."""

MAX_DOCUMENT_BYTES = 64_000_000
"""What is not one record a line must fit in memory."""

_SIGNS = (b'"rm_', b'"tool_name"', b'"totals"')
_BLANK = "\ufeff \t\r\n,"


def format_of(path: Path) -> Format | None:
    """Return what a file holds by its first record: our memories or tools; None: neither."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if not any(sign in head for sign in _SIGNS):
            return None
        head += file.read(FIRST_BYTES - len(head))
    try:
        first: object = json.JSONDecoder().raw_decode(head.decode("utf-8", "replace").lstrip(_BLANK + "["))[0]
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict):
        return None
    record = cast("dict[str, Any]", first)
    if str(record.get("id")).startswith("rm_") and {"title", "content"} <= record.keys():
        return "memories"
    if record.get("kind") in ("tool", "call") and {"totals", "call"} & record.keys():
        return "tools"
    return None


def lines_of(path: Path) -> Iterator[str]:
    """Yield the records of a file, each as a line of JSON; lines that are records of their own as they are.

    Objects that go over lines, one after the other or in an array, are read too. Raises `InputError` for a document
    that is too large or no JSON from some place on.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        first = next((line for line in file if line.strip(_BLANK)), "")
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(first.lstrip("\ufeff")), dict):
                yield first
                yield from file
                return
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise InputError(f"has more than {MAX_DOCUMENT_BYTES // 1_000_000} MB and not one record a line")
    for value in _values(path.read_text("utf-8", "replace")):
        for record in cast("list[object]", value) if isinstance(value, list) else [value]:
            yield json.dumps(record, ensure_ascii=False)


def _values(text: str) -> Iterator[object]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is no JSON from character {at} on") from error
        yield value


async def import_export(toolbox: Toolbox, path: Path, quarantine: bool) -> Imported:
    """Take in a file that `format_of` knows, and say what became of it. Doing it again adds nothing.

    Raises `InputError`, `StorageError`.
    """
    if format_of(path) == "memories":
        return await import_memories(toolbox, lines_of(path), source=path.name, quarantine=quarantine)
    tools, result = await import_tools(toolbox, lines_of(path)), Imported()
    result.calls, result.known_calls = tools.calls, tools.known
    result.faulty, result.faults = tools.faulty, [*tools.faults]
    return result
