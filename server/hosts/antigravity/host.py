"""Antigravity as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, nothing_of


def folders() -> tuple[str, ...]:
    """Return the folders of its conversations: of its command line and of both its editors."""
    home = os.path.join(os.path.expanduser("~"), ".gemini")
    return tuple(os.path.join(home, name, "brain") for name in ("antigravity-cli", "antigravity", "antigravity-ide"))


HOST = Host(name="antigravity", title="Antigravity", folders=folders, heard=nothing_of, answered=nothing_of)
