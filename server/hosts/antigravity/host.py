"""Antigravity: where it keeps its sessions. Its hooks are not used."""

from swarm_memory.server.hosts.host import Host


class Antigravity(Host):
    """Antigravity, whose sessions are only read: of its command line and of both its editors."""

    name = "antigravity"
    title = "Antigravity"
    own_folder = ("", "", ".gemini")
    sessions = ("antigravity-cli/brain", "antigravity/brain", "antigravity-ide/brain")


HOST = Antigravity()
