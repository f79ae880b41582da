"""Lines as Claude Code writes them, for transcripts made by the tests."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SESSION = "0c9f1f0e-session"
_numbers = itertools.count()

Line = dict[str, Any]


def line(kind: str, message: Line | None = None, **more: Any) -> Line:
    """Make a line of any type, with the fields that every line has."""
    number = next(_numbers)
    made: Line = {
        "type": kind,
        "uuid": f"u-{number}",
        "sessionId": SESSION,
        "isSidechain": False,
        "cwd": "/home/dev/shop",
        "timestamp": f"2026-02-01T10:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
    }
    return made | ({"message": message} if message is not None else {}) | more


def prompt(text: str | list[Line], **more: Any) -> Line:
    """Make a person's prompt."""
    return line("user", {"role": "user", "content": text}, **more)


def says(*blocks: Line, id: str = "", usage: Line | None = None, **more: Any) -> Line:
    """Make a line of the assistant."""
    message = {"id": id or f"msg-{next(_numbers)}", "role": "assistant", "content": list(blocks), "usage": usage or {}}
    return line("assistant", message, **more)


def text(words: str) -> Line:
    """Make a text block."""
    return {"type": "text", "text": words}


def call(id: str, command: str, tool: str = "Bash") -> Line:
    """Make a tool_use block."""
    return {"type": "tool_use", "id": id, "name": tool, "input": {"command": command}}


def result(id: str, output: str, *, error: bool = False, **streams: Any) -> Line:
    """Make the line of a tool's result."""
    block = {"type": "tool_result", "tool_use_id": id, "content": output, "is_error": error}
    details: Any = f"Error: {output}" if error else {"stdout": output, "stderr": "", "interrupted": False, **streams}
    return line("user", {"role": "user", "content": [block]}, toolUseResult=details)


def write(path: Path, lines: Iterable[Line | str]) -> Path:
    """Write lines; a string is written unchanged. Return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path
