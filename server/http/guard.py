"""Stands before every route of an HTTP server: who is known, rate, number at once, and time of a request.

Host, Origin, kind and size of a request are checked by the SDK behind it.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.server.access.roles import SCOPE_KEY, Caller

STRANGERS_PER_S = 5.0
STRANGERS_BURST = 20
"""What an address may ask without a valid token: enough to see that the token is wrong, too little to guess one."""

MAX_CLIENTS = 4096
"""Addresses and people that are remembered; the one not heard of for longest is forgotten first."""

RECHECK_S = 1.0
"""Nothing more goes to somebody in an answer that lasts for longer, unless they may still come in then."""

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


Admits = Callable[[Scope], Awaitable[Caller | None]]
"""Tells who sends a request; None: nobody who is known. Raises `SwarmMemoryError` where that cannot be seen."""


class Strangers(NamedTuple):
    """What happens to whom nobody knows."""

    refused: bool = True
    """Or passed on, a few times a second."""
    challenge: str = "Bearer"
    """What `WWW-Authenticate` tells them."""
    open_paths: frozenset[str] = frozenset()
    """What they may read all the same."""
    on_refused: Callable[[], None] = lambda: None
    """Is called for each that is refused."""


_REFUSED = Strangers()

log = logging.getLogger(__name__)


class Guard:
    """An ASGI application that passes on only what may come in."""

    def __init__(self, app: ASGIApp, admits: Admits, limits: HttpSettings, strangers: Strangers = _REFUSED) -> None:
        self._app = app
        self._admits = admits
        self._strangers = strangers
        self._limits = limits
        self._addresses = RateLimit(limits.requests_per_s, limits.burst)
        self._people = RateLimit(limits.requests_per_s, limits.burst)
        self._unknown = RateLimit(STRANGERS_PER_S, STRANGERS_BURST)
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
        try:
            caller = await self._admits(scope)
        except SwarmMemoryError as error:
            log.warning("nobody is let in: %s", error)
            await _refused(503, "It cannot be seen who you are now; the server's log says why")(scope, receive, send)
            return
        refusal = self._refusal(scope, caller)
        if caller is not None:
            scope = {**scope, SCOPE_KEY: caller, "user": _user(caller)}
            send = self._while_known(caller, scope, send)
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

    def _refusal(self, scope: Scope, caller: Caller | None) -> Response | None:
        client = (scope.get("client") or ("unknown", 0))[0]
        if caller is not None:
            wait_s = self._addresses.seconds_to_wait(client)
            if caller.person is not None:
                wait_s = max(wait_s, self._people.seconds_to_wait(caller.person.id))
            return _too_often(wait_s)
        late = _too_often(self._unknown.seconds_to_wait(client))
        if not self._strangers.refused or (scope["method"] == "GET" and scope["path"] in self._strangers.open_paths):
            return late
        self._strangers.on_refused()
        return late or _refused(401, "A bearer token is needed", {"www-authenticate": self._strangers.challenge})

    def _while_known(self, caller: Caller, scope: Scope, send: Send) -> Send:
        """Return what ends an answer that lasts when its caller was revoked, or may do less than when it began."""
        if caller.person is None:
            return send
        checked, is_over = time.monotonic(), False

        async def sending(message: Message) -> None:
            nonlocal checked, is_over
            if is_over:
                return
            if message["type"] == "http.response.body" and time.monotonic() - checked >= RECHECK_S:
                checked, is_over = time.monotonic(), not await self._is_still(caller, scope)
                if is_over:
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sending

    async def _is_still(self, caller: Caller, scope: Scope) -> bool:
        try:
            now = await self._admits(scope)
        except SwarmMemoryError as error:
            log.warning("an answer was ended: %s", error)
            return False
        return now is not None and now.person is not None and now.may(caller.role)

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


def _user(caller: Caller) -> AuthenticatedUser:
    """Return whose sessions the SDK takes a session for: nobody else's request finds it."""
    name = "owner" if caller.person is None else caller.person.id
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[caller.role]))


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
