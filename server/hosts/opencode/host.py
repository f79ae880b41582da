"""OpenCode: where it keeps its sessions, and our plugin and our MCP server in its folders."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.host import HookPayload, folder_below_env
from swarm_memory.server.hosts.settings import PORTABLE_HOOKS, VERBS, InstalledHost, Places, edited, hook_command
from swarm_memory.server.hosts.settings_files import FileChange, Json, planned_change, planned_text

_PLUGIN = Path(__file__).with_name("plugin.js")
_MARK, _COMMAND = "// swarm-memory:", 'const COMMAND = ["swarm-memory", "hook", "opencode"]'


class OpenCode(InstalledHost):
    """OpenCode, which has a plugin instead of hooks."""

    name = "opencode"
    title = "OpenCode"
    own_folder = ("XDG_CONFIG_HOME", ".config", "opencode")
    programs = ("opencode",)
    after_install = "Restart OpenCode to use it."
    context_at: ClassVar[Mapping[str, str]] = dict.fromkeys(VERBS, "additionalContext")
    """The plugin injects it where it belongs."""
    keys = ("mcp",)
    project_files = (".opencode/plugins/swarm-memory.js", "opencode.json")
    user_files = ("plugins/swarm-memory.js", "opencode.json")

    def folders(self) -> tuple[str, ...]:
        """Return the folder of its database."""
        return (str(folder_below_env("XDG_DATA_HOME", ".local/share", "opencode")),)

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event in our vocabulary; the session's transcript is the database."""
        return {**said, "transcript_path": str(Path(*self.folders(), "opencode.db"))}

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return nothing: the plugin runs our commands."""
        return {}

    def holds_ours(self, hooks: Path) -> bool:
        """Whether the plugin is ours."""
        return hooks.is_file() and hooks.read_text(encoding="utf-8", errors="replace").startswith(_MARK)

    def planned(
        self, places: Places, hooks: Mapping[str, list[Json]], server: Sequence[str] | None, mode: int
    ) -> list[FileChange | None]:
        """Return the changes. Raises `ConfigError` for a plugin that has our name but is not ours."""
        command = [*(PORTABLE_HOOKS if places.is_shared else hook_command()), "opencode"]

        def write(text: str) -> str:
            if text and not text.startswith(_MARK):
                raise ConfigError(f"{places.hooks} was not written by swarm-memory; nothing was changed")
            return "" if server is None else plugin_text(command)

        edit = partial(self.edit_servers, command=server, places=places)
        in_servers = partial(edited, keys=places.keys, edit=edit)
        return [planned_text(places.hooks, write, mode), planned_change(places.servers, in_servers, mode)]

    def server_entry(self, command: Sequence[str]) -> Json:
        """Return the entry of our MCP server."""
        return {"type": "local", "command": [*command, *self.serve_words], "enabled": True}


def plugin_text(command: Sequence[str]) -> str:
    """Return our plugin. `command`: the words that run our hooks, before the verb."""
    return _PLUGIN.read_text(encoding="utf-8").replace(_COMMAND, f"const COMMAND = {json.dumps(list(command))}")


HOST = OpenCode()
