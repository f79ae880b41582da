"""Runs an MCP server over HTTP, under the names that it may be called by, and ends it cleanly."""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from ipaddress import ip_address
from typing import Any, NamedTuple, Protocol

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette import sse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.server.access.roles import Caller
from swarm_memory.server.http.guard import Guard, Strangers
from swarm_memory.server.http.identity import Identity
from swarm_memory.server.http.sessions import Sessions
from swarm_memory.server.http.team import team_routes

PATH, VIEWER = "/mcp", "/ui"
MAX_HEADER_BYTES = 32 * 1024
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
CLOSE_TIMEOUT_S = 2.0
"""How long the end may take, from the signal to the end of the process."""

FINISH_TIMEOUT_S = 1.0
"""How much of that a request has that is being answered."""

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?")
_PASSED_ON = Strangers(refused=False)
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Address(NamedTuple):
    """Where the server listens and under which names it is called."""

    host: str
    port: int
    names: tuple[str, ...]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address to listen on. A name other than `localhost` is taken as not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_names(host: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each with or without a port, that `Host` may hold for a server that listens on `host`.

    On loopback they are known, on another address they must be given. Raises `ConfigError`.
    """
    names = tuple(name.strip().lower() for name in given)
    for name in names:
        if not _AUTHORITY.fullmatch(name):
            raise ConfigError(f"--allow-host takes a name or address with or without a port, not {name[:80]!r}")
    if is_loopback(host):
        return (*LOOPBACK_NAMES, *names)
    if not names:
        raise ConfigError(
            f"{host} can be reached from other machines: say by --allow-host under which names clients will call it, "
            "such as --allow-host memory.example.org"
        )
    return names


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


class Pages(Protocol):
    """What is seen in a browser; it lets browsers in by itself."""

    async def admits(self, scope: Scope) -> Caller | None:
        """Return who is at the browser that a request comes from; None: it was not let in."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def run_http(
    server: MCPServer[Any],
    address: Address,
    identity: Identity,
    limits: HttpSettings,
    on_listening: Callable[[str], None],
    pages: Pages | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP comes, with `pages` beside; `on_listening` is given the origin then.

    Raises `ConfigError` when the address cannot be listened on.
    """

    async def serve(listener: socket.socket) -> None:
        _still_streams()
        guards = [guarded(server, address, listener.getsockname()[1], identity, limits)]
        if pages is not None:
            guards.append(Guard(pages, pages.admits, limits, _PASSED_ON))
        await _serve(guards, limits, listener, on_listening)

    with _listen(address) as listener:
        anyio.run(serve, listener)


def guarded(server: MCPServer[Any], address: Address, port: int, identity: Identity, limits: HttpSettings) -> Guard:
    """Return the server at `PATH`, and what a team's people ask of it, behind what lets them in."""
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        host=address.host,
        transport_security=transport_security(address, port),
        max_request_body_size=limits.max_body_bytes,
        max_sessions=limits.max_sessions,
        session_idle_timeout=limits.session_idle_s,
    )
    application.routes.extend(team_routes(identity.bank))
    Sessions(server.session_manager, limits.max_sessions)
    strangers = Strangers(on_refused=identity.note_refused)
    if (issuer := identity.issuer) is not None:
        application.routes.extend(issuer.routes)
        told = frozenset(route.path for route in issuer.routes)
        strangers = strangers._replace(challenge=issuer.challenge, open_paths=told)
    return Guard(application, identity, limits, strangers)


def run_pages(pages: Pages, address: Address, limits: HttpSettings, on_listening: Callable[[str], None]) -> None:
    """As `run_http`, with pages alone."""

    async def serve(listener: socket.socket) -> None:
        await _serve([Guard(pages, pages.admits, limits, _PASSED_ON)], limits, listener, on_listening)

    with _listen(address) as listener:
        anyio.run(serve, listener)


async def _serve(
    guards: Sequence[Guard], limits: HttpSettings, listener: socket.socket, on_listening: Callable[[str], None]
) -> None:
    """Serve what stands behind the first guard, and below `VIEWER` what stands behind the last."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and (scope["path"] == VIEWER or scope["path"].startswith(f"{VIEWER}/"))
        await guards[-1 if is_page else 0](scope, receive, send)

    running = _Server(_config(application, limits))

    def end() -> None:
        _end_in_time()
        for guard in guards:
            guard.close()
        running.end()

    have_signals_call(end)
    on_listening(origin_of(listener))
    await running.serve([listener])


def _still_streams() -> None:
    """Have the SDK's streams not look twice a second, for ever, whether a server has ended: the guard ends them."""
    sse._shutdown_watcher = anyio.sleep_forever  # pyright: ignore[reportPrivateUsage] - there is no other way


def origin_of(listener: socket.socket) -> str:
    """Return how the URL begins at which clients reach a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def transport_security(address: Address, port: int) -> TransportSecuritySettings:
    """Return which `Host` and `Origin` the SDK lets in: our names with any port, or with the one that they were given.

    Of the pages of this machine only those of this very port are our own.
    """
    any_port = [name for name in address.names if ":" not in name.rpartition("]")[2]]
    hosts = [*address.names, *(f"{name}:*" for name in any_port)]
    pages = [f"{name}:{port}" for name in LOOPBACK_NAMES] if is_loopback(address.host) else []
    pages += [host for host in hosts if host.removesuffix(":*") not in LOOPBACK_NAMES]
    origins = [f"{scheme}://{page}" for scheme in ("http", "https") for page in pages]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _config(application: ASGIApp, limits: HttpSettings) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request is its sender's fault
    return uvicorn.Config(
        application,
        http=_timed_protocol(limits.header_timeout_s),
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


def _timed_protocol(header_timeout_s: float) -> type[H11Protocol]:
    """Return a protocol that closes a connection on which no complete header has come in time.

    uvicorn's own limit, keep-alive, ends with the first byte of the next request: a client that sends one byte a
    minute, or none at all, would hold its connection for ever.
    """

    class TimedProtocol(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as in uvicorn
            super().connection_made(transport)
            self._expect_header()

        def data_received(self, data: bytes) -> None:
            # uvicorn takes the date from a clock that ticks even where nobody asks.
            date = (b"date", formatdate(usegmt=True).encode())
            self.server_state.default_headers = [date, *self.config.encoded_headers]
            super().data_received(data)
            if self._is_idle():
                self._expect_header()
            else:
                self._header_came()

        def connection_lost(self, exc: Exception | None) -> None:
            self._header_came()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or cycle.response_complete

        def _expect_header(self) -> None:
            if self._late is None:
                self._late = self.loop.call_later(header_timeout_s, self.transport.close)

        def _header_came(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return TimedProtocol


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


def have_signals_call(end: Callable[[], None]) -> None:
    """Have the signals that end the server call `end` in the loop, which knows none on Windows; its end undoes it."""
    loop = asyncio.get_running_loop()
    for each in _heeded_signals():
        if sys.platform == "win32":
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(end))  # pyright: ignore
        else:
            loop.add_signal_handler(each, end)


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
