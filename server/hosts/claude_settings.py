"""What is written into Claude Code's files and taken out again: our MCP server, our hooks, nothing else."""

import os
import site
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.settings_files import FileChange, Json, object_of, planned_change

SERVER_NAME = "swarm-memory"
CLI_MODULE, HOOKS_MODULE = "swarm_memory.server.cli", "swarm_memory.server.hooks"

PORTABLE_SERVER, PORTABLE_HOOKS = (SERVER_NAME,), (SERVER_NAME, "hook")
"""What files that are shared run: our command, found by PATH on each machine."""

InstallScope = Literal["local", "project", "user"]
SCOPES: tuple[InstallScope, ...] = ("local", "project", "user")
Edit: TypeAlias = Callable[[Json], Json]

_VERBS: Mapping[str, tuple[str, int]] = {
    "SessionStart": ("session-start", 5),
    "UserPromptSubmit": ("prompt", 15),
    "PreToolUse": ("before-tool", 5),
    "PostToolUseFailure": ("tool-failure", 5),
    "Stop": ("stop", 5),
    "SessionEnd": ("session-end", 5),
}
"""By event: the verb of our hook command, and after how many seconds the host ends it; it ends itself before."""

WARNING_EVENT = "PreToolUse"
"""Only told where `hooks.warn_before_tools` is set: it makes each call of a tool wait for an answer."""

_NEW_CONTEXT = "startup|clear|compact"
"""The sources of SessionStart that begin with an empty context; a resumed session still has its briefing."""


def plan_install(scope: InstallScope, root: Path, *, warn: bool = False) -> list[FileChange]:
    """Return what installing changes: nothing when all is there already. `root` is the project's folder.

    `warn` adds the hook that warns before calls of tools; without it that hook is taken out again. Raises `ConfigError`
    when a file cannot be read as the JSON object that Claude Code expects, when another server has our name, for a
    project's file that a symbolic link leads out of the project, or for `project` in the folder whose
    settings are those of all projects.
    """
    files = _files(scope, root)
    files.refuse_links()
    if scope == "project" and _real(files.settings) == _real(_files("user", root).settings):
        told = "is your home folder: what is written there holds for all your projects"
        raise ConfigError(f"{root} {told}; run `swarm-memory install --user`, or go to a project")
    portable = scope == "project"
    server = server_entry(PORTABLE_SERVER if portable else server_command())
    hooks = hook_entries(PORTABLE_HOOKS if portable else hook_command(), warn=warn)

    def edit_settings(data: Json) -> Json:
        data = _edited(data, ("hooks",), partial(_with_hooks, entries=hooks))
        enabled = _list(data, "enabledMcpjsonServers")
        # A project's server runs only once it is named in the settings of a folder that the person trusts.
        if portable and SERVER_NAME not in enabled:
            data["enabledMcpjsonServers"] = [*enabled, SERVER_NAME]
        return data

    return files.planned(partial(_with_server, entry=server), edit_settings, 0o644 if portable else 0o600)


def plan_uninstall(scope: InstallScope, root: Path) -> list[FileChange]:
    """Return what uninstalling changes. A file that holds nothing afterwards is removed. Raises as `plan_install`."""
    files = _files(scope, root)
    files.refuse_links()
    return files.planned(_without_server, _without_hooks, 0o600)


def installed_scopes(root: Path) -> list[InstallScope]:
    """Return the scopes whose files hold hooks of ours for this project. Raises `ConfigError`."""
    found: dict[Path, InstallScope] = {}
    for scope in ("user", "local", "project"):  # in the home folder two of them share a file: it is the user's
        settings = _files(scope, root).settings
        hooks = _object(object_of(settings), "hooks")
        if any(_count_ours(_list(hooks, event)) for event in hooks):
            found.setdefault(_real(settings), scope)
    return [scope for scope in SCOPES if scope in found.values()]


def server_command(python: str = sys.executable) -> list[str]:
    """Return the words that run our command line with a Python interpreter."""
    return [python, *_isolation(), "-m", CLI_MODULE]


def server_entry(command: Sequence[str]) -> Json:
    """Return the entry of our MCP server. `command`: the words that run our command line."""
    return {"type": "stdio", "command": command[0], "args": [*command[1:], "serve"], "env": {}}


def hook_command(python: str = sys.executable) -> list[str]:
    """Return the words that run our hooks with a Python interpreter; the verb follows."""
    return [python, *_isolation(), "-m", HOOKS_MODULE]


def hook_entries(command: Sequence[str], *, warn: bool = False) -> dict[str, list[Json]]:
    """Return our hooks by event, as they stand in the settings of Claude Code; with `warn` that before tools too.

    `command`: the words that run them, before the verb.
    """
    return {
        event: [_entry(command, event, verb, timeout_s)]
        for event, (verb, timeout_s) in _VERBS.items()
        if warn or event != WARNING_EVENT
    }


def _entry(command: Sequence[str], event: str, verb: str, timeout_s: int) -> Json:
    run: Json = {"type": "command", "command": command[0], "args": [*command[1:], verb], "timeout": timeout_s}
    return {"matcher": _NEW_CONTEXT, "hooks": [run]} if event == "SessionStart" else {"hooks": [run]}


def _isolation() -> list[str]:
    """Return the flags that keep a project's files from shadowing modules.

    `-I` also hides the user's site-packages; where we are installed there, the same without that.
    """
    user_site = site.getusersitepackages()
    return ["-E", "-P"] if Path(__file__).resolve().is_relative_to(Path(user_site).resolve()) else ["-I"]


class _Files(NamedTuple):
    """Where a scope's server and hooks stand."""

    servers: Path
    settings: Path
    keys: tuple[str, ...] = ()
    """Where the project stands in the file of the servers; empty: the file is of one scope alone."""
    folder: Path | None = None
    """That of the project, whose files may have come with a clone; None for the user's own."""

    def refuse_links(self) -> None:
        """Raise `ConfigError` where a link leads from a file of the project to one elsewhere, such as the user's."""
        for path in (self.settings,) if self.keys else (self.servers, self.settings):
            if self.folder is not None and _leads_out(path, self.folder):
                told = f"{path} leads to {_real(path)}, by a symbolic link out of the project; nothing was changed"
                mend = "put a real file in a real folder in its place, or use `--user` for all your projects"
                raise ConfigError(f"{told}: {mend}")

    def planned(self, edit_servers: Edit, edit_settings: Edit, mode: int) -> list[FileChange]:
        """Return the changes that the edits make of the servers of the scope, and of its settings."""
        edits = {self.servers: partial(_edited, keys=(*self.keys, "mcpServers"), edit=edit_servers)}
        planned = (planned_change(path, edit, mode) for path, edit in (edits | {self.settings: edit_settings}).items())
        return [change for change in planned if change is not None]


def _files(scope: InstallScope, root: Path) -> _Files:
    if scope == "project":
        return _Files(root / ".mcp.json", root / ".claude" / "settings.json", folder=root)
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    servers = (Path(folder) if folder else Path.home()) / ".claude.json"
    if scope == "user":
        return _Files(servers, (Path(folder) if folder else Path.home() / ".claude") / "settings.json")
    known, working = _repository(root.resolve())
    return _Files(servers, working / ".claude" / "settings.local.json", ("projects", known.as_posix()), working)


def _real(path: Path) -> Path:
    """Return where a path leads; a link to itself, unlike with `resolve`, is no error here but where it is read."""
    return Path(os.path.realpath(path))


def _leads_out(path: Path, folder: Path) -> bool:
    """Tell whether a link, of a file below `folder` or of a folder on the way, leads out of it."""
    return path.is_relative_to(folder) and not _real(path).is_relative_to(_real(folder))


def _repository(root: Path) -> tuple[Path, Path]:
    """Return the folder by which Claude Code knows a project, and that whose local settings it reads there.

    Both are the main folder of a repository, also in its linked worktrees and below it. A bare one has no such folder:
    it is known by its own, and each worktree has its settings.
    """
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    try:
        link = (top / ".git").read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        common = top / link / (top / link / "commondir").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return top, top  # no worktree: `.git` is a folder, is not there, or is a submodule's
    common = common.resolve()
    return (common.parent, common.parent) if common.name == ".git" else (common, top)


def _edited(data: Json, keys: Sequence[str], edit: Edit) -> Json:
    """Return an object with what stands at `keys` in it edited; where that leaves an object empty, it goes."""
    if not keys:
        return edit(data)
    before = _object(data, keys[0])
    after = _edited(dict(before), keys[1:], edit)
    if after != before:
        data[keys[0]] = after
        _drop_empty(data, keys[0])
    return data


def _with_server(servers: Json, entry: Json) -> Json:
    if SERVER_NAME in servers and not _is_our_server(servers[SERVER_NAME]):
        raise ConfigError(f"mcpServers has another server called {SERVER_NAME!r}; rename that one first")
    return {**servers, SERVER_NAME: entry}


def _without_server(servers: Json) -> Json:
    return {name: entry for name, entry in servers.items() if name != SERVER_NAME or not _is_our_server(entry)}


def _with_hooks(hooks: Json, entries: Mapping[str, list[Json]]) -> Json:
    """Put `entries` in place of all hooks of ours; those that are right already stay in place."""
    for event in list(dict.fromkeys([*entries, *hooks])):
        groups, ours = _list(hooks, event), entries.get(event, [])
        if _count_ours(groups) != len(ours) or any(each not in groups for each in ours):
            hooks[event] = _without_our_hooks(groups) + ours
            _drop_empty(hooks, event)
    return hooks


def _without_hooks(data: Json) -> Json:
    data = _edited(data, ("hooks",), partial(_with_hooks, entries={}))
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
    command, args = cast(Json, entry).get("command"), cast(Json, entry).get("args")
    return [*str(command or "").split(), *map(str, cast(list[Any], args) if isinstance(args, list) else [])]


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
