"""One story as each agent records it: a test fails, a file is edited, the test passes; then another task."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any, cast

from made_files import written

from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN

Record = dict[str, Any]

ITEM = "rm_01JABCDEFGHJKMNPQRSTVWXYZ0"
NOTES = f"{NOTES_OPEN}\n1) Run the tests first [{ITEM}]\n{NOTES_CLOSE}"
FIRST = "Fix the failing test of the parser"
SECOND = "Write a script that converts CSV files to JSON"
FAILED = "FAILED tests/test_parser.py::test_empty - IndexError"
PASSED = "1 passed in 0.02s"
FILE = "/home/dev/shop/parser.py"
SESSION = "5f0c2a3e-0000-4c58-9a2e-0d6f1e2b3c4d"
_AT = "2026-05-01T10:00:{:02d}.000Z"
_SHELL = "run_shell_command"
_MS = 1_777_629_600_000


def copilot() -> list[Record]:
    """Return the events of a session of Copilot CLI."""
    fields: list[tuple[str, Record]] = [
        ("session.start", {"sessionId": SESSION, "copilotVersion": "1.0.102", "context": {"cwd": "/home/dev/shop"}}),
        ("user.message", {"content": FIRST, "transformedContent": f"<current_datetime/>{FIRST}{NOTES}"}),
        ("assistant.turn_start", {"turnId": "0"}),
        ("assistant.message", {"messageId": "m1", "content": "I run it.", "outputTokens": 7,
                               "reasoningText": "Look first.",
                               "toolRequests": [_request("c1", "bash", {"command": "pytest"})]}),
        ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "pytest"}}),
        ("tool.execution_complete", {"toolCallId": "c1", "success": True,
                                     "result": {"content": f"{FAILED}\n<shellId: 0 completed with exit code 1>"}}),
        ("assistant.message", {"toolRequests": [_request("c2", "edit", {"path": FILE, "new_str": "x"})]}),
        ("tool.execution_complete", {"toolCallId": "c2", "success": True, "result": {"content": "updated"}}),
        ("assistant.message", {"content": "", "toolRequests": [_request("c3", "bash", {"command": "pytest"})]}),
        ("tool.execution_complete", {"toolCallId": "c3", "success": True, "result": {"content": PASSED},
                                     "shellExecution": {"exitCode": 0}}),
        ("assistant.message", {"content": "Fixed.", "toolRequests": []}),
        ("user.message", {"content": SECOND}),
        ("assistant.message", {"content": "Done.", "toolRequests": []}),
    ]  # fmt: skip
    return [event(kind, data, number) for number, (kind, data) in enumerate(fields)]


def event(kind: str, data: Record, number: int = 30) -> Record:
    """Make an event of Copilot CLI."""
    return {"type": kind, "data": data, "id": f"e{number}", "timestamp": _AT.format(number), "parentId": None}


def _request(call_id: str, name: str, arguments: Record) -> Record:
    return {"toolCallId": call_id, "name": name, "arguments": arguments, "type": "function"}


def gemini() -> list[Record]:
    """Return a chat of Gemini CLI as lines."""
    shell = {"command": "pytest"}
    return [
        {"sessionId": SESSION, "projectHash": "0b7d", "startTime": _AT.format(0), "kind": "main"},
        said(1, "user", [{"text": FIRST}, {"text": f"<hook_context>{escape(NOTES)}</hook_context>"}]),
        said(2, "gemini", "I run it."),
        {"$set": {"lastUpdated": _AT.format(2)}},
        said(2, "gemini", "I run it.", thoughts=[{"subject": "Look", "description": "Look first."}],
             tokens={"input": 10, "output": 5, "cached": 4, "thoughts": 2},
             toolCalls=[gemini_call("c1", _SHELL, shell, f"Output: {FAILED}\nExit Code: 1\nProcess Group PGID: 7")]),
        said(3, "gemini", "", toolCalls=[gemini_call("c2", "replace", {"file_path": FILE}, "updated")]),
        said(4, "gemini", "", toolCalls=[gemini_call("c3", _SHELL, shell, f"Output: {PASSED}\nProcess Group PGID: 8")]),
        said(5, "gemini", "Fixed."),
        said(6, "user", SECOND),
        said(7, "gemini", "Done."),
    ]  # fmt: skip


def said(number: int, kind: str, content: Any, **more: Any) -> Record:
    """Make a message of Gemini CLI."""
    return {"id": f"m{number}", "timestamp": _AT.format(number), "type": kind, "content": content, **more}


def gemini_call(call_id: str, name: str, args: Record, output: str, status: str = "success") -> Record:
    """Make a call of Gemini CLI with its result."""
    response = {"functionResponse": {"id": call_id, "name": name, "response": {"output": output}}}
    return {"id": call_id, "name": name, "args": args, "result": [response], "status": status}


def opencode(**info: Any) -> Record:
    """Return a session as OpenCode exports it."""
    return {
        "info": {"id": SESSION, "directory": "/home/dev/shop", **info},
        "messages": [
            opencode_message(1, "user", part_text(FIRST), part_text(NOTES, synthetic=True)),
            opencode_message(2, "assistant", {"type": "step-start"}, {"type": "reasoning", "text": "Look first."},
                    part_text("I run it."), opencode_tool("c1", "bash", {"command": "pytest"}, FAILED, exit=1),
                    tokens={"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 4, "write": 1}}),
            opencode_message(3, "assistant", opencode_tool("c2", "edit", {"filePath": FILE}, "updated")),
            opencode_message(4, "assistant", opencode_tool("c3", "bash", {"command": "pytest"}, PASSED, exit=0)),
            opencode_message(5, "assistant", part_text("Fixed.")),
            opencode_message(6, "user", part_text(SECOND)),
            opencode_message(7, "assistant", part_text("Done.")),
        ],
    }  # fmt: skip


def opencode_message(number: int, role: str, *parts: Record, **more: Any) -> Record:
    """Make a message of OpenCode with its parts."""
    return {
        "info": {"id": f"msg_{number}", "role": role, "time": {"created": _MS + number}, **more},
        "parts": list(parts),
    }


def part_text(text: str, **more: Any) -> Record:
    """Make a text part."""
    return {"type": "text", "text": text, **more}


def opencode_tool(call_id: str, name: str, given: Record, output: str, **metadata: Any) -> Record:
    """Make a part with a tool call and its result."""
    state = {"status": "completed", "input": given, "output": output, "metadata": metadata, "time": {"start": _MS}}
    return {"type": "tool", "tool": name, "callID": call_id, "state": state}


def cursor() -> list[Record]:
    """Return the messages of a chat as Cursor's database stores them."""
    return [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": [part_text(f"<user_info>\nOS: linux\n</user_info>{NOTES}")]},
        {"role": "user", "content": [part_text(f"<user_query>\n{FIRST}\n</user_query>")], "createdAt": _MS},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "Look first."}, part_text("I run it."),
            cursor_call("c1", "Shell", command="pytest")]},
        {"role": "tool", "content": [cursor_result("c1", f"{FAILED}\nCommand exited with code 1")]},
        {"role": "assistant", "content": [cursor_call("c2", "StrReplace", path=FILE, new_string="x")]},
        {"role": "tool", "content": [cursor_result("c2", "updated", isError=False)]},
        {"role": "assistant", "content": [cursor_call("c3", "Shell", command="pytest")]},
        {"role": "tool", "content": [cursor_result("c3", f"Exit code: 0\n\n{PASSED}")]},
        {"role": "assistant", "content": "Fixed."},
        {"role": "user", "content": f"<user_query>{SECOND}</user_query>"},
        {"role": "assistant", "content": [part_text("Done.")]},
    ]  # fmt: skip


def cursor_call(call_id: str, name: str, **given: Any) -> Record:
    """Make a call of Cursor."""
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "args": given}


def cursor_result(call_id: str, text: str, **more: Any) -> Record:
    """Make a result of Cursor."""
    return {"type": "tool-result", "toolCallId": call_id, "toolName": "", "result": text, **more}


def cursor_lines() -> list[Record]:
    """Return the same messages as the lines of an agent transcript, which have no ids."""
    lines: list[Record] = [{"role": each["role"], "message": {"content": each["content"]}} for each in cursor()]
    for line in lines:
        for block in line["message"]["content"]:
            if isinstance(block, dict):
                block.pop("toolCallId", None)  # pyright: ignore[reportUnknownMemberType]
    return [*lines, {"type": "turn_ended", "status": "success"}]


def write_lines(path: Path, records: list[Record]) -> Path:
    """Write one record per line."""
    return written(path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records))


def write_opencode(path: Path, *sessions: Record) -> Path:
    """Write sessions into a database in OpenCode's format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, revert TEXT, time_created INTEGER)"
        )
        connection.execute(
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)"
        )
        connection.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, time_created INTEGER, data TEXT)")
        for number, session in enumerate(sessions):
            info = session["info"]
            row = (info["id"], info.get("parentID"), json.dumps(info.get("revert")), number)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?)", row)
            for message in session["messages"]:
                named = f"{number}-{message['info']['id']}"
                data = {key: value for key, value in message["info"].items() if key != "id"}
                at = message["info"]["time"]["created"]
                connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (named, info["id"], at, json.dumps(data)))
                for place, part in enumerate(message["parts"]):
                    row = (f"{named}-{place:03d}", named, at, json.dumps(part))
                    connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    return path


def write_cursor(path: Path, messages: list[Record], *, hex_meta: bool = True) -> Path:
    """Write messages into a chat's database in Cursor's format, between blobs that are not messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = json.dumps({"agentId": SESSION, "name": "Parser"})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (about.encode().hex() if hex_meta else about,))
        for number, message in enumerate(messages):
            blobs = ((f"{number}", json.dumps(message).encode()), (f"{number}-graph", b"\x0a\x20{" + bytes(range(40))))
            connection.executemany("INSERT INTO blobs VALUES (?, ?)", blobs)
    return path


STORIES: Mapping[str, Callable[[Path], Path]] = {
    "copilot_cli": lambda folder: write_lines(folder / SESSION / "events.jsonl", copilot()),
    "gemini_cli": lambda folder: write_lines(folder / "session-2026-05-01T10-00-5f0c2a3e.jsonl", gemini()),
    "opencode": lambda folder: write_opencode(folder / "opencode.db", opencode()),
    "opencode export": lambda folder: write_lines(folder / "exported.json", [opencode()]),
    "cursor": lambda folder: write_cursor(folder / SESSION / "store.db", cursor()),
    "cursor lines": lambda folder: write_lines(folder / SESSION / f"{SESSION}.jsonl", cursor_lines()),
}
"""By agent and form: a function that writes the story into a folder and returns the file."""


def spoilings(value: Any) -> Iterator[Any]:
    """Yield `value` with each of its parts in turn replaced by something that no format has there."""
    if isinstance(value, dict):
        whole = cast(Record, value)
        yield from ({**whole, key: other} for key, each in whole.items() for other in spoilings(each))
    elif isinstance(value, list):
        items = cast(list[Any], value)
        for place, each in enumerate(items):
            yield from ([*items[:place], other, *items[place + 1 :]] for other in spoilings(each))
    else:
        yield [{"x": None}] if isinstance(value, str) else "x"
