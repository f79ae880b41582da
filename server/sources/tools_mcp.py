"""Tools from live MCP servers: connect, list the tools, disconnect. Who may be started is decided before it is called.

What servers say is data. A server gets the few variables that every program needs and those of its own entry.
"""

import logging
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.files import Group, faulty
from swarm_memory.server.sources.json_tools import MAX_TOOLS, passages_of
from swarm_memory.server.sources.mcp_config import McpServer, Unusable, read_config
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import shorten

if TYPE_CHECKING:
    from mcp.client import Client

READER = "tools_mcp-1"
MAX_PAGES = 200
_MAX_REASON_CHARS = 300
_HTTP_TIMEOUT_S = 600.0
"""Longer than any time limit that may be set for a server."""
_OURSELVES = "swarm-memory"


async def read_servers(
    config: Path, *, folder: Path, environ: Mapping[str, str], timeout_s: float
) -> AsyncGenerator[Group]:
    """Yield the tools of each server of a `.mcp.json` as one group; servers run one after another, in `folder`.

    One that cannot be asked within `timeout_s` is a group whose parsing raises `InputError` and says why. Raises
    `InputError` when the file is no such list.
    """
    for server in read_config(config, environ):
        if isinstance(server, Unusable):
            yield faulty(server.name, server.reason)
            continue
        group = await _read_server(server, folder, timeout_s)
        if group is not None:
            yield group


async def _read_server(server: McpServer, folder: Path, timeout_s: float) -> Group | None:
    """Return the tools of a server; None when it turns out to be ourselves."""
    import anyio

    try:
        with anyio.fail_after(timeout_s):
            tools = await _listed(server, folder)
    except TimeoutError:
        return faulty(server.name, f"did not list its tools within {timeout_s:g} s{_hint(server)}")
    except (OSError, InputError, ValueError) as error:
        return faulty(server.name, f"cannot be asked for its tools: {_reason(error, server)}{_hint(server)}")
    except BaseExceptionGroup as group:
        outcome = _known(group)
        if outcome is None:
            raise
        return faulty(server.name, f"cannot be asked for its tools: {_reason(outcome, server)}{_hint(server)}")
    if tools is None:
        return None
    return Group(server.name, digest([READER, tools]), partial(_parsed, server, tools))


async def _listed(server: McpServer, folder: Path) -> list[dict[str, Any]] | None:
    from mcp.shared.exceptions import MCPError

    try:
        async with _connected(server, folder) as client:
            info = client.server_info
            if info is not None and info.name == _OURSELVES:
                return None
            return await _all_tools(client)
    except MCPError as error:
        raise InputError(str(error)) from None


async def _all_tools(client: "Client") -> list[dict[str, Any]]:
    """Return the tools of all pages. Raises `InputError` for a list without end."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            return tools
        if len(tools) > MAX_TOOLS:
            break
    raise InputError(f"its list of tools does not end: {len(tools):,} were read")


@asynccontextmanager
async def _connected(server: McpServer, folder: Path) -> AsyncGenerator["Client"]:
    """Start the server, or reach it, and end it with the block."""
    from mcp.client import Client

    # The SDK logs each line that is no message, with its text: a server could fill our terminal.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if server.transport == "stdio":
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=server.command, args=[*server.args], env=dict(server.env), cwd=folder
        )
        with _nowhere() as nowhere:
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


def _nowhere() -> TextIO:
    """Open a sink for a server's messages: they are for people who watch it, and would be mixed with ours."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _parsed(server: McpServer, tools: list[dict[str, Any]]) -> list[Passage]:
    found = passages_of(server.name, tools)
    return [each.model_copy(update={"data": {**each.data, "server": server.name}}) for each in found]


def _known(group: BaseExceptionGroup[BaseException]) -> Exception | None:
    """Return why a connection failed, where it is one of the reasons that servers give; None for a fault of ours."""
    from httpx2 import HTTPError
    from mcp.shared.exceptions import MCPError

    _, others = group.split((MCPError, OSError, HTTPError, ValueError, InputError))
    if others is not None:
        return None
    first: BaseException = next(_leaves(group))
    return first if isinstance(first, Exception) else None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", each))
        else:
            yield each


def _reason(error: Exception, server: McpServer) -> str:
    """Return what went wrong, without what the variables of an address stand for."""
    text = " ".join(str(error).split()) or type(error).__name__
    return shorten(redact(text.replace(server.url, "its address") if server.url else text).text, _MAX_REASON_CHARS)


def _hint(server: McpServer) -> str:
    return f"; not set: {', '.join(server.unset)}" if server.unset else ""
