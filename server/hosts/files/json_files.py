"""Our server and hooks in the JSON files of agents that have an object of each, for `HostSettings`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from swarm_memory.server.hosts.entries import (
    CALL_EVENT,
    PORTABLE_HOOKS,
    PORTABLE_SERVER,
    VERBS,
    Edit,
    edited,
    holds_hooks,
    hook_command,
    refuse_shared_files,
    server_command,
    with_hooks,
    with_server,
    without_server,
)
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change

SCOPES: tuple[InstallScope, ...] = ("project", "user")


class Files(NamedTuple):
    """Where a scope's hooks and servers stand."""

    hooks: Path
    servers: Path


class JsonFiles(NamedTuple):
    """How an agent has hooks and MCP servers in its files."""

    name: str
    """As our hook command calls it."""
    files: Callable[[InstallScope, Path], Files]
    """Returns those of a scope and the project's folder."""
    events: Mapping[str, str]
    """By our event: its own."""
    entry: Callable[[str, Sequence[str]], Json]
    """Makes one hook of our event and the words that it runs."""
    server: Callable[[Sequence[str]], Json]
    """Makes the entry of our server of the words that start it."""
    version: int | None = None
    """What the file of the hooks says first."""
    shares_servers: Callable[[Path], bool] = lambda root: False
    """Tells whether another agent, which we stay with, has its server in the same file of the project."""

    def plan_install(self, scope: InstallScope, root: Path, calls: bool = True) -> list[FileChange]:
        """Return what installing changes. Raises `ConfigError`: a file cannot be read, or a link leads out of it."""
        portable = scope == "project"
        command = [*(PORTABLE_HOOKS if portable else hook_command()), self.name]
        entries = {
            theirs: [self.entry(event, [*command, VERBS[event]])]
            for event, theirs in self.events.items()
            if calls or event != CALL_EVENT
        }
        server = self.server(PORTABLE_SERVER if portable else server_command())
        return self._planned(
            scope, root, partial(self._with_hooks, entries=entries), partial(with_server, entry=server)
        )

    def plan_uninstall(self, scope: InstallScope, root: Path) -> list[FileChange]:
        """Return what uninstalling changes. A file that holds nothing afterwards is removed. Raises `ConfigError`."""
        keep = scope == "project" and self.shares_servers(root)
        return self._planned(scope, root, self._without_hooks, (lambda servers: servers) if keep else without_server)

    def installed_scopes(self, root: Path) -> list[InstallScope]:
        """Return the scopes whose files hold hooks of ours. Raises `ConfigError`."""
        return [scope for scope in SCOPES if holds_hooks(self.files(scope, root).hooks)]

    def _planned(self, scope: InstallScope, root: Path, hooks: Edit, servers: Edit) -> list[FileChange]:
        files = self._checked(scope, root)
        edits: list[tuple[Path, Edit]] = [(files.hooks, hooks)]
        in_servers = partial(edited, keys=("mcpServers",), edit=servers)
        if files.servers == files.hooks:
            edits = [(files.hooks, lambda data: in_servers(hooks(data)))]
        else:
            edits.append((files.servers, in_servers))
        mode = 0o644 if scope == "project" else 0o600
        planned = (planned_change(path, edit, mode) for path, edit in edits)
        return [change for change in planned if change is not None]

    def _checked(self, scope: InstallScope, root: Path) -> Files:
        files = self.files(scope, root)
        if scope == "project":
            refuse_shared_files(files, self.files("user", root).hooks, root)
        return files

    def _with_hooks(self, data: Json, entries: Mapping[str, list[Json]]) -> Json:
        first = {} if self.version is None else {"version": self.version}
        return edited({**first, **data}, ("hooks",), partial(with_hooks, entries=entries))

    def _without_hooks(self, data: Json) -> Json:
        data = edited(data, ("hooks",), partial(with_hooks, entries={}))
        return {} if self.version is not None and list(data) == ["version"] else data


def stdio_server(command: Sequence[str], **more: object) -> Json:
    """Return an entry of our MCP server over stdio. `command`: the words that run our command line."""
    return {"command": command[0], "args": [*command[1:], "serve"], **more}


def powershell_line(words: Sequence[str]) -> str:
    """Return the words as one line for PowerShell."""
    quoted = (word.replace("'", "''") for word in words)
    return "& " + " ".join(f"'{word}'" for word in quoted)
