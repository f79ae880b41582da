"""Which coding agents `install`, `uninstall` and `doctor` act on; what to put into the files of other MCP clients."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.cli.console import Finding, say
from swarm_memory.server.hosts.host import ROOMS, InstallScope, hosts
from swarm_memory.server.hosts.settings import SERVER_NAME, InstalledHost

CLAUDE = "claude"
"""The agent to act on where none is named and the user cannot be asked."""


def scope_of(agent: InstalledHost, wanted: InstallScope) -> InstallScope:
    """Return the scope to install an agent in: `wanted`, or `user` where the agent has no files of that scope."""
    return wanted if wanted in agent.scopes else "user"


def install_command(agent: InstalledHost, verb: Literal["install", "uninstall"], scope: InstallScope) -> str:
    """Return the command that installs us into the files of a scope, or removes us from them."""
    name = "" if agent.name == CLAUDE else f" --agent {agent.name}"
    return f"`swarm-memory {verb}{name}{'' if scope == scope_of(agent, 'local') else f' --{scope}'}`"


def chosen(names: str | None, root: Path, *, may_ask: bool) -> list[InstalledHost]:
    """Return the agents to act on: those named, else those already installed into, else those that the user picks.

    Where the user may not be asked, or has only Claude Code, that alone. Raises `InputError` for an unknown name.
    """
    agents = {agent.name: agent for agent in hosts()}
    if names is not None:
        wanted = dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip())
        if unknown := [name for name in wanted if name not in agents] or ([] if wanted else ["nothing"]):
            raise InputError(f"cannot install into {unknown[0]}: choose from {', '.join(agents)}")
        return [agents[name] for name in wanted]
    here = [agent for agent in agents.values() if agent.is_there()]
    if not may_ask or not any(agent.name != CLAUDE for agent in here):
        return [agents[CLAUDE]]
    if answered := [agent for agent in here if agent.installed_scopes(root)]:
        return answered
    say("These coding agents are on this machine. They can share one memory for the project:", bold=True)
    for agent in here:
        say(f"  {agent.name:9} {agent.title}")

    def named(text: str) -> list[InstalledHost]:
        try:
            return chosen(text, root, may_ask=False)
        except InputError as error:
            raise click.UsageError(str(error)) from None  # the prompt asks again

    return click.prompt("Install into", default=",".join(agent.name for agent in here), value_proc=named)


def examined(root: Path) -> Iterator[Finding]:
    """Yield how we are installed into each agent on this machine, and what to do about it.

    Claude Code is reported as lacking us only if no agent has us. Unreadable files of one do not stop the others.
    """
    installed: list[tuple[InstalledHost, list[InstallScope]]] = []
    for agent in hosts():
        try:
            installed.append((agent, agent.installed_scopes(root)))
        except ConfigError as error:
            yield Finding(agent.title, "fail", str(error))
    for agent, scopes in installed:
        plugin, title = agent.plugin(root), agent.title
        if plugin and scopes:
            advice = f"remove one of them: `swarm-memory uninstall` or `claude plugin uninstall {plugin}`"
            yield Finding(title, "warn", f"the plugin {plugin} is enabled too: its hooks do nothing", advice)
        elif plugin:
            yield Finding(title, "ok", f"the plugin {plugin} provides server and hooks")
        elif agent.name == CLAUDE and not any(each for _, each in installed):
            advice = "run `swarm-memory install` (--dry-run shows what it writes)"
            yield Finding(title, "warn", "server and hooks are not installed", advice)
        elif not scopes and agent.is_there():
            advice = f"`swarm-memory install --agent {agent.name}` shares this memory with it"
            yield Finding(title, "ok", "on this machine, but not set up", advice)
        for scope in scopes:
            if agent.plan_install(scope, root):
                advice = f"run {install_command(agent, 'install', scope)} (--dry-run shows what it changes)"
                yield Finding(title, "warn", f"set up by another version ({scope})", advice)
            else:
                yield Finding(title, "ok", f"server and hooks are installed ({scope})")
        if len(scopes) > 1:
            advice = f"remove all but one: {', '.join(install_command(agent, 'uninstall', scope) for scope in scopes)}"
            yield Finding(title, "warn", f"installed {len(scopes)} times: {', '.join(scopes)}", advice)
        if "project" in scopes and shutil.which(SERVER_NAME) is None:
            advice = "put it on the PATH, for example with `uv tool install`"
            yield Finding(title, "warn", f"the project's files run {SERVER_NAME}, which is not on the PATH", advice)


CLIENTS = {
    "vscode": ("VS Code: .vscode/mcp.json in the project", "servers", "${workspaceFolder}"),
    "other": ("the client's configuration file for MCP servers", "mcpServers", ""),
}
"""By name for `install --print`: where the client keeps its servers, their key, its variable for the project folder."""


def configuration(name: str, command: Sequence[str], root: Path) -> tuple[str, str]:
    """Return in words where a client keeps its servers, and the text that goes there. Raises `InputError`."""
    if name in ROOMS:
        raise InputError(f"`swarm-memory install --agent {name}` sets it up: --print is for {', '.join(CLIENTS)}")
    if name not in CLIENTS:
        raise InputError(f"unknown client {name!r}: choose from {', '.join(CLIENTS)}")
    where, key, workspace = CLIENTS[name]
    words = [*command, "--project", workspace or str(root)]
    server = {"type": "stdio", "command": words[0], "args": [*words[1:], "serve", "--tools", "core"]}
    return where, json.dumps({key: {SERVER_NAME: server}}, indent=2, ensure_ascii=False) + "\n"
