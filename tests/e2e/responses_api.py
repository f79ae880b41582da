"""A scripted Responses API on loopback, as Codex CLI calls it: it streams the given turns and records each request."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loopback import Asked, Reply

from tests.e2e.messages_api import Say, ScriptedApi, Turn

Json = dict[str, Any]


@dataclass
class ResponsesApi(ScriptedApi):
    """Answers each request with the next turn of the script."""

    wait: Callable[[], object] = lambda: None
    """Called before the first turn: a real agent may request the turn before its MCP server has started."""

    @property
    def url(self) -> str:
        return f"{self.host}/v1"

    def reply(self, asked: Asked) -> Reply:
        answer = self.stream(asked.path, json.loads(asked.body)) if asked.method == "POST" else None
        if answer is None:
            return Reply(404, b"{}")
        return Reply(200, answer, {"content-type": "text/event-stream"})

    def stream(self, path: str, body: Json) -> bytes | None:
        """Record a request and return the stream that answers it; None for an unknown path."""
        if not path.endswith("/responses"):
            return None
        if not self.requests:
            self.wait()
        number, turn = self.next_turn(body)
        usage = {"input_tokens": 10, "input_tokens_details": None, "output_tokens": 5, "output_tokens_details": None,
                 "total_tokens": 15}  # fmt: skip
        events: list[Json] = [
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "item": _item(turn, number)},
            {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}},
        ]
        return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)

    def seen_by_model(self, place: int) -> str:
        """Return everything that request number `place` sent to the model, as JSON."""
        return json.dumps(self.requests[place]["input"])


def _item(turn: Turn, number: int) -> Json:
    if isinstance(turn, Say):
        content = [{"type": "output_text", "text": turn.text}]
        return {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": content}
    called = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
    return {**called, "name": turn.tool, "arguments": json.dumps(turn.input)}
