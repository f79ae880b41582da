"""Codex CLI: where it keeps its sessions, what its hooks say and may answer, and our entries in its files."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.host import InstallScope, Said, context_in
from swarm_memory.server.hosts.settings import (
    SERVER_NAME,
    InstalledHost,
    Places,
    command_line,
    count_ours,
    object_at,
    real_path,
)
from swarm_memory.server.hosts.settings_files import FileChange, Json, object_of, planned_change, planned_text

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
    reads = ("agents-md",)
    sees_calls = True
    programs = ("codex",)
    after_install = "Codex CLI runs only hooks that you trust: start it, enter /hooks, and trust those of swarm-memory."
    events: ClassVar[Mapping[str, str]] = {
        "SessionStart": "SessionStart",
        "UserPromptSubmit": "UserPromptSubmit",
        "PreToolUse": "PreToolUse",
        "PostToolUseFailure": "PostToolUse",
        "Stop": "Stop",
        "SessionEnd": "SessionEnd",
    }
    matchers: ClassVar[Mapping[str, str]] = {
        "SessionStart": "startup|clear|compact",
        "PostToolUseFailure": f"^{SHELL}$",
    }

    def home(self) -> Path:
        """Return the folder of the user's own files."""
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")

    def folders(self) -> tuple[str, ...]:
        """Return the folders of all sessions, and of those that were archived."""
        return (str(self.home() / "sessions"), str(self.home() / "archived_sessions"))

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
        return {**said, "hook_event_name": event, "error": output, "may_have_worked": True}

    def answered(self, event: str, answer: Said) -> Said:
        """Return what a hook of Codex may answer: a field that it does not know makes it refuse the whole."""
        context, reason = context_in(answer), answer.get("reason")
        if event == "Stop":
            return {"decision": "block", "reason": reason} if answer.get("decision") == "block" and reason else {}
        if event == "SessionEnd":
            return {}
        said: Said = {"systemMessage": answer["systemMessage"]} if answer.get("systemMessage") else {}
        if context:
            said["hookSpecificOutput"] = {"hookEventName": self.events[event], "additionalContext": context}
        return said

    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the files."""
        folder = root / ".codex" if scope == "project" else self.home()
        return folder / "hooks.json", folder / "config.toml"

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook. A trusted one is known by its command, its place and its limit: they stay."""
        limit_s = 3 if event == "SessionEnd" else timeout_s
        return {"hooks": [{"type": "command", "command": command_line(words), "timeout": limit_s}]}

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange]:
        """Return the changes; around our table config.toml is kept as it is. Raises `ConfigError` where it cannot."""
        edit = _without_server if server is None else partial(_with_server, command=server)
        changes = (
            planned_change(places.hooks, partial(self.edit_hooks, hooks=hooks, is_shared=places.is_shared), mode),
            planned_text(places.servers, partial(edit, path=places.servers), mode),
        )
        return [change for change in changes if change is not None]

    def untrusted(self, root: Path) -> int:
        """Return of how many hooks of ours config.toml does not say that they were looked at in `/hooks`."""
        config = self.where("user", root)[1]
        document = _parsed(config.read_text(encoding="utf-8"), config) if config.is_file() else {}
        known = object_at(object_at(document, "hooks"), "state")
        return sum(
            count_ours([group]) > 0 and not any(key.startswith(_keys_of(path, event, number)) for key in known)
            for scope in self.scopes
            for path in [self.places(scope, root).hooks]
            for event, groups in object_at(object_of(path), "hooks").items()
            for number, group in enumerate(groups)
        )


def _keys_of(path: Path, event: str, group: int) -> tuple[str, ...]:
    """Return how the key of a hook begins: Codex follows the links of a folder that CODEX_HOME names."""
    snake = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in event).lstrip("_")
    return tuple(f"{each}:{snake}:{group}:" for each in (path, real_path(path)))


def server_table(command: Sequence[str]) -> str:
    """Return our MCP server in the form of config.toml."""
    words, passed = (", ".join(map(_quoted, each)) for each in ([*command[1:], "serve"], _PASSED_ON))
    return f"[{_TABLE}]\ncommand = {_quoted(command[0])}\nargs = [{words}]\nenv_vars = [{passed}]\n"


def _with_server(text: str, path: Path, command: Sequence[str]) -> str:
    before, ours = _parsed(text, path), server_table(command)
    wanted = tomllib.loads(ours)["mcp_servers"][SERVER_NAME]
    if _servers(before).get(SERVER_NAME) == wanted:
        return text
    kept = _without_server(text, path)
    after = f"{kept.rstrip()}\n\n{ours}" if kept.strip() else ours
    return _checked(after, path, {**_servers(before), SERVER_NAME: wanted}, before)


def _without_server(text: str, path: Path) -> str:
    before = _parsed(text, path)
    if SERVER_NAME not in _servers(before):
        return text
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            header = line.strip().strip("[]").replace('"', "").replace(" ", "")
            inside = header == _TABLE or header.startswith(f"{_TABLE}.")
        if not inside:
            kept.append(line)
    after = "".join(kept).rstrip()
    servers = {name: entry for name, entry in _servers(before).items() if name != SERVER_NAME}
    return _checked(f"{after}\n" if after else "", path, servers, before)


def _checked(after: str, path: Path, servers: Json, before: Json) -> str:
    """Return the text where nothing but our table is another in it than before."""
    changed = {**before, "mcp_servers": servers} if servers else {k: v for k, v in before.items() if k != "mcp_servers"}
    try:
        if tomllib.loads(after) == changed:
            return after
    except tomllib.TOMLDecodeError:
        pass  # our table is written in a form that its lines do not show
    raise ConfigError(f"{path} is written in a way that is not edited here: change [{_TABLE}] in it yourself")


def _servers(data: Json) -> Json:
    return object_at(data, "mcp_servers")


def _parsed(text: str, path: Path) -> Json:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); mend it first, nothing was changed") from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def request_in(text: str) -> str:
    """Return what the user typed, without what an editor put before it."""
    return text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text


HOST = CodexCLI()
