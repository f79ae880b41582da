"""OpenCode as our plugin in it needs it: where it keeps its sessions. The plugin speaks in our own words."""

# ruff: noqa: PTH111, PTH118
import os

from swarm_memory.server.hosts.host import Host, Said, context_in


def folders() -> tuple[str, ...]:
    """Return the folder of its database."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return (os.path.join(data, "opencode"),)


def heard(event: str, said: Said) -> Said:
    """Return an event in our words; the session's transcript is the database."""
    return {**said, "hook_event_name": event, "transcript_path": os.path.join(folders()[0], "opencode.db")}


def answered(event: str, answer: Said) -> Said:
    """Return the context, which the plugin puts where it belongs."""
    context = context_in(answer)
    return {"additionalContext": context} if context else {}


HOST = Host("opencode", "OpenCode", folders, heard, answered, reads=("agents-md",))
