"""Runs an MCP server over HTTP and ends it cleanly; it knows nothing of what the server does."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette import sse

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.server.http.connection import MAX_HEADER_BYTES, timed_protocol
from swarm_memory.server.http.guard import Guard

PATH = "/mcp"
CLOSE_TIMEOUT_S = 2.0
"""How long the end may take, from the signal to the end of the process."""

FINISH_TIMEOUT_S = 1.0
"""How much of that a request has that is being answered."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Address(NamedTuple):
    """Where the server listens and under which names it is called."""

    host: str
    port: int
    names: tuple[str, ...]


class _Server(uvicorn.Server):
    """uvicorn without its ticks, ten a second, and without its signals: by them the process would not end with 0."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = anyio.Event()

    def end(self) -> None:
        """Take no more connections and end."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        await self._ending.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def run_http(
    server: MCPServer[Any], address: Address, token: str, limits: HttpSettings, on_listening: Callable[[str], None]
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP comes; `on_listening` is given the URL when clients can call it.

    Raises `ConfigError` when the address cannot be listened on.
    """
    with _listen(address) as listener:
        anyio.run(_run, server, address, token, limits, listener, on_listening)


async def _run(
    server: MCPServer[Any],
    address: Address,
    token: str,
    limits: HttpSettings,
    listener: socket.socket,
    on_listening: Callable[[str], None],
) -> None:
    guard = Guard(_application(server, address, limits), token, address.names, limits)
    running = _Server(_config(guard, limits))
    _still_streams()
    with anyio.open_signal_receiver(*_heeded_signals()) as signals:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                async for _ in signals:
                    _end_in_time()
                    guard.close()
                    running.end()

            group.start_soon(watch)
            on_listening(url_of(listener))
            await running.serve([listener])
            group.cancel_scope.cancel()


def _still_streams() -> None:
    """Have the SDK's streams not look twice a second, for ever, whether a server has ended: the guard ends them."""
    sse._shutdown_watcher = anyio.sleep_forever  # pyright: ignore[reportPrivateUsage] - there is no other way


def url_of(listener: socket.socket) -> str:
    """Return the URL at which clients reach a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"


def _application(server: MCPServer[Any], address: Address, limits: HttpSettings) -> Any:
    """Return the SDK's application. Its own checks of `Host` and `Origin` stay on behind the guard's."""
    hosts = [form for name in address.names for form in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH,
        host=address.host,
        transport_security=security,
        max_request_body_size=limits.max_body_bytes,
        max_sessions=limits.max_sessions,
        session_idle_timeout=limits.session_idle_s,
    )


def _config(guard: Guard, limits: HttpSettings) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request is its sender's fault
    return uvicorn.Config(
        guard,
        http=timed_protocol(limits.header_timeout_s),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a client must not choose the address that its rate is counted under
        server_header=False,
        limit_concurrency=limits.max_connections,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(FINISH_TIMEOUT_S),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


def _listen(address: Address) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"there is no address {address.host!r} to listen on: {error}") from error
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {address.host} port {address.port}: {error.strerror or error}") from error
    return listener


def _heeded_signals() -> list[signal.Signals]:
    """Return the signals that end the server; one that the starter ignores, as nohup does, stays ignored."""
    found = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    return [each for each in found if signal.getsignal(each) is not signal.SIG_IGN]


def _end_in_time() -> None:
    """End the process when closing takes too long, whatever it waits for."""
    timer = threading.Timer(CLOSE_TIMEOUT_S, _give_up)
    timer.daemon = True
    timer.start()


def _give_up() -> None:
    sys.stderr.write("swarm-memory: the server did not close in time; it was ended\n")
    sys.stderr.flush()
    os._exit(1)
