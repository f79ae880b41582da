"""`install` and `uninstall`: our entries in Claude Code's files."""

from pathlib import Path

import click

from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.claude_settings import FileChange, InstallScope, apply, plan_install, plan_uninstall

scope_option = [
    click.option("--project", "scope", flag_value="project", default="project", help="For this project (the default)."),
    click.option("--user", "scope", flag_value="user", help="For all your projects."),
    click.option("--dry-run", is_flag=True, help="Show the changes and write nothing."),
    json_option,
]


def _options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(scope_option):
        command = option(command)
    return command


@click.command()
@_options
@click.pass_obj
def install(invocation: Invocation, scope: InstallScope, dry_run: bool, as_json: bool) -> None:
    """Write the MCP server and the hooks into Claude Code's files.

    What is there is kept, and a backup of each changed file is made. Doing it again changes nothing. The files name
    this machine's Python: do not commit them. With the setting hooks.warn_before_tools a hook is added that warns
    before calls that look like ones that failed.

    \b
    Examples:
      swarm-memory install --dry-run
      swarm-memory install --user
    """
    warn = invocation.settings().settings.hooks.warn_before_tools
    _carry_out(plan_install(scope, invocation.root, warn=warn), "installed", dry_run, as_json)
    if not (as_json or dry_run):
        say("Start Claude Code anew to use it; `swarm-memory doctor` checks it.")


@click.command()
@_options
@click.pass_obj
def uninstall(invocation: Invocation, scope: InstallScope, dry_run: bool, as_json: bool) -> None:
    """Take our server and hooks out of Claude Code's files, and nothing else.

    A file that held nothing else is removed; of every other one a backup is made. The memories in .swarm stay.
    """
    _carry_out(plan_uninstall(scope, invocation.root), "uninstalled", dry_run, as_json)


def _carry_out(changes: list[FileChange], done: str, dry_run: bool, as_json: bool) -> None:
    backups: list[Path] = [] if dry_run else apply(changes)
    if as_json:
        files = [{"path": str(change.path), "diff": change.diff()} for change in changes]
        print_json(
            {"status": "planned" if dry_run else done, "files": files, "backups": [str(path) for path in backups]}
        )
        return
    if not changes:
        say(f"Nothing to change: already {done}.")
    for change in changes:
        say(change.diff()) if dry_run else say(f"Wrote {change.path}" if change.after else f"Removed {change.path}")
    for path in backups:
        say(f"Backup: {path}", dim=True)


COMMANDS = {"install": install, "uninstall": uninstall}
