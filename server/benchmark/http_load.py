"""Many MCP clients at a server of its own over HTTP: a process with a bank in a scratch folder, ended afterwards."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.streams.text import TextReceiveStream

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import Settings, StorageSettings
from swarm_memory.server.benchmark.made import MadeMemories
from swarm_memory.server.folders import ENV_PREFIX
from swarm_memory.server.location import state_folder
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.retrieve.embed import prepare

if TYPE_CHECKING:
    from mcp.client import Client

START_TIMEOUT_S, CALL_TIMEOUT_S = 60.0, 60.0
_SERVER = (sys.executable, "-I", "-m", "swarm_memory.server.cli", "serve", "--http", "--port", "0")


@dataclass(frozen=True, slots=True)
class Load:
    """A number of clients that call at the same time over HTTP."""

    clients: int
    latencies_ms: tuple[float, ...]
    seconds: float
    failed: int


Ask: TypeAlias = Callable[[int, int], Awaitable[Load]]


@asynccontextmanager
async def asked_over_http(scratch: Path, items: int, seed: int) -> AsyncGenerator[Ask]:
    """Serve a bank of so many memories; give what has so many clients ask it at once, each so many times.

    Raises `ConfigError` when the server does not start.
    """
    folder = scratch / "http"
    folder.mkdir()
    queries = await _bank(folder, items, seed)
    async with _server(folder) as (url, token):

        async def ask(clients: int, requests: int) -> Load:
            async with AsyncExitStack() as stack:
                connected = [await stack.enter_async_context(_client(url, token)) for _ in range(clients)]
                for client in connected:
                    await client.call_tool("retrieve_memories", {"query": queries[0]})
                drawn = [Random(f"{seed}-{number}").choices(queries, k=requests) for number in range(clients)]
                return await _load(connected, drawn)

        yield ask


async def _load(connected: Sequence["Client"], drawn: Sequence[Sequence[str]]) -> Load:
    """Have all clients ask at once, each its queries one after another."""
    latencies: list[float] = []
    failed = 0

    async def one(client: "Client", queries: Sequence[str]) -> None:
        nonlocal failed
        for query in queries:
            asked = time.perf_counter()
            answer: Any = await client.call_tool("retrieve_memories", {"query": query})
            failed += bool(answer.is_error)
            latencies.append((time.perf_counter() - asked) * 1000)

    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for client, queries in zip(connected, drawn, strict=True):
            group.start_soon(one, client, queries)
    return Load(len(connected), tuple(latencies), time.perf_counter() - started, failed)


async def _bank(folder: Path, count: int, seed: int) -> list[str]:
    """Make the project's bank, and return what it may be asked."""
    settings = Settings(storage=StorageSettings(db=str(folder / ".swarm" / "memory.db")))
    toolbox = await open_toolbox(place_of(folder, settings), settings)
    try:
        made = MadeMemories(seed, toolbox.scope, toolbox.clock.now())
        items = made.take(count)
        await toolbox.store.add_memories(await prepare(toolbox, items), toolbox.embedder.name)
        return [made.query(each) for each in items[:200]]
    finally:
        with anyio.CancelScope(shield=True):
            await toolbox.store.close()


@asynccontextmanager
async def _server(folder: Path) -> AsyncGenerator[tuple[str, str]]:
    """Run the server in the folder; give its URL and token."""
    process = await anyio.open_process(
        _SERVER, cwd=folder, env=_environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield await _told(process)
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def _told(process: anyio.abc.Process) -> tuple[str, str]:
    """Return what the server says of itself when it listens."""
    assert process.stderr is not None
    said = ""
    with anyio.move_on_after(START_TIMEOUT_S):
        async for text in TextReceiveStream(process.stderr):
            said += text
            if "the bearer token is in " in said and said.endswith("\n"):
                url, file = said.split("serving ", 1)[1].strip().split("; the bearer token is in ")
                return url, (await anyio.Path(file.splitlines()[0]).read_text(encoding="ascii")).strip()
    raise ConfigError(f"the server over HTTP did not start: {said.strip()[-300:]}")


def _environment(folder: Path) -> Mapping[str, str]:
    """Return the user's environment without our settings, and with a home of its own, so that none of them counts."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ENV_PREFIX)}
    home = {"HOME": str(folder), "USERPROFILE": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    return kept | home | {"XDG_STATE_HOME": str(state_folder().parent)}  # where it stands that the bank is this user's


@asynccontextmanager
async def _client(url: str, token: str) -> "AsyncGenerator[Client]":
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=CALL_TIMEOUT_S) as called,
        Client(streamable_http_client(url, http_client=called), mode="legacy") as client,
    ):
        yield client
