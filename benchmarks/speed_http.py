"""32 clients over HTTP: calls a second and percentiles, beside an empty tool of the same SDK in the same run.

Three servers in turn, each a process of its own, each called by the same clients: the SDK's with a tool that does
nothing, ours with `job list` (the smallest read of the bank), and ours with `retrieve_memories`. Any error counts. What
a call costs the server's process (Linux) tells it on a busy machine too.

    python benchmarks/speed_http.py [--clients 32] [--seconds 10] [--memories 500]
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

EMPTY = """
import socket, sys, uvicorn
from mcp.server import MCPServer
server = MCPServer("empty", log_level="ERROR")
@server.tool(structured_output=False)
async def nothing() -> str:
    return "{}"
listener = socket.create_server(("127.0.0.1", 0))
print(f"serving http://127.0.0.1:{listener.getsockname()[1]}/mcp; no token", file=sys.stderr, flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="error", access_log=False, loop="asyncio", http="h11")
uvicorn.Server(config).run([listener])
"""
SERVE = [sys.executable, "-I", "-m", "swarm_memory.server.cli"]


class Load(NamedTuple):
    """What the clients saw."""

    calls: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float


def cpu_s(pid: int) -> float:
    """Return the processor time that a process took so far; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(
    command: list[str], folder: Path, settings: Mapping[str, str] | None = None
) -> Generator[tuple[str, dict[str, str], int]]:
    """Run a server; yield its URL, the headers it wants, and its process id."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **(settings or {})}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = process.stderr.readline().decode()
        if "serving " not in told:
            raise RuntimeError(told + process.stderr.read().decode())
        url, rest = told.split("serving ", 1)[1].strip().split("; ")
        path = Path(rest.rpartition(" is in ")[2])
        try:
            headers = {"authorization": f"Bearer {path.read_text().strip()}"} if path.is_file() else {}
            yield url, headers, process.pid
        finally:
            process.terminate()


async def load(
    url: str, headers: dict[str, str], tool: str, arguments: dict[str, Any], args: argparse.Namespace
) -> Load:
    """Let every client call one tool again and again for so many seconds."""
    times: list[float] = []
    errors = 0

    async def call(client: Client, until: float) -> None:
        nonlocal errors
        while time.perf_counter() < until:
            began = time.perf_counter()
            result = await client.call_tool(tool, arguments)
            times.append((time.perf_counter() - began) * 1000)
            errors += bool(result.is_error)

    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for _ in range(args.clients):
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            transport = streamable_http_client(url, http_client=http)
            clients.append(await stack.enter_async_context(Client(transport, mode="legacy")))
        await clients[0].call_tool(tool, arguments)
        began = time.perf_counter()
        await asyncio.gather(*(call(client, began + args.seconds) for client in clients))
        seconds = time.perf_counter() - began
    cuts = statistics.quantiles(times, n=100)
    return Load(len(times), errors, seconds, cuts[49], cuts[98])


async def fill(url: str, headers: dict[str, str], count: int) -> None:
    """Store so many memories, ten a call."""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
    ):
        for first in range(0, count, 10):
            items = [memory(number) for number in range(first, first + 10)]
            steps = [{"role": "assistant", "content": f"I looked at part {first}."}]
            own = {"task_id": f"t{first}", "task": f"Mend part {first}", "steps": steps, "verdict": "Success"}
            result = await client.call_tool("distill_memories", own | {"items": items})
            if result.is_error:
                raise RuntimeError(str(result.content))


def memory(number: int) -> dict[str, str]:
    """Return the texts of one memory."""
    return {
        "title": f"Case {number}: check step {number % 37} first",
        "description": f"Of use when part {number % 91} of system {number % 13} fails.",
        "content": f"1. Look at part {number % 91}.\n2. Run check {number % 37} of case {number}.",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--memories", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = [*SERVE, "serve", "--http", "--port", "0"]
        with running(ours, folder) as (url, headers, _):
            asyncio.run(fill(url, headers, args.memories))
        cases: tuple[tuple[str, list[str], str, dict[str, str]], ...] = (
            ("empty tool of the SDK", [sys.executable, "-c", EMPTY], "nothing", {}),
            ("job list", ours, "job", {"action": "list"}),
            ("retrieve_memories", ours, "retrieve_memories", {"query": "part 12 of system 4 fails: which check?"}),
        )
        failed = 0
        for title, command, tool, arguments in cases:
            with running(command, folder) as (url, headers, pid):
                asyncio.run(load(url, headers, tool, arguments, argparse.Namespace(clients=1, seconds=1.0)))  # warm
                before = cpu_s(pid)
                seen = asyncio.run(load(url, headers, tool, arguments, args))
                cost = 1000 * (cpu_s(pid) - before) / seen.calls
            failed += seen.errors
            print(
                f"{title:22} {args.clients} clients: {seen.calls / seen.seconds:7.0f} calls/s, "
                f"p50 {seen.p50_ms:6.1f} ms, p99 {seen.p99_ms:6.1f} ms, {cost:5.2f} ms of CPU each, "
                f"errors {seen.errors} of {seen.calls}"
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
