"""What is written into Cursor's files and taken out again: our hooks, our MCP server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.cursor.host import home
from swarm_memory.server.hosts.entries import command_line
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.hosts.settings import HostSettings
from swarm_memory.server.hosts.settings_files import Json


class CursorSettings(HostSettings):
    """Those of Cursor. Not every client takes what a hook says; none takes it with a prompt."""

    name = "cursor"
    programs = ("cursor-agent", "cursor")
    after_install = (
        "Restart Cursor to use it. It takes no notes with a prompt, and some clients none at all: "
        "`swarm-memory install --rules AGENTS.md` has its agent ask for them."
    )
    events: ClassVar[Mapping[str, str]] = {
        "SessionStart": "sessionStart",
        "PostToolUseFailure": "postToolUseFailure",
        "Stop": "stop",
        "SessionEnd": "sessionEnd",
    }
    version = 1

    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the files."""
        folder = root / ".cursor" if scope == "project" else Path(home())
        return folder / "hooks.json", folder / "mcp.json"

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook."""
        return {"command": command_line(words), "timeout": timeout_s}


SETTINGS = CursorSettings()
