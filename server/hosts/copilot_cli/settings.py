"""What is written into Copilot CLI's files and taken out again: a file of our hooks, our MCP server."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.hosts.claude_code.settings import SETTINGS as CLAUDE_CODE
from swarm_memory.server.hosts.copilot_cli.host import EVENTS, home
from swarm_memory.server.hosts.entries import HookRun
from swarm_memory.server.hosts.host import HostFiles, InstallScope
from swarm_memory.server.hosts.settings import HostSettings, Places
from swarm_memory.server.hosts.settings_files import Json

_FILE = "swarm-memory.json"


class CopilotSettings(HostSettings):
    """Those of Copilot CLI, which shares the file of a project's servers with Claude Code."""

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Leave the server to Claude Code where that has it in the same file."""
        is_claudes_too = places.is_shared and "project" in CLAUDE_CODE.installed_scopes(places.servers.parent)
        return servers if command is None and is_claudes_too else super().edit_servers(servers, command, places)


def _where(scope: InstallScope, root: str) -> tuple[str, str]:
    if scope == "project":
        return str(Path(root, ".github", "hooks", _FILE)), str(Path(root, ".mcp.json"))
    return str(Path(home(), "hooks", _FILE)), str(Path(home(), "mcp-config.json"))


def _hook(run: HookRun) -> Json:
    quoted = (word.replace("'", "''") for word in run.words)
    powershell = "& " + " ".join(f"'{word}'" for word in quoted)
    return {"type": "command", "bash": shlex.join(run.words), "powershell": powershell, "timeoutSec": run.timeout_s}


SETTINGS = CopilotSettings(
    "copilot",
    HostFiles(
        where=_where,
        events=EVENTS,
        hook=_hook,
        programs=("copilot",),
        after_install="Restart Copilot CLI to use it; it runs a project's hooks in folders that you trust.",
        trace=home,
        matchers={"PostToolUseFailure": "Bash"},
        server={"type": "stdio", "env": {}, "tools": ["*"]},
        version=1,
    ),
)
