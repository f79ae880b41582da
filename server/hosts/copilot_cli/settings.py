"""What is written into Copilot CLI's files and taken out again: a file of our hooks, our MCP server."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.hosts.claude_code.settings import SETTINGS as CLAUDE_CODE
from swarm_memory.server.hosts.copilot_cli.host import EVENTS, home
from swarm_memory.server.hosts.files.json_files import SCOPES, Files, JsonFiles, powershell_line, stdio_server
from swarm_memory.server.hosts.host import HostSettings, InstallScope
from swarm_memory.server.hosts.settings_files import Json

_TIMEOUTS_S = {"UserPromptSubmit": 15}
_FILE = "swarm-memory.json"


def _files(scope: InstallScope, root: Path) -> Files:
    if scope == "project":
        return Files(root / ".github" / "hooks" / _FILE, root / ".mcp.json")
    return Files(Path(home(), "hooks", _FILE), Path(home(), "mcp-config.json"))


def _entry(event: str, words: Sequence[str]) -> Json:
    entry: Json = {"matcher": "Bash"} if event == "PostToolUseFailure" else {}
    entry |= {"type": "command", "bash": shlex.join(words), "powershell": powershell_line(words)}
    return {**entry, "timeoutSec": _TIMEOUTS_S.get(event, 5)}


def _server(command: Sequence[str]) -> Json:
    return {"type": "stdio", **stdio_server(command, env={}, tools=["*"])}


def _is_claudes_too(root: Path) -> bool:
    return "project" in CLAUDE_CODE.installed_scopes(root)


JSON_FILES = JsonFiles("copilot", _files, EVENTS, _entry, _server, version=1, shares_servers=_is_claudes_too)

SETTINGS = HostSettings(
    is_there=lambda: shutil.which("copilot") is not None or Path(home()).is_dir(),
    scopes=SCOPES,
    plan_install=JSON_FILES.plan_install,
    plan_uninstall=JSON_FILES.plan_uninstall,
    installed_scopes=JSON_FILES.installed_scopes,
    after_install="Restart Copilot CLI to use it; it runs a project's hooks in folders that you trust.",
)
