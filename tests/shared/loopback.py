"""A test's own HTTP server on loopback, which runs as long as its `with` block."""

import sys
import threading
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

JSON = {"content-type": "application/json"}


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: Message
    body: bytes


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    headers: Mapping[str, str] = JSON


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hung up: some tests do that on purpose."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Loopback:
    """The base of a scripted API: call `listen` once it can answer; it then serves during its `with` block."""

    protocol = "HTTP/1.0"
    _server: _Server

    def reply(self, asked: Asked) -> Reply:
        """Return the answer to a request; it may be called for several requests at the same time."""
        raise NotImplementedError

    def answer(self, to: BaseHTTPRequestHandler, asked: Asked) -> None:
        """Answer a request; an API that answers badly overrides this."""
        reply = self.reply(asked)
        self.begin(to, reply.status, {**reply.headers, "content-length": str(len(reply.body))})
        to.wfile.write(reply.body)

    @staticmethod
    def begin(to: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
        """Send the status line and the headers."""
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name, value)
        to.end_headers()

    def listen(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = server.protocol

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.answer(self, Asked(self.command, self.path, self.headers, body))

            do_HEAD = do_POST = do_GET  # noqa: N815 - the names that http.server calls

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the test's output quiet."""

        self._server = _Server(("127.0.0.1", 0), Handler)

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The address of the API: the host, unless a subclass adds a path."""
        return self.host

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
