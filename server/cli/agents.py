"""Which coding agents `install`, `uninstall` and `doctor` are about; what other MCP clients write into their files."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.cli.console import Finding, say
from swarm_memory.server.hosts.codex.settings import server_table
from swarm_memory.server.hosts.entries import SERVER_NAME
from swarm_memory.server.hosts.host import ROOMS, Host, InstallScope, hosts
from swarm_memory.server.hosts.settings import HostSettings
from swarm_memory.server.hosts.settings_files import FileChange

CLAUDE = "claude"
"""The agent that is meant where none is named and nobody can be asked."""


class Agent(NamedTuple):
    """A coding agent that we can be installed into."""

    host: Host
    settings: HostSettings

    def scope(self, wanted: InstallScope) -> InstallScope:
        """Return where it is installed: `wanted`, or for the user where it has no files for one project and user."""
        return wanted if wanted in self.settings.scopes else "user"

    def plan(self, wanted: InstallScope, root: Path, calls: bool) -> list[FileChange]:
        """Return what installing changes. Raises `ConfigError`."""
        return self.settings.plan_install(self.scope(wanted), root, calls)

    def command(self, verb: Literal["install", "uninstall"], scope: InstallScope) -> str:
        """Return the command that installs into the files of a scope, or takes us out of them."""
        name = "" if self.host.name == CLAUDE else f" --agent {self.host.name}"
        is_default = scope == self.scope("local")
        return f"`swarm-memory {verb}{name}{'' if is_default else f' --{scope}'}`"


def all_agents() -> list[Agent]:
    """Return every agent that we can be installed into."""
    return [Agent(host, settings) for host in hosts() if (settings := host.settings) is not None]


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
            how = " (`learn` reads its sessions; `install --print` has its MCP configuration)"
            known = f"{how if unknown[0] in ROOMS else ''}: {', '.join(agents)}"
            raise InputError(f"not an agent to install into: {unknown[0]}{known}")
        return [agents[name] for name in wanted]
    here = [agent for agent in agents.values() if agent.settings.is_there()]
    if everything:
        if not here:
            raise InputError(f"none of these agents is on this machine: {', '.join(agents)}")
        return here
    if not may_ask or not any(agent.host.name != CLAUDE for agent in here):
        return [agents[CLAUDE]]
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


def examined(root: Path, calls: bool) -> Iterator[Finding]:
    """Yield how we are installed into each agent that is here, and what to do about it. `calls` as for `Agent.plan`.

    Claude Code lacks us only where we are installed nowhere. One whose files cannot be read does not stop the others.
    """
    installed: list[tuple[Agent, list[InstallScope]]] = []
    for agent in all_agents():
        try:
            installed.append((agent, agent.settings.installed_scopes(root)))
        except ConfigError as error:
            yield Finding(agent.host.title, "fail", str(error))
    for agent, scopes in installed:
        plugin, title = agent.settings.plugin(root), agent.host.title
        if plugin and scopes:
            advice = f"take one out: `swarm-memory uninstall` or `claude plugin uninstall {plugin}`"
            yield Finding(title, "warn", f"the plugin {plugin} is enabled too: its hooks give way", advice)
        elif plugin:
            yield Finding(title, "ok", f"server and hooks are those of the plugin {plugin}")
        elif agent.host.name == CLAUDE and not any(each for _, each in installed):
            advice = "run `swarm-memory install` (--dry-run shows what it writes)"
            yield Finding(title, "warn", "server and hooks are not installed", advice)
        elif not scopes and agent.settings.is_there():
            advice = f"`swarm-memory install --agent {agent.host.name}` shares this memory with it"
            yield Finding(title, "ok", "here, and not installed into", advice)
        yield from _in_scopes(agent, scopes, root, calls)
        if untrusted := agent.settings.untrusted(root):
            yield Finding(title, "warn", f"{counted(untrusted, 'hook')} not trusted yet", agent.settings.after_install)
        if len(scopes) > 1:
            advice = f"take out all but one: {', '.join(agent.command('uninstall', scope) for scope in scopes)}"
            yield Finding(title, "warn", f"installed {len(scopes)} times: {', '.join(scopes)}", advice)
        if "project" in scopes and shutil.which(SERVER_NAME) is None:
            advice = "put it there, as with `uv tool install`"
            yield Finding(title, "warn", f"the project's files run {SERVER_NAME}, which is not on the PATH", advice)


def _in_scopes(agent: Agent, scopes: list[InstallScope], root: Path, calls: bool) -> Iterator[Finding]:
    for scope in scopes:
        if agent.settings.plan_install(scope, root, calls):
            advice = f"run {agent.command('install', scope)} (--dry-run shows what it changes)"
            yield Finding(agent.host.title, "warn", f"not installed as this version does it ({scope})", advice)
        else:
            yield Finding(agent.host.title, "ok", f"server and hooks are installed ({scope})")


_DESKTOP = {"darwin": "~/Library/Application Support/Claude", "win32": r"%APPDATA%\Claude"}
_EDITORS = "${workspaceFolder}"

CLIENTS: dict[str, tuple[str, str | None, str | None]] = {
    "claude-desktop": (
        f"Claude Desktop: {_DESKTOP.get(sys.platform, '~/.config/Claude')}/claude_desktop_config.json", "mcpServers", ""
    ),
    "cursor": ("Cursor: .cursor/mcp.json of the project, or ~/.cursor/mcp.json", "mcpServers", _EDITORS),
    "vscode": ("VS Code: .vscode/mcp.json of the project", "servers", _EDITORS),
    "windsurf": ("Windsurf: ~/.codeium/windsurf/mcp_config.json", "mcpServers", ""),
    "codex": ("Codex CLI: ~/.codex/config.toml", None, None),
    "gemini": ("Gemini CLI: .gemini/settings.json of the project, or ~/.gemini/settings.json", "mcpServers", None),
    "zed": ("Zed: settings.json (`zed: open settings`)", "context_servers", ""),
}  # fmt: skip
"""By the name that `install --print` takes: the client and its file, and under which key servers are there (None: it is
the TOML of Codex); then what names the project where it starts us elsewhere, empty: as it is now."""


def configuration(name: str, command: Sequence[str], root: Path) -> tuple[str, str]:
    """Return where a client keeps its servers, in words, and what goes there. Raises `InputError`."""
    if name not in CLIENTS:
        raise InputError(f"there is no client {name!r}: {', '.join(CLIENTS)}")
    where, key, workspace = CLIENTS[name]
    words = [*command, *([] if workspace is None else ["--project", workspace or str(root)])]
    if key is None:
        return where, server_table(words)
    kind = {"type": "stdio"} if key == "servers" else {}
    server = {**kind, "command": words[0], "args": [*words[1:], "serve"]}
    return where, json.dumps({key: {SERVER_NAME: server}}, indent=2, ensure_ascii=False) + "\n"
