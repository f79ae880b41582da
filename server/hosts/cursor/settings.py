"""What is written into Cursor's files and taken out again: our hooks in hooks.json, our server in mcp.json."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.hosts.cursor.host import EVENTS, home
from swarm_memory.server.hosts.entries import shell_line
from swarm_memory.server.hosts.files.json_files import SCOPES, Files, JsonFiles, stdio_server
from swarm_memory.server.hosts.host import HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import Json


def _files(scope: InstallScope, root: Path) -> Files:
    folder = root / ".cursor" if scope == "project" else Path(home())
    return Files(folder / "hooks.json", folder / "mcp.json")


def _entry(event: str, words: Sequence[str]) -> Json:
    return {"command": shell_line(words), "timeout": 5}


JSON_FILES = JsonFiles("cursor", _files, EVENTS, _entry, server=stdio_server, version=1)

SETTINGS = HostSettings(
    is_there=lambda: shutil.which("cursor-agent") is not None or shutil.which("cursor") is not None,
    scopes=SCOPES,
    plan_install=JSON_FILES.plan_install,
    plan_uninstall=JSON_FILES.plan_uninstall,
    installed_scopes=JSON_FILES.installed_scopes,
    after_install=(
        "Restart Cursor to use it. It takes no notes with a prompt, and some clients none at all: "
        "`swarm-memory install --rules AGENTS.md` has its agent ask for them."
    ),
)
