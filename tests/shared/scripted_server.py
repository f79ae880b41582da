"""A local HTTP server that answers as its script says, well or badly."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

_MAX_REQUEST_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What is sent for one request."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeats: int = 1
    """How often the body is sent; the promised length counts them all."""
    sent_share: float = 1.0
    """Below 1 the connection is closed after that share of the body."""
    pause_s: float = 0.0
    """Above 0 the body goes out byte by byte with this pause between."""
    is_silent: bool = False
    """Nothing at all is sent."""
    hangs: bool = False
    """The connection stays open and silent until the client goes."""


def completion(text: str | None, *, finish_reason: str = "stop", **message: Any) -> Turn:
    """Return a chat completion with `text`, 11 input tokens and 7 output tokens."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    return envelope(choices=[choice], usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})


def envelope(**parts: Any) -> Turn:
    """Return a chat completion with any parts, whatever their types."""
    return in_json({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted", **parts})


def in_json(value: Any, *, status: int = 200, **headers: str) -> Turn:
    """Return `value` as JSON; underscores in the names of headers become hyphens."""
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
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """The JSON, or None."""


class ScriptedServer:
    """Serves on a free loopback port while its `async with` lasts: one turn for each POST, then 500 for ever.

    Other methods get 404 and are not recorded.
    """

    def __init__(self, script: Sequence[Turn]) -> None:
        self.requests: list[Received] = []
        self.first_request = asyncio.Event()
        self._script = list(script)
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MAX_REQUEST_BYTES)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        await asyncio.sleep(0)  # a connection that was just taken begins to be served
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()
            try:
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            finally:
                self._connections.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection goes on."""
        method, received = await _read_request(reader)
        if method == "POST":
            place = len(self.requests)
            self.requests.append(received)
            self.first_request.set()
            turn = self._script[place] if place < len(self._script) else error(500, "the script is used up")
        else:
            turn = error(404)
        if turn.hangs:
            await reader.read()
        if turn.is_silent or turn.hangs:
            return False
        await _send(turn, writer)
        return turn.sent_share >= 1.0


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, Received]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return method, Received(path, headers, json.loads(raw) if raw else None)


async def _send(turn: Turn, writer: asyncio.StreamWriter) -> None:
    length = len(turn.body) * turn.repeats
    headers = {"content-length": str(length), **turn.headers}
    lines = [f"HTTP/1.1 {turn.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if turn.pause_s:
        for at in range(length):
            writer.write(turn.body[at : at + 1])
            await writer.drain()
            await asyncio.sleep(turn.pause_s)
        return
    for _ in range(turn.repeats):
        writer.write(turn.body[: int(len(turn.body) * turn.sent_share)])
        await writer.drain()
