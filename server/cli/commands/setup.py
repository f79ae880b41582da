"""`install`, `uninstall`, `pause` and `demo`: our entries in agents' files, the switch, and a first look."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import click

from swarm_memory.schema.memory import Note
from swarm_memory.server.cli.agents import CLAUDE, chosen, examined, install_command, scope_of
from swarm_memory.server.cli.command import Yes, command
from swarm_memory.server.cli.console import print_answer, say, say_findings
from swarm_memory.server.cli.file_changes import carry_out, is_asked_at, planned_learn_with, say_who_learns
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.files.promoted import skill_paths_by_memory
from swarm_memory.server.hosts.settings_files import FileChange
from swarm_memory.server.location import FOLDER, state_folder, user_file
from swarm_memory.server.operations.operation import Row

if TYPE_CHECKING:
    from swarm_memory.server.hosts.host import InstallScope

OfProject: TypeAlias = Annotated[bool, "In the project's shared files, for everybody who works on it.", "--project"]
OfUser: TypeAlias = Annotated[bool, "For all your projects.", "--user"]
Names: TypeAlias = Annotated[str | None, "Which coding agents, such as codex,claude.", "--agent NAMES"]
DryRun: TypeAlias = Annotated[bool, "Show the changes and write nothing."]


def _scope(project: bool, user: bool) -> "InstallScope":
    if project and user:
        raise click.UsageError("--user is for all your projects, --project for all who work on this one: choose one")
    return "project" if project else "user" if user else "local"


@command()
def install(
    invocation: Invocation,
    of_project: OfProject = False,
    of_user: OfUser = False,
    names: Names = None,
    dry_run: DryRun = False,
    learn_with: Annotated[
        Literal["agent", "rules", "claude", "endpoint"] | None,
        "Who learns from finished tasks; if omitted, you are asked once.",
    ] = None,
    client: Annotated[str | None, "Only print the MCP configuration for a client.", "--print CLIENT"] = None,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Add the MCP server and the hooks to the files of Claude Code and other coding agents.

    At a terminal you choose among the agents on this machine; otherwise it is Claude Code, or those --agent names.

    The files are yours alone, for this project or with --user for all. With --project they are meant to be committed,
    and run the `swarm-memory` on each person's PATH. Their other content is kept, and the previous files are copied to
    swarm-memory's own state folder. Doing it again changes nothing.

    You are asked once who learns from finished tasks: only rules (the default if nobody answers), your own Claude Code,
    the models in chat.providers, or the agent itself. The answer is saved in your own settings.

    --print takes vscode, or other for clients that use `mcpServers`.

    \b
    Examples:
      swarm-memory install --dry-run
      swarm-memory install --agent codex,claude --user
      swarm-memory install --learn-with claude
      swarm-memory install --print vscode > .vscode/mcp.json
    """
    if client is not None:
        from swarm_memory.server.cli.agents import configuration
        from swarm_memory.server.hosts.settings import cli_command

        where, text = configuration(client, cli_command(), invocation.root)
        click.echo(f"swarm-memory: {where}", err=True)
        click.echo(text, nl=False)
        return
    root, scope = invocation.root, _scope(of_project, of_user)
    may_ask = is_asked_at() and not (yes or dry_run or as_json)
    agents = chosen(names, root, may_ask=may_ask and not learn_with)
    if learn_with and [agent.name for agent in agents] == [CLAUDE] and not (of_project or of_user):
        installed = agents[0].installed_scopes(root)
        scope = installed[0] if installed else scope  # changing the answer installs nothing a second time
    changes = [change for each in agents for change in each.plan_install(scope_of(each, scope), root)]
    asks = any(agent.asks for agent in agents)
    if leave := planned_learn_with(invocation, learn_with, may_ask=may_ask, agent_asks=asks):
        changes.append(leave)
    if excluded := _excluded(root, changes):
        changes.append(excluded)
    carry_out(changes, "installed", dry_run=dry_run, as_json=as_json)
    if as_json or dry_run:
        return
    say_who_learns(invocation.settings().settings)
    for agent in agents:
        say(agent.after_install)
    say_findings(finding for finding in examined(root) if finding.advice)


def _excluded(root: Path, changes: Sequence[FileChange]) -> FileChange | None:
    """Return the change that keeps a new file naming this machine's Python out of Git; None where none is needed."""
    local = next((each.path for each in changes if each.path.name == "settings.local.json" and not each.before), None)
    top = next((each for each in (root, *root.parents) if (each / ".git" / "info").is_dir()), None)
    if local is None or top is None:
        return None
    path, line = top / ".git" / "info" / "exclude", f"/{local.relative_to(top).as_posix()}"
    before = path.read_text(encoding="utf-8") if path.exists() else None
    lines = (before or "").splitlines()
    return None if line in lines else FileChange(path, before, "\n".join([*lines, line, ""]), 0o644)


@command()
def uninstall(
    invocation: Invocation,
    of_project: OfProject = False,
    of_user: OfUser = False,
    names: Names = None,
    dry_run: DryRun = False,
    as_json: bool = False,
) -> None:
    """Remove the server and the hooks from the files of Claude Code, or of the agents that --agent names.

    A file that nobody has edited since is restored byte for byte; one that held nothing else is removed. --project
    removes them from the project's shared files. The memories stay; the output says where.
    """
    scope, root = _scope(of_project, of_user), invocation.root
    agents = chosen(names, root, may_ask=False)
    changes = [change for each in agents for change in each.plan_uninstall(scope_of(each, scope), root)]
    carry_out(changes, "uninstalled", dry_run=dry_run, as_json=as_json)
    if as_json or dry_run:
        return
    from swarm_memory.server.hosts.host import hosts

    for agent in hosts():
        for left in agent.installed_scopes(root):
            say(f"Still installed in {agent.title}: {install_command(agent, 'uninstall', left)} removes that.")
    if skill_paths_by_memory(root):
        say("What `promote` wrote stays: `swarm-memory promote --demote` removes it.")
    if (place := invocation.place).database.exists():
        bank = place.folder if place.folder.name == FOLDER else place.database
        shared = f"{user_file(os.environ).parent} and {state_folder()}"
        say(f"The memories stay in {bank}: delete it, and they are gone for good. All your projects share {shared}.")


@command(show=print_answer)
def pause(
    invocation: Invocation,
    everywhere: Annotated[bool, "In all projects."] = False,
    end: Annotated[bool, "Switch it on again; with --everywhere, end every pause."] = False,
) -> Row:
    """Switch swarm-memory off in this project: hooks say nothing, tools answer that it is off, nothing is learned.

    What agents do meanwhile is not read, but `swarm-memory learn` can read it later. The setting `enabled: false` and
    the variable SWARM_MEMORY_DISABLED do the same. --end switches it on again.
    """
    from swarm_memory.server import switch

    changed = (switch.resume if end else switch.pause)(None if everywhere else invocation.root)
    return {"changed": changed, "off": switch.switched_off(invocation.root)}


SESSION = Path(__file__).resolve().parent.parent / "demo" / "session.jsonl"
NOTE = Note(
    title="The tests of the shop need a set-up",
    when="When tests end with `SettingsError: config/test.toml not found`.",
    note="`cp config/test.example.toml config/test.toml && python -m shop.migrate`; a file made by hand has no tables.",
)
"""What an agent that did the task of the session would teach the next one."""

FAILING = "python -m pytest tests -x"
ERROR = "E   shop.settings.SettingsError: config/test.toml not found\n1 failed in 0.05s"
SIMILAR = "The tests of this fresh clone fail with a SettingsError. Make them pass."
UNRELATED = "Translate the landing page into French and keep the layout."


@command(show=print_answer)
async def demo(site: Invocation) -> Row:
    """Learn from a bundled Claude Code session, and show what comes back for the next task.

    Works offline and without a key, in a temporary folder: nothing else is read, and nothing stays.
    """
    from swarm_memory.schema.settings import Settings, StorageSettings
    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.server.wiring import empty_toolbox, place_of
    from swarm_memory.tools.anchors.handles import at_failure
    from swarm_memory.tools.learn.learn import learn
    from swarm_memory.tools.memories.remember import remember_notes
    from swarm_memory.tools.retrieve.at_moment import MomentContext, beside_failure
    from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve

    with tempfile.TemporaryDirectory(prefix="swarm-memory-demo-") as folder:
        settings = Settings(storage=StorageSettings(project="shop"))
        async with empty_toolbox(place_of(Path(folder), settings), settings) as toolbox:
            tasks = list(read_trajectories(SESSION))
            learned = [await learn(toolbox, each) for each in tasks]
            noted = [each.item for each in await remember_notes(toolbox, [NOTE])]
            beside = await beside_failure(
                toolbox, MomentContext("later", "later:1"), at_failure("Bash", {"command": FAILING}, ERROR)
            )
            similar, unrelated = [await retrieve(toolbox, text, unasked=Unasked()) for text in (SIMILAR, UNRELATED)]
    called = [step for each in tasks for step in each.steps if step.kind == "tool_call"]
    words = {"id", "title", "content"}
    own = "swarm-memory" if which("swarm-memory") else Path(sys.executable).with_name("swarm-memory")
    return {
        "session": [each.task for each in tasks],
        "calls": [str((step.tool_input or {}).get("command", step.tool_name))[:100] for step in called],
        "verdict": [f"{each.verdict.label}: {'; '.join(each.verdict.reasons)}" for each in learned],
        "learned": [item.model_dump(include=words) for each in learned for item in each.stored],
        "taught_by_its_agent": [item.model_dump(include=words) for item in noted],
        "later_failure": f"{FAILING}: {ERROR.splitlines()[0]}",
        "shown_beside_it": beside,
        "similar_task": similar.query,
        "put_into_its_prompt": similar.preamble,
        "unrelated_task": unrelated.query,
        "put_into_that_prompt": unrelated.preamble or f"nothing: {unrelated.reason}",
        "embedder": f"{similar.embedder}; no key, no download, no daemon",
        "next": f"run `{own} install` in one of your projects",
    }
