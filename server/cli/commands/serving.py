"""`serve` and `jobs`: the running server, and the work it would do by itself."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from swarm_memory.server.bank import Bank
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.tools.toolbox import Toolbox


@click.command()
@click.option("--http", "over_http", is_flag=True, help="Over HTTP instead, for several clients at once.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="With --http.")
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="With --http: a name that clients call it by."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --http: the file of the bearer token, made at the first start.",
)
@click.pass_obj
def serve(
    invocation: Invocation, over_http: bool, host: str, port: int, names: tuple[str, ...], token_file: Path | None
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


def _build(invocation: Invocation, on_closed: "Callable[[], None] | None" = None) -> "MCPServer[Bank]":
    from swarm_memory.server.mcp.app import build_server

    def worker(toolbox: "Toolbox") -> "Worker":
        from swarm_memory.server.wiring import make_worker

        return make_worker(toolbox, invocation.place)

    return build_server(invocation.open_toolbox, worker, on_closed, invocation.root)


def _serve_http(invocation: Invocation, host: str, port: int, names: tuple[str, ...], token_file: Path | None) -> None:
    """Raises `ConfigError`: a setting, the token file, the address or the names are wrong."""
    import os

    from swarm_memory.server.config import user_file
    from swarm_memory.server.http.serve import Address, allowed_names, is_loopback, run_http
    from swarm_memory.server.http.token import load_token
    from swarm_memory.server.http.token import token_file as file_for

    limits = invocation.settings().settings.http
    address = Address(host, port, allowed_names(host, names))
    path = token_file or file_for(invocation.place.database, user_file(os.environ).parent)
    token = load_token(path)

    def tell(url: str) -> None:
        click.echo(f"swarm-memory: serving {url}; the bearer token is in {path}", err=True)
        if not is_loopback(host):
            click.echo("swarm-memory: nothing is encrypted here: put a proxy with TLS in front of it", err=True)

    run_http(_build(invocation), address, token, limits, tell)


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


@click.group()
def jobs() -> None:
    """Show queued work, or do it.

    A running server does this by itself. `jobs work` is for machines on which none runs.
    """


@jobs.command("list")
@click.option("--all", "everything", is_flag=True, help="Also jobs that ended.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_obj
def list_jobs(invocation: Invocation, everything: bool, limit: int, as_json: bool) -> None:
    """Show the jobs of this project, those that wait or run first."""
    from swarm_memory.schema.job import JobStatus

    wanted: tuple[JobStatus, ...] = ("queued", "running")
    if everything:
        wanted = (*wanted, "completed", "failed", "cancelled")
    found = invocation.run(lambda toolbox: toolbox.store.list_jobs(toolbox.scope, wanted, limit))
    if as_json:
        print_json([job.model_dump(mode="json", exclude_none=True) for job in found])
    elif not found:
        say("No jobs.")
    else:
        rows = (
            (job.status, job.kind, job.key, job.attempts, f"{job.run_after:%F %T}", job.error or "") for job in found
        )
        print_table(("status", "kind", "key", "tries", "due (UTC)", "error"), rows)


@jobs.command(short_help="Work off queued jobs.")
@click.option("--until-idle", is_flag=True, help="Do what is due, and end.")
@click.option("--early", is_flag=True, help="With --until-idle: also what is not due yet.")
@json_option
@click.pass_obj
def work(invocation: Invocation, until_idle: bool, early: bool, as_json: bool) -> None:
    """Work off queued jobs: for ever, or with --until-idle until none is due.

    A job is due some seconds after its task's last turn, or at once when the session has ended.

    \b
    Example:
      swarm-memory jobs work --until-idle
    """
    from swarm_memory.server.jobs.worker import RECHECK_S
    from swarm_memory.server.wiring import make_worker

    async def operate(toolbox: "Toolbox") -> int:
        worker = make_worker(toolbox, invocation.place)
        if until_idle:
            return await (worker.work_off_all() if early else worker.work_off_due())
        await worker.run(RECHECK_S)
        return 0

    done = invocation.run(operate)
    print_json({"jobs": done}) if as_json else say(f"{counted(done, 'job')} done." if done else "No job was due.")


COMMANDS = {"serve": serve, "jobs": jobs}
