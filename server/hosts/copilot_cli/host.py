"""Copilot CLI as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, nothing_of


def folders() -> tuple[str, ...]:
    """Return the folder of its sessions."""
    home = os.environ.get("COPILOT_HOME") or os.path.join(os.path.expanduser("~"), ".copilot")
    return (os.path.join(home, "session-state"),)


HOST = Host(name="copilot", title="Copilot CLI", folders=folders, heard=nothing_of, answered=nothing_of)
