"""Which coding agents `install`, `uninstall` and `doctor` are about, and in which of their files."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.console import say
from swarm_memory.server.hosts.host import ROOMS, Host, InstallScope, hosts

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings import HostSettings
    from swarm_memory.server.hosts.settings_files import FileChange

CLAUDE = "claude"
"""The agent that is meant where none is named and nobody can be asked."""


class Agent(NamedTuple):
    """A coding agent that we can be installed into."""

    host: Host
    settings: "HostSettings"

    def scope(self, wanted: InstallScope) -> InstallScope:
        """Return where it is installed: `wanted`, or for the user where it has no files for one project and user."""
        return wanted if wanted in self.settings.scopes else "user"

    def plan(self, wanted: InstallScope, root: Path, calls: bool) -> "list[FileChange]":
        """Return what installing changes. Raises `ConfigError`."""
        return self.settings.plan_install(self.scope(wanted), root, calls)


def all_agents() -> Iterator[Agent]:
    """Yield every agent that we can be installed into."""
    return (Agent(host, settings) for host in hosts() if (settings := host.settings) is not None)


def chosen(names: str | None, everything: bool, root: Path, *, may_ask: bool) -> list[Agent]:
    """Return the agents that are meant: those named, all that are here, or those that the user says.

    Where nobody is asked, or nothing but Claude Code is here, that alone. Raises `InputError` for a name of none.
    """
    agents = {agent.host.name: agent for agent in all_agents()}
    if names is not None and everything:
        raise click.UsageError("--agent and --all exclude each other")
    if names is not None:
        wanted = dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip())
        if unknown := [name for name in wanted if name not in agents] or ([] if wanted else ["nothing"]):
            told = ", ".join(agents)
            how = " (`learn` reads its sessions; `install --print` has its MCP configuration)"
            raise InputError(f"not an agent to install into: {unknown[0]}{how if unknown[0] in ROOMS else ''}: {told}")
        return [agents[name] for name in wanted]
    here = [agent for agent in agents.values() if agent.settings.is_there()]
    if everything:
        if not here:
            raise InputError(f"none of these agents is on this machine: {', '.join(agents)}")
        return here
    if not may_ask or not any(agent.host.name != CLAUDE for agent in here):
        return [agents[CLAUDE]]
    return _asked(here, root)


def _asked(here: list[Agent], root: Path) -> list[Agent]:
    say("These coding agents are on this machine. They can share one memory of the project:", bold=True)
    for agent in here:
        scopes = ", ".join(agent.settings.installed_scopes(root))
        say(f"  {agent.host.name:9} {agent.host.title}{f' (installed: {scopes})' if scopes else ''}")

    def named(text: str) -> list[Agent]:
        try:
            return chosen(text, False, root, may_ask=False)
        except InputError as error:
            raise click.UsageError(str(error)) from None  # it is asked again

    return click.prompt("Install into", default=",".join(agent.host.name for agent in here), value_proc=named)


def say_others(agents: list[Agent], root: Path) -> None:
    """Say which agents are here, not installed into, and nobody was asked about."""
    left = (each for each in all_agents() if each not in agents and not each.settings.installed_scopes(root))
    if others := [each.host.title for each in left if each.settings.is_there()]:
        say(f"Here too: {', '.join(others)}. `swarm-memory install --all` has them share the memory.")


def say_after_install(agents: list[Agent], wanted: InstallScope, root: Path) -> None:
    """Say what is still to be done for each agent, and where it is installed twice."""
    if elsewhere := [agent.host.title for agent in agents if agent.scope(wanted) != wanted]:
        told = "settings of one project that are yours alone are not to be had there"
        say(f"In {', '.join(elsewhere)} it is for all your projects: {told}.")
    for agent in agents:
        scope: InstallScope = agent.scope(wanted)
        for also in agent.settings.installed_scopes(root):
            if also != scope:
                say(f"It is installed a second time: `{uninstall_command(agent, also)}` takes that out.", fg="yellow")
        if plugin := agent.settings.plugin(root):
            say(f"The plugin is enabled too: `claude plugin uninstall {plugin}` takes that out.", fg="yellow")
    if wanted == "project" and shutil.which("swarm-memory") is None:
        say("`swarm-memory` is not on your PATH: put it there, as with `uv tool install`.", fg="yellow")


def say_left(root: Path) -> None:
    """Say where it is still installed."""
    for agent in all_agents():
        for left in agent.settings.installed_scopes(root):
            say(f"Still installed in {agent.host.title}: `{uninstall_command(agent, left)}` takes that out.")


def uninstall_command(agent: Agent, scope: InstallScope) -> str:
    """Return the command that takes it out of an agent's files."""
    name = "" if agent.host.name == CLAUDE else f" --agent {agent.host.name}"
    flag = "" if scope == "local" or (scope == "user" and "local" not in agent.settings.scopes) else f" --{scope}"
    return f"swarm-memory uninstall{name}{flag}"
