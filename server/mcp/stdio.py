"""Runs an MCP server over stdin and stdout: it answers each message, and always ends cleanly."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import AsyncIterable, Callable
from typing import IO, Any

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, JSONRPCRequest

from swarm_memory.server.jsonrpc import Message, Refusal, id_of_request, read_message, refused

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
_CHUNK = 64 * 1024


def next_message(source: IO[bytes]) -> JSONRPCMessage | Refusal | None:
    """Read the next message, a line of at most `MAX_MESSAGE_BYTES`; None at the end of the input."""
    while line := source.readline(MAX_MESSAGE_BYTES):
        if len(line) == MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
            start = line[:_CHUNK]
            while line and not line.endswith(b"\n"):  # read to its end, but only the last part is kept
                line = source.readline(_CHUNK)
            return refused(f"it is larger than {MAX_MESSAGE_BYTES} bytes", id_of_request(start, line))
        if line.strip() and (found := read_message(line)) is not None:
            return found.value if isinstance(found, Message) else found
    return None


_PROBE, _HANDSHAKE = "server/discover", "initialize"
_MOST_OPENING = 8


def opening_messages(source: IO[bytes]) -> list[JSONRPCMessage | Refusal]:
    """Read the messages that open a connection: the first, and those that followed a probe for the newest protocol.

    A client whose probe had no answer in time, because this process was still starting, has meanwhile begun the
    handshake of older protocols. The SDK sticks to what comes first and would refuse it, so the handshake is put first.
    """
    found: list[JSONRPCMessage | Refusal] = []
    while (message := next_message(source)) is not None:
        if _is_request(message, _HANDSHAKE):
            return [message, *found]
        found.append(message)
        if not _is_request(found[0], _PROBE) or len(found) >= _MOST_OPENING or not _has_more(source):
            break
    return found


def _is_request(message: JSONRPCMessage | Refusal, method: str) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == method


def _has_more(source: IO[bytes]) -> bool:
    """Whether something can be read without waiting; False on Windows, where this is unknown."""
    if sys.platform == "win32" or not isinstance(source, io.BufferedReader):
        return False
    os.set_blocking(source.fileno(), False)
    try:
        return bool(source.peek(1))
    finally:
        os.set_blocking(source.fileno(), True)


def _private_stdin() -> IO[bytes]:
    if sys.platform == "win32":
        return sys.stdin.buffer
    private = os.open(os.devnull, os.O_RDONLY)
    kept = os.dup(0)
    os.dup2(private, 0)
    os.close(private)
    return os.fdopen(kept, "rb", _CHUNK, closefd=False)


async def _write(messages: AsyncIterable[SessionMessage], descriptor: int) -> None:
    async for each in messages:
        line = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        while line:
            line = line[await anyio.to_thread.run_sync(os.write, descriptor, line) :]


CLOSE_TIMEOUT_S = 2.0
"""Seconds that a lifespan may take to write what is queued. Claude Code kills a server soon after asking it to end."""

PARENT_CHECK_S = 1.0
"""Seconds between checks that the parent lives, where no call can wait for its end. If it is killed while a sibling
holds the pipe, the input never ends."""

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end the server, where the platform has them; one that the starter ignores stays ignored."""


def run_stdio(build: Callable[[Callable[[], None]], MCPServer[Any]]) -> None:
    """Serve until the input ends, a signal of `ENDING` comes, or the parent dies; then end the process with code 0.

    `build` is given a function to call when the server's lifespan has closed. The process ends by `os._exit`, because
    the thread that reads stdin cannot be interrupted and would keep it alive.
    """
    anyio.run(_run, build, _private_stdin())


async def _run(build: Callable[[Callable[[], None]], MCPServer[Any]], source: IO[bytes]) -> None:
    closed, stop = anyio.Event(), anyio.Event()
    server = build(closed.set)
    serving = anyio.CancelScope()

    async def serve() -> None:
        with serving:
            await _exchange(server, source)
        stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(_watch_parent, stop)
        if sys.platform != "win32":
            group.start_soon(_watch_signals, stop)
        group.start_soon(serve)
        await stop.wait()
        serving.cancel()
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await closed.wait()
        sys.stderr.flush()
        os._exit(0)


async def _exchange(server: MCPServer[Any], source: IO[bytes]) -> None:
    """Serve as the SDK's `run_stdio_async` does, but answer what it would drop."""
    served = server._lowlevel_server  # pyright: ignore[reportPrivateUsage] - there is no other way to give it streams
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    stdout = os.dup(1)
    os.dup2(2, 1)  # other output must not mix with the messages

    async with anyio.create_task_group() as group:

        async def read() -> None:
            async with to_server:
                messages = await anyio.to_thread.run_sync(opening_messages, source)
                while messages:
                    for each in messages:
                        to, said = (to_client, each.answer) if isinstance(each, Refusal) else (to_server, each)
                        await to.send(SessionMessage(said))
                    following = await anyio.to_thread.run_sync(next_message, source)
                    messages = [] if following is None else [following]

        group.start_soon(read)
        group.start_soon(_write, from_server, stdout)
        await served.run(from_client, to_client, served.create_initialization_options())


async def _watch_signals(stop: anyio.Event) -> None:
    heeded = [getattr(signal, name) for name in ENDING]
    with anyio.open_signal_receiver(*(each for each in heeded if signal.getsignal(each) != signal.SIG_IGN)) as signals:
        async for _ in signals:
            stop.set()


async def _watch_parent(stop: anyio.Event) -> None:
    """Stop when the parent ends. On Linux a descriptor becomes readable then, which saves polling."""
    parent = os.getppid()
    if sys.platform == "linux":
        # This fails on an older kernel, in a sandbox, or for a parent outside of this container.
        with contextlib.suppress(OSError), os.fdopen(os.pidfd_open(parent), "rb", 0) as watched:
            if os.getppid() == parent:
                await anyio.wait_readable(watched)
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing says when a parent ends
        await anyio.sleep(PARENT_CHECK_S)
    stop.set()
