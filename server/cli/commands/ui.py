"""`ui`: the pages in the browser."""

import contextlib
import os
import sys
import webbrowser
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.server.bank import Bank
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.server.viewer.access import Access
    from swarm_memory.server.viewer.viewer import Viewer
    from swarm_memory.tools.toolbox import Toolbox


@click.command()
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Default: one that is free.")
@click.option("--read-only", is_flag=True, help="To look only: nothing can be changed.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.pass_obj
def ui(invocation: Invocation, port: int, read_only: bool, no_browser: bool) -> None:
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


@contextmanager
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
