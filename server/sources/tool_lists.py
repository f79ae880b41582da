"""Reads tools from lists of functions in JSON (MCP's, OpenAI's, plain schemas) and from live MCP servers.

What servers say is data. A server gets the few variables that every program needs and those of its own entry. Callers
decide which servers may be started.
"""

import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.files import Group, bad_group, read_bytes, read_files, read_format
from swarm_memory.tools.guard.redact import redact, redact_start
from swarm_memory.tools.text.cleaning import faults, shorten

if TYPE_CHECKING:
    from mcp.client import Client

READER = "json_tools-2"
MAX_BYTES = 20_000_000
MAX_TOOLS = 10_000
MAX_PARAMETERS = 200
MAX_DEPTH = 4
"""How many levels of nested parameters are named."""

MAX_CONFIG_BYTES, MAX_SERVERS = 1_000_000, 50
SERVER_TIMEOUT_S = 30.0
"""How long an MCP server may take to start and list its tools."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
SERVERS_READER = "tools_mcp-2"
_MAX_REASON_CHARS = 300
_HTTP_TIMEOUT_S = 600.0
"""Longer than any time limit that may be set for a server."""
_OURSELVES = "swarm-memory"
_SCHEMA_KEYS = ("inputSchema", "input_schema", "parameters")


def read_json_tools(root: Path, *, allows: Callable[[str], bool] | None = None) -> Iterator[Group]:
    """Yield one group for each JSON file, `root` itself or those below it; its tools are the passages.

    In a folder, files that are no list of functions, or that `allows` (given the path) refuses, are skipped.
    """
    return read_files(root, read_format(READER, {".json"}, MAX_BYTES, looks_like_tools, parse_tools), allows)


def looks_like_tools(data: bytes) -> bool:
    """Whether a file's bytes are functions with parameters; names and descriptions alone do not suffice."""
    with suppress(InputError):
        return any(_has_schema(entry) for entry in _entries(parse_json(data)))
    return False


def is_mcp_config(path: Path) -> bool:
    """Whether a file is a `.mcp.json`, by its name or its content."""
    if path.name == ".mcp.json":
        return True
    with suppress(InputError):
        return "mcpServers" in mapping_of(parse_json(read_bytes(path, MAX_BYTES)))
    return False


def parse_tools(group: str, data: bytes) -> list[Passage]:
    """Return the tools of a JSON file in their order. Raises `InputError` when it has none."""
    entries = _entries(parse_json(data))
    if not entries:
        raise InputError(
            f"{group} contains no functions: expected a list of objects with name, description and parameters"
        )
    return passages_of(group, entries)


def passages_of(group: str, entries: Sequence[Mapping[str, Any]], **beside: JsonValue) -> list[Passage]:
    """Return one passage for each tool's description, with `beside` added to its data.

    Raises `InputError` when there are more than 10,000.
    """
    if len(entries) > MAX_TOOLS:
        raise InputError(f"{group} has {len(entries):,} tools: at most {MAX_TOOLS:,} are allowed")
    passages: list[Passage] = []
    for position, entry in enumerate(entries):
        schema = next((mapping_of(entry[key]) for key in _SCHEMA_KEYS if isinstance(entry.get(key), dict)), None)
        if schema is None:
            schema = dict(entry) if "properties" in entry else {}
        shown = text_of(entry.get("title"))
        name = text_of(entry.get("name")) or shown
        passage = Passage(
            kind="tool",
            group=group,
            position=position,
            title=redact_start(name.strip(), 1000, pii=False),
            description="\n".join(filter(None, (shown if shown != name else "", text_of(entry.get("description"))))),
            content=described_parameters(schema),
            data={**({"input_schema": schema} if schema else {}), **beside},
        )
        passages.append(passage)
    return passages


def parse_json(data: bytes) -> Any:
    """Return the JSON value of a file. Raises `InputError` if it is not valid JSON."""
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON: {str(error)[:200] or 'it is nested too deeply'}") from None


def described_parameters(schema: object) -> str:
    """Return the parameters of a JSON schema as lines `name (type, required): description`, nested ones named a.b."""
    lines: list[str] = []

    def describe(schema: object, prefix: str, depth: int) -> None:
        found = mapping_of(schema)
        required = {name for name in list_of(found.get("required")) if isinstance(name, str)}
        for name, part in mapping_of(found.get("properties")).items():
            if len(lines) >= MAX_PARAMETERS:
                return
            field = mapping_of(part)
            kind: str = field["type"] if isinstance(field.get("type"), str) else "any"
            if isinstance(field.get("type"), list):
                kind = " or ".join(map(str, list_of(field["type"])))
            kind += ", required" if name in required else ""
            choices = [redact_start(str(each), 60, pii=False) for each in list_of(field.get("enum"))[:20]]
            about = [text_of(field.get("description")), f"one of {', '.join(choices)}" if choices else ""]
            lines.append(f"{prefix}{name} ({kind}): {' '.join(filter(None, about))}".rstrip(": "))
            if depth > 1:
                describe(field, f"{prefix}{name}.", depth - 1)
                describe(field.get("items"), f"{prefix}{name}[].", depth - 1)

    describe(schema, "", MAX_DEPTH)
    return "\n".join(lines)


def text_of(value: object) -> str:
    """Return a value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> dict[str, Any]:
    """Return a value if it is an object, else an empty object."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a value if it is a list, else an empty list."""
    return cast(list[Any], value) if isinstance(value, list) else []


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _entries(document: Any) -> list[dict[str, Any]]:
    """Return the descriptions of functions in a document, unwrapped; none if it is something else."""
    if isinstance(document, dict):
        found = mapping_of(cast(object, document))
        listed = next((list_of(found[key]) for key in ("tools", "functions") if key in found), None)
        candidates = [found] if listed is None else listed
    else:
        candidates = list_of(document)
    objects = map(mapping_of, candidates)
    entries = [mapping_of(each.get("function")) or each for each in objects]  # OpenAI's are wrapped
    for each in entries:
        name = text_of(each.get("name")) or text_of(each.get("title"))
        if not name.strip() or not ("description" in each or _has_schema(each)):
            return []
    return entries


def _has_schema(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(entry.get(key), dict) for key in (*_SCHEMA_KEYS, "properties"))


class McpServer(BaseModel):
    """One server of a `.mcp.json`: how to start it, or else where to reach it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    type: Literal["stdio", "http", "streamable-http"] = "http"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = Field(default="", pattern=r"^(https?://|\$\{|$)")
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if not self.command and not self.url:
            raise ValueError("neither a command nor an http address is given")
        return self


def read_config(path: Path, environ: Mapping[str, str]) -> "dict[str, McpServer | str]":
    """Return the servers of a `.mcp.json` by name, without our own; a text instead says why one cannot be queried.

    `${VAR}` and `${VAR:-default}` are replaced by variables of `environ`. Raises `InputError` when the file is no such
    list, or names more than `MAX_SERVERS`.
    """
    try:
        document = mapping_of(parse_json(read_bytes(path, MAX_CONFIG_BYTES)))
    except InputError as error:
        raise InputError(f"{path} {error}") from None
    if not isinstance(document.get("mcpServers"), dict):
        raise InputError(f"{path} has no `mcpServers` object")
    entries = mapping_of(document["mcpServers"])
    if len(entries) > MAX_SERVERS:
        raise InputError(f"{path} names {len(entries):,} servers: at most {MAX_SERVERS} are queried")
    found: dict[str, McpServer | str] = {}
    for name, entry in entries.items():
        server = found[name] = _server(entry, environ)
        words = () if isinstance(server, str) else (server.command, *server.args)
        if any(Path(word).name.lower().replace("_", "-").startswith(_OURSELVES) for word in words):
            del found[name]  # it would list its own tools, and wait for its own database
    return found


def _server(entry: object, environ: Mapping[str, str]) -> McpServer | str:
    def value(found: "re.Match[str]") -> str:
        unset = found[0] if found[2] is None else found[2]
        return json.dumps(environ[found[1]])[1:-1] if environ.get(found[1]) else unset

    try:
        return McpServer.model_validate_json(_VARIABLE.sub(value, json.dumps(entry)))
    except ValidationError as error:
        return f"cannot be queried for its tools: {faults(error)}"


async def read_servers(config: Path, *, folder: Path, environ: Mapping[str, str]) -> AsyncGenerator[Group]:
    """Yield the tools of each server of a `.mcp.json` as one group; servers run one after another, in `folder`.

    A server that cannot be queried within `SERVER_TIMEOUT_S` becomes a group whose parsing raises `InputError` and says
    why. Raises `InputError` when the file is no such list.
    """
    for name, server in read_config(config, environ).items():
        group = bad_group(name, server) if isinstance(server, str) else await _read_server(name, server, folder)
        if group is not None:
            yield group


async def _read_server(name: str, server: McpServer, folder: Path) -> Group | None:
    """Return the tools of a server; None when it turns out to be our own."""
    import anyio
    from httpx2 import HTTPError
    from mcp.shared.exceptions import MCPError

    tools: list[dict[str, Any]] | None = None
    fault = ""
    try:
        with anyio.fail_after(SERVER_TIMEOUT_S):
            async with _connected(server, folder) as client:
                info = client.server_info
                if info is None or info.name != _OURSELVES:
                    tools = await _all_tools(client)
    except* TimeoutError:
        fault = f"did not list its tools within {SERVER_TIMEOUT_S:g} s"
    except* (MCPError, HTTPError, OSError, ValueError, InputError) as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
        text = " ".join(str(first).split()) or type(first).__name__
        if server.url:  # the values of an address's variables are not disclosed
            text = text.replace(server.url, "its address")
        fault = f"cannot be queried for its tools: {shorten(redact(text).text, _MAX_REASON_CHARS)}"
    if fault:
        unset = dict.fromkeys(variable for variable, _ in _VARIABLE.findall(repr(server)))
        return bad_group(name, f"{fault}; not set: {', '.join(unset)}" if unset else fault)
    if tools is None:
        return None
    return Group(name, digest([SERVERS_READER, tools]), partial(passages_of, name, tools, server=name))


async def _all_tools(client: "Client") -> list[dict[str, Any]]:
    """Return the tools of all pages. Raises `InputError` for an endless list."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(tools) <= MAX_TOOLS:  # and no longer than `SERVER_TIMEOUT_S`
        page = await client.list_tools(cursor=cursor)
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        if not (cursor := page.next_cursor):
            return tools
    raise InputError(f"its list of tools does not end: {len(tools):,} were read")


@asynccontextmanager
async def _connected(server: McpServer, folder: Path) -> AsyncGenerator["Client"]:
    """Start the server, or connect to it, and close it with the block."""
    from mcp.client import Client

    # The SDK logs each line that is no message, with its text: a server could fill our terminal.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if server.command:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=server.command, args=[*server.args], env=dict(server.env), cwd=folder
        )
        # Its messages are for people who watch it, and would mix with ours.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:  # noqa: ASYNC230 - a device
            async with Client(stdio_client(parameters, errlog=nowhere)) as client:
                yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=_HTTP_TIMEOUT_S) as http,
        Client(streamable_http_client(server.url, http_client=http)) as client,
    ):
        yield client
