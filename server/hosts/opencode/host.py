"""OpenCode as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, nothing_of


def folders() -> tuple[str, ...]:
    """Return the folder of its database."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return (os.path.join(data, "opencode"),)


HOST = Host(name="opencode", title="OpenCode", folders=folders, heard=nothing_of, answered=nothing_of)
