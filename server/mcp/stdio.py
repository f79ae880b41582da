"""Runs an MCP server over stdin and stdout and ends it cleanly; it knows nothing of what the server does."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server import MCPServer

from swarm_memory.server.mcp.stdio_input import take_stdin

CLOSE_TIMEOUT_S = 2.0
"""How long a lifespan may take to write what is queued. Claude Code kills soon after it asked."""

PARENT_CHECK_S = 1.0
"""How often the parent is looked for where nothing tells of its end: when it is killed while a sibling holds the pipe,
no end of input ever comes."""


ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end the server, where the platform has them; one that the starter ignores stays ignored."""


def run_stdio(build: Callable[[Callable[[], None]], MCPServer[Any]]) -> None:
    """Serve until the input ends, a signal of `ENDING` comes, or the parent dies; then end the process with code 0.

    `build` is given a function to call when the server's lifespan has closed. The process ends by `os._exit`, because
    the thread that reads stdin cannot be interrupted and would keep it alive.
    """
    take_stdin()
    anyio.run(_run, build)


async def _run(build: Callable[[Callable[[], None]], MCPServer[Any]]) -> None:
    closed, stop = anyio.Event(), anyio.Event()
    server = build(closed.set)
    serving = anyio.CancelScope()

    async def serve() -> None:
        with serving:
            await server.run_stdio_async()
        stop.set()

    async with anyio.create_task_group() as group:
        _watch(group, stop)
        group.start_soon(serve)
        await stop.wait()
        serving.cancel()
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await closed.wait()
        sys.stderr.flush()
        os._exit(0)


def _watch(group: TaskGroup, stop: anyio.Event) -> None:
    group.start_soon(_watch_parent, stop)
    if sys.platform != "win32":
        group.start_soon(_watch_signals, stop)


async def _watch_signals(stop: anyio.Event) -> None:
    heeded = [getattr(signal, name) for name in ENDING]
    with anyio.open_signal_receiver(*(each for each in heeded if signal.getsignal(each) != signal.SIG_IGN)) as signals:
        async for _ in signals:
            stop.set()


async def _watch_parent(stop: anyio.Event) -> None:
    parent = os.getppid()
    if (watched := _process_handle(parent)) is not None:
        try:
            if os.getppid() == parent:
                await anyio.wait_readable(watched)
        finally:
            os.close(watched)
    else:
        while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of a parent's end
            await anyio.sleep(PARENT_CHECK_S)
    stop.set()


def _process_handle(pid: int) -> int | None:
    """Return what becomes readable when a process ends, so that nobody need wake up to look; Linux has such a thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an older kernel, a sandbox, or a parent outside of this container
        return None
