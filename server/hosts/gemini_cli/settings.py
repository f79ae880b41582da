"""What is written into Gemini CLI's settings and taken out again: our hooks, our MCP server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.entries import command_line
from swarm_memory.server.hosts.gemini_cli.host import EVENTS, SHELL, home
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.hosts.settings import HostSettings
from swarm_memory.server.hosts.settings_files import Json


class GeminiSettings(HostSettings):
    """Those of Gemini CLI, which has hooks and servers in one file."""

    name = "gemini"
    programs = ("gemini",)
    after_install = "Restart Gemini CLI to use it; it warns of a project's hooks that are new or changed."
    events: ClassVar[Mapping[str, str]] = EVENTS
    matchers: ClassVar[Mapping[str, str]] = {"PostToolUseFailure": SHELL}

    def trace(self) -> Path:
        """Return the user's own settings."""
        return Path(home(), "settings.json")

    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the file, twice."""
        path = root / ".gemini" / "settings.json" if scope == "project" else self.trace()
        return path, path

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook; Gemini CLI counts in milliseconds."""
        name = f"swarm-memory {words[-1]}"
        entry = {"type": "command", "name": name, "command": command_line(words), "timeout": timeout_s * 1000}
        return {"hooks": [entry]}


SETTINGS = GeminiSettings()
