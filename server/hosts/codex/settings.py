"""What is written into Codex CLI's files and taken out again: our hooks in hooks.json, our server in config.toml."""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.codex.host import EVENTS, SHELL, codex_home
from swarm_memory.server.hosts.entries import (
    CALL_EVENT,
    PORTABLE_HOOKS,
    PORTABLE_SERVER,
    SERVER_NAME,
    VERBS,
    count_ours,
    edited,
    holds_hooks,
    hook_command,
    object_at,
    real_path,
    refuse_shared_files,
    server_command,
    shell_line,
    with_hooks,
)
from swarm_memory.server.hosts.host import HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, object_of, planned_change, planned_text

_TIMEOUTS_S: Mapping[str, int] = {"UserPromptSubmit": 15, "SessionEnd": 3}
"""Where it is not 5. A trusted hook is known by its command, its place and this: it stays as it is."""

_TABLE = f"mcp_servers.{SERVER_NAME}"
_PASSED_ON = ("CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "SWARM_MEMORY_DB", "SWARM_MEMORY_DISABLED")
"""Variables without which the server would not find what the hooks find: Codex gives a server few others."""

_MATCHERS = {"SessionStart": "startup|clear|compact", "PostToolUse": f"^{SHELL}$"}


class _Files(NamedTuple):
    hooks: Path
    config: Path


def plan_install(scope: InstallScope, root: Path, calls: bool = True) -> list[FileChange]:
    """Return what installing changes. Raises `ConfigError`: a file cannot be read, or not be edited by its text."""
    files, portable = _files(scope, root), scope == "project"
    command = [*PORTABLE_HOOKS, "codex"] if portable else [*hook_command(), "codex"]
    hooks = partial(with_hooks, entries=hook_entries(command, calls=calls))
    server = PORTABLE_SERVER if portable else server_command()
    mode = 0o644 if portable else 0o600
    planned = (
        planned_change(files.hooks, partial(edited, keys=("hooks",), edit=hooks), mode),
        planned_text(files.config, partial(_with_server, path=files.config, command=server), mode),
    )
    return [change for change in planned if change is not None]


def plan_uninstall(scope: InstallScope, root: Path) -> list[FileChange]:
    """Return what uninstalling changes. A file that holds nothing afterwards is removed. Raises as `plan_install`."""
    files = _files(scope, root)
    planned = (
        planned_change(files.hooks, partial(edited, keys=("hooks",), edit=partial(with_hooks, entries={}))),
        planned_text(files.config, partial(_without_server, path=files.config)),
    )
    return [change for change in planned if change is not None]


def installed_scopes(root: Path) -> list[InstallScope]:
    """Return the scopes whose hooks.json holds hooks of ours. Raises `ConfigError`."""
    return [scope for scope in SETTINGS.scopes if holds_hooks(_files(scope, root).hooks)]


def hook_entries(command: Sequence[str], *, calls: bool = True) -> dict[str, list[Json]]:
    """Return our hooks by event, as they stand in hooks.json. `command`: the words that run them, before the verb."""
    entries: dict[str, list[Json]] = {}
    for event, theirs in EVENTS.items():
        if event == CALL_EVENT and not calls:
            continue
        words, timeout_s = [*command, VERBS[event]], _TIMEOUTS_S.get(event, 5)
        run: Json = {"type": "command", "command": shell_line(words), "timeout": timeout_s}
        matcher = {"matcher": _MATCHERS[theirs]} if theirs in _MATCHERS else {}
        entries[theirs] = [{**matcher, "hooks": [run]}]
    return entries


def server_table(command: Sequence[str]) -> str:
    """Return our MCP server as it stands in config.toml."""
    words, passed = (", ".join(map(_quoted, each)) for each in ([*command[1:], "serve"], _PASSED_ON))
    return f"[{_TABLE}]\ncommand = {_quoted(command[0])}\nargs = [{words}]\nenv_vars = [{passed}]\n"


def untrusted(root: Path) -> int:
    """Return of how many hooks of ours config.toml does not say that they were looked at in `/hooks`."""
    known = object_at(object_at(_document(_files("user", root).config), "hooks"), "state")
    return sum(
        count_ours([group]) > 0 and not any(key.startswith(_places(path, event, number)) for key in known)
        for scope in SETTINGS.scopes
        for path in [_files(scope, root).hooks]
        for event, groups in object_at(object_of(path), "hooks").items()
        for number, group in enumerate(groups)
    )


def _places(path: Path, event: str, group: int) -> tuple[str, ...]:
    """Return how the key of a hook begins: Codex follows the links of a folder that CODEX_HOME names."""
    return tuple(f"{each}:{_snake(event)}:{group}:" for each in (path, real_path(path)))


def _snake(event: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in event).lstrip("_")


def _files(scope: InstallScope, root: Path) -> _Files:
    """Return the files of a scope. Raises `ConfigError` where a link leads from a project's file out of it."""
    folder = root / ".codex" if scope == "project" else Path(codex_home())
    files = _Files(folder / "hooks.json", folder / "config.toml")
    if scope == "project":
        refuse_shared_files(files, Path(codex_home()) / "hooks.json", root)
    return files


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


def _document(path: Path) -> Json:
    return _parsed(path.read_text(encoding="utf-8"), path) if path.is_file() else {}


def _parsed(text: str, path: Path) -> Json:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); mend it first, nothing was changed") from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SETTINGS = HostSettings(
    is_there=lambda: shutil.which("codex") is not None or Path(codex_home()).is_dir(),
    scopes=("project", "user"),
    plan_install=plan_install,
    plan_uninstall=plan_uninstall,
    installed_scopes=installed_scopes,
    after_install="Codex CLI runs only hooks that you trust: start it, enter /hooks, and trust those of swarm-memory.",
    untrusted=untrusted,
)
