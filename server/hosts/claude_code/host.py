"""Claude Code: where it keeps its sessions, and our entries in its files. Our own vocabulary is that of its hooks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.host import SCOPES, HookPayload, InstallScope
from swarm_memory.server.hosts.settings import SERVER_NAME, VERBS, InstalledHost, Places, drop_empty, list_in, object_in
from swarm_memory.server.hosts.settings_files import Json, object_of


class ClaudeCode(InstalledHost):
    """Claude Code, which also has settings for one user in one project, and runs a project's servers once approved."""

    name = "claude"
    title = "Claude Code"
    own_folder = ("CLAUDE_CONFIG_DIR", ".claude", "")
    sessions = ("projects",)
    names_project = True
    reads_skills = True
    sees_calls = True
    asks = True
    defers_tools = True
    programs = ("claude",)
    after_install = "Restart Claude Code to use it; `swarm-memory doctor` checks it."
    events: ClassVar[Mapping[str, str]] = {event: event for event in VERBS}
    context_at: ClassVar[Mapping[str, str]] = dict.fromkeys(VERBS, "")
    matchers: ClassVar[Mapping[str, str]] = {
        "SessionStart": "startup|clear|compact",
        "PreToolUse": "Bash|Edit|MultiEdit|Write|NotebookEdit|mcp__.*",
        "PostToolUse": "mcp__.*swarm[-_]memory.*__remember",
    }
    """The sources of SessionStart that begin with an empty context (a resumed session still has its briefing); the
    tools that run or change something; the tool with which the agent answers the question at the end of a task."""
    server: ClassVar[Mapping[str, object]] = {"type": "stdio", "env": {}}
    scopes = SCOPES
    project_files = (".claude/settings.json", ".mcp.json")
    user_files = ("settings.json", ".claude.json")

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event of Claude Code's; `{}` for one of the other agents that run the hooks in its files too.

        Copilot CLI sends the time of an event, Cursor its own version; Claude Code sends neither.
        """
        return {} if "timestamp" in said or "cursor_version" in said else said

    def format_answer(self, event: str, answer: HookPayload) -> HookPayload:
        """Return our answer as it is."""
        return answer

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook."""
        return {"hooks": [{"type": "command", "command": words[0], "args": [*words[1:]], "timeout": timeout_s}]}

    def plugin(self, root: Path) -> str | None:
        """Return the name under which our plugin is enabled: `swarm-memory@…`. Raises `ConfigError`."""
        enabled: Json = {}
        for scope in ("user", "project", "local"):
            enabled |= object_in(object_of(self.places(scope, root).hooks), "enabledPlugins")
        return next((name for name in enabled if name.startswith(f"{SERVER_NAME}@") and enabled[name] is True), None)

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where a scope's entries are; the server of `local` is under the project in the user's file."""
        places = super().places(scope, root)
        if scope == "project":
            return places
        servers = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / places.servers.name
        if scope == "user":
            return places._replace(servers=servers)
        known, working = _repository(root.resolve())
        keys = ("projects", known.as_posix(), "mcpServers")
        return Places(working / ".claude" / "settings.local.json", servers, keys, working)

    def edit_hooks(self, data: Json, hooks: Mapping[str, list[Json]], *, is_shared: bool) -> Json:
        """Edit the hooks and, in a project's file, the list of servers that run.

        A project's server runs only once it is named in the settings of a folder that the person trusts.
        """
        data = super().edit_hooks(data, hooks, is_shared=is_shared)
        enabled = list_in(data, "enabledMcpjsonServers")
        if hooks and is_shared and SERVER_NAME not in enabled:
            data["enabledMcpjsonServers"] = [*enabled, SERVER_NAME]
        elif not hooks and SERVER_NAME in enabled:
            enabled.remove(SERVER_NAME)
            drop_empty(data, "enabledMcpjsonServers")
        return data


def _repository(root: Path) -> tuple[Path, Path]:
    """Return the folder by which Claude Code knows a project, and the folder whose local settings it reads for it."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    try:
        link = (top / ".git").read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        common = top / link / (top / link / "commondir").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return top, top  # not a worktree: `.git` is a folder, is missing, or is a submodule's
    common = common.resolve()
    # A bare repository has no main folder: it is known by its own, and each worktree has its own settings.
    return (common.parent, common.parent) if common.name == ".git" else (common, top)


HOST = ClaudeCode()
