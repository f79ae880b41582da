"""A local HTTP server that answers as its script says, correctly or not."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from loopback import Asked, Loopback


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer to one request."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeats: int = 1
    """How many times the body is sent; the announced length covers them all."""
    sent_share: float = 1.0
    """The share of the body that is sent; below 1, the connection is closed after it."""
    pause_s: float = 0.0
    """Above 0, the body is sent byte by byte with this pause after each."""
    is_silent: bool = False
    """Nothing at all is sent."""
    hangs: bool = False
    """The connection stays open and silent until the client disconnects."""


def completion(text: str | None, *, finish_reason: str = "stop", **message: Any) -> Turn:
    """Return a chat completion with `text`, 11 input tokens and 7 output tokens."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    return envelope(choices=[choice], usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})


def envelope(**parts: Any) -> Turn:
    """Return a chat completion with any parts, whatever their types."""
    return in_json({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted", **parts})


def in_json(value: Any, *, status: int = 200, **headers: str) -> Turn:
    """Return `value` as JSON; underscores in header names become hyphens."""
    named = {name.replace("_", "-"): content for name, content in headers.items()}
    return Turn(json.dumps(value).encode(), status, {"content-type": "application/json", **named})


def error(status: int, message: str = "no", *, code: str | None = None, **headers: str) -> Turn:
    """Return an error in the form of chat completions."""
    return in_json({"error": {"message": message, "type": "error", "code": code}}, status=status, **headers)


def page(text: str = "<!doctype html><title>Sign in</title>", status: int = 200) -> Turn:
    """Return a web page, as captive portals and wrong addresses do."""
    return Turn(text.encode(), status, {"content-type": "text/html"})


def events(*values: Mapping[str, Any]) -> Turn:
    """Return server-sent events, each named by its `type`."""
    lines = [f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values]
    return Turn("".join(lines).encode(), 200, {"content-type": "text/event-stream"})


NOTHING = Turn(is_silent=True)
HANG = Turn(hangs=True)


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it was received."""

    path: str
    headers: Mapping[str, str]
    """Header names are in lower case."""
    body: Any
    """The parsed JSON; None if the body is empty."""


class ScriptedServer(Loopback):
    """Serves during its `async with` block: a turn per POST, then 500; other methods get 404 and are not recorded."""

    protocol = "HTTP/1.1"

    def __init__(self, script: Sequence[Turn]) -> None:
        self.requests: list[Received] = []
        self.first_request = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._script = list(script)
        self.listen()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)

    def answer(self, to: BaseHTTPRequestHandler, asked: Asked) -> None:
        turn = self._next(asked) if asked.method == "POST" else error(404)
        to.close_connection = turn.is_silent or turn.hangs or turn.sent_share < 1.0
        if turn.hangs:
            to.rfile.read()
        if turn.is_silent or turn.hangs:
            return
        self.begin(to, turn.status, {"content-length": str(len(turn.body) * turn.repeats), **turn.headers})
        step = 1 if turn.pause_s else max(1, int(len(turn.body) * turn.sent_share))
        for _ in range(turn.repeats):
            for at in range(0, int(len(turn.body) * turn.sent_share), step):
                to.wfile.write(turn.body[at : at + step])
                time.sleep(turn.pause_s)

    def _next(self, asked: Asked) -> Turn:
        place = len(self.requests)
        headers = {name.lower(): value for name, value in asked.headers.items()}
        self.requests.append(Received(asked.path, headers, json.loads(asked.body) if asked.body else None))
        self._loop.call_soon_threadsafe(self.first_request.set)
        return self._script[place] if place < len(self._script) else error(500, "the script is used up")
