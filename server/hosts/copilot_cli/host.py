"""Copilot CLI: where it keeps its sessions, what its hooks send and accept, and our entries in its files."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.claude_code.host import HOST as CLAUDE_CODE
from swarm_memory.server.hosts.host import HookPayload
from swarm_memory.server.hosts.settings import EVENTS, SERVER_NAME, InstalledHost, Places
from swarm_memory.server.hosts.settings_files import Json

EVENTS_FILE = "events.jsonl"
_HOOKS_FILE = "swarm-memory.json"
_TOOLS = {"Bash": "bash", "Read": "view", "Edit": "edit", "Write": "create", "Grep": "grep", "Glob": "glob"}
"""The names of tools in its hooks, which are Claude Code's, with those in its sessions."""

_EXIT_CODE = re.compile(r"with exit code (-?[0-9]{1,10})>\s*\Z")


class CopilotCLI(InstalledHost):
    """Copilot CLI, which shares the file of a project's servers with Claude Code.

    Its events with PascalCase names are nearly those of Claude Code; a failed call comes with PostToolUse.
    """

    name = "copilot"
    title = "Copilot CLI"
    own_folder = ("COPILOT_HOME", ".copilot", "")
    sessions = ("session-state",)
    sees_calls = True
    programs = ("copilot",)
    after_install = "Restart Copilot CLI to use it; it runs a project's hooks in folders that you trust."
    events = EVENTS
    matchers: ClassVar[Mapping[str, str]] = {"PostToolUseFailure": "Bash"}
    server: ClassVar[Mapping[str, object]] = {"type": "stdio", "env": {}, "tools": ["*"]}
    version = 1
    context_at: ClassVar[Mapping[str, str]] = {**dict.fromkeys(EVENTS, "additionalContext"), "PreToolUse": ""}
    project_files = (f".github/hooks/{_HOOKS_FILE}", ".mcp.json")
    user_files = (f"hooks/{_HOOKS_FILE}", "mcp-config.json")

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event in our vocabulary; `{}` for a resumed session, and for a call that worked."""
        session = Path(str(said.get("session_id") or "")).name
        transcript = said.get("transcript_path") or str(Path(*self.folders(), session, EVENTS_FILE))
        ours: HookPayload = {**said, "transcript_path": transcript}
        if event == "SessionStart" and said.get("source") == "resume":
            return {}
        if event == "PreToolUse":
            return {**ours, "tool_name": _TOOLS.get(str(said.get("tool_name")), said.get("tool_name"))}
        if event != "PostToolUseFailure":
            return ours
        result: HookPayload = said.get("tool_result") or {}
        text = str(result.get("text_result_for_llm") or "")
        code = _EXIT_CODE.search(text)
        failed = code[1] != "0" if code else result.get("result_type") == "failure"
        return {**ours, "error": text} if failed else {}

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return a hook's entry, with a command for either shell."""
        quoted = (word.replace("'", "''") for word in words)
        powershell = "& " + " ".join(f"'{word}'" for word in quoted)
        return {"type": "command", "bash": shlex.join(words), "powershell": powershell, "timeoutSec": timeout_s}

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Leave our server, or the way it is started, to Claude Code if that has it in the same file."""
        is_claudes_too = places.is_shared and "project" in CLAUDE_CODE.installed_scopes(places.servers.parent)
        if command is None and is_claudes_too:
            return servers
        edited = super().edit_servers(servers, command, places)
        if command is not None and is_claudes_too:
            edited[SERVER_NAME] = {**CLAUDE_CODE.server_entry(command), **self.server}
        return edited


HOST = CopilotCLI()
