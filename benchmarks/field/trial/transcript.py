"""A session's transcript as Claude Code writes it, and the figures that can be read from one."""

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

VERSION = "2.1.197"
MOMENTS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "call",
    "PostToolUse": "call",
    "PostToolUseFailure": "failure",
    "Stop": "stop",
}
CHARS_PER_TOKEN = 4
TITLE = r"^(?:\d+[.)] |[-*] )?(.+?) \[rm_\w{9,}\]"
"""Matches a note's title, which precedes its id."""


class Transcript:
    """A growing JSONL file: each record names the one before it."""

    def __init__(self, path: Path, session_id: str, cwd: Path, model: str) -> None:
        self.path, self.session_id, self.cwd, self.model = path, session_id, cwd, model
        self.parent: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)

    def prompt(self, text: str, *, is_meta: bool = False) -> None:
        """Write a prompt of the user; `is_meta`: a hook says it in the user's place."""
        self._write("user", {"message": {"role": "user", "content": text}} | ({"isMeta": True} if is_meta else {}))

    def said(self, text: str) -> None:
        """Write an answer that ends the turn."""
        self._assistant({"type": "text", "text": text}, "end_turn", len(text))

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Write a call of a tool; return its id."""
        call_id = f"toolu_{uuid.uuid4().hex[:24]}"
        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        self._assistant(block, "tool_use", len(json.dumps(arguments)))
        return call_id

    def result(self, call_id: str, content: Any, *, is_error: bool, details: Any) -> None:
        """Write a call's result. `details`: what Claude Code keeps in addition to what the model reads."""
        block = {"type": "tool_result", "content": content, "is_error": is_error, "tool_use_id": call_id}
        self._write("user", {"message": {"role": "user", "content": [block]}, "toolUseResult": details})

    def context(self, event: str, name: str, text: str, call_id: str | None) -> None:
        """Write the context that a hook added for the model."""
        added = {"type": "hook_additional_context", "content": [text], "hookName": name, "hookEvent": event}
        self._write("attachment", {"attachment": added | {"toolUseID": call_id}})

    def _assistant(self, block: dict[str, Any], stop_reason: str, chars: int) -> None:
        usage = {"input_tokens": 0, "output_tokens": chars // CHARS_PER_TOKEN}
        head = {"id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": self.model}
        tail = {"content": [block], "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
        self._write("assistant", {"message": head | tail})

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        own = str(uuid.uuid4())
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {"parentUuid": self.parent, "isSidechain": False, **fields, "type": kind, "uuid": own}
        record |= {"timestamp": now, "userType": "external", "entrypoint": "cli", "cwd": str(self.cwd)}
        record |= {"sessionId": self.session_id, "version": VERSION, "gitBranch": "main"}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.parent = own


class Injected(NamedTuple):
    """What the hooks added at one moment."""

    moment: str
    text: str

    def titles(self) -> list[str]:
        """Return the titles of its notes."""
        return re.findall(TITLE, self.text, re.MULTILINE)


class Figures(NamedTuple):
    """A session's figures; sizes in characters, `seconds` from its first record to its last."""

    calls: int
    failed: int
    seconds: float
    chars_read: int
    injected: list[Injected]
    answer: str

    @property
    def tokens_injected(self) -> int:
        """About how many tokens the hooks added."""
        return sum(len(each.text) for each in self.injected) // CHARS_PER_TOKEN


def figures_of(path: Path) -> Figures:
    """Read a transcript. Calls of our own server's tools are not counted."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    times = [datetime.fromisoformat(record["timestamp"]) for record in records]
    own = {block["id"] for block in _blocks(records, "tool_use") if block["name"].startswith("mcp__")}
    results = [block for block in _blocks(records, "tool_result") if block["tool_use_id"] not in own]
    added = [record["attachment"] for record in records if record["type"] == "attachment"]
    answers = [block["text"] for block in _blocks(records, "text")]
    return Figures(
        calls=len(results),
        failed=sum(block["is_error"] for block in results),
        seconds=(times[-1] - times[0]).total_seconds(),
        chars_read=sum(len(block["content"]) for block in results),
        injected=[Injected(MOMENTS[each["hookEvent"]], "\n".join(each["content"])) for each in added],
        answer="\n\n".join(answers),
    )


def _blocks(records: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    for record in records:
        content = record.get("message", {}).get("content")
        if isinstance(content, list):
            yield from (block for block in cast("list[dict[str, Any]]", content) if block["type"] == kind)
