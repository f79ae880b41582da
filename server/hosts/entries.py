"""Our entries in the files of agents that name hooks and MCP servers as Claude Code does, and whose they are."""

import os
import shlex
import site
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.settings_files import Json, object_of

SERVER_NAME = "swarm-memory"
CLI_MODULE, HOOKS_MODULE = "swarm_memory.server.cli", "swarm_memory.server.hooks"

PORTABLE_SERVER, PORTABLE_HOOKS = (SERVER_NAME,), (SERVER_NAME, "hook")
"""What files that are shared run: our command, found by PATH on each machine."""

VERBS: Mapping[str, str] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before-tool",
    "PostToolUse": "after-remember",
    "PostToolUseFailure": "tool-failure",
    "Stop": "stop",
    "SessionEnd": "session-end",
}
"""By our event: the verb of our hook command."""

CALL_EVENT = "PreToolUse"
"""Not installed where the settings want nothing beside calls (`hooks.at_calls`): each call waits for it."""


def server_command(python: str = sys.executable) -> list[str]:
    """Return the words that run our command line with a Python interpreter."""
    return [python, *_isolation(), "-m", CLI_MODULE]


def hook_command(python: str = sys.executable) -> list[str]:
    """Return the words that run our hooks with a Python interpreter; the verb follows.

    `-m` would do the same, and load more than the hook of a prompt does.
    """
    return [python, *_isolation(), "-c", f"import {HOOKS_MODULE}.__main__"]


def command_line(words: Sequence[str]) -> str:
    """Return the words of a command as one line for the shell that agents run hooks in."""
    if sys.platform != "win32":
        return shlex.join(words)
    import subprocess

    return subprocess.list2cmdline(words)


def _isolation() -> list[str]:
    """Return the flags that keep a project's files from shadowing modules.

    `-I` also hides the user's site-packages; where we are installed there, the same without that.
    """
    user_site = site.getusersitepackages()
    return ["-E", "-P"] if Path(__file__).resolve().is_relative_to(Path(user_site).resolve()) else ["-I"]


def real_path(path: Path) -> Path:
    """Return where a path leads; a link to itself, unlike with `resolve`, is no error here but where it is read."""
    return Path(os.path.realpath(path))


def leads_out(path: Path, folder: Path) -> bool:
    """Tell whether a link, of a file below `folder` or of a folder on the way, leads out of it."""
    return path.is_relative_to(folder) and not real_path(path).is_relative_to(real_path(folder))


def edited(data: Json, keys: Sequence[str], edit: Callable[[Json], Json]) -> Json:
    """Return an object with what stands at `keys` in it edited; where that leaves an object empty, it goes."""
    if not keys:
        return edit(data)
    before = object_at(data, keys[0])
    after = edited(dict(before), keys[1:], edit)
    if after != before:
        data[keys[0]] = after
        drop_empty(data, keys[0])
    return data


def with_server(servers: Json, entry: Json | None) -> Json:
    """Put our server among the servers; None takes it out. Raises `ConfigError` where another one has its name."""
    is_anothers = SERVER_NAME in servers and not _is_our_server(servers[SERVER_NAME])
    if entry is not None and is_anothers:
        raise ConfigError(f"mcpServers has another server called {SERVER_NAME!r}; rename that one first")
    if entry is not None:
        return {**servers, SERVER_NAME: entry}
    return servers if is_anothers else {name: each for name, each in servers.items() if name != SERVER_NAME}


def with_hooks(hooks: Json, entries: Mapping[str, list[Json]]) -> Json:
    """Put `entries` in place of all hooks of ours; those that are right already stay in place."""
    for event in list(dict.fromkeys([*entries, *hooks])):
        groups, ours = list_at(hooks, event), entries.get(event, [])
        if count_ours(groups) != len(ours) or any(each not in groups for each in ours):
            hooks[event] = _without_our_hooks(groups) + ours
            drop_empty(hooks, event)
    return hooks


def drop_empty(data: Json, key: str) -> None:
    """Take out what holds nothing any more."""
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


def count_ours(groups: Sequence[Any]) -> int:
    """Return how many hooks of ours an event has."""
    return sum(_is_our_hook(entry) for group in groups for entry in _entries(group))


def holds_hooks(settings: Path) -> bool:
    """Tell whether a file of hooks by event holds some of ours. Raises `ConfigError`."""
    hooks = object_at(object_of(settings), "hooks")
    return any(count_ours(list_at(hooks, event)) for event in hooks)


def _entries(group: Any) -> list[Any]:
    """Return the hooks of a group; Copilot CLI and Cursor have them without one."""
    entries = cast(Json, group).get("hooks", [group]) if isinstance(group, dict) else None
    return cast(list[Any], entries) if isinstance(entries, list) else []


def _is_our_hook(entry: Any) -> bool:
    words = _words(entry)
    return HOOKS_MODULE in " ".join(words) or _names_us(words, "hook")


def _is_our_server(entry: Any) -> bool:
    words = _words(entry)
    return CLI_MODULE in " ".join(words) or _names_us(words, "serve") or _names_us([*words[:1], ""], "")


def _names_us(words: Sequence[str], verb: str) -> bool:
    """Tell whether our command stands among the words, wherever it lies, with this verb after it."""
    return any(Path(name).stem == SERVER_NAME and each == verb for name, each in pairwise(words))


def _words(entry: Any) -> list[str]:
    """Return the words that a hook or a server runs; none where it is no command."""
    if not isinstance(entry, dict):
        return []
    given = cast(Json, entry)
    command, args = given.get("command") or given.get("bash") or "", given.get("args")
    words = cast(list[Any], command) if isinstance(command, list) else str(command).split()
    return [*map(str, words), *map(str, cast(list[Any], args) if isinstance(args, list) else [])]


def object_at(data: Json, key: str) -> Json:
    """Return the object at a key, an empty one where there is none. Raises `ConfigError`."""
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be an object")
    return cast(Json, value)


def list_at(data: Json, key: str) -> list[Any]:
    """Return the list at a key, an empty one where there is none. Raises `ConfigError`."""
    value = data.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{key} must be a list")
    return cast(list[Any], value)
