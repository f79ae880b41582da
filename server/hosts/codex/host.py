"""Codex CLI: where it keeps its sessions, what its hooks say and may answer, and our entries in its files."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.host import Said
from swarm_memory.server.hosts.settings import EVENTS, SERVER_NAME, InstalledHost, Places, command_line, object_at
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change, planned_text

SHELL = "Bash"
"""How its hooks call every tool that runs a command."""

PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
"""A file that a patch changes."""

_REQUEST = "## My request for Codex:"
"""What the user typed comes after it, where an editor named its open files first."""

_COMPLAINT = re.compile(
    r"error|fail|exception|traceback|fatal|denied|refused|panic|invalid|unknown|no such|not found|cannot|can't|unable"
    r"|could not|does not|must ",
    re.IGNORECASE,
)
"""What an output without any of it is no failed command's. Its hooks do not learn how a command ended."""

_TABLE = f"mcp_servers.{SERVER_NAME}"
_PASSED_ON = ("CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "SWARM_MEMORY_DB", "SWARM_MEMORY_DISABLED")
"""Variables without which the server would not find what the hooks find: Codex gives a server few others."""


class CodexCLI(InstalledHost):
    """Codex CLI, whose servers are in TOML and whose hooks wait for trust."""

    name = "codex"
    title = "Codex CLI"
    own_folder = ("CODEX_HOME", ".codex", "")
    sessions = ("sessions", "archived_sessions")
    sees_calls = True
    programs = ("codex",)
    after_install = "Codex CLI runs only hooks that you trust: start it, enter /hooks, and trust those of swarm-memory."
    events = EVENTS
    matchers: ClassVar[Mapping[str, str]] = {
        "SessionStart": "startup|clear|compact",
        "PostToolUseFailure": f"^{SHELL}$",
    }
    context_at: ClassVar[Mapping[str, str]] = {event: "" for event in EVENTS if event not in ("Stop", "SessionEnd")}
    """A field that it does not know makes it refuse the whole answer."""
    project_files = (".codex/hooks.json", ".codex/config.toml")
    user_files = ("hooks.json", "config.toml")

    def heard(self, event: str, said: Said) -> Said:
        """Return an event in our words.

        Nothing of what a subagent is asked, nor of a command that seems to have worked.
        """
        if event == "UserPromptSubmit":
            return {} if said.get("agent_id") else {**said, "prompt": request_in(str(said.get("prompt") or ""))}
        if event == "PreToolUse" and said.get("tool_name") == "apply_patch":
            given: Said = said.get("tool_input") or {}
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
        """Return the entry of a hook. A trusted one is known by its command, its place and its limit: they stay."""
        limit_s = 3 if event == "SessionEnd" else timeout_s
        return {"hooks": [{"type": "command", "command": command_line(words), "timeout": limit_s}]}

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange | None]:
        """Return the changes; around our table config.toml is kept as it is. Raises `ConfigError` where it cannot."""
        edit = partial(_with_table, path=places.servers, command=server)
        in_hooks = partial(self.edit_hooks, hooks=hooks, is_shared=places.is_shared)
        return [planned_change(places.hooks, in_hooks, mode), planned_text(places.servers, edit, mode)]


def server_table(command: Sequence[str]) -> str:
    """Return our MCP server in the form of config.toml."""
    given = {"command": command[0], "args": [*command[1:], *HOST.serve_words], "env_vars": _PASSED_ON}
    # Strings and lists of JSON are also those of TOML.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in given.items()]
    return f"[{_TABLE}]\n{''.join(lines)}"


def _with_table(text: str, path: Path, command: Sequence[str] | None) -> str:
    """Return config.toml with our table as its last, or with None without it; all else stays as it is.

    Raises `ConfigError` where our table is written in a form that its lines do not show.
    """
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); mend it first, nothing was changed") from None
    servers, ours = object_at(before, "mcp_servers"), "" if command is None else server_table(command)
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
    raise ConfigError(f"{path} is written in a way that is not edited here: change [{_TABLE}] in it yourself")


def request_in(text: str) -> str:
    """Return what the user typed, without what an editor put before it."""
    return text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text


HOST = CodexCLI()
