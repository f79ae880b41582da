"""Stands between the SDK's limit of a body and its sessions: refuses what would stay unanswered, and makes room."""

import math

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import JSONRPCMessage, JSONRPCRequest
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from swarm_memory.server.jsonrpc import Refusal, read_message


class Sessions:
    """The sessions of a server, of which the one that was idle for longest gives way to a new one."""

    def __init__(self, manager: StreamableHTTPSessionManager, max_sessions: int) -> None:
        self._manager = manager
        self._max = max_sessions
        self._opening = 0
        self._app = manager.asgi_app.app
        manager.asgi_app.app = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose body, if it has one, is a message. The limit has gathered the body."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
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

        if message is None or not _begins_session(message.value, scope):
            await self._app(scope, replay, send)
            return
        self._make_room()
        self._opening += 1
        try:
            await self._app(scope, replay, send)
        finally:
            self._opening -= 1

    def _make_room(self) -> None:
        """Where no more sessions may be open, end the one that was idle for longest.

        A session with a request that is being answered, or with an open stream, has no time at which it ends. One that
        gave way is not known any more (404): its client begins another. Where none is idle, the SDK refuses (503).
        """
        sessions = self._manager._server_instances  # pyright: ignore[reportPrivateUsage] - the SDK itself only refuses
        while len(sessions) + self._opening >= self._max:
            idle = [(each.idle_scope.deadline, name) for name, each in sessions.items() if each.idle_scope]
            ends, oldest = min(idle, default=(math.inf, ""))
            if ends == math.inf or (scope := sessions.pop(oldest).idle_scope) is None:
                return
            scope.cancel()


def _begins_session(message: JSONRPCMessage, scope: Scope) -> bool:
    asked = isinstance(message, JSONRPCRequest) and message.method == "initialize"
    return asked and "mcp-session-id" not in Headers(scope=scope)
