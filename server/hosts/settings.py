"""Agents into whose files we are written, and taken out of them again: our hooks and our MCP server, nothing else."""

import shutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.entries import (
    CALL_EVENT,
    PORTABLE_HOOKS,
    PORTABLE_SERVER,
    VERBS,
    edited,
    holds_hooks,
    hook_command,
    leads_out,
    real_path,
    server_command,
    with_hooks,
    with_server,
)
from swarm_memory.server.hosts.host import SCOPES, Host, InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change


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
    after_install: ClassVar[str]
    """What the user has to do then, in a sentence."""
    events: ClassVar[Mapping[str, str]]
    """By our event: its own."""
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

    @abstractmethod
    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the file of the hooks and that of the servers."""

    @abstractmethod
    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of the hook that runs these words at our event, and is ended after this time."""

    def home(self) -> Path:
        """Return the folder of the user's own files."""
        raise NotImplementedError

    def is_there(self) -> bool:
        """Tell whether the agent is on this machine: its command or its folder."""
        return any(map(shutil.which, self.programs)) or self.home().exists()

    def untrusted(self, root: Path) -> int:
        """Return how many of our hooks wait for the user's trust."""
        return 0

    def plugin(self, root: Path) -> str | None:
        """Return the plugin of ours that is enabled, which brings server and hooks along."""
        return None

    def plan_install(self, scope: InstallScope, root: Path, calls: bool = True) -> list[FileChange]:
        """Return what installing changes: nothing when all is there already. `root` is the project's folder.

        `calls`: with the hook before calls of tools; without it that hook is taken out again. Raises `ConfigError`
        when a file cannot be read as the object that the agent expects, when another server has our name, for a
        project's file that a symbolic link leads out of the project, or for `project` in the folder whose settings are
        those of all projects.
        """
        portable = scope == "project"
        named = () if self.name == "claude" else (self.name,)  # whose hooks name no agent
        hooks = self.hook_entries([*(PORTABLE_HOOKS if portable else hook_command()), *named], calls=calls)
        server = PORTABLE_SERVER if portable else server_command()
        return self.planned(self._checked(scope, root), hooks, server, 0o644 if portable else 0o600)

    def plan_uninstall(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return what uninstalling changes. A file that holds nothing afterwards goes. Raises as `plan_install`."""
        changes = self.planned(self._checked(scope, root), {}, None, 0o600)
        return changes[::-1]  # the folder was made with the first file, and goes with it

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
        """Tell whether a file of hooks holds some of ours. Raises `ConfigError`."""
        return holds_hooks(hooks)

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where a scope's entries stand."""
        hooks, servers = self.where(scope, root)
        return Places(hooks, servers, self.keys, root if scope == "project" else None, scope == "project")

    def hook_entries(self, command: Sequence[str], *, calls: bool = True) -> dict[str, list[Json]]:
        """Return our hooks by the agent's events; with `calls` that before calls too.

        `command`: the words that run them, before the verb.
        """
        entries: dict[str, list[Json]] = {}
        for event, theirs in self.events.items():
            if calls or event != CALL_EVENT:
                matcher = {"matcher": self.matchers[event]} if event in self.matchers else {}
                timeout_s = 15 if event == "UserPromptSubmit" else 5  # it ends itself before
                entries[theirs] = [{**matcher, **self.hook(event, (*command, VERBS[event]), timeout_s)}]
        return entries

    def server_entry(self, command: Sequence[str]) -> Json:
        """Return the entry of our MCP server. `command`: the words that run our command line."""
        return {"command": command[0], "args": [*command[1:], "serve"], **self.server}

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange]:
        """Return what puts these hooks, and the server that these words run, in place of ours; None: no server."""

        def in_hooks(data: Json) -> Json:
            return self.edit_hooks(data, hooks, is_shared=places.is_shared)

        def in_servers(data: Json) -> Json:
            return edited(data, places.keys, partial(self.edit_servers, command=server, places=places))

        if places.servers == places.hooks:
            changes = [planned_change(places.hooks, lambda data: in_servers(in_hooks(data)), mode)]
        else:
            changes = [planned_change(places.servers, in_servers, mode), planned_change(places.hooks, in_hooks, mode)]
        return [change for change in changes if change is not None]

    def edit_hooks(self, data: Json, hooks: Mapping[str, list[Json]], *, is_shared: bool) -> Json:
        """Put these hooks in place of all of ours in the object of a file; none: take them out."""
        if self.version is not None and hooks:
            data = {"version": self.version, **data}
        data = edited(data, ("hooks",), partial(with_hooks, entries=hooks))
        return {} if self.version is not None and list(data) == ["version"] else data

    def edit_servers(self, servers: Json, command: Sequence[str] | None, places: Places) -> Json:
        """Put our server among the servers, or take it out."""
        return with_server(servers, None if command is None else self.server_entry(command))

    def _checked(self, scope: InstallScope, root: Path) -> Places:
        """Return the places where nobody's files but those of the scope are written."""
        places = self.places(scope, root)
        if places.folder is None:
            return places
        for path in (places.hooks, places.servers) if places.is_shared else (places.hooks,):
            if leads_out(path, places.folder):
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
