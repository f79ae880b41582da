"""Antigravity: where it keeps its sessions. Its hooks are not used."""

from pathlib import Path

from swarm_memory.server.hosts.host import Host


class Antigravity(Host):
    """Antigravity, whose sessions are only read: of its command line and of both its editors."""

    name = "antigravity"
    title = "Antigravity"
    sessions = ("antigravity-cli/brain", "antigravity/brain", "antigravity-ide/brain")

    def home(self) -> Path:
        """Return the folder of the user's own files."""
        return Path.home() / ".gemini"


HOST = Antigravity()
