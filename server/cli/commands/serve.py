"""`serve` and `ui`: the running server, over stdio or HTTP, and the pages in the browser."""

import contextlib
import gc
import logging
import os
import sys
import webbrowser
from collections.abc import Callable, Generator
from contextlib import nullcontext
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import click
from pydantic import Field

from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.location import address_file, state_folder, user_file, write_private

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from swarm_memory.server.http.identity import Authenticator
    from swarm_memory.server.http.serve import Address
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.server.mcp.app import Offered
    from swarm_memory.server.served_bank import ServedBank
    from swarm_memory.server.viewer.viewer import Viewer
    from swarm_memory.tools.toolbox import Toolbox


Port: TypeAlias = Annotated[int, Field(ge=0, le=65535, description="0 picks a free port.")]


@command()
def serve(
    invocation: Invocation,
    over_http: Annotated[bool, "Serve over HTTP instead, for several clients at once.", "--http"] = False,
    host: Annotated[str, "With --http: the address to listen on."] = "127.0.0.1",
    port: Port = 8765,
    names: Annotated[tuple[str, ...], "With --http: a host name that clients use for it.", "--allow-host NAME"] = (),
    token_file: Annotated[Path | None, "With --http: the file with the bearer token, made at the first start."] = None,
    tools: Annotated[Literal["all", "core"], "core: six, for agents that load every tool at each start."] = "all",
) -> None:
    """Run the MCP server over stdin and stdout, or with --http over HTTP.

    Claude Code starts it by itself after `swarm-memory install`. It reports what goes wrong on stderr and in
    `log` next to the bank, and ends when its input ends, on SIGINT, SIGTERM or SIGHUP, or when its parent dies.

    With --http it listens on this machine only, and every request needs the bearer token in the file that it names
    when it starts. On another --host, clients must use the names given with --allow-host, and a proxy in front of it
    must encrypt the traffic.

    \b
    Example:
      swarm-memory serve --http
      claude mcp add --transport http swarm-memory http://127.0.0.1:8765/mcp \\
        --header "Authorization: Bearer $(cat TOKEN_FILE)"
    """
    from swarm_memory.server.hooks.alone import BesideBank

    logging.getLogger("swarm_memory").addHandler(BesideBank("server", lambda: invocation.place))
    if over_http:
        from swarm_memory.server.http.serve import Address, allowed_names

        _serve_http(invocation, Address(host, port, allowed_names(host, names)), token_file, tools)
        return
    from swarm_memory.server.mcp.stdio import run_stdio

    run_stdio(lambda on_closed: _build(invocation, _bank(invocation), tools, on_closed))


def _bank(invocation: Invocation, *, works: bool = True) -> "ServedBank":
    """Return the bank that a server holds; with `works` it also runs the queued jobs."""
    from swarm_memory.server.served_bank import ServedBank
    from swarm_memory.server.wiring import empty_toolbox, make_worker, open_toolbox

    def worker(toolbox: "Toolbox") -> "Worker":
        made = make_worker(toolbox, invocation.place, lambda: invocation.settings().settings)
        gc.freeze()  # what is loaded by now stays: scanning it would delay a call now and then, by tens of ms
        return made

    return ServedBank(
        lambda: open_toolbox(*invocation.bank()),
        worker if works else None,
        invocation.root,
        lambda: invocation.place,
        lambda: empty_toolbox(*invocation.bank()),
    )


def _build(
    invocation: Invocation, bank: "ServedBank", offered: "Offered", on_closed: "Callable[[], None] | None" = None
) -> "MCPServer[ServedBank]":
    from swarm_memory.server.hooks.listener import listen, settings_stamp
    from swarm_memory.server.mcp.app import build_server
    from swarm_memory.server.switch import switched_off

    root = invocation.root
    read = settings_stamp(root)
    is_enabled = cache(lambda: invocation.settings().settings.enabled)

    def may_answer() -> bool:
        """Whether hooks are on, and would read the same settings that this process has read."""
        return settings_stamp(root) == read and switched_off(root) is None and is_enabled()

    async def hear(bank: "ServedBank") -> None:
        await listen(bank, may_answer)

    # Hooks know nothing of what the command line sets.
    return build_server(bank, on_closed, listen=None if invocation.overrides else hear, offered=offered)


def _serve_http(invocation: Invocation, address: "Address", token_file: Path | None, offered: "Offered") -> None:
    """Serve over HTTP. Raises `ConfigError` when a setting, the token file or the address is wrong."""
    from swarm_memory.server.http import identity
    from swarm_memory.server.http.serve import PATH, VIEWER, guarded, is_loopback, run, with_pages

    limits = invocation.settings().settings.http
    path = token_file or identity.token_file(invocation.place.database, user_file(os.environ).parent)
    bank = _bank(invocation)
    admits = identity.Authenticator(identity.load_or_create_token(path), bank)
    pages = _pages(invocation, bank, address, admits)

    def say_where(origin: str) -> None:
        click.echo(f"swarm-memory: serving {origin}{PATH} (the bearer token is in {path})", err=True)
        pages_at = f"{pages.link(origin)} (works once; later use {origin}{VIEWER} with the token)"
        click.echo(f"swarm-memory: pages for a browser: {pages_at}", err=True)
        if not is_loopback(address.host):
            click.echo("swarm-memory: nothing is encrypted here: put a proxy with TLS in front of it", err=True)

    server = _build(invocation, bank, offered)
    run(lambda port: with_pages(guarded(server, address, port, admits, limits), pages), address, say_where)


def _pages(
    invocation: Invocation,
    bank: "ServedBank",
    address: "Address",
    admits: "Authenticator | None" = None,
    *,
    read_only: bool = False,
) -> "Viewer":
    """Return the pages over a bank. They hold it open themselves, except in a server, which `admits` people."""
    from swarm_memory.server.served_bank import running
    from swarm_memory.server.viewer.page import BrowserSessions
    from swarm_memory.server.viewer.viewer import Viewer
    from swarm_memory.server.wiring import SystemClock

    return Viewer(
        bank,
        BrowserSessions(address.names, admits),
        invocation.settings,
        SystemClock().now,
        read_only=read_only,
        holds=nullcontext if admits else lambda: running(bank),
    )


@command()
def ui(
    invocation: Invocation,
    port: Port = 0,
    read_only: Annotated[bool, "Allow no changes."] = False,
    no_browser: Annotated[bool, "Only print the link."] = False,
) -> None:
    """Look at everything in the browser, and review what is waiting.

    See what was learned, from which moment of which task, what it did for later tasks, and what needs your decision.
    Only this machine can reach the pages, and only the browser that follows the link, which works once. They end with
    Ctrl-C.

    \b
    Examples:
      swarm-memory ui
      swarm-memory ui --read-only --no-browser
    """
    from swarm_memory.server.http.serve import Address, allowed_names, run
    from swarm_memory.server.location import address_of_pages

    address = Address("127.0.0.1", port, allowed_names("127.0.0.1", ()))
    pages = _pages(invocation, _bank(invocation, works=not read_only), address, read_only=read_only)
    with contextlib.ExitStack() as opened:

        def say_where(origin: str) -> None:
            click.echo(f"swarm-memory: {pages.link(origin)}")
            click.echo("This link signs in one browser, once, within ten minutes. Ctrl-C ends the pages.", err=True)
            write_private(said := address_file(database := invocation.place.database), f"{origin} {os.getpid()}")
            # Another `ui` of the bank may have written its own there since.
            opened.callback(lambda: address_of_pages(database) == origin and said.unlink(missing_ok=True))
            if not no_browser:
                opened.enter_context(_browser_at(pages.link(origin)))

        run(lambda _: pages, address, say_where)


@contextlib.contextmanager
def _browser_at(link: str) -> Generator[None]:
    """Open a link in the user's browser by way of a private file: all users can see the arguments of a program."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        yield  # there is no screen: a browser in the terminal would take it over
        return
    file = state_folder() / f"ui-{os.getpid()}.html"
    write_private(file, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">')
    try:
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)
