"""Stands before every route of an HTTP server: names, token, rate, concurrency, size and time of a request.

It is plain ASGI, knows nothing of MCP, and what it refuses never reaches the application.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from swarm_memory.schema.settings import HttpSettings
from swarm_memory.server.http.limits import RateLimit
from swarm_memory.server.http.origins import host_allowed, origin_allowed
from swarm_memory.server.http.token import same_token

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STRANGERS_PER_S = 5.0
STRANGERS_BURST = 20
"""What an address may ask without a valid token: enough to see that the token is wrong, too little to guess one."""

WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS")


class Refusal(NamedTuple):
    """An answer instead of the application's."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Guard:
    """An ASGI application that passes on only what may come in."""

    def __init__(self, app: Application, token: str, names: tuple[str, ...], limits: HttpSettings) -> None:
        self._app = app
        self._token = token
        self._names = names
        self._limits = limits
        self._known = RateLimit(limits.requests_per_s, limits.burst)
        self._strangers = RateLimit(STRANGERS_PER_S, STRANGERS_BURST)
        self._working = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End the streams that only listen; a client sees them end and not break."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            ends = scope["method"] in WITHOUT_BODY  # a client that still sends a body would not see the answer
            await self._request(scope, receive, _ending_refused(send) if ends else send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, refusal)
        elif scope["method"] == "GET":
            await self._listen(scope, receive, send)
        elif self._working >= self._limits.max_concurrent:
            await _refuse(send, Refusal(503, "Too many requests at once", ((b"retry-after", b"1"),)))
        else:
            self._working += 1
            try:
                await self._work(scope, receive, send)
            finally:
                self._working -= 1

    def _refusal(self, scope: Scope) -> Refusal | None:
        host, *others = _values(scope, b"host") or [""]
        if others or not host_allowed(host, self._names):
            return Refusal(421, "This server does not answer to that Host")
        if any(not origin_allowed(origin, host) for origin in _values(scope, b"origin")):
            return Refusal(403, "Pages of that Origin may not call this server")
        client = (scope.get("client") or ("unknown", 0))[0]
        if not self._has_token(scope):
            return _too_often(self._strangers.seconds_to_wait(client)) or Refusal(
                401, "A bearer token is needed", ((b"www-authenticate", b"Bearer"),)
            )
        return _too_often(self._known.seconds_to_wait(client)) or _wrong_type(scope)

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return scheme.lower() == b"bearer" and same_token(token.strip(), self._token)

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if scope["method"] not in WITHOUT_BODY:
            try:
                async with asyncio.timeout(self._limits.body_timeout_s):
                    read = await _read_body(scope, receive, self._limits.max_body_bytes)
            except TimeoutError:
                return await _refuse(send, Refusal(408, "The request took too long to come in"))
            if isinstance(read, Refusal):
                return await _refuse(send, read)
            if read is None:
                return None  # the client went away
            body = read
        return await self._app(scope, _replay(body, receive), send)

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that may stay open for ever; when the server closes, it sees its client go."""
        open_ended = False

        async def watch(message: Message) -> None:
            nonlocal open_ended
            open_ended = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        async def until_closing() -> Message:
            receiving = asyncio.ensure_future(receive())
            closing = asyncio.ensure_future(self._closing.wait())
            try:
                await asyncio.wait((receiving, closing), return_when=asyncio.FIRST_COMPLETED)
                return receiving.result() if receiving.done() else {"type": "http.disconnect"}
            finally:
                for task in (receiving, closing):
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

        await self._app(scope, until_closing, watch)
        if open_ended and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _too_often(wait_s: float) -> Refusal | None:
    if wait_s <= 0:
        return None
    return Refusal(429, "Too many requests", ((b"retry-after", str(math.ceil(wait_s)).encode()),))


def _wrong_type(scope: Scope) -> Refusal | None:
    """A page of another site can send text and forms without being asked, but not JSON."""
    if scope["method"] != "POST":
        return None
    kinds = [value.partition(";")[0].strip().lower() for value in _values(scope, b"content-type")]
    return None if kinds == ["application/json"] else Refusal(415, "Content-Type must be application/json")


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes | Refusal | None:
    """Return the whole body, a refusal when it is too large, None when the client went away."""
    too_large = Refusal(413, f"The request is larger than {limit} bytes")
    declared = _values(scope, b"content-length")
    if declared and declared[0].isdigit() and int(declared[0][:20]) > limit:
        return too_large
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            return too_large
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _ending_refused(send: Send) -> Send:
    """Return what sends an answer and ends the connection with a refusal: who is refused holds no place."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return sending


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = refusal.text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
