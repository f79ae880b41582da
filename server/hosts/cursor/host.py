"""Cursor as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, nothing_of


def folders() -> tuple[str, ...]:
    """Return the folders of its chats on the command line, and of the transcripts of all its agents."""
    home = os.path.join(os.path.expanduser("~"), ".cursor")
    return os.path.join(home, "chats"), os.path.join(home, "projects")


HOST = Host(name="cursor", title="Cursor", folders=folders, heard=nothing_of, answered=nothing_of)
