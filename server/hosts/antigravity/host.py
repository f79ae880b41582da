"""Antigravity: where it keeps its sessions. Its hooks are not used."""

from pathlib import Path

from swarm_memory.server.hosts.host import Host


class Antigravity(Host):
    """Antigravity, whose sessions are only read."""

    name = "antigravity"
    title = "Antigravity"

    def folders(self) -> tuple[str, ...]:
        """Return the folders of its conversations: of its command line and of both its editors."""
        names = ("antigravity-cli", "antigravity", "antigravity-ide")
        return tuple(str(Path.home() / ".gemini" / name / "brain") for name in names)


HOST = Antigravity()
