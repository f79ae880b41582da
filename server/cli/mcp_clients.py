"""How clients of the Model Context Protocol start our server: the file of each, and what goes into it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.codex.settings import server_table
from swarm_memory.server.hosts.entries import SERVER_NAME

_WORKSPACE = "${workspaceFolder}"
"""Of the editor, which puts the folder in its place."""

_DESKTOP = {"darwin": "~/Library/Application Support/Claude", "win32": r"%APPDATA%\Claude"}


class Client(NamedTuple):
    """A program that starts our server."""

    title: str
    file: str
    """As people write it, for this system."""
    key: str | None = "mcpServers"
    """Under which the servers are in a file of JSON; None: it is the TOML of Codex."""
    workspace: str | None = None
    """What names the project where the client's own folder is another, empty: as it is now; None: it starts in it."""


CLIENTS: dict[str, Client] = {
    "claude-desktop": Client(
        "Claude Desktop", f"{_DESKTOP.get(sys.platform, '~/.config/Claude')}/claude_desktop_config.json", workspace=""
    ),
    "cursor": Client("Cursor", ".cursor/mcp.json of the project, or ~/.cursor/mcp.json", workspace=_WORKSPACE),
    "vscode": Client("VS Code", ".vscode/mcp.json of the project", "servers", _WORKSPACE),
    "windsurf": Client("Windsurf", "~/.codeium/windsurf/mcp_config.json", workspace=""),
    "codex": Client("Codex CLI", "~/.codex/config.toml", None),
    "gemini": Client("Gemini CLI", ".gemini/settings.json of the project, or ~/.gemini/settings.json"),
    "zed": Client("Zed", "settings.json (`zed: open settings`)", "context_servers", ""),
}
"""By the name that `install --print` takes."""


def configuration(name: str, command: Sequence[str], root: Path) -> tuple[str, str]:
    """Return where a client keeps its servers, in words, and what goes there. Raises `InputError`."""
    if name not in CLIENTS:
        raise InputError(f"there is no client {name!r}: {', '.join(CLIENTS)}")
    client = CLIENTS[name]
    words = [*command, *([] if client.workspace is None else ["--project", client.workspace or str(root)])]
    if client.key is None:
        return f"{client.title}: {client.file}", server_table(words)
    kind = {"type": "stdio"} if client.key == "servers" else {}
    server = {**kind, "command": words[0], "args": [*words[1:], "serve"]}
    text = json.dumps({client.key: {SERVER_NAME: server}}, indent=2, ensure_ascii=False) + "\n"
    return f"{client.title}: {client.file}", text
