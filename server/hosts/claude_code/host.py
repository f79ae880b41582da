"""Claude Code as its hooks need it: they say and are answered what our own words are taken from."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, Said


def projects_folder() -> str:
    """Return the folder in which Claude Code keeps the transcripts of all projects."""
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "projects")


def _heard(event: str, said: Said) -> Said:
    """Return what Claude Code says; nothing of what other agents say, which run the hooks in its files too.

    Copilot CLI gives the time of an event, Cursor its own version; Claude Code gives neither.
    """
    return {} if "timestamp" in said or "cursor_version" in said else said


def _as_it_is(event: str, said: Said) -> Said:
    return said


HOST = Host(
    sees_calls=True,
    name="claude",
    title="Claude Code",
    folders=lambda: (projects_folder(),),
    heard=_heard,
    answered=_as_it_is,
    names_project=True,
    reads=("skill", "claude-md"),
    asks=True,
)
