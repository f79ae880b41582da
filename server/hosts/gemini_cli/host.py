"""Gemini CLI as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, nothing_of


def folders() -> tuple[str, ...]:
    """Return the folder of the chats of all projects."""
    home = os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~")
    return (os.path.join(home, ".gemini", "tmp"),)


HOST = Host(name="gemini", title="Gemini CLI", folders=folders, heard=nothing_of, answered=nothing_of)
