"""Stands before every route of an HTTP server: who sends a request, and whether its body is a message.

Host, Origin, kind and size of a request are checked by the SDK behind it. How often somebody asks, and how slowly, is
a reverse proxy's to limit.
"""

import logging
import time

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.access.roles import SCOPE_KEY, Caller
from swarm_memory.server.http.identity import Identity
from swarm_memory.server.jsonrpc import Refusal, read_message

RECHECK_S = 1.0
"""Nothing more goes to somebody in an answer that lasts for longer, unless they may still come in then."""

log = logging.getLogger(__name__)


class Guard:
    """An ASGI application that passes on only what may come in."""

    def __init__(self, app: ASGIApp, admits: Identity) -> None:
        """`admits` knows who sends a request."""
        self._app = app
        self._admits = admits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            caller = await self._admits(scope)
        except SwarmMemoryError as error:
            log.warning("nobody is let in: %s", error)
            await _refused(503, "It cannot be seen who you are now; the server's log says why")(scope, receive, send)
            return
        if caller is not None:
            await self._app({**scope, SCOPE_KEY: caller}, receive, self._while_known(caller, scope, send))
        else:
            await _refused(401, "A bearer token is needed", {"www-authenticate": "Bearer"})(scope, receive, send)

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
                try:
                    now = await self._admits(scope)
                except SwarmMemoryError as error:
                    log.warning("an answer was ended: %s", error)
                    now = None
                is_over = now is None or now.person is None or not now.may(caller.role)
                checked = time.monotonic()
                if is_over:
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sending


class Messages:
    """Passes on to the SDK what it answers: one message for each POST, whose body has come in whole by now."""

    def __init__(self, app: ASGIApp, path: str, headers: TransportSecuritySettings) -> None:
        self._app = app
        self._path = path
        self._check = TransportSecurityMiddleware(headers).validate_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request at the path, or pass it on."""
        if scope["type"] != "http" or scope["path"] != self._path:
            # The SDK, which checks the headers of what it answers, sees nothing of this.
            refused = scope["type"] == "http" and await self._check(Request(scope), scope["method"] == "POST")
            await (refused or self._app)(scope, receive, send)
            return
        if scope["method"] != "POST":
            # No session is kept, so there is none to listen to by GET, nor to end by DELETE.
            await _refused(405, "Messages are sent by POST", {"allow": "POST"})(scope, receive, send)
            return
        came = await receive()
        message = read_message(came.get("body", b"")) if came["type"] == "http.request" else None
        if isinstance(message, Refusal):
            said = message.answer.model_dump_json(exclude_unset=True)
            await Response(said, 400, media_type="application/json")(scope, receive, send)
            return
        held: list[Message] = [came if message is None else {**came, "body": message.text}]

        async def replay() -> Message:
            return held.pop() if held else await receive()

        await self._app(scope, replay, send)


def _refused(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    said = {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})}
    return PlainTextResponse(text, status, said)
