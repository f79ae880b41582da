"""What is written into Copilot CLI's files and taken out again: a file of our hooks, our MCP server."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.claude_code.settings import SETTINGS as CLAUDE_CODE
from swarm_memory.server.hosts.copilot_cli.host import home
from swarm_memory.server.hosts.entries import VERBS
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.hosts.settings import HostSettings, Places
from swarm_memory.server.hosts.settings_files import Json

_FILE = "swarm-memory.json"


class CopilotSettings(HostSettings):
    """Those of Copilot CLI, which shares the file of a project's servers with Claude Code.

    Its events in PascalCase have it speak as Claude Code does, nearly; a failed call comes with PostToolUse.
    """

    name = "copilot"
    programs = ("copilot",)
    after_install = "Restart Copilot CLI to use it; it runs a project's hooks in folders that you trust."
    events: ClassVar[Mapping[str, str]] = {
        each: each for each in VERBS if each not in ("PostToolUse", "PostToolUseFailure")
    } | {"PostToolUseFailure": "PostToolUse"}
    matchers: ClassVar[Mapping[str, str]] = {"PostToolUseFailure": "Bash"}
    server: ClassVar[Mapping[str, object]] = {"type": "stdio", "env": {}, "tools": ["*"]}
    version = 1

    def trace(self) -> Path:
        """Return the folder of the user's own files."""
        return Path(home())

    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the files."""
        if scope == "project":
            return root / ".github" / "hooks" / _FILE, root / ".mcp.json"
        return self.trace() / "hooks" / _FILE, self.trace() / "mcp-config.json"

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook, for either shell."""
        quoted = (word.replace("'", "''") for word in words)
        powershell = "& " + " ".join(f"'{word}'" for word in quoted)
        return {"type": "command", "bash": shlex.join(words), "powershell": powershell, "timeoutSec": timeout_s}

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Leave the server to Claude Code where that has it in the same file."""
        is_claudes_too = places.is_shared and "project" in CLAUDE_CODE.installed_scopes(places.servers.parent)
        return servers if command is None and is_claudes_too else super().edit_servers(servers, command, places)


SETTINGS = CopilotSettings()
