"""What is written into Gemini CLI's settings and taken out again: our hooks, our MCP server."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.hosts.entries import shell_line
from swarm_memory.server.hosts.files.json_files import SCOPES, Files, JsonFiles, stdio_server
from swarm_memory.server.hosts.gemini_cli.host import EVENTS, SHELL, home
from swarm_memory.server.hosts.host import HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import Json

_TIMEOUTS_MS = {"UserPromptSubmit": 15_000}
_MATCHERS = {"PostToolUseFailure": SHELL}


def _files(scope: InstallScope, root: Path) -> Files:
    path = root / ".gemini" / "settings.json" if scope == "project" else Path(home(), "settings.json")
    return Files(path, path)


def _entry(event: str, words: Sequence[str]) -> Json:
    run: Json = {"type": "command", "name": f"swarm-memory {words[-1]}", "command": shell_line(words)}
    run["timeout"] = _TIMEOUTS_MS.get(event, 5000)
    return {**({"matcher": _MATCHERS[event]} if event in _MATCHERS else {}), "hooks": [run]}


JSON_FILES = JsonFiles("gemini", _files, EVENTS, _entry, server=stdio_server)

SETTINGS = HostSettings(
    is_there=lambda: shutil.which("gemini") is not None or Path(home(), "settings.json").is_file(),
    scopes=SCOPES,
    plan_install=JSON_FILES.plan_install,
    plan_uninstall=JSON_FILES.plan_uninstall,
    installed_scopes=JSON_FILES.installed_scopes,
    after_install="Restart Gemini CLI to use it; it warns of a project's hooks that are new or changed.",
)
