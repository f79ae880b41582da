"""A scripted Responses API on loopback, as Codex CLI asks it: streams the turns it was given and keeps each request."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback import Loopback
from messages_api import Say, Turn, Use

Json = dict[str, Any]


def shell(command: str) -> Use:
    """Return a turn that runs `command`."""
    return Use("exec_command", {"cmd": command})


@dataclass
class ResponsesApi(Loopback):
    """Answers each request with the next turn of `script`; once it is used up it says "Done."."""

    script: Sequence[Turn]
    requests: list[Json] = field(default_factory=list[Json])
    wait: Callable[[], object] = lambda: None
    """Called before the first turn: a real agent may ask for it before its MCP server has started."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.serve_by(_handler(self))

    @property
    def url(self) -> str:
        return f"{self.host}/v1"

    def answer(self, path: str, body: Json) -> bytes | None:
        """Record a request and return the stream that answers it; None for a path that is not there."""
        if not path.endswith("/responses"):
            return None
        number, turn = self.next_turn(body)
        usage = {"input_tokens": 10, "input_tokens_details": None, "output_tokens": 5, "output_tokens_details": None,
                 "total_tokens": 15}  # fmt: skip
        events: list[Json] = [
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "item": _item(turn, number)},
            {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}},
        ]
        return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)

    def next_turn(self, body: Json) -> tuple[int, Turn]:
        """Record a request and return its number and the turn that answers it."""
        if not self.requests:
            self.wait()
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
        return number, self.script[number] if number < len(self.script) else Say("Done.")

    def told(self, place: int) -> str:
        """Return all that request number `place` gave the model, as JSON."""
        return json.dumps(self.requests[place]["input"])


def _item(turn: Turn, number: int) -> Json:
    if isinstance(turn, Say):
        content = [{"type": "output_text", "text": turn.text}]
        return {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": content}
    called = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
    return {**called, "name": turn.tool, "arguments": json.dumps(turn.input)}


def _handler(api: ResponsesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output quiet."""

        def do_GET(self) -> None:
            self._answer(404, "application/json", b"{}")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = api.answer(self.path, json.loads(raw))
            if answer is None:
                self._answer(404, "application/json", b"{}")
            else:
                self._answer(200, "text/event-stream", answer)

        def _answer(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
