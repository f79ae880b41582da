"""What is written into Claude Code's files and taken out again: our MCP server, our hooks, nothing else."""

import os
from collections.abc import Mapping
from pathlib import Path

from swarm_memory.server.hosts.entries import (
    SERVER_NAME,
    VERBS,
    HookRun,
    drop_empty,
    holds_hooks,
    list_at,
    object_at,
    real_path,
)
from swarm_memory.server.hosts.host import SCOPES, HostFiles, InstallScope
from swarm_memory.server.hosts.settings import HostSettings, Places
from swarm_memory.server.hosts.settings_files import Json, object_of

_MATCHERS: Mapping[str, str] = {
    "SessionStart": "startup|clear|compact",
    "PreToolUse": "Bash|Edit|MultiEdit|Write|NotebookEdit|mcp__.*",
    "PostToolUse": "mcp__.*swarm[-_]memory.*__remember",
}
"""The sources of SessionStart that begin with an empty context, for a resumed session still has its briefing; the tools
that run or change something; the tool by which the agent answers what it is asked at the end of a task."""


class ClaudeCodeSettings(HostSettings):
    """Those of Claude Code, which has settings of one project for one user, and approves a project's servers."""

    scopes = SCOPES

    def installed_scopes(self, root: Path) -> list[InstallScope]:
        """Return as for any agent; in the home folder two scopes share a file: it is the user's."""
        found: dict[Path, InstallScope] = {}
        for scope in ("user", "local", "project"):
            settings = self.places(scope, root).hooks
            if holds_hooks(settings):
                found.setdefault(real_path(settings), scope)
        return [scope for scope in SCOPES if scope in found.values()]

    def plugin(self, root: Path) -> str | None:
        """Return the name by which our plugin is switched on: `swarm-memory@…`. Raises `ConfigError`."""
        enabled: Json = {}
        for scope in ("user", "project", "local"):
            enabled |= object_at(object_of(self.places(scope, root).hooks), "enabledPlugins")
        return next((name for name in enabled if name.startswith(f"{SERVER_NAME}@") and enabled[name] is True), None)

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where a scope's entries stand; the server of `local` stands under the project in the user's file."""
        if scope != "local":
            return super().places(scope, root)
        known, working = _repository(root.resolve())
        keys = ("projects", known.as_posix(), "mcpServers")
        return Places(working / ".claude" / "settings.local.json", _users_servers(), keys, working)

    def edit_hooks(self, data: Json, hooks: Mapping[str, list[Json]], *, is_shared: bool) -> Json:
        """Edit the hooks, and of a project's file the list of its servers that run.

        A project's server runs only once it is named in the settings of a folder that the person trusts.
        """
        data = super().edit_hooks(data, hooks, is_shared=is_shared)
        enabled = list_at(data, "enabledMcpjsonServers")
        if hooks and is_shared and SERVER_NAME not in enabled:
            data["enabledMcpjsonServers"] = [*enabled, SERVER_NAME]
        elif not hooks and SERVER_NAME in enabled:
            enabled.remove(SERVER_NAME)
            drop_empty(data, "enabledMcpjsonServers")
        return data


def _hook(run: HookRun) -> Json:
    entry = {"type": "command", "command": run.words[0], "args": [*run.words[1:]], "timeout": run.timeout_s}
    return {"hooks": [entry]}


def _users_servers() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"


def _users_settings() -> str:
    return str(Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json")


def _where(scope: InstallScope, root: str) -> tuple[str, str]:
    if scope == "project":
        return str(Path(root, ".claude", "settings.json")), str(Path(root, ".mcp.json"))
    return _users_settings(), str(_users_servers())


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


SETTINGS = ClaudeCodeSettings(
    "claude",
    HostFiles(
        where=_where,
        events={event: event for event in VERBS},
        hook=_hook,
        programs=("claude",),
        after_install="Restart Claude Code to use it; `swarm-memory doctor` checks it.",
        trace=lambda: str(Path(_users_settings()).parent),
        matchers=_MATCHERS,
        server={"type": "stdio", "env": {}},
    ),
)
