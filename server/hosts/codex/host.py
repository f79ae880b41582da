"""Codex CLI: where it keeps its sessions, what its hooks send and accept, and our entries in its files."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.host import HookPayload
from swarm_memory.server.hosts.settings import EVENTS, SERVER_NAME, InstalledHost, Places, command_line, object_in
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change, planned_text

SHELL = "Bash"
"""The name its hooks use for every tool that runs a command."""

PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
"""Matches a file that a patch changes."""

_REQUEST = "## My request for Codex:"
"""The heading before what the user typed, where an editor listed its open files first."""

_COMPLAINT = re.compile(
    r"error|fail|exception|traceback|fatal|denied|refused|panic|invalid|unknown|no such|not found|cannot|can't|unable"
    r"|could not|does not|must ",
    re.IGNORECASE,
)
"""A command whose output matches none of this did not fail: Codex's hooks are not told how a command ended."""

_TABLE = f"mcp_servers.{SERVER_NAME}"
_PASSED_ON = ("CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "SWARM_MEMORY_DB", "SWARM_MEMORY_DISABLED")
"""Variables that the server needs to find what the hooks find: Codex passes few others to a server."""


class CodexCLI(InstalledHost):
    """Codex CLI, whose servers are in TOML and whose hooks run only once trusted."""

    name = "codex"
    title = "Codex CLI"
    own_folder = ("CODEX_HOME", ".codex", "")
    sessions = ("sessions", "archived_sessions")
    sees_calls = True
    programs = ("codex",)
    after_install = "Codex CLI runs only hooks that you trust: start it, enter /hooks, and trust swarm-memory's."
    events = EVENTS
    matchers: ClassVar[Mapping[str, str]] = {
        "SessionStart": "startup|clear|compact",
        "PostToolUseFailure": f"^{SHELL}$",
    }
    context_at: ClassVar[Mapping[str, str]] = {event: "" for event in EVENTS if event not in ("Stop", "SessionEnd")}
    """An unknown field makes it refuse the whole answer."""
    project_files = (".codex/hooks.json", ".codex/config.toml")
    user_files = ("hooks.json", "config.toml")

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event in our vocabulary.

        Return `{}` for a subagent's prompt, and for a command that seems to have worked.
        """
        if event == "UserPromptSubmit":
            return (
                {} if said.get("agent_id") else {**said, "prompt": strip_editor_context(str(said.get("prompt") or ""))}
            )
        if event == "PreToolUse" and said.get("tool_name") == "apply_patch":
            given: HookPayload = said.get("tool_input") or {}
            patch = str(given.get("command") or "")
            file = PATCHED_FILE.search(patch)
            return {**said, "tool_input": {"file_path": file[1].strip() if file else "", "input": patch}}
        if event != "PostToolUseFailure":
            return said
        output = said.get("tool_response")
        if said.get("tool_name") != SHELL or not isinstance(output, str) or not _COMPLAINT.search(output):
            return {}
        return {**said, "error": output, "may_have_worked": True}

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return a hook's entry. Trust is tied to its command, its place and its time limit: these must not change."""
        limit_s = 3 if event == "SessionEnd" else timeout_s
        return {"hooks": [{"type": "command", "command": command_line(words), "timeout": limit_s}]}

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange | None]:
        """Return the changes; outside our table config.toml stays as it is. Raises `ConfigError` if it cannot."""
        edit = partial(_with_table, path=places.servers, command=server)
        in_hooks = partial(self.edit_hooks, hooks=hooks, is_shared=places.is_shared)
        return [planned_change(places.hooks, in_hooks, mode), planned_text(places.servers, edit, mode)]


def server_table(command: Sequence[str]) -> str:
    """Return our MCP server as a table for config.toml."""
    given = {"command": command[0], "args": [*command[1:], *HOST.serve_words], "env_vars": _PASSED_ON}
    # JSON's strings and lists are also valid TOML.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in given.items()]
    return f"[{_TABLE}]\n{''.join(lines)}"


def _with_table(text: str, path: Path, command: Sequence[str] | None) -> str:
    """Return config.toml with our table at its end, or without it if `command` is None; all else stays as it is."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML ({error}): fix it first; nothing was changed") from None
    servers, ours = object_in(before, "mcp_servers"), "" if command is None else server_table(command)
    wanted = tomllib.loads(ours)["mcp_servers"][SERVER_NAME] if ours else None
    if servers.get(SERVER_NAME) == wanted:
        return text
    kept, inside = text, False
    if SERVER_NAME in servers:
        kept = ""
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                header = line.strip().strip("[]").replace('"', "").replace(" ", "")
                inside = f"{header}.".startswith(f"{_TABLE}.")
            kept += "" if inside else line
    after = "\n".join(f"{part.rstrip()}\n" for part in (kept, ours) if part.strip())
    servers = {name: each for name, each in servers.items() if name != SERVER_NAME}
    servers |= {SERVER_NAME: wanted} if ours else {}
    others = {key: each for key, each in before.items() if key != "mcp_servers"}
    try:
        if tomllib.loads(after) == {**others, **({"mcp_servers": servers} if servers else {})}:
            return after
    except tomllib.TOMLDecodeError:
        pass  # a part of our table is left
    raise ConfigError(f"{path} is written in a form that swarm-memory does not edit: change [{_TABLE}] in it yourself")


def strip_editor_context(text: str) -> str:
    """Return what the user typed, without what an editor put before it."""
    return text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text


HOST = CodexCLI()
