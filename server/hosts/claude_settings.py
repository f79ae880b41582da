"""What is written into Claude Code's files and taken out again: our MCP server, our hooks, nothing else."""

import difflib
import json
import os
import re
import site
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from swarm_memory.schema.errors import ConfigError

SERVER_NAME = "swarm-memory"
HOOK_TOOL = "handle_hook"
CLI_MODULE, HOOKS_MODULE = "swarm_memory.server.cli", "swarm_memory.server.hooks"

InstallScope = Literal["project", "user"]
Json: TypeAlias = dict[str, Any]

_COMMON = ("hook_event_name", "session_id", "transcript_path", "cwd", "prompt_id")
_TOOL = (*_COMMON, "tool_name", "tool_use_id", "tool_input", "duration_ms")
_TOLD_TO_SERVER: Mapping[str, tuple[str, ...]] = {
    "UserPromptSubmit": (*_COMMON, "prompt"),
    "PreToolUse": (*_COMMON, "tool_name", "tool_use_id", "tool_input"),
    "PostToolUse": (*_TOOL, "tool_response"),
    "PostToolUseFailure": (*_TOOL, "error", "is_interrupt"),
    "Stop": _COMMON,
}
"""Events that go to the running server, with the fields of each; a template gives every field as a string."""

WARNING_EVENT = "PreToolUse"
"""Only told where `hooks.warn_before_tools` is set: it makes each call of a tool wait for an answer."""

_NEW_CONTEXT = "startup|clear|compact"
"""The sources of SessionStart that begin with an empty context; a resumed session still has its briefing."""

_TIMEOUT_S = 5
_FIRST_PROMPT_TIMEOUT_S = 10
"""The first prompt of a session also waits for the server to connect, and this bounds that too."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as it is and as it will be. None: there is no such file."""

    path: Path
    before: str | None
    after: str | None

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old, new = (text.splitlines(keepends=True) if text else [] for text in (self.before, self.after))
        before, after = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        lines = [line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(old, new, before, after)]
        return "".join(lines)


def plan_install(scope: InstallScope, root: Path, *, warn: bool = False) -> list[FileChange]:
    """Return what installing changes: nothing when all is there already. `root` is the project's folder.

    `warn` adds the hook that warns before calls of tools; without it that hook is taken out again.

    Raises `ConfigError` when a file cannot be read as the JSON object that Claude Code expects, or when another
    server has our name.
    """
    entries = hook_entries(hook_command(), warn=warn)

    def edit_settings(data: Json) -> Json:
        _set_hooks(data, [*entries, WARNING_EVENT], entries)
        enabled = _list(data, "enabledMcpjsonServers")
        # A project's server runs only once it is named in the settings of a folder that the person trusts.
        if scope == "project" and SERVER_NAME not in enabled:
            data["enabledMcpjsonServers"] = [*enabled, SERVER_NAME]
        return data

    return _changes(scope, root, _with_server, edit_settings)


def plan_uninstall(scope: InstallScope, root: Path) -> list[FileChange]:
    """Return what uninstalling changes. A file that holds nothing afterwards is removed. Raises as `plan_install`."""
    return _changes(scope, root, _without_server, _without_hooks)


def server_entry(python: str) -> Json:
    """Return the entry of our MCP server for a Python interpreter."""
    return {"type": "stdio", "command": python, "args": [*_isolation(), "-m", CLI_MODULE, "serve"], "env": {}}


def hook_command(python: str = sys.executable) -> list[str]:
    """Return the words that run our hooks with a Python interpreter; the verb follows."""
    return [python, *_isolation(), "-m", HOOKS_MODULE]


def hook_entries(command: Sequence[str], *, warn: bool = False) -> dict[str, list[Json]]:
    """Return our hooks by event, as they stand in the settings of Claude Code; with `warn` that before tools too.

    `command`: the words that run them, before the verb.
    """
    start: Json = {"matcher": _NEW_CONTEXT, "hooks": [_command(command, "session-start")]}
    told = {
        event: [{"hooks": [_tool_call(event, fields)]}]
        for event, fields in _TOLD_TO_SERVER.items()
        if warn or event != WARNING_EVENT
    }
    return {"SessionStart": [start], **told, "SessionEnd": [{"hooks": [_command(command, "session-end")]}]}


def _command(command: Sequence[str], verb: str) -> Json:
    return {"type": "command", "command": command[0], "args": [*command[1:], verb], "timeout": _TIMEOUT_S}


def _tool_call(event: str, fields: Sequence[str]) -> Json:
    told = {field: "${" + field + "}" for field in fields}
    entry: Json = {"type": "mcp_tool", "server": SERVER_NAME, "tool": HOOK_TOOL, "input": {"event": told}}
    return entry | {"timeout": _FIRST_PROMPT_TIMEOUT_S if event == "UserPromptSubmit" else _TIMEOUT_S}


def _isolation() -> list[str]:
    """Return the flags that keep a project's files from shadowing modules.

    `-I` also hides the user's site-packages; where we are installed there, the same without that.
    """
    user_site = site.getusersitepackages()
    return ["-E", "-P"] if Path(__file__).resolve().is_relative_to(Path(user_site).resolve()) else ["-I"]


def _files(scope: InstallScope, root: Path) -> tuple[Path, Path]:
    """Return the file of the MCP servers and the settings file of a scope."""
    if scope == "project":
        return root / ".mcp.json", root / ".claude" / "settings.json"
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    if folder:
        return Path(folder) / ".claude.json", Path(folder) / "settings.json"
    return Path.home() / ".claude.json", Path.home() / ".claude" / "settings.json"


def _with_server(data: Json) -> Json:
    servers = _object(data, "mcpServers")
    if SERVER_NAME in servers and not _is_our_server(servers[SERVER_NAME]):
        raise ConfigError(f"mcpServers has another server called {SERVER_NAME!r}; rename that one first")
    data["mcpServers"] = {**servers, SERVER_NAME: server_entry(sys.executable)}
    return data


def _set_hooks(data: Json, events: Sequence[str], entries: Mapping[str, list[Json]]) -> None:
    """Put `entries` in place of what hooks of ours these events have; those that are right already stay in place."""
    hooks = _object(data, "hooks")
    for event in events:
        groups, ours = _list(hooks, event), entries.get(event, [])
        if _count_ours(groups) != len(ours) or any(each not in groups for each in ours):
            hooks[event] = _without_our_hooks(groups) + ours
            _drop_empty(hooks, event)
            data["hooks"] = hooks
            _drop_empty(data, "hooks")


def _without_server(data: Json) -> Json:
    servers = _object(data, "mcpServers")
    if _is_our_server(servers.get(SERVER_NAME)):
        del servers[SERVER_NAME]
        _drop_empty(data, "mcpServers")
    return data


def _without_hooks(data: Json) -> Json:
    _set_hooks(data, list(_object(data, "hooks")), {})
    enabled = _list(data, "enabledMcpjsonServers")
    if SERVER_NAME in enabled:
        enabled.remove(SERVER_NAME)
        _drop_empty(data, "enabledMcpjsonServers")
    return data


def _drop_empty(data: Json, key: str) -> None:
    if not data[key]:
        del data[key]


def _without_our_hooks(groups: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    for group in groups:
        entries = _entries(group)
        others = [entry for entry in entries if not _is_our_hook(entry)]
        if len(others) == len(entries):
            kept.append(group)
        elif others:
            kept.append({**group, "hooks": others})
    return kept


def _count_ours(groups: Sequence[Any]) -> int:
    return sum(_is_our_hook(entry) for group in groups for entry in _entries(group))


def _entries(group: Any) -> list[Any]:
    entries = cast(Json, group).get("hooks") if isinstance(group, dict) else None
    return cast(list[Any], entries) if isinstance(entries, list) else []


def _is_our_hook(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    hook = cast(Json, entry)
    if hook.get("type") == "mcp_tool":
        return hook.get("server") == SERVER_NAME and hook.get("tool") == HOOK_TOOL
    return HOOKS_MODULE in json.dumps([hook.get("command"), hook.get("args")])


def _is_our_server(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    server = cast(Json, entry)
    return CLI_MODULE in json.dumps(server.get("args")) or Path(str(server.get("command"))).stem == SERVER_NAME


def _changes(
    scope: InstallScope, root: Path, edit_servers: Callable[[Json], Json], edit_settings: Callable[[Json], Json]
) -> list[FileChange]:
    servers, settings = _files(scope, root)
    changes = planned_change(servers, edit_servers), planned_change(settings, edit_settings)
    return [change for change in changes if change is not None]


def _object(data: Json, key: str) -> Json:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be an object")
    return cast(Json, value)


def _list(data: Json, key: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{key} must be a list")
    return cast(list[Any], value)


def planned_change(path: Path, edit: Callable[[Json], Json]) -> FileChange | None:
    """Return what `edit` makes of the file's object; None when it changes nothing. An empty object: no file.

    Raises `ConfigError` when the file is there and is not one JSON object, or when `edit` refuses it.
    """
    before = _read(path)
    data, edited = _parse(path, before), _parse(path, before)
    try:
        edited = edit(edited)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}; nothing was changed") from None
    if edited == data:
        return None
    return FileChange(path, before, _render(edited, before) if edited else None)


def apply(changes: Sequence[FileChange]) -> list[Path]:
    """Write the changes, each file at once, and return the backups made of the files that were there and still are.

    Raises `ConfigError` when a file was changed since the plan was made or cannot be written; that file is untouched.
    """
    backups: list[Path] = []
    for change in changes:
        path = change.path.resolve()
        if _read(path) != change.before:
            raise ConfigError(f"{change.path} was changed by another program just now; run the command again")
        try:
            if change.before is not None and change.after is not None:
                backups.append(_back_up(path, change.before))
            if change.after is None:
                path.unlink()
            else:
                _write(path, change.after)
        except OSError as error:
            raise ConfigError(f"{change.path} cannot be written: {error.strerror or error}") from error
    return backups


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, text: str | None) -> Json:
    if text is None or not text.strip():
        return {}
    try:
        data = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON ({error}); mend it first, nothing was changed") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a JSON object; nothing was changed")
    return cast(Json, data)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    """Refuse an object that has a key twice: writing it back would lose one of the values in silence."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _render(data: Json, before: str | None) -> str:
    """Return `data` as JSON in the style of the text before: its indentation, line ends and last line end."""
    indent = re.search(r"^[\[{]\r?\n([ \t]+)", before or "")
    text = json.dumps(data, indent=indent.group(1) if indent else 2, ensure_ascii=False)
    if before is None or not before.strip() or before.endswith("\n"):
        text += "\n"
    return text.replace("\n", "\r\n") if before and "\r\n" in before else text


def _back_up(path: Path, text: str) -> Path:
    """Copy the file beside itself, readable by whoever can read the file."""
    backup = path.with_name(f"{path.name}.{datetime.now():%Y%m%d-%H%M%S-%f}.bak")
    descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path.stat().st_mode & 0o777)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8"))
    return backup


def _write(path: Path, text: str) -> None:
    """Replace the file at once: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
