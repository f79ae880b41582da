"""Sessions that clients opened and closed leave nothing in a server that goes on."""

import sys
import time
from pathlib import Path

import anyio
import pytest
from http_server import HttpServer
from patience import FULL, HANG_S

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.fault,
    pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is looked up in /proc"),
]

SESSIONS = 20 if FULL else 3


def held(server: HttpServer) -> tuple[int, int]:
    """Return how many files and threads a server has."""
    place = Path(f"/proc/{server.process.pid}")
    return len(list((place / "fd").iterdir())), len(list((place / "task").iterdir()))


async def test_closed_sessions_leave_no_file_and_no_thread_of_the_server(server: HttpServer) -> None:
    async def session() -> None:
        async with server.client() as client:
            await client.call_tool("memory_status", {})

    for _ in range(2):
        await session()
    before = held(server)
    for _ in range(SESSIONS):
        await session()
    deadline = time.monotonic() + HANG_S
    while held(server)[0] > before[0] and time.monotonic() < deadline:  # noqa: ASYNC110 - another process closes them
        await anyio.sleep(0.02)
    files, threads = (now - then for now, then in zip(held(server), before, strict=True))
    assert files <= 0
    assert threads <= 0
