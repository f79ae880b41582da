"""Writes our hooks and our MCP server, and nothing else, into the settings files of agents and removes them again;
tells which entries of such a file are ours.
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
"""What shared files run: our command, found through PATH on each machine."""

VERBS: Mapping[str, str] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before-tool",
    "PostToolUse": "after-remember",
    "PostToolUseFailure": "tool-failure",
    "Stop": "stop",
    "SessionEnd": "session-end",
}
"""Our events, with the verb of our hook command for each."""

EVENTS: Mapping[str, str] = {each: each for each in VERBS if each != "PostToolUse"} | {
    "PostToolUseFailure": "PostToolUse"
}
"""Our events, with those of an agent that has Claude Code's events except the one for failed calls."""


def cli_command() -> list[str]:
    """Return the words that run our command line with this Python interpreter."""
    return [sys.executable, *_isolation(), "-m", CLI_MODULE]


def hook_command() -> list[str]:
    """Return the words that run our hooks with this Python interpreter; the verb follows.

    `-m` would do the same, but load more than a prompt's hook needs.
    """
    return [sys.executable, *_isolation(), "-c", f"import {HOOKS_MODULE}.__main__"]


def command_line(words: Sequence[str]) -> str:
    """Return the words of a command as one line for the shell that agents run hooks in."""
    if sys.platform != "win32":
        return shlex.join(words)
    import subprocess

    return subprocess.list2cmdline(words)


def _isolation() -> list[str]:
    """Return flags that keep a project's files from shadowing modules: `-I`, unless that would hide our own package."""
    user_site = site.getusersitepackages()
    return ["-E", "-P"] if Path(__file__).resolve().is_relative_to(Path(user_site).resolve()) else ["-I"]


def real_path(path: Path) -> Path:
    """Return where a path leads; a link to itself, unlike with `resolve`, is an error only when it is read."""
    return Path(os.path.realpath(path))


def edited(data: Json, keys: Sequence[str], edit: Callable[[Json], Json]) -> Json:
    """Edit the object at `keys` in `data` and return `data`; an object that this leaves empty is removed."""
    if not keys:
        return edit(data)
    before = object_in(data, keys[0])
    after = edited(dict(before), keys[1:], edit)
    if after != before:
        data[keys[0]] = after
        drop_empty(data, keys[0])
    return data


def with_hooks(hooks: Json, entries: Mapping[str, list[Json]]) -> Json:
    """Replace our hooks with `entries`; correct ones stay, and so does what is not a list: no agent runs it."""
    for event in dict.fromkeys([*entries, *(name for name, each in hooks.items() if isinstance(each, list))]):
        groups, ours = list_in(hooks, event), entries.get(event, [])
        if count_ours(groups) != len(ours) or any(each not in groups for each in ours):
            hooks[event] = [rest for group in groups for rest in _others(group)] + ours
            drop_empty(hooks, event)
    return hooks


def _others(group: Any) -> list[Any]:
    """Return a group of hooks without ours, in a list; an empty list if all were ours."""
    entries = _entries(group)
    others = [entry for entry in entries if not _is_ours(entry, HOOKS_MODULE, "hook")]
    if len(others) == len(entries):
        return [group]
    return [{**group, "hooks": others}] if others else []


def drop_empty(data: Json, key: str) -> None:
    """Remove a key whose value has become empty."""
    if not data[key]:
        del data[key]


def count_ours(groups: Sequence[Any]) -> int:
    """Return how many of an event's hooks are ours."""
    return sum(_is_ours(entry, HOOKS_MODULE, "hook") for group in groups for entry in _entries(group))


def _entries(group: Any) -> list[Any]:
    """Return the hooks of a group; Copilot CLI and Cursor have hooks without groups."""
    entries = cast(Json, group).get("hooks", [group]) if isinstance(group, dict) else None
    return cast(list[Any], entries) if isinstance(entries, list) else []


def _is_ours(entry: Any, module: str, verb: str) -> bool:
    """Whether a hook or a server runs our module, or our command (wherever installed) followed by this verb."""
    if not isinstance(entry, dict):
        return False
    given = cast(Json, entry)
    command, args = given.get("command") or given.get("bash") or "", given.get("args")
    said = cast(list[Any], command) if isinstance(command, list) else str(command).split()
    words = [*map(str, said), *map(str, cast(list[Any], args) if isinstance(args, list) else [])]
    ours = [after for name, after in pairwise(words) if Path(name).stem == SERVER_NAME]
    is_run_first = bool(words) and Path(words[0]).stem == SERVER_NAME
    return module in " ".join(words) or verb in ours or (verb == "serve" and is_run_first)  # serve: whatever follows


def object_in(data: Json, key: str) -> Json:
    """Return the object at a key, an empty one where there is none. Raises `ConfigError`."""
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be an object")
    return cast(Json, value)


def list_in(data: Json, key: str) -> list[Any]:
    """Return the list at a key, an empty one where there is none. Raises `ConfigError`."""
    value = data.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{key} must be a list")
    return cast(list[Any], value)


class Places(NamedTuple):
    """Where a scope's hooks and servers are."""

    hooks: Path
    servers: Path
    keys: tuple[str, ...]
    """The keys that lead to the servers in their file."""
    folder: Path | None = None
    """The project's folder, whose files may have come with a clone; None for the user's own files."""
    is_shared: bool = False
    """Whether the files are shared by everybody who works on the project."""


class InstalledHost(Host):
    """An agent that keeps an object of hooks and one of servers in JSON; subclasses override what differs."""

    programs: ClassVar[tuple[str, ...]]
    """Its commands: at least one of them is on a machine that has the agent."""
    sign: ClassVar[str] = ""
    """A path below `home` that exists if the agent was used; by default `home` itself."""
    after_install: ClassVar[str]
    """What the user has to do after an installation, in a sentence."""
    matchers: ClassVar[Mapping[str, str]] = {}
    """Our events, with the tools or the kinds of the event that the hook is for."""
    keys: ClassVar[tuple[str, ...]] = ("mcpServers",)
    """The keys that lead to its servers in their file."""
    server: ClassVar[Mapping[str, object]] = {}
    """What a server's entry has besides its command."""
    version: ClassVar[int | None] = None
    """The version number at the top of the hooks file; None where it has none."""
    scopes: ClassVar[tuple[InstallScope, ...]] = ("project", "user")
    """Where we can be installed: `local` for one user in one project, `project` in its shared files, or `user`."""
    project_files: ClassVar[tuple[str, str]]
    """The hooks file and the servers file of a project."""
    user_files: ClassVar[tuple[str, str]]
    """The hooks file and the servers file of the user, below `home`."""

    @abstractmethod
    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of the hook that runs these words at our event and is ended after `timeout_s`."""

    def is_there(self) -> bool:
        """Whether the agent is on this machine: its command or its files."""
        return any(map(shutil.which, self.programs)) or (self.home() / self.sign).exists()

    def plugin(self, root: Path) -> str | None:
        """Return the name of our plugin, which brings server and hooks along, if it is enabled."""
        return None

    def plan_install(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return the changes that install us; none when all is in place already. `root` is the project's folder.

        Raises `ConfigError` when a file cannot be read as the object that the agent expects, when another server has
        our name, when a symbolic link leads a project's file out of the project, or for scope `project` in the folder
        whose settings apply to all projects.
        """
        portable = scope == "project"
        named = () if self.name == "claude" else (self.name,)  # Claude Code's hooks name no agent
        hooks = self.hook_entries([*(PORTABLE_HOOKS if portable else hook_command()), *named])
        server = PORTABLE_SERVER if portable else cli_command()
        changes = self.planned(self._checked(scope, root), hooks, server, 0o644 if portable else 0o600)
        return [change for change in changes if change is not None]

    def plan_uninstall(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return the changes that uninstall us. A file that they empty is deleted. Raises as `plan_install`."""
        changes = self.planned(self._checked(scope, root), {}, None, 0o600)
        # The folder was made with the first file, and goes with it.
        return [change for change in reversed(changes) if change is not None]

    def installed_scopes(self, root: Path) -> list[InstallScope]:
        """Return the scopes whose files hold our hooks for this project. Raises `ConfigError`.

        In the home folder two scopes share a file: it counts as the user's.
        """
        found: dict[Path, InstallScope] = {}
        for scope in sorted(self.scopes, key=lambda each: each != "user"):
            hooks = self.places(scope, root).hooks
            if self.holds_ours(hooks):
                found.setdefault(real_path(hooks), scope)
        return [scope for scope in SCOPES if scope in found.values()]

    def holds_ours(self, hooks: Path) -> bool:
        """Whether a hooks file holds some of ours. Raises `ConfigError`."""
        by_event = object_in(object_of(hooks), "hooks").values()
        return any(count_ours(cast(list[Any], each)) for each in by_event if isinstance(each, list))

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where a scope's entries are."""
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
            timeout_s = 15 if event == "UserPromptSubmit" else 5  # our hook ends itself before that
            entries[theirs] = [{**matcher, **self.hook(event, (*command, VERBS[event]), timeout_s)}]
        return entries

    def server_entry(self, command: Sequence[str]) -> Json:
        """Return the entry of our MCP server. `command`: the words that run our command line."""
        return {"command": command[0], "args": [*command[1:], *self.serve_words], **self.server}

    @property
    def serve_words(self) -> tuple[str, ...]:
        """The arguments of our command line that start its server."""
        return ("serve",) if self.defers_tools else ("serve", "--tools", "core")

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange | None]:
        """Return the changes that replace our entries with `hooks` and with a server run by `server` (None: no server).

        A change that is None leaves its file as it is.
        """

        def in_hooks(data: Json) -> Json:
            return self.edit_hooks(data, hooks, is_shared=places.is_shared)

        def in_servers(data: Json) -> Json:
            return edited(data, places.keys, partial(self.edit_servers, command=server, places=places))

        if places.servers == places.hooks:
            return [planned_change(places.hooks, lambda data: in_servers(in_hooks(data)), mode)]
        return [planned_change(places.servers, in_servers, mode), planned_change(places.hooks, in_hooks, mode)]

    def edit_hooks(self, data: Json, hooks: Mapping[str, list[Json]], *, is_shared: bool) -> Json:
        """Replace all our hooks in a file's object with `hooks`; if those are empty, ours are removed."""
        if self.version is not None and hooks:
            data = {"version": self.version, **data}
        data = edited(data, ("hooks",), partial(with_hooks, entries=hooks))
        return {} if self.version is not None and list(data) == ["version"] else data

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Add our server, or remove it if `command` is None. Raises `ConfigError` if another server has its name."""
        is_anothers = SERVER_NAME in servers and not _is_ours(servers[SERVER_NAME], CLI_MODULE, "serve")
        if command is None:
            return servers if is_anothers else {name: each for name, each in servers.items() if name != SERVER_NAME}
        if is_anothers:
            raise ConfigError(f"mcpServers has another server called {SERVER_NAME!r}; rename that one first")
        return {**servers, SERVER_NAME: self.server_entry(command)}

    def _checked(self, scope: InstallScope, root: Path) -> Places:
        """Return a scope's places. Raises `ConfigError` where writing to them would change files outside the scope."""
        places = self.places(scope, root)
        if places.folder is None:
            return places
        for path in (places.hooks, places.servers) if places.is_shared else (places.hooks,):
            inside = real_path(places.folder)
            if path.is_relative_to(places.folder) and not real_path(path).is_relative_to(inside):
                raise ConfigError(
                    f"{path} leads out of the project through a symbolic link, to {real_path(path)}; nothing was "
                    "changed: replace it with a real file in a real folder, or use `--user` for all your projects"
                )
        if places.is_shared and real_path(places.hooks) == real_path(self.places("user", root).hooks):
            raise ConfigError(
                f"{places.hooks} applies to all your projects: use --user, as in `swarm-memory install --user`, "
                "or change to a project's folder"
            )
        return places
