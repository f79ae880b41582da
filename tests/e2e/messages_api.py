"""Scripted model APIs on loopback, which record every request; and the Messages API, which streams its turns."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopback import Asked, Loopback, Reply

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """A turn of plain text, which ends the agent's work on the prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """A turn that calls one tool, with a few words before it."""

    tool: str
    input: Json
    text: str = ""


def bash(command: str, text: str = "") -> Use:
    """Return a turn that runs `command` with the Bash tool."""
    return Use("Bash", {"command": command, "description": "Run a command"}, text)


Turn = Say | Use


@dataclass
class ScriptedApi(Loopback):
    """Answers an agent's requests with `script`, one turn each; once the script is used up, the turn is "Done."."""

    protocol = "HTTP/1.1"

    script: Sequence[Turn]
    requests: list[Json] = field(default_factory=list[Json])
    """Bodies of the agent's requests, in order."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.listen()

    def next_turn(self, body: Json) -> tuple[int, Turn]:
        """Record a request and return its number and the turn that answers it."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
        return number, self.script[number] if number < len(self.script) else Say("Done.")


@dataclass
class MessagesApi(ScriptedApi):
    """Answers the main agent, the only one that offers Bash, by the script, and other requests with a short text."""

    side_requests: list[Json] = field(default_factory=list[Json])
    paths: list[str] = field(default_factory=list[str])

    def reply(self, asked: Asked) -> Reply:
        if asked.method == "HEAD":
            return Reply(200, b"")
        self.paths.append(f"{asked.method} {asked.path}")
        if asked.method == "GET":
            return Reply(404, b'{"type":"error","error":{"type":"not_found_error","message":"no"}}')
        match asked.path.partition("?")[0]:
            case "/v1/messages/count_tokens":
                return Reply(200, b'{"input_tokens": 1000}')
            case "/v1/messages":
                body: Json = json.loads(asked.body)
                message = message_of(str(body.get("model")), self.take(body))
                if body.get("stream"):
                    return Reply(200, b"".join(map(_sse, events_of(message))), {"content-type": "text/event-stream"})
                return Reply(200, json.dumps(message).encode())
            case _:
                return Reply(200, b"{}")

    def take(self, body: Json) -> Turn:
        """Record the request and return the turn that answers it."""
        tools: list[Json] = body.get("tools") or []
        if any(tool.get("name") == "Bash" for tool in tools):
            return self.next_turn(body)[1]
        self.side_requests.append(body)
        return Say("Small talk")

    def text_of(self, place: int) -> str:
        """Return all text in the messages of request number `place`, joined by line breaks."""
        return "\n".join(_texts(self.requests[place]["messages"]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _texts(part)
    elif isinstance(value, dict):
        for key in ("text", "content"):
            yield from _texts(value.get(key))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


_ids = iter(range(1, 1_000_000))


def message_of(model: str, turn: Turn) -> Json:
    """Return the message of a turn."""
    number = next(_ids)
    content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
    if isinstance(turn, Use):
        content.append({"type": "tool_use", "id": f"toolu_{number:020d}", "name": turn.tool, "input": turn.input})
    return {
        "id": f"msg_{number:020d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if isinstance(turn, Use) else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1000,
            "output_tokens": 50,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }


def events_of(message: Json) -> Iterator[Json]:
    """Yield the events that stream a message."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        start: Json
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _sse(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
