"""A server over HTTP ends quickly and cleanly, whoever still listens or writes."""

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import CLI, run
from patience import is_in_time

from tests.http.http_server import HttpServer

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.fault]

END_LIMIT_S = 2.5


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_within_two_seconds_while_clients_are_connected(
    serve: Callable[..., HttpServer], end: signal.Signals
) -> None:
    server = serve()
    async with server.client() as client:
        assert not (await client.call_tool("memory_status", {})).is_error
        with server.connect():
            took = server.end(end)
    assert server.process.returncode == 0
    assert is_in_time(took, END_LIMIT_S)
    assert server.process.stderr is not None
    assert server.process.stderr.read() == b""


async def test_what_was_queued_is_written_before_it_ends(serve: Callable[..., HttpServer]) -> None:
    first = serve()
    async with first.client() as client:
        await client.call_tool("remember", {"text": "Migrate the shop's database before its tests."})
        before = (await client.call_tool("memory_status", {})).structured_content
        await client.call_tool("retrieve_memories", {"query": "fix the flaky date test"})
        first.end(signal.SIGTERM)
    async with serve().client() as client:
        after = (await client.call_tool("memory_status", {})).structured_content
    assert before is not None
    assert after is not None
    assert after["retrievals"] == before["retrievals"] + 1


def test_an_address_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run([*CLI, "serve", "--http", "--port", port], cwd=tmp_path, text=True)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
