"""What is written into OpenCode's folders and taken out again: a plugin, our MCP server."""

import json
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.entries import (
    PORTABLE_HOOKS,
    PORTABLE_SERVER,
    Edit,
    edited,
    hook_command,
    leads_out,
    server_command,
    with_server,
    without_server,
)
from swarm_memory.server.hosts.files.json_files import SCOPES
from swarm_memory.server.hosts.host import HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change, planned_text

_PLUGIN = Path(__file__).with_name("plugin.js")
_MARK, _COMMAND = "// swarm-memory:", 'const COMMAND = ["swarm-memory", "hook", "opencode"]'


class _Files(NamedTuple):
    plugin: Path
    config: Path


def plan_install(scope: InstallScope, root: Path, calls: bool = True) -> list[FileChange]:
    """Return what installing changes. Raises `ConfigError`: a file cannot be read, is another's, or leads out of it."""
    portable = scope == "project"
    server = _server(PORTABLE_SERVER if portable else server_command())
    text = plugin_text([*(PORTABLE_HOOKS if portable else hook_command()), "opencode"])
    return _planned(scope, root, text, partial(with_server, entry=server))


def plan_uninstall(scope: InstallScope, root: Path) -> list[FileChange]:
    """Return what uninstalling changes. Raises as `plan_install`."""
    return _planned(scope, root, "", without_server)


def installed_scopes(root: Path) -> list[InstallScope]:
    """Return the scopes whose folder holds our plugin."""
    return [scope for scope in SCOPES if _is_ours(_files(scope, root).plugin)]


def _planned(scope: InstallScope, root: Path, plugin: str, servers: Edit) -> list[FileChange]:
    files, mode = _files(scope, root), 0o644 if scope == "project" else 0o600
    if scope == "project" and any(leads_out(path, root) for path in files):
        raise ConfigError(f"{files.plugin} leads out of the project by a symbolic link; nothing was changed")

    def write(text: str) -> str:
        if text and not text.startswith(_MARK):
            raise ConfigError(f"{files.plugin} is not ours; nothing was changed")
        return plugin

    planned = (
        planned_text(files.plugin, write, mode),
        planned_change(files.config, partial(edited, keys=("mcp",), edit=servers), mode),
    )
    return [change for change in planned if change is not None]


def _files(scope: InstallScope, root: Path) -> _Files:
    folder = root / ".opencode" if scope == "project" else _home()
    config = root / "opencode.json" if scope == "project" else folder / "opencode.json"
    return _Files(folder / "plugins" / "swarm-memory.js", config)


def _home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "opencode")


def plugin_text(command: Sequence[str]) -> str:
    """Return our plugin. `command`: the words that run our hooks, before the verb."""
    return _PLUGIN.read_text(encoding="utf-8").replace(_COMMAND, f"const COMMAND = {json.dumps(list(command))}")


def _server(command: Sequence[str]) -> Json:
    return {"type": "local", "command": [*command, "serve"], "enabled": True}


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace").startswith(_MARK)


SETTINGS = HostSettings(
    is_there=lambda: shutil.which("opencode") is not None or _home().is_dir(),
    scopes=SCOPES,
    plan_install=plan_install,
    plan_uninstall=plan_uninstall,
    installed_scopes=installed_scopes,
    after_install="Restart OpenCode to use it.",
)
