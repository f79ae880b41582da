"""Cursor as its hooks need it: where it keeps its chats, what its hooks say, and what they may answer."""

# ruff: noqa: PTH111, PTH119, PTH113, PTH118
import os
import re

from swarm_memory.server.hosts.host import Host, Said, context_in

STORE = "store.db"
_TAKES_CONTEXT = ("SessionStart", "PostToolUseFailure")
_OF_CALL = ("tool_name", "tool_input", "is_interrupt")


def home() -> str:
    """Return the folder of the user's own files."""
    return os.path.join(os.path.expanduser("~"), ".cursor")


def folders() -> tuple[str, ...]:
    """Return the folders of its chats on the command line, and of the transcripts of all its agents."""
    return os.path.join(home(), "chats"), os.path.join(home(), "projects")


def project_names(root: str) -> tuple[str, str]:
    """Return by what the two folders know a project: a hash of its path, and its path with `-` for other signs."""
    from hashlib import md5

    hashed = md5(root.encode(), usedforsecurity=False).hexdigest()
    return hashed, re.sub(r"[^A-Za-z0-9]+", "-", root).strip("-")


def heard(event: str, said: Said) -> Said:
    """Return an event in our words, without the user's address."""
    session = os.path.basename(str(said.get("conversation_id") or said.get("session_id") or ""))
    roots = said.get("workspace_roots")
    root = str(said.get("cwd") or (roots[0] if isinstance(roots, list) and roots else ""))  # pyright: ignore
    (chats, projects), (hashed, slug) = folders(), project_names(root)
    store = os.path.join(chats, hashed, session, STORE)
    lines = os.path.join(projects, slug, "agent-transcripts", session, f"{session}.jsonl")
    failed = {"error": said.get("error_message"), **{name: said.get(name) for name in _OF_CALL}}
    return {
        **(failed if event == "PostToolUseFailure" else {}),
        "hook_event_name": event,
        "session_id": session,
        "cwd": root,
        "transcript_path": store if os.path.isfile(store) else said.get("transcript_path") or lines,
        "stop_hook_active": False,
    }


def answered(event: str, answer: Said) -> Said:
    """Return what a hook may answer: context at the start of a session and beside a failed call."""
    context = context_in(answer)
    return {"additional_context": context} if context and event in _TAKES_CONTEXT else {}


HOST = Host("cursor", "Cursor", folders, heard, answered, reads=("agents-md",))
