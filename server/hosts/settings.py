"""Agents into whose files we are written, and taken out of them again: our hooks and our MCP server, nothing else;
and which entries of such a file are ours.
"""

import os
import shlex
import shutil
import site
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.host import SCOPES, Host, InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, object_of, planned_change

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

EVENTS: Mapping[str, str] = {each: each for each in VERBS if each != "PostToolUse"} | {
    "PostToolUseFailure": "PostToolUse"
}
"""By our event: that of an agent which has Claude Code's, but none of its own for a failed call."""


def server_command() -> list[str]:
    """Return the words that run our command line with this Python interpreter."""
    return [sys.executable, *_isolation(), "-m", CLI_MODULE]


def hook_command() -> list[str]:
    """Return the words that run our hooks with this Python interpreter; the verb follows.

    `-m` would do the same, and load more than the hook of a prompt does.
    """
    return [sys.executable, *_isolation(), "-c", f"import {HOOKS_MODULE}.__main__"]


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


def with_hooks(hooks: Json, entries: Mapping[str, list[Json]]) -> Json:
    """Put `entries` in place of our hooks; those that are right stay, and so does what is no list: no agent runs it."""
    for event in dict.fromkeys([*entries, *(name for name, each in hooks.items() if isinstance(each, list))]):
        groups, ours = list_at(hooks, event), entries.get(event, [])
        if count_ours(groups) != len(ours) or any(each not in groups for each in ours):
            hooks[event] = [rest for group in groups for rest in _others(group)] + ours
            drop_empty(hooks, event)
    return hooks


def _others(group: Any) -> list[Any]:
    """Return a group of hooks without ours; nothing where nothing else was in it."""
    entries = _entries(group)
    others = [entry for entry in entries if not _is_ours(entry, HOOKS_MODULE, "hook")]
    if len(others) == len(entries):
        return [group]
    return [{**group, "hooks": others}] if others else []


def drop_empty(data: Json, key: str) -> None:
    """Take out what holds nothing any more."""
    if not data[key]:
        del data[key]


def count_ours(groups: Sequence[Any]) -> int:
    """Return how many hooks of ours an event has."""
    return sum(_is_ours(entry, HOOKS_MODULE, "hook") for group in groups for entry in _entries(group))


def _entries(group: Any) -> list[Any]:
    """Return the hooks of a group; Copilot CLI and Cursor have them without one."""
    entries = cast(Json, group).get("hooks", [group]) if isinstance(group, dict) else None
    return cast(list[Any], entries) if isinstance(entries, list) else []


def _is_ours(entry: Any, module: str, verb: str) -> bool:
    """Whether a hook or a server runs our module, or our command, wherever it lies, with this verb after it.

    A server that runs our command is ours whatever follows.
    """
    if not isinstance(entry, dict):
        return False
    given = cast(Json, entry)
    command, args = given.get("command") or given.get("bash") or "", given.get("args")
    said = cast(list[Any], command) if isinstance(command, list) else str(command).split()
    words = [*map(str, said), *map(str, cast(list[Any], args) if isinstance(args, list) else [])]
    ours = [after for name, after in pairwise(words) if Path(name).stem == SERVER_NAME]
    is_run_first = bool(words) and Path(words[0]).stem == SERVER_NAME
    return module in " ".join(words) or verb in ours or (verb == "serve" and is_run_first)


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


class Places(NamedTuple):
    """Where a scope's hooks and servers stand."""

    hooks: Path
    servers: Path
    keys: tuple[str, ...]
    """Where in the file of the servers they are."""
    folder: Path | None = None
    """That of the project, whose files may have come with a clone; None for the user's own."""
    is_shared: bool = False
    """Whether the files are everybody's who works on the project."""


class InstalledHost(Host):
    """An agent that has an object of hooks and one of servers in JSON; others override what differs."""

    programs: ClassVar[tuple[str, ...]]
    """The commands of which one is on a machine that has it."""
    sign: ClassVar[str] = ""
    """Below `home`: what is there where it was used; by default the folder."""
    after_install: ClassVar[str]
    """What the user has to do then, in a sentence."""
    matchers: ClassVar[Mapping[str, str]] = {}
    """By our event: which tools, or which kinds of it, the hook is for."""
    keys: ClassVar[tuple[str, ...]] = ("mcpServers",)
    """Where its servers are in their file."""
    server: ClassVar[Mapping[str, object]] = {}
    """What the entry of a server has beside its command."""
    version: ClassVar[int | None] = None
    """What the file of the hooks says first."""
    scopes: ClassVar[tuple[InstallScope, ...]] = ("project", "user")
    """Where we can be installed: for this project and user alone, in the project's shared files, in the user's own."""
    project_files: ClassVar[tuple[str, str]]
    """In a project: the file of the hooks and that of the servers."""
    user_files: ClassVar[tuple[str, str]]
    """Below `home`: likewise."""

    @abstractmethod
    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of the hook that runs these words at our event, and is ended after this time."""

    def is_there(self) -> bool:
        """Whether the agent is on this machine: its command or its files."""
        return any(map(shutil.which, self.programs)) or (self.home() / self.sign).exists()

    def plugin(self, root: Path) -> str | None:
        """Return the plugin of ours that is enabled, which brings server and hooks along."""
        return None

    def plan_install(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return what installing changes: nothing when all is there already. `root` is the project's folder.

        Raises `ConfigError` when a file cannot be read as the object that the agent expects, when another server has
        our name, for a project's file that a symbolic link leads out of the project, or for `project` in the folder
        whose settings are those of all projects.
        """
        portable = scope == "project"
        named = () if self.name == "claude" else (self.name,)  # whose hooks name no agent
        hooks = self.hook_entries([*(PORTABLE_HOOKS if portable else hook_command()), *named])
        server = PORTABLE_SERVER if portable else server_command()
        changes = self.planned(self._checked(scope, root), hooks, server, 0o644 if portable else 0o600)
        return [change for change in changes if change is not None]

    def plan_uninstall(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return what uninstalling changes. A file that holds nothing afterwards goes. Raises as `plan_install`."""
        changes = self.planned(self._checked(scope, root), {}, None, 0o600)
        # The folder was made with the first file, and goes with it.
        return [change for change in reversed(changes) if change is not None]

    def installed_scopes(self, root: Path) -> list[InstallScope]:
        """Return the scopes whose files hold hooks of ours for this project. Raises `ConfigError`.

        In the home folder two scopes share a file: it is the user's.
        """
        found: dict[Path, InstallScope] = {}
        for scope in sorted(self.scopes, key=lambda each: each != "user"):
            hooks = self.places(scope, root).hooks
            if self.holds_ours(hooks):
                found.setdefault(real_path(hooks), scope)
        return [scope for scope in SCOPES if scope in found.values()]

    def holds_ours(self, hooks: Path) -> bool:
        """Whether a file of hooks holds some of ours. Raises `ConfigError`."""
        by_event = object_at(object_of(hooks), "hooks").values()
        return any(count_ours(cast(list[Any], each)) for each in by_event if isinstance(each, list))

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where a scope's entries stand."""
        if scope == "project":
            hooks, servers = (root / name for name in self.project_files)
            return Places(hooks, servers, self.keys, root, is_shared=True)
        hooks, servers = (self.home() / name for name in self.user_files)
        return Places(hooks, servers, self.keys)

    def hook_entries(self, command: Sequence[str]) -> dict[str, list[Json]]:
        """Return our hooks by the agent's events. `command`: the words that run them, before the verb."""
        entries: dict[str, list[Json]] = {}
        for event, theirs in self.events.items():
            matcher = {"matcher": self.matchers[event]} if event in self.matchers else {}
            timeout_s = 15 if event == "UserPromptSubmit" else 5  # it ends itself before
            entries[theirs] = [{**matcher, **self.hook(event, (*command, VERBS[event]), timeout_s)}]
        return entries

    def server_entry(self, command: Sequence[str]) -> Json:
        """Return the entry of our MCP server. `command`: the words that run our command line."""
        return {"command": command[0], "args": [*command[1:], *self.serve_words], **self.server}

    @property
    def serve_words(self) -> tuple[str, ...]:
        """The words of our command line by which its server is started."""
        return ("serve",) if self.defers_tools else ("serve", "--tools", "core")

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange | None]:
        """Return what puts these hooks, and the server that these words run, in place of ours; None: no server.

        None in place of a change: a file stays as it is.
        """

        def in_hooks(data: Json) -> Json:
            return self.edit_hooks(data, hooks, is_shared=places.is_shared)

        def in_servers(data: Json) -> Json:
            return edited(data, places.keys, partial(self.edit_servers, command=server, places=places))

        if places.servers == places.hooks:
            return [planned_change(places.hooks, lambda data: in_servers(in_hooks(data)), mode)]
        return [planned_change(places.servers, in_servers, mode), planned_change(places.hooks, in_hooks, mode)]

    def edit_hooks(self, data: Json, hooks: Mapping[str, list[Json]], *, is_shared: bool) -> Json:
        """Put these hooks in place of all of ours in the object of a file; none: take them out."""
        if self.version is not None and hooks:
            data = {"version": self.version, **data}
        data = edited(data, ("hooks",), partial(with_hooks, entries=hooks))
        return {} if self.version is not None and list(data) == ["version"] else data

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Put our server among the servers, or take it out. Raises `ConfigError` where another one has its name."""
        is_anothers = SERVER_NAME in servers and not _is_ours(servers[SERVER_NAME], CLI_MODULE, "serve")
        if command is None:
            return servers if is_anothers else {name: each for name, each in servers.items() if name != SERVER_NAME}
        if is_anothers:
            raise ConfigError(f"mcpServers has another server called {SERVER_NAME!r}; rename that one first")
        return {**servers, SERVER_NAME: self.server_entry(command)}

    def _checked(self, scope: InstallScope, root: Path) -> Places:
        """Return the places where nobody's files but those of the scope are written."""
        places = self.places(scope, root)
        if places.folder is None:
            return places
        for path in (places.hooks, places.servers) if places.is_shared else (places.hooks,):
            inside = real_path(places.folder)
            if path.is_relative_to(places.folder) and not real_path(path).is_relative_to(inside):
                raise ConfigError(
                    f"{path} leads to {real_path(path)}, by a symbolic link out of the project; nothing was changed: "
                    "put a real file in a real folder in its place, or use `--user` for all your projects"
                )
        if places.is_shared and real_path(places.hooks) == real_path(self.places("user", root).hooks):
            raise ConfigError(
                f"{places.hooks} holds for all your projects: use --user, as in `swarm-memory install --user`, "
                "or go to a project"
            )
        return places
