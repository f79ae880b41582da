"""Guards every route of an HTTP server: checks who sends a request, and whether its body is a message.

Host, Origin, content type and size of a request are checked by the SDK behind it. Limiting how often and how slowly
somebody sends requests is left to a reverse proxy.
"""

import logging
import time

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.access.roles import SCOPE_KEY, Caller
from swarm_memory.server.http.identity import Authenticator
from swarm_memory.server.jsonrpc import Refusal, read_message

RECHECK_S = 1.0
"""Seconds after which an answer that is still being sent goes on only if its caller may still come in."""

log = logging.getLogger(__name__)


class Guard:
    """An ASGI application that passes on only the requests of callers who may come in."""

    def __init__(self, app: ASGIApp, admits: Authenticator) -> None:
        """`admits` identifies the sender of a request."""
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
            log.warning("cannot identify the sender of a request: %s", error)
            await _refused(503, "The server cannot identify you right now; its log says why")(scope, receive, send)
            return
        if caller is not None:
            await self._app({**scope, SCOPE_KEY: caller}, receive, self._while_known(caller, scope, send))
        else:
            await _refused(401, "A bearer token is required", {"www-authenticate": "Bearer"})(scope, receive, send)

    def _while_known(self, caller: Caller, scope: Scope, send: Send) -> Send:
        """Return a `send` that ends a long answer once its caller is revoked, or may do less than when it began."""
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
                    log.warning("a response was ended early: %s", error)
                    now = None
                is_over = now is None or now.person is None or not now.may(caller.role)
                checked = time.monotonic()
                if is_over:
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sending


class MessageFilter:
    """Passes on to the SDK only what it answers: one message per POST, whose body has arrived completely by now."""

    def __init__(self, app: ASGIApp, path: str, headers: TransportSecuritySettings) -> None:
        self._app = app
        self._path = path
        self._check = TransportSecurityMiddleware(headers).validate_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request at the path, or pass it on."""
        if scope["type"] != "http" or scope["path"] != self._path:
            # The SDK checks the headers of what it answers itself, but does not see this request.
            refused = scope["type"] == "http" and await self._check(Request(scope), scope["method"] == "POST")
            await (refused or self._app)(scope, receive, send)
            return
        if scope["method"] != "POST":
            # No session is kept, so there is none to listen to by GET, nor to end by DELETE.
            await _refused(405, "Messages must be sent by POST", {"allow": "POST"})(scope, receive, send)
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
