"""The command line: which commands there are, the options they share, and how their errors become exit codes.

A command's code is imported when it is called, so that `serve` starts as fast as it can.
"""

import gc
import logging
import os
import sys
from importlib import import_module
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import click

from swarm_memory.schema.errors import (
    OUT_OF_RAM,
    ConfigError,
    InputError,
    ModelError,
    StorageError,
    SwarmMemoryError,
    is_out_of_ram,
)
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.numpy_threads import start_no_threads

EXIT_CODES: tuple[tuple[type[SwarmMemoryError], int], ...] = (
    (InputError, 2),
    (ConfigError, 3),
    (StorageError, 4),
    (ModelError, 5),
    (SwarmMemoryError, 1),
)
"""First match wins. 1 also stands for an operation that failed in part, and 2 for wrong usage."""

GARBAGE = 20_000
"""Objects that Python allocates before it collects garbage. With its default of 700, collecting took an eighth of the
time of a server with 32 clients, and a twelfth of reading 2,431 memories."""

COMMANDS = {
    "install": ("Everyday", "setup", "Add the MCP server and the hooks to the files of coding agents"),
    "status": ("Everyday", "status", "Show what the notes did, and the bank's state; --settings: the settings"),
    "doctor": ("Everyday", "doctor", "Check the installation and the bank; --repair repairs the bank"),
    "ui": ("Everyday", "serve", "Look at everything in the browser, and review what is waiting"),
    "remember": ("Everyday", "memories", "Keep what you say: it outranks what was learned"),
    "retrieve": ("Everyday", "memories", "Find the memories that fit a task"),
    "memories": ("Everyday", "memories", "List, show, edit, quarantine, restore, forget, export or import memories"),
    "learn": ("Everyday", "learn", "Learn from sessions: from files, or with --all from what agents did here"),
    "uninstall": ("Set up", "setup", "Remove the server and the hooks again"),
    "pause": ("Set up", "setup", "Switch hooks and learning off, here or everywhere; --end: on again"),
    "serve": ("Set up", "serve", "Run the MCP server over stdin and stdout, or over HTTP"),
    "demo": ("Set up", "setup", "Show the whole loop on a bundled transcript"),
    "mirror": ("Look after memories", "memories", "Keep memories as Markdown files, and read what is edited there"),
    "promote": ("Look after memories", "memories", "Write memories into skills, and remove them again"),
    "consolidate": ("Look after memories", "bank", "Tidy up: duplicates, contradictions, aging; a run can be undone"),
    "bank": ("Look after memories", "bank", "Back up, restore or re-embed the bank, or take one over"),
    "metrics": ("Measure", "status", "Show success, steps and tokens by week, with and without memory"),
    "benchmark": ("Measure", "runs", "Measure the memory, and report on the runs"),
    "propose": ("The team", "team", "Send memories, and how often they worked, to the team's reviewers"),
    "team": ("The team", "team", "Review proposals; manage who may use this bank over HTTP, and see what they did"),
    "tools": ("More", "tools_and_sources", "Show what each tool is good for, learned from real calls"),
    "sources": ("More", "tools_and_sources", "Index and search tools, documents, code and API descriptions"),
    "matts": ("More", "runs", "Do a task several times and learn from the comparison"),
    "jobs": ("More", "status", "List queued jobs, or run them"),
    "pre-task": ("Agents without hooks", "memories", "Print what to put into the prompt"),
    "post-task": ("Agents without hooks", "learn", "Record what was done on a task, or how it ended"),
}
"""The section, module and summary of each command, in the order of the help."""

HINTS = {
    "import --all": "learn --all", "memories get": "show", "get": "show", "list": "memories list", "search": "retrieve",
    "add": "remember", "config": "status --settings", "sync": "jobs work --until-idle",
}  # fmt: skip
"""The commands that are meant by words of other programs or of earlier versions."""

log = logging.getLogger("swarm_memory")

EPILOG = """\b
Examples:
  swarm-memory install
  swarm-memory retrieve "fix the flaky date test" --json
  swarm-memory show rm_01J8…
  swarm-memory --set retrieve.k=5 retrieve "add a column to the users table"

\b
Exit codes: 0 done, 1 failed (at least in part), 2 wrong usage or input, 3 a setting, a file or the
installation is wrong, 4 the database refused or could not be reached, 5 a model endpoint failed.
"""


class Commands(click.Group):
    """Imports a command only when it is called; the list of all commands needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"swarm_memory.server.cli.commands.{COMMANDS[cmd_name][1]}")
        return next(each for each in vars(module).values() if isinstance(each, click.Command) and each.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "hooks" and args[1:2] in (["pre-task"], ["post-task"]):  # as claude-flow's documents write it
            args = args[1:]
        elif args[0] in ("show", "export", "import") and "--all" not in args:
            args = ["memories", *args]
        for said in (" ".join(args[:2]), args[0]):
            if said in HINTS:
                raise click.ClickException(f"No such command '{said}': `swarm-memory {HINTS[said]}` does that.")
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:  # its exit code, 2, would block an agent whose hook is outdated
            from difflib import get_close_matches

            near = "".join(f" Did you mean {each!r}?" for each in get_close_matches(args[0], COMMANDS, 1))
            raise click.ClickException(error.format_message() + near) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in groupby(COMMANDS.items(), key=lambda command: command[1][0]):
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, _, summary) in commands])


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("swarm-memory"), prog_name="swarm-memory")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder. Default: CLAUDE_PROJECT_DIR, the git root, or the current folder.",
)
@click.option("--db", type=click.Path(dir_okay=False), help="Database file. Default: .swarm/memory.db in the project.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting, such as retrieve.k=5. Repeatable."
)
@click.option("-v", "--verbose", count=True, help="Print more to stderr; -vv adds tracebacks.")
@click.pass_context
def cli(ctx: click.Context, project: Path | None, db: str | None, assignments: tuple[str, ...], verbose: int) -> None:
    """Let coding agents learn from what they did.

    Strategies come back when a similar task starts; what a task teaches is kept when it ends. Everything is in one
    SQLite file, .swarm/memory.db, and works without a key, a download or a daemon.
    """
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=logging.WARNING, format="swarm-memory: %(message)s", stream=sys.stderr)
    log.setLevel(level)
    overrides: dict[str, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--set takes KEY=VALUE, not {text!r}")
        overrides[key.strip()] = value
    if db is not None:
        overrides["storage.db"] = str(Path(db).absolute())
    ctx.obj = Invocation(project, overrides)


def main() -> None:
    """Run the command of `sys.argv` and end the process with its exit code."""
    start_no_threads()
    gc.set_threshold(GARBAGE)
    try:
        code = cli.main(prog_name="swarm-memory", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nswarm-memory: stopped; nothing more was done", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except SwarmMemoryError as error:
        click.echo(f"swarm-memory: {' '.join(str(error).split())}", err=True)
        sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except Exception as error:  # noqa: BLE001 - a main: one line for people, the traceback for those who ask
        if log.isEnabledFor(logging.DEBUG):
            sys.excepthook(type(error), error, error.__traceback__)
        elif is_out_of_ram(error):
            click.echo(f"swarm-memory: {OUT_OF_RAM}", err=True)
        else:
            click.echo(f"swarm-memory: internal error: {error!r}; `swarm-memory -vv …` shows where", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # else the threads of a bank that was not closed would keep the process alive
    sys.exit(code if isinstance(code, int) else 0)
