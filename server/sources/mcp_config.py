"""The MCP servers that a `.mcp.json` names, as Claude Code reads it; it starts none of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarm_memory.schema.errors import InputError
from swarm_memory.server.sources.files import read_bytes
from swarm_memory.server.sources.json_tools import list_of, mapping_of, parse_json, text_of

MAX_BYTES = 1_000_000
MAX_SERVERS = 200

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_OUR_COMMANDS = frozenset({"swarm-memory", "swarm-memory.exe"})
_OUR_PACKAGE = re.compile(r"\bswarm[_-]memory\b")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: how it is started, or where it is reached."""

    name: str
    transport: Literal["stdio", "http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()
    """Variables that it names, without a default, and that are not set: they stay as they are written."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """An entry that names no server that can be asked."""

    name: str
    reason: str


def read_config(path: Path, environ: Mapping[str, str]) -> list[McpServer | Unusable]:
    """Return the servers of a `.mcp.json`, without ourselves. Raises `InputError` when it is none.

    `${VAR}` and `${VAR:-default}` stand for variables of `environ` in command, args, env, url and headers.
    """
    data = read_bytes(path, MAX_BYTES)
    if isinstance(data, str):
        raise InputError(f"{path} {data}")
    try:
        document = mapping_of(parse_json(data))
    except InputError as error:
        raise InputError(f"{path} {error}") from None
    if not isinstance(document.get("mcpServers"), dict):
        raise InputError(f"{path} has no object `mcpServers`")
    entries = mapping_of(document["mcpServers"])
    if len(entries) > MAX_SERVERS:
        raise InputError(f"{path} names {len(entries)} servers: {MAX_SERVERS} are the most")
    found = [_server(name, mapping_of(entry), environ) for name, entry in entries.items()]
    return [each for each in found if isinstance(each, Unusable) or not _is_ours(each)]


def _server(name: str, entry: Mapping[str, object], environ: Mapping[str, str]) -> McpServer | Unusable:
    unset: dict[str, None] = {}

    def expanded(text: object) -> str:
        return _VARIABLE.sub(lambda found: _value(found, environ, unset), text_of(text))

    def pairs(value: object) -> tuple[tuple[str, str], ...]:
        return tuple((key, expanded(text)) for key, text in mapping_of(value).items())

    kind = text_of(entry.get("type")) or ("stdio" if "command" in entry else "http")
    if kind == "stdio" and text_of(entry.get("command")):
        command, args = expanded(entry["command"]), tuple(expanded(each) for each in list_of(entry.get("args")))
        env = pairs(entry.get("env"))
        return McpServer(name, "stdio", command, args, env, unset=tuple(unset))
    if kind in ("http", "streamable-http") and text_of(entry.get("url")).startswith(("http://", "https://", "${")):
        url, headers = expanded(entry["url"]), pairs(entry.get("headers"))
        return McpServer(name, "http", url=url, headers=headers, unset=tuple(unset))
    if kind == "sse":
        return Unusable(name, "is reached by SSE, which is out of use: give its type as http")
    return Unusable(name, "has neither a command nor an http address")


def _value(found: "re.Match[str]", environ: Mapping[str, str], unset: dict[str, None]) -> str:
    name, default = found.groups()
    if environ.get(name):
        return environ[name]
    if default is not None:
        return default
    unset[name] = None
    return found.group()


def _is_ours(server: McpServer) -> bool:
    """Whether it is this program: it would list its own tools, and wait for its own database."""
    names = {Path(part).name.lower() for part in (server.command, *server.args)}
    return bool(names & _OUR_COMMANDS) or any(_OUR_PACKAGE.search(arg) for arg in server.args if "/" not in arg)
