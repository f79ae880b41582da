"""Cursor: where it keeps its chats, what its hooks send and accept, and our entries in its files."""

import re
from collections.abc import Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.host import HookPayload
from swarm_memory.server.hosts.settings import InstalledHost, command_line
from swarm_memory.server.hosts.settings_files import Json

STORE = "store.db"
_OF_CALL = ("tool_name", "tool_input", "is_interrupt")


class Cursor(InstalledHost):
    """Cursor. Not every client accepts context from a hook, and none accepts it with a prompt."""

    name = "cursor"
    title = "Cursor"
    own_folder = ("", "", ".cursor")
    sessions = ("chats", "projects")
    """The first for the command line, the second for all its agents."""
    programs = ("cursor-agent", "cursor")
    after_install = (
        "Restart Cursor to use it. It accepts no notes with a prompt, and some clients accept none at all: "
        "a line in AGENTS.md can tell its agent to call `retrieve_memories`."
    )
    events: ClassVar[Mapping[str, str]] = {
        "SessionStart": "sessionStart",
        "PostToolUseFailure": "postToolUseFailure",
        "Stop": "stop",
        "SessionEnd": "sessionEnd",
    }
    version = 1
    context_at: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("SessionStart", "PostToolUseFailure"), "additional_context"
    )
    project_files = (".cursor/hooks.json", ".cursor/mcp.json")
    user_files = ("hooks.json", "mcp.json")

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event in our vocabulary, without the user's email address."""
        session = Path(str(said.get("conversation_id") or said.get("session_id") or "")).name
        roots = said.get("workspace_roots")
        root = str(said.get("cwd") or (roots[0] if isinstance(roots, list) and roots else ""))  # pyright: ignore
        (chats, projects), (hashed, slug) = self.folders(), project_names(root)
        store = Path(chats, hashed, session, STORE)
        lines = Path(projects, slug, "agent-transcripts", session, f"{session}.jsonl")
        failed = {"error": said.get("error_message"), **{name: said.get(name) for name in _OF_CALL}}
        return {
            **(failed if event == "PostToolUseFailure" else {}),
            "session_id": session,
            "cwd": root,
            "transcript_path": str(store) if store.is_file() else said.get("transcript_path") or str(lines),
            "stop_hook_active": False,
        }

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook."""
        return {"command": command_line(words), "timeout": timeout_s}


def project_names(root: str) -> tuple[str, str]:
    """Return a project's names in the two folders: a hash of its path, and its path with `-` for special characters."""
    hashed = md5(root.encode(), usedforsecurity=False).hexdigest()
    return hashed, re.sub(r"[^A-Za-z0-9]+", "-", root).strip("-")


HOST = Cursor()
