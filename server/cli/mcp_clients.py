"""How clients of the Model Context Protocol are told of our server: the file, and what stands in it."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.codex.settings import server_table
from swarm_memory.server.hosts.entries import SERVER_NAME

_WORKSPACE = "${workspaceFolder}"
"""Of the editor, which puts the folder in its place."""


class Client(NamedTuple):
    """A program that starts our server."""

    title: str
    file: str
    """As people write it, for this system."""
    entry: Callable[[Sequence[str]], str]
    """Takes the words that run our command line; returns what stands in the file."""
    workspace: str | None = None
    """What names the project where the client's own folder is another; None: it starts the server in the project."""


def _under(key: str, **more: str) -> Callable[[Sequence[str]], str]:
    def entry(command: Sequence[str]) -> str:
        server = {**more, "command": command[0], "args": [*command[1:], "serve"]}
        return json.dumps({key: {SERVER_NAME: server}}, indent=2, ensure_ascii=False) + "\n"

    return entry


def _desktop_file() -> str:
    folders = {"darwin": "~/Library/Application Support/Claude", "win32": r"%APPDATA%\Claude"}
    return f"{folders.get(sys.platform, '~/.config/Claude')}/claude_desktop_config.json"


_SERVERS = _under("mcpServers")

CLIENTS: dict[str, Client] = {
    "claude-desktop": Client("Claude Desktop", _desktop_file(), _SERVERS, workspace=""),
    "cursor": Client("Cursor", ".cursor/mcp.json of the project, or ~/.cursor/mcp.json", _SERVERS, _WORKSPACE),
    "vscode": Client("VS Code", ".vscode/mcp.json of the project", _under("servers", type="stdio"), _WORKSPACE),
    "windsurf": Client("Windsurf", "~/.codeium/windsurf/mcp_config.json", _SERVERS, workspace=""),
    "codex": Client("Codex CLI", "~/.codex/config.toml", server_table),
    "gemini": Client("Gemini CLI", ".gemini/settings.json of the project, or ~/.gemini/settings.json", _SERVERS),
    "zed": Client("Zed", "settings.json (`zed: open settings`)", _under("context_servers"), workspace=""),
}
"""By the name that `install --print` takes. An empty workspace: the project's folder as it is now is named."""


def configuration(name: str, command: Sequence[str], root: Path) -> tuple[str, str]:
    """Return where a client keeps its servers, in words, and what is to stand there. Raises `InputError`."""
    if name not in CLIENTS:
        raise InputError(f"there is no client {name!r}: {', '.join(CLIENTS)}")
    client = CLIENTS[name]
    project = [] if client.workspace is None else ["--project", client.workspace or str(root)]
    return f"{client.title}: {client.file}", client.entry([*command, *project])
