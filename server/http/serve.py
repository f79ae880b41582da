"""Runs an MCP server over HTTP, under the names that it may be called by, and ends it cleanly."""

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from ipaddress import ip_address
from types import FrameType
from typing import Any, NamedTuple

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.server.http.guard import Guard, MessageFilter
from swarm_memory.server.http.identity import Authenticator
from swarm_memory.server.http.team import team_routes

PATH, VIEWER = "/mcp", "/ui"
MAX_HEADER_BYTES, MAX_CONNECTIONS = 32 * 1024, 256
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
CLOSE_TIMEOUT_S = 2.0
"""Seconds that shutting down may take, from the signal to the end of the process."""

FINISH_TIMEOUT_S = 1
"""Seconds of that for requests that are being answered."""

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?")
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Address(NamedTuple):
    """Where the server listens and under which names it is called."""

    host: str
    port: int
    names: tuple[str, ...]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address to listen on. Of names, only `localhost` counts."""
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
            f"{host} can be reached from other machines: use --allow-host to list the names that clients call it by, "
            "such as --allow-host memory.example.org"
        )
    return names


def transport_security(address: Address, port: int) -> TransportSecuritySettings:
    """Return which `Host` and `Origin` the SDK lets in: our names with any port, or with the port given for them.

    Of the pages on this machine, only those on this very port are our own.
    """
    any_port = [name for name in address.names if ":" not in name.rpartition("]")[2]]
    hosts = [*address.names, *(f"{name}:*" for name in any_port)]
    pages = [f"{name}:{port}" for name in LOOPBACK_NAMES] if is_loopback(address.host) else []
    pages += [host for host in hosts if host.removesuffix(":*") not in LOOPBACK_NAMES]
    origins = [f"{scheme}://{page}" for scheme in ("http", "https") for page in pages]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def guarded(
    server: MCPServer[Any], address: Address, port: int, identity: Authenticator, limits: HttpSettings
) -> Guard:
    """Return the server at `PATH` and the routes for a team's people, behind the guard that lets them in.

    No session is kept between requests: a client that goes away leaves nothing behind.
    """
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        host=address.host,
        stateless_http=True,
        transport_security=(headers := transport_security(address, port)),
        max_request_body_size=limits.max_body_bytes,
    )
    application.routes.extend(team_routes(identity.bank))
    limited = RequestBodyLimitMiddleware(MessageFilter(application, PATH, headers), limits.max_body_bytes)
    return Guard(limited, identity)


def with_pages(guard: ASGIApp, pages: ASGIApp) -> ASGIApp:
    """Return a server that also has the viewer's pages, which let browsers in by themselves."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and (scope["path"] == VIEWER or scope["path"].startswith(f"{VIEWER}/"))
        await (pages if is_page else guard)(scope, receive, send)

    return application


def run(build: Callable[[int], ASGIApp], address: Address, on_listening: Callable[[str], None]) -> None:
    """Serve what is built for the port until SIGINT, SIGTERM or SIGHUP; `on_listening` gets the origin at the start.

    Raises `ConfigError` when the address cannot be listened on.
    """
    host, port = address.host, address.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.ERROR)  # a malformed request is its sender's fault
    log.addFilter(lambda record: "graceful shutdown" not in record.msg)  # so is a connection that is left open
    with listener:
        host, port = listener.getsockname()[:2]
        config = uvicorn.Config(
            build(port),
            http="h11",
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=FINISH_TIMEOUT_S,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        running = _Server(config)
        running.heed_signals()
        on_listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        anyio.run(running.serve, [listener])


class _Server(uvicorn.Server):
    """uvicorn whose process ends with 0 after a signal, or with 1 if it does not close in time."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # they are handled already, since before the address was announced

    def heed_signals(self) -> None:
        """Make `_SIGNALS` end this server; one that the starter ignores, as nohup does, stays ignored."""
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle_exit)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        timer = threading.Timer(CLOSE_TIMEOUT_S, _give_up)
        timer.daemon = True
        timer.start()
        super().handle_exit(sig, frame)


def _give_up() -> None:
    sys.stderr.write("swarm-memory: the server did not shut down in time and was terminated\n")
    sys.stderr.flush()
    os._exit(1)
