"""What is written into OpenCode's folders and taken out again: a plugin that runs our hooks, our MCP server."""

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.entries import PORTABLE_HOOKS, HookRun, edited, hook_command
from swarm_memory.server.hosts.host import HostFiles, InstallScope
from swarm_memory.server.hosts.settings import HostSettings, Places
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change, planned_text

_PLUGIN = Path(__file__).with_name("plugin.js")
_MARK, _COMMAND = "// swarm-memory:", 'const COMMAND = ["swarm-memory", "hook", "opencode"]'


class OpenCodeSettings(HostSettings):
    """Those of OpenCode, which has a plugin in place of hooks."""

    def installed_scopes(self, root: Path) -> list[InstallScope]:
        """Return the scopes whose folder holds our plugin."""
        return [scope for scope in self.scopes if _is_ours(self.places(scope, root).hooks)]

    def places(self, scope: InstallScope, root: Path) -> Places:
        """Return where the plugin and the server stand."""
        return super().places(scope, root)._replace(keys=("mcp",))

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange]:
        """Return the changes. Raises `ConfigError` for a plugin of our name that is another's."""
        command = [*(PORTABLE_HOOKS if places.is_shared else hook_command()), "opencode"]

        def write(text: str) -> str:
            if text and not text.startswith(_MARK):
                raise ConfigError(f"{places.hooks} is not ours; nothing was changed")
            return "" if server is None else plugin_text(command)

        edit = partial(self.edit_servers, command=server, places=places)
        changes = (
            planned_text(places.hooks, write, mode),
            planned_change(places.servers, partial(edited, keys=places.keys, edit=edit), mode),
        )
        return [change for change in changes if change is not None]

    def server_entry(self, command: Sequence[str]) -> Json:
        """Return the entry of our MCP server."""
        return {"type": "local", "command": [*command, "serve"], "enabled": True}


def plugin_text(command: Sequence[str]) -> str:
    """Return our plugin. `command`: the words that run our hooks, before the verb."""
    return _PLUGIN.read_text(encoding="utf-8").replace(_COMMAND, f"const COMMAND = {json.dumps(list(command))}")


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace").startswith(_MARK)


def _home() -> str:
    return str(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "opencode"))


def _where(scope: InstallScope, root: str) -> tuple[str, str]:
    folder = Path(root, ".opencode") if scope == "project" else Path(_home())
    config = Path(root, "opencode.json") if scope == "project" else folder / "opencode.json"
    return str(folder / "plugins" / "swarm-memory.js"), str(config)


def _no_hook(run: HookRun) -> Json:
    return {}


SETTINGS = OpenCodeSettings(
    "opencode",
    HostFiles(
        where=_where,
        events={},
        hook=_no_hook,
        programs=("opencode",),
        after_install="Restart OpenCode to use it.",
        trace=_home,
    ),
)
