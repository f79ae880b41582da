"""Stands before every route of an HTTP server: who is known, rate, number at once, and time of a request.

Host, Origin, kind and size of a request are checked by the SDK behind it.
"""

import asyncio
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_memory.schema.settings import HttpSettings

STRANGERS_PER_S = 5.0
STRANGERS_BURST = 20
"""What an address may ask without a valid token: enough to see that the token is wrong, too little to guess one."""

MAX_CLIENTS = 4096
"""Addresses that are remembered; the one not heard of for longest is forgotten first."""

WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS")


class RateLimit:
    """Admits `burst` requests of a client at once and `per_second` over time: a token bucket for each address."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, client: str) -> float:
        """Count one request of a client; return 0 when it is admitted, else after how long one will be."""
        now = self._now()
        left, at = self._clients.pop(client, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._per_second)
        admitted = left >= 1.0
        self._clients[client] = (left - 1.0 if admitted else left, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return 0.0 if admitted else (1.0 - left) / self._per_second


def has_bearer(token: str) -> Callable[[Scope], bool]:
    """Return what tells whether a request carries the token."""
    expected = token.encode()

    def admits(scope: Scope) -> bool:
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, told = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(told.strip().encode("latin-1"), expected)

    return admits


class Guard:
    """An ASGI application that passes on only what may come in."""

    def __init__(
        self, app: ASGIApp, admits: Callable[[Scope], bool], limits: HttpSettings, *, refuses: bool = True
    ) -> None:
        """Whom `admits` does not know is refused, or without `refuses` passed on, a few times a second."""
        self._app = app
        self._admits = admits
        self._refuses = refuses
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
            await refusal(scope, receive, send)
        elif scope["method"] == "GET":
            await self._listen(scope, receive, send)
        elif self._working >= self._limits.max_concurrent:
            await _refused(503, "Too many requests at once", {"retry-after": "1"})(scope, receive, send)
        else:
            self._working += 1
            try:
                await self._work(scope, receive, send)
            finally:
                self._working -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        client = (scope.get("client") or ("unknown", 0))[0]
        if self._admits(scope):
            return _too_often(self._known.seconds_to_wait(client))
        if (late := _too_often(self._strangers.seconds_to_wait(client))) or not self._refuses:
            return late
        return _refused(401, "A bearer token is needed", {"www-authenticate": "Bearer"})

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose body must have come in, up to its end, in time."""
        wait_s = None if scope["method"] in WITHOUT_BODY else self._limits.body_timeout_s
        try:
            async with asyncio.timeout(wait_s) as limit:

                async def receive_in_time() -> Message:
                    message = await receive()
                    if not message.get("more_body", False):
                        limit.reschedule(None)
                    return message

                await self._app(scope, receive_in_time, send)
        except TimeoutError:
            await _refused(408, "The request took too long to come in")(scope, receive, send)

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


def _too_often(wait_s: float) -> Response | None:
    return _refused(429, "Too many requests", {"retry-after": str(math.ceil(wait_s))}) if wait_s > 0 else None


def _refused(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    said = {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})}
    return PlainTextResponse(text, status, said)


def _ending_refused(send: Send) -> Send:
    """Return what sends an answer and ends the connection with a refusal: who is refused holds no place."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return sending
