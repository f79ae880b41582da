"""What is written into Claude Code's files and taken out again: our MCP server, our hooks, nothing else."""

import os
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.entries import (
    CALL_EVENT,
    PORTABLE_HOOKS,
    PORTABLE_SERVER,
    SERVER_NAME,
    VERBS,
    Edit,
    drop_empty,
    edited,
    holds_hooks,
    hook_command,
    leads_out,
    list_at,
    object_at,
    real_path,
    server_command,
    with_hooks,
    with_server,
    without_server,
)
from swarm_memory.server.hosts.host import SCOPES, HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, object_of, planned_change

_TIMEOUTS_S: Mapping[str, int] = {"UserPromptSubmit": 15}
"""After how many seconds the host ends a hook where it is not 5; it ends itself before."""

_MATCHERS: Mapping[str, str] = {
    "SessionStart": "startup|clear|compact",
    "PreToolUse": "Bash|Edit|MultiEdit|Write|NotebookEdit|mcp__.*",
    "PostToolUse": "mcp__.*swarm[-_]memory.*__remember",
}
"""The sources of SessionStart that begin with an empty context, for a resumed session still has its briefing; the tools
that run or change something; the tool by which the agent answers what it is asked at the end of a task."""


def plan_install(scope: InstallScope, root: Path, calls: bool = True) -> list[FileChange]:
    """Return what installing changes: nothing when all is there already. `root` is the project's folder.

    `calls`: with the hook before calls of tools; without it that hook is taken out again. Raises `ConfigError`
    when a file cannot be read as the JSON object that Claude Code expects, when another server has our name, for a
    project's file that a symbolic link leads out of the project, or for `project` in the folder whose
    settings are those of all projects.
    """
    files = _files(scope, root)
    files.refuse_links()
    if scope == "project" and real_path(files.settings) == real_path(_files("user", root).settings):
        told = "is your home folder: what is written there holds for all your projects"
        raise ConfigError(f"{root} {told}; run `swarm-memory install --user`, or go to a project")
    portable = scope == "project"
    server = server_entry(PORTABLE_SERVER if portable else server_command())
    hooks = hook_entries(PORTABLE_HOOKS if portable else hook_command(), calls=calls)

    def edit_settings(data: Json) -> Json:
        data = edited(data, ("hooks",), partial(with_hooks, entries=hooks))
        enabled = list_at(data, "enabledMcpjsonServers")
        # A project's server runs only once it is named in the settings of a folder that the person trusts.
        if portable and SERVER_NAME not in enabled:
            data["enabledMcpjsonServers"] = [*enabled, SERVER_NAME]
        return data

    return files.planned(partial(with_server, entry=server), edit_settings, 0o644 if portable else 0o600)


def plan_uninstall(scope: InstallScope, root: Path) -> list[FileChange]:
    """Return what uninstalling changes. A file that holds nothing afterwards is removed. Raises as `plan_install`."""
    files = _files(scope, root)
    files.refuse_links()
    return files.planned(without_server, _without_hooks, 0o600)


def installed_scopes(root: Path) -> list[InstallScope]:
    """Return the scopes whose files hold hooks of ours for this project. Raises `ConfigError`."""
    found: dict[Path, InstallScope] = {}
    for scope in ("user", "local", "project"):  # in the home folder two of them share a file: it is the user's
        settings = _files(scope, root).settings
        if holds_hooks(settings):
            found.setdefault(real_path(settings), scope)
    return [scope for scope in SCOPES if scope in found.values()]


def enabled_plugin(root: Path) -> str | None:
    """Return the name by which our plugin is switched on for a project: `swarm-memory@…`. Raises `ConfigError`."""
    enabled: Json = {}
    for scope in ("user", "project", "local"):
        enabled |= object_at(object_of(_files(scope, root).settings), "enabledPlugins")
    return next((name for name in enabled if name.startswith(f"{SERVER_NAME}@") and enabled[name] is True), None)


def server_entry(command: Sequence[str]) -> Json:
    """Return the entry of our MCP server. `command`: the words that run our command line."""
    return {"type": "stdio", "command": command[0], "args": [*command[1:], "serve"], "env": {}}


def hook_entries(command: Sequence[str], *, calls: bool = True) -> dict[str, list[Json]]:
    """Return our hooks by event, as they stand in the settings of Claude Code; with `calls` that before calls too.

    `command`: the words that run them, before the verb.
    """
    return {event: [_entry(command, event, verb)] for event, verb in VERBS.items() if calls or event != CALL_EVENT}


def _entry(command: Sequence[str], event: str, verb: str) -> Json:
    timeout_s = _TIMEOUTS_S.get(event, 5)
    run: Json = {"type": "command", "command": command[0], "args": [*command[1:], verb], "timeout": timeout_s}
    return {"matcher": _MATCHERS[event], "hooks": [run]} if event in _MATCHERS else {"hooks": [run]}


class _Files(NamedTuple):
    """Where a scope's server and hooks stand."""

    servers: Path
    settings: Path
    keys: tuple[str, ...] = ()
    """Where the project stands in the file of the servers; empty: the file is of one scope alone."""
    folder: Path | None = None
    """That of the project, whose files may have come with a clone; None for the user's own."""

    def refuse_links(self) -> None:
        """Raise `ConfigError` where a link leads from a file of the project to one elsewhere, such as the user's."""
        for path in (self.settings,) if self.keys else (self.servers, self.settings):
            if self.folder is not None and leads_out(path, self.folder):
                told = f"{path} leads to {real_path(path)}, by a symbolic link out of the project; nothing was changed"
                mend = "put a real file in a real folder in its place, or use `--user` for all your projects"
                raise ConfigError(f"{told}: {mend}")

    def planned(self, edit_servers: Edit, edit_settings: Edit, mode: int) -> list[FileChange]:
        """Return the changes that the edits make of the servers of the scope, and of its settings."""
        edits = {self.servers: partial(edited, keys=(*self.keys, "mcpServers"), edit=edit_servers)}
        planned = (planned_change(path, edit, mode) for path, edit in (edits | {self.settings: edit_settings}).items())
        return [change for change in planned if change is not None]


def _files(scope: InstallScope, root: Path) -> _Files:
    if scope == "project":
        return _Files(root / ".mcp.json", root / ".claude" / "settings.json", folder=root)
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    servers = (Path(folder) if folder else Path.home()) / ".claude.json"
    if scope == "user":
        return _Files(servers, (Path(folder) if folder else Path.home() / ".claude") / "settings.json")
    known, working = _repository(root.resolve())
    return _Files(servers, working / ".claude" / "settings.local.json", ("projects", known.as_posix()), working)


def _repository(root: Path) -> tuple[Path, Path]:
    """Return the folder by which Claude Code knows a project, and that whose local settings it reads there.

    Both are the main folder of a repository, also in its linked worktrees and below it. A bare one has no such folder:
    it is known by its own, and each worktree has its settings.
    """
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    try:
        link = (top / ".git").read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        common = top / link / (top / link / "commondir").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return top, top  # no worktree: `.git` is a folder, is not there, or is a submodule's
    common = common.resolve()
    return (common.parent, common.parent) if common.name == ".git" else (common, top)


def _without_hooks(data: Json) -> Json:
    data = edited(data, ("hooks",), partial(with_hooks, entries={}))
    enabled = list_at(data, "enabledMcpjsonServers")
    if SERVER_NAME in enabled:
        enabled.remove(SERVER_NAME)
        drop_empty(data, "enabledMcpjsonServers")
    return data


def _is_there() -> bool:
    return shutil.which("claude") is not None or _files("user", Path()).settings.parent.is_dir()


SETTINGS = HostSettings(
    is_there=_is_there,
    scopes=SCOPES,
    plan_install=plan_install,
    plan_uninstall=plan_uninstall,
    installed_scopes=installed_scopes,
    plugin=enabled_plugin,
    after_install="Restart Claude Code to use it; `swarm-memory doctor` checks it.",
)
