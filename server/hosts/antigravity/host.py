"""Antigravity as its hooks need it: where it keeps its sessions."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, Said


def folders() -> tuple[str, ...]:
    """Return the folders of its conversations: of its command line and of both its editors."""
    home = os.path.join(os.path.expanduser("~"), ".gemini")
    return tuple(os.path.join(home, name, "brain") for name in ("antigravity-cli", "antigravity", "antigravity-ide"))


def nothing_of(event: str, said: Said) -> Said:
    """Its hooks are not used."""
    return {}


HOST = Host("antigravity", "Antigravity", folders, nothing_of, nothing_of, is_installable=False)
