"""Clients of one server over HTTP: each gets its own answers, the bank is opened once, and nothing of them remains."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hook_project import wait_until
from mcp.client import Client
from mcp.types import CallToolResult
from patience import FULL

from tests.http.http_server import INITIALIZE, HttpServer

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.attack]

CALLS = 1260 if FULL else 12


async def test_answers_never_cross_between_sessions_nor_between_calls_of_one(serve: Callable[..., HttpServer]) -> None:
    server = serve()
    crossed = asked = 0

    async def ask(client: Client, name: str) -> None:
        nonlocal crossed, asked
        result = await client.call_tool("manage_memories", {"action": "get", "ids": [name]})
        assert isinstance(result, CallToolResult)
        text = getattr(result.content[0], "text", "")
        asked += 1
        crossed += name not in text

    async def session(number: int) -> None:
        async with server.client() as client:
            for first in range(0, CALLS, 6):
                async with anyio.create_task_group() as group:
                    for call in range(first, first + 6):
                        group.start_soon(ask, client, f"rm_{number}_{call}_x")

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(session, number)
    assert crossed == 0
    assert asked == 8 * CALLS


async def test_a_session_of_another_or_a_guessed_one_lets_nobody_in(server: HttpServer) -> None:
    ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
    assert "mcp-session-id" not in server.request(body=INITIALIZE).headers
    for guessed in ("0" * 32, "", "../x"):
        assert server.request(body=ping, mcp_session_id=guessed, token=False).status == 401


async def test_the_bank_is_opened_once_for_all_clients_and_stays_when_one_leaves(
    serve: Callable[..., HttpServer], tmp_path: Path
) -> None:
    server = serve()
    async with server.client() as first:
        await first.call_tool("remember", {"text": "Migrate the shop's database before its tests."})
        async with server.client() as second:
            await second.call_tool("memory_status", {})
            wait_until(lambda: len(_handles(server, tmp_path)) == CONNECTIONS)
        assert not (await first.call_tool("memory_status", {})).is_error
        wait_until(lambda: len(_handles(server, tmp_path)) == CONNECTIONS)


CONNECTIONS = 3
"""The connections of an open bank: one that writes, two that read. The connection for the daily copy comes and goes."""


def _handles(server: HttpServer, folder: Path) -> list[str]:
    """Return the databases of the project that the process holds open (Linux)."""
    links = list[str]()
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(str(link.readlink()))
    return [link for link in links if link.startswith(str(folder)) and link.endswith(".db")]


SESSIONS = 20 if FULL else 3


def held(server: HttpServer) -> tuple[int, int]:
    """Return how many open files and threads a server has."""
    return server.open_files(), len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


@pytest.mark.fault
@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is looked up in /proc")
async def test_closed_sessions_leave_no_file_and_no_thread_of_the_server(server: HttpServer) -> None:
    async def session() -> None:
        async with server.client() as client:
            await client.call_tool("memory_status", {})

    for _ in range(2):
        await session()
    before = held(server)
    for _ in range(SESSIONS):
        await session()
    wait_until(lambda: all(now <= then for now, then in zip(held(server), before, strict=True)))
