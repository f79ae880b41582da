"""`install`, `uninstall`, `rules`, `pause`, `resume`, `demo`: our entries in agents' files, and a first look."""

import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import LearnResult, MemoryItem, Note, Retrieval
from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.cli.leave import WAYS, is_asked_at, planned_leave, say_who_learns

if TYPE_CHECKING:
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.server.hosts.host import InstallScope
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.toolbox import Toolbox

scope_options = [
    click.option("--project", is_flag=True, help="In the project's shared files, for everybody who works on it."),
    click.option("--user", is_flag=True, help="For all your projects."),
    click.option("--agent", "names", metavar="NAMES", help="Which coding agents, such as codex,claude."),
    click.option("--all", "everything", is_flag=True, help="All coding agents on this machine."),
    click.option("--dry-run", is_flag=True, help="Show the changes and write nothing."),
    json_option,
]


def _options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(scope_options):
        command = option(command)
    return command


def _scope(project: bool, user: bool) -> "InstallScope":
    if project and user:
        told = "--project and --user exclude each other: --user is for all your projects, this one too"
        raise click.UsageError(f"{told}; --project is for everybody who works on this one")
    return "project" if project else "user" if user else "local"


@click.command()
@_options
@click.option("--learn-with", type=click.Choice(WAYS), help="Who learns from finished tasks; else you are asked once.")
@click.option("--print", "client", metavar="CLIENT", help="Only print the MCP configuration of a client.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.pass_obj
def install(
    invocation: Invocation,
    project: bool,
    user: bool,
    names: str | None,
    everything: bool,
    dry_run: bool,
    as_json: bool,
    learn_with: str | None,
    client: str | None,
    yes: bool,
) -> None:
    """Write the MCP server and the hooks into the files of Claude Code and other coding agents.

    At a terminal you are asked which of those on this machine; else it is Claude Code, or what --agent and --all say.

    The files are yours alone: for this project .claude/settings.local.json and the project's part of ~/.claude.json,
    with --user the settings of all your projects. With --project they stand in .mcp.json and .claude/settings.json, to
    be committed, and run the `swarm-memory` that each one's PATH finds. Of Codex CLI they are hooks.json and
    config.toml in ~/.codex, with --project in .codex.

    What is there is kept, and what a file was before is copied into our own state folder. Doing it again changes
    nothing. The hook before calls of tools is left out where the setting hooks.at_calls is false.

    Once you are asked who learns from finished tasks: rules alone (so it is where nobody answers), your own Claude
    Code, the models that you named in chat.providers, or the agent itself. The answer stands in your own settings file.

    --print takes claude-desktop, cursor, vscode, windsurf, codex, gemini or zed.

    \b
    Examples:
      swarm-memory install --dry-run
      swarm-memory install --agent codex,claude --user
      swarm-memory install --learn-with claude
      swarm-memory install --print vscode > .vscode/mcp.json
    """
    if client is not None:
        _print_configuration(invocation, client)
        return
    from swarm_memory.server.cli.agents import CLAUDE, chosen, say_after_install, say_others

    root, scope, may_ask = invocation.root, _scope(project, user), is_asked_at() and not (yes or dry_run or as_json)
    agents = chosen(names, everything, root, may_ask=may_ask and not learn_with)
    if learn_with and [agent.host.name for agent in agents] == [CLAUDE] and not (project or user):
        installed = agents[0].settings.installed_scopes(root)
        scope = installed[0] if installed else scope  # who changes the answer installs nothing a second time
    calls = invocation.settings().settings.hooks.at_calls
    changes = [change for agent in agents for change in agent.plan(scope, root, calls)]
    asks = any(agent.host.asks for agent in agents)
    if leave := planned_leave(invocation, learn_with, may_ask=may_ask, agent_asks=asks):
        changes.append(leave)
    _carry_out(changes, "installed", dry_run, as_json)
    if as_json or dry_run:
        return
    say_after_install(agents, scope, root)
    if any(change.before is None and change.path.name == "settings.local.json" for change in changes):
        say("settings.local.json names this machine's Python: keep it out of git.")
    say_who_learns(invocation)
    for agent in agents:
        say(agent.settings.after_install)
    if not (names or everything or may_ask or learn_with):
        say_others(agents, root)


def _print_configuration(invocation: Invocation, client: str) -> None:
    from swarm_memory.server.cli.mcp_clients import configuration
    from swarm_memory.server.hosts.entries import server_command

    where, text = configuration(client, server_command(), invocation.root)
    click.echo(f"swarm-memory: {where}", err=True)
    click.echo(text, nl=False)


@click.command()
@_options
@click.pass_obj
def uninstall(
    invocation: Invocation, project: bool, user: bool, names: str | None, everything: bool, dry_run: bool, as_json: bool
) -> None:
    """Take our server and hooks out of the files of Claude Code, or of the agents that --agent and --all say.

    A file into which nobody wrote since becomes what it was before, byte by byte; one that held nothing else is
    removed. What a project's shared files hold is taken out with --project. The memories in .swarm stay. Without
    --agent the blocks go too that `rules` wrote in this project.
    """
    from swarm_memory.server.cli.agents import chosen, say_left
    from swarm_memory.server.hosts.files.promoted import promoted_for
    from swarm_memory.server.hosts.files.rules import files_with_rules, plan_removal

    scope, root = _scope(project, user), invocation.root
    agents = chosen(names, everything, root, may_ask=False)
    changes = [change for each in agents for change in each.settings.plan_uninstall(each.scope(scope), root)]
    if names is None:
        changes += [change for path in files_with_rules(root) for change in plan_removal(path, root)]
    _carry_out(changes, "uninstalled", dry_run, as_json)
    if not (as_json or dry_run):
        say_left(root)
        if promoted_for(root):
            say("What `promote` wrote stays: `swarm-memory promote --demote` takes it out.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--remove", is_flag=True, help="Take the block out again.")
@click.option("--dry-run", is_flag=True, help="Show the changes and write nothing.")
@json_option
@click.pass_obj
def rules(invocation: Invocation, file: Path, remove: bool, dry_run: bool, as_json: bool) -> None:
    """Write a block for agents whose hooks take no notes into FILE, which they read by themselves.

    It has them ask for memories, and holds the surest ones of the project. Run again, it is written again in its place;
    the rest of the file stays. `uninstall` takes it out as well.

    \b
    Examples:
      swarm-memory rules AGENTS.md
      swarm-memory rules CLAUDE.md --dry-run
    """
    from swarm_memory.server.hosts.files.rules import plan_removal, plan_rules

    path, root = Path.cwd() / file, invocation.root
    if remove:
        changes = plan_removal(path, root)
    else:
        most = invocation.settings().settings.hooks.briefing_items
        changes = plan_rules(path, root, invocation.read(lambda toolbox: _surest_notes(toolbox, most)))
    _carry_out(changes, "taken out" if remove else "written", dry_run, as_json)


async def _surest_notes(toolbox: "Toolbox", most: int) -> str:
    """Return notes of the memories of the project, the team's about it too, without those that a file tells already.

    What you said for all your projects is nobody else's to read, nor what the team shares about all of its own.
    """
    from swarm_memory.tools.retrieve.agreement import team_counts
    from swarm_memory.tools.retrieve.preamble import briefing_of

    elsewhere = toolbox.promoted(None)
    surest = await toolbox.store.surest_memories(toolbox.scope, most)
    about = (toolbox.scope, *toolbox.team[:1])
    told = [each for each in surest if each.scope in about and each.id not in elsewhere]
    return briefing_of(told, await team_counts(toolbox, told))


def _carry_out(changes: "list[FileChange]", done: str, dry_run: bool, as_json: bool) -> None:
    from swarm_memory.server.hosts.settings_files import apply

    copies: list[Path] = [] if dry_run else apply(changes)
    if as_json:
        files = [{"path": str(change.path), "diff": change.diff()} for change in changes]
        print_json(
            {"status": "planned" if dry_run else done, "files": files, "backups": [str(path) for path in copies]}
        )
        return
    if not changes:
        say(f"Nothing to change: already {done}.")
    for change in changes:
        wrote = f"Removed {change.path}" if change.after is None else f"Wrote {change.path}"
        say(change.diff() if dry_run else wrote)
    for path in copies:
        say(f"Backup: {path}", dim=True)


T = TypeVar("T")

SESSION = Path(__file__).resolve().parent.parent / "demo" / "session.jsonl"
NOTE = Note(
    title="The tests of the shop need a set-up",
    when="When tests end with `SettingsError: config/test.toml not found`.",
    note="`cp config/test.example.toml config/test.toml && python -m shop.migrate`; a file made by hand has no tables.",
)
"""What an agent that did the task of the session would tell the next one."""

FAILING, ERROR = (
    "python -m pytest tests -x",
    "E   shop.settings.SettingsError: config/test.toml not found\n1 failed in 0.05s",
)
SIMILAR = "The tests of this fresh clone fail with a SettingsError. Make them pass."
UNRELATED = "Translate the landing page into French and keep the layout."


@dataclass
class Timed:
    """What the demo did, and how long each part took."""

    learned: list[tuple["Trajectory", LearnResult]] = field(default_factory=list[tuple["Trajectory", LearnResult]])
    noted: list[MemoryItem] = field(default_factory=list[MemoryItem])
    beside: str = ""
    """What a later call that failed was shown."""
    found: list[Retrieval] = field(default_factory=list[Retrieval])
    took_ms: dict[str, float] = field(default_factory=dict[str, float])

    async def time(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        began = time.perf_counter()
        result = await work()
        self.took_ms[what] = round((time.perf_counter() - began) * 1000, 1)
        return result


everywhere_option = click.option("--everywhere", is_flag=True, help="In all projects.")


@click.command()
@everywhere_option
@json_option
@click.pass_obj
def pause(invocation: Invocation, everywhere: bool, as_json: bool) -> None:
    """Switch swarm-memory off in this project: hooks say nothing, tools answer that it is off, nothing is learned.

    What agents do meanwhile is not read, and `swarm-memory learn` can read it later. The setting `enabled: false` and
    the variable SWARM_MEMORY_DISABLED do the same.
    """
    from swarm_memory.server import switch

    changed = switch.pause(None if everywhere else invocation.root)
    told = f"{'Switched' if changed else 'Already switched'} off {_where(invocation, everywhere)}."
    print_json({"changed": changed, "off": switch.switched_off(invocation.root)}) if as_json else say(told)


@click.command()
@everywhere_option
@json_option
@click.pass_obj
def resume(invocation: Invocation, everywhere: bool, as_json: bool) -> None:
    """Switch swarm-memory on again in this project; with --everywhere in all that were paused."""
    from swarm_memory.server import switch

    changed = switch.resume(None if everywhere else invocation.root)
    by = switch.switched_off(invocation.root)
    if as_json:
        print_json({"changed": changed, "off": by})
        return
    say(f"Switched on {_where(invocation, everywhere)}." if changed else "It was not paused.")
    if by:
        say(f"Still off here: by {by}.", fg="yellow")


def _where(invocation: Invocation, everywhere: bool) -> str:
    return "in all projects" if everywhere else f"in {invocation.root}"


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Learn from a shipped Claude Code session, and show what comes back for the next task.

    Works offline and without a key. Nothing outside a temporary folder is read or written.
    """
    import anyio

    with tempfile.TemporaryDirectory(prefix="swarm-memory-demo-") as folder:
        shown = anyio.run(_play, Path(folder))
    if as_json:
        learned = [result for _, result in shown.learned]
        told = {"learned": learned, "noted": shown.noted, "beside": shown.beside, "retrieved": shown.found}
        print_json(told | {"took_ms": shown.took_ms})
    else:
        _show_demo(shown)


async def _play(folder: Path) -> Timed:
    from swarm_memory.schema.settings import Settings, StorageSettings
    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.server.wiring import open_toolbox, place_of
    from swarm_memory.tools.anchors.handles import at_failure
    from swarm_memory.tools.learn.learn import learn
    from swarm_memory.tools.memories.remember import remember_notes
    from swarm_memory.tools.retrieve.at_moment import Around, beside_failure
    from swarm_memory.tools.retrieve.retrieve import retrieve

    shown = Timed()
    settings = Settings(storage=StorageSettings(db=str(folder / ".swarm" / "memory.db"), project="shop"))
    toolbox = await shown.time("open the bank", lambda: open_toolbox(place_of(folder, settings), settings))
    try:
        for trajectory in read_trajectories(SESSION):
            result = await shown.time("learn", lambda each=trajectory: learn(toolbox, each))
            shown.learned.append((trajectory, result))
        (noted,) = await shown.time("remember", lambda: remember_notes(toolbox, [NOTE]))
        shown.noted.append(noted.item)
        handles = at_failure("Bash", {"command": FAILING}, ERROR)
        later = Around("later", "later:1")
        shown.beside = await shown.time("beside a failure", lambda: beside_failure(toolbox, later, handles))
        for what, query in (("retrieve", SIMILAR), ("retrieve again", UNRELATED)):
            shown.found.append(await shown.time(what, lambda text=query: retrieve(toolbox, text)))
    finally:
        await toolbox.store.close()
    return shown


def _show_demo(shown: Timed) -> None:
    for number, (trajectory, result) in enumerate(shown.learned, 1):
        _show_task(number, trajectory, result)
    for item in shown.noted:
        say("\nWhat its agent tells the next one, by one call of `remember`:", bold=True)
        say(f"    {item.title}\n    {item.description} {item.content}")
    _heading("A later session: a call fails", FAILING)
    say("What stands beside the failed call, in the same message:", dim=True)
    _show_notes(shown.beside)
    similar, unrelated = shown.found
    _heading("A similar task starts", similar.query)
    say("What is put into the agent's prompt:", dim=True)
    _show_notes(similar.preamble)
    for memory in similar.memories:
        parts = memory.parts
        how = f"relevance {parts.relevance:.2f}, recency {parts.recency:.2f}, confidence {parts.confidence:.2f}"
        say(f"    score {memory.score:.2f} ({how}): {memory.item.title}", dim=True)
    _heading("An unrelated task starts", unrelated.query)
    say("What is put into the agent's prompt: nothing." if not unrelated.memories else unrelated.preamble)
    if unrelated.reason:
        say(f"Why: {unrelated.reason}")
    times = ", ".join(f"{what} {ms:.0f} ms" for what, ms in shown.took_ms.items())
    say(f"\n{times}; {', '.join(similar.legs)} with {similar.embedder}. No key, no download, no daemon.", dim=True)
    say("Next: `swarm-memory install` in a project of yours.", dim=True)


def _show_notes(text: str) -> None:
    say()
    for line in text.splitlines():
        say(f"    {line}", fg="cyan")
    say()


def _show_task(number: int, trajectory: "Trajectory", result: LearnResult) -> None:
    _heading(f"Task {number} of a real Claude Code session", trajectory.task)
    calls = [step for step in trajectory.steps if step.kind == "tool_call"]
    say(f"{counted(len(trajectory.steps), 'step')}, {counted(len(calls), 'tool call')}:", dim=True)
    codes = {step.call_id: step.exit_code for step in trajectory.steps if step.kind == "observation"}
    for step in calls:
        command = str((step.tool_input or {}).get("command", step.tool_name))
        say(f"    exit {codes.get(step.call_id)}  {command[:100]}", fg="red" if codes.get(step.call_id) else None)
    verdict = result.verdict
    colour = {"Success": "green", "Failure": "red"}.get(verdict.label, "yellow")
    say(
        f"\nVerdict: {verdict.label}, confidence {verdict.confidence:.2f}, judged by {verdict.judge}",
        fg=colour,
        bold=True,
    )
    for reason in verdict.reasons:
        say(f"    {reason}")
    say(f"    rests on steps {', '.join(verdict.evidence) or 'none'}", dim=True)
    for item in result.stored:
        say(f"\nLearned: {item.title}", bold=True)
        say(f"    confidence {item.confidence:.2f}; {item.description}", dim=True)
        for line in item.content.splitlines():
            say(f"    {line}")
    if result.reason:
        say(f"    {result.reason}", dim=True)


def _heading(title: str, text: str) -> None:
    click.secho(f"\n── {title} " + "─" * max(0, 76 - len(title)), bold=True)
    say(f"“{text}”\n")
