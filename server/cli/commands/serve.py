"""`serve` and `ui`: the running server, over stdio or HTTP, and the pages in the browser."""

import contextlib
import gc
import logging
import os
import sys
import webbrowser
from collections.abc import AsyncGenerator, Callable, Generator
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import click
from pydantic import Field

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.cli.command import A_FILE, command
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Flag

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from swarm_memory.schema.settings import HttpSettings
    from swarm_memory.server.bank import Bank
    from swarm_memory.server.http.issuer import Issuer
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.server.viewer.access import Access
    from swarm_memory.server.viewer.viewer import Viewer
    from swarm_memory.tools.toolbox import Toolbox


Port: TypeAlias = Annotated[int, Field(ge=0, le=65535, description="0: one that is free.")]


@command()
def serve(
    invocation: Invocation,
    over_http: Annotated[bool, "Over HTTP instead, for several clients at once.", "--http"] = False,
    host: Annotated[str, "With --http: the address to listen on."] = "127.0.0.1",
    port: Port = 8765,
    names: Annotated[
        tuple[str, ...], "With --http: a name that clients call it by.", "--allow-host", Flag("NAME")
    ] = (),
    token_file: Annotated[
        Path | None, "With --http: the file of the bearer token, made at the first start.", Flag(type=A_FILE)
    ] = None,
) -> None:
    """Run the MCP server over stdin and stdout, or with --http over HTTP.

    Claude Code starts it by itself after `swarm-memory install`. It says what goes wrong on stderr and in
    `.swarm/log`, and ends when its input ends, on SIGINT, SIGTERM or SIGHUP, or when its parent dies.

    With --http it listens on this machine only, and every request needs the bearer token of the file that it names
    when it starts. On another --host clients call it by the names that --allow-host gives, and a proxy in front of it
    must encrypt what passes.

    \b
    Example:
      swarm-memory serve --http
      claude mcp add --transport http swarm-memory http://127.0.0.1:8765/mcp \\
        --header "Authorization: Bearer $(cat TOKEN_FILE)"
    """
    logging.getLogger("swarm_memory").addHandler(LogBesideBank(invocation))
    if over_http:
        _serve_http(invocation, host, port, names, token_file)
        return
    from swarm_memory.server.mcp.stdio import run_stdio

    run_stdio(lambda on_closed: _build(invocation, on_closed))


def _build(
    invocation: Invocation,
    on_closed: "Callable[[], None] | None" = None,
    on_bank: "Callable[[Bank], None] | None" = None,
) -> "MCPServer[Bank]":
    """`on_bank` is given the bank that the server holds."""
    from swarm_memory.server.hooks.listener import listen, settings_stamp
    from swarm_memory.server.mcp.app import build_server
    from swarm_memory.server.switch import switched_off

    root = invocation.root
    read = settings_stamp(root)
    is_enabled = cache(lambda: invocation.settings().settings.enabled)

    def worker(toolbox: "Toolbox") -> "Worker":
        made = _worker(invocation, toolbox)
        gc.freeze()  # what is loaded by now stays: going through all of it holds up a call now and then, by tens of ms
        return made

    def may_answer() -> bool:
        """Tell whether hooks are on, and would read the settings that this process has read."""
        return settings_stamp(root) == read and switched_off(root) is None and is_enabled()

    async def hear(bank: "Bank") -> None:
        if on_bank is not None:
            on_bank(bank)
        if not invocation.overrides:  # hooks know nothing of what the command line sets
            await listen(bank, may_answer)

    return build_server(
        invocation.open_toolbox,
        worker,
        on_closed,
        root,
        place=lambda: invocation.place,
        listen=hear,
        hold_empty=invocation.empty_toolbox,
    )


def _serve_http(invocation: Invocation, host: str, port: int, names: tuple[str, ...], token_file: Path | None) -> None:
    """Raises `ConfigError`: a setting, the token file, the address or the names are wrong."""
    from swarm_memory.server.http.identity import Identity
    from swarm_memory.server.http.serve import PATH, VIEWER, Address, allowed_names, is_loopback, run_http
    from swarm_memory.server.http.token import load_token
    from swarm_memory.server.http.token import token_file as file_for
    from swarm_memory.server.location import user_file
    from swarm_memory.server.viewer.access import Access

    limits = invocation.settings().settings.http
    address = Address(host, port, allowed_names(host, names))
    path = token_file or file_for(invocation.place.database, user_file(os.environ).parent)
    token = load_token(path)
    banks: list[Bank] = []
    identity = Identity(token, lambda: banks[-1], _issuer(limits, host, port))
    pages = viewer(invocation, lambda: banks[-1], Access(address.names, identity))

    def tell(origin: str) -> None:
        click.echo(f"swarm-memory: serving {origin}{PATH}; the bearer token is in {path}", err=True)
        pages_at = f"{pages.link(origin)} (once; later {origin}{VIEWER} with the token)"
        click.echo(f"swarm-memory: pages for a browser: {pages_at}", err=True)
        if not is_loopback(host):
            click.echo("swarm-memory: nothing is encrypted here: put a proxy with TLS in front of it", err=True)

    run_http(_build(invocation, on_bank=banks.append), address, identity, limits, tell, pages)


def _issuer(limits: "HttpSettings", host: str, port: int) -> "Issuer | None":
    """Return the issuer whose tokens let people in; None where the settings name none. Raises `ConfigError`."""
    if limits.oauth_issuer is None:
        return None
    from swarm_memory.server.http.issuer import Issuer
    from swarm_memory.server.http.serve import PATH, is_loopback

    if limits.public_url is None and (port == 0 or not is_loopback(host)):
        raise ConfigError("http.oauth_issuer needs http.public_url: how the address begins at which clients call")
    at = f"[{host}]" if ":" in host else host
    return Issuer(limits, f"{limits.public_url or f'http://{at}:{port}'}{PATH}")


class LogBesideBank(logging.Handler):
    """Keeps warnings in the log of the hooks; a log that cannot be written is no fault of the work."""

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(logging.WARNING)
        self._invocation = invocation

    def emit(self, record: logging.LogRecord) -> None:
        from swarm_memory.server.location import locate, log_line

        place = locate(self._invocation.folder, self._invocation.overrides.get("storage.db"))
        with contextlib.suppress(OSError):
            log_line(place.folder, self.format(record))


@command()
def ui(
    invocation: Invocation,
    port: Port = 0,
    read_only: Annotated[bool, "To look only: nothing can be changed."] = False,
    no_browser: Annotated[bool, "Only print the link."] = False,
) -> None:
    """Look at everything in the browser, and decide what waits for a decision.

    What was learned, from which moment of which task, what it did for the next ones, and what wants a word of yours.
    Only this machine reaches the pages, and only the browser that follows the link, which holds once. They end with
    Ctrl-C.

    \b
    Examples:
      swarm-memory ui
      swarm-memory ui --read-only --no-browser
    """
    from swarm_memory.server.bank import Bank, running
    from swarm_memory.server.http.serve import Address, allowed_names, run_pages
    from swarm_memory.server.viewer.access import Access

    host = "127.0.0.1"
    names = allowed_names(host, ())
    bank = Bank(
        invocation.open_toolbox,
        None if read_only else lambda toolbox: _worker(invocation, toolbox),
        invocation.root,
        lambda: invocation.place,
        invocation.empty_toolbox,
    )
    pages = viewer(invocation, lambda: bank, Access(names), read_only=read_only, holds=lambda: running(bank))
    with contextlib.ExitStack() as opened:

        def tell(origin: str) -> None:
            click.echo(f"swarm-memory: {pages.link(origin)}")
            click.echo("This link lets one browser in, once, within ten minutes. Ctrl-C ends the pages.", err=True)
            if not no_browser:
                opened.enter_context(_browser_at(pages.link(origin)))

        run_pages(pages, Address(host, port, names), invocation.settings().settings.http, tell)


def viewer(
    invocation: Invocation,
    bank: "Callable[[], Bank]",
    access: "Access",
    *,
    read_only: bool = False,
    holds: "Callable[[], contextlib.AbstractAsyncContextManager[object]] | None" = None,
) -> "Viewer":
    """Return the pages of a project's bank; `holds` is what they hold open by themselves."""
    from swarm_memory.server.viewer.viewer import Viewed, Viewer
    from swarm_memory.server.wiring import SystemClock

    @contextlib.asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with holds() if holds is not None else contextlib.nullcontext():
            yield

    return Viewer(Viewed(bank, invocation.settings, SystemClock().now, read_only), access, lifespan)


def _worker(invocation: Invocation, toolbox: "Toolbox") -> "Worker":
    from swarm_memory.server.wiring import make_worker

    return make_worker(toolbox, invocation.place, lambda: invocation.settings().settings)


@contextlib.contextmanager
def _browser_at(link: str) -> Generator[None]:
    """Show a link in the user's browser. It stands in a private file: the arguments of a program are seen by all."""
    from swarm_memory.server.location import state_folder

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        yield  # there is no screen: a browser in the terminal would take it over
        return
    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = Path(folder, f"ui-{os.getpid()}.html")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as page:
        page.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">')
    try:
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)
