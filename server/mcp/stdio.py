"""An MCP server over stdin and stdout: each line made answerable before the SDK reads it, each end clean."""

import io
import json
import mmap
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import IO, Any

import anyio
from mcp.server import MCPServer
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

MAX_MESSAGE_BYTES = 8 * 1024 * 1024

MAX_MEMORY_BYTES = 768 * 1024 * 1024
"""What one message may take to read: two million empty lists in 8 MB of JSON would take gigabytes."""

_BYTE_COST, _VALUE_COST = 13, 800
"""Bytes of memory for each byte and each value of a message, the most that was measured on messages of odd shapes."""

_SMALL_COST, _LOOKED_AT_COST = 1024 * 1024, 64 * 1024 * 1024
"""Below the one no room is looked for; above the other values are counted one by one."""

_NO_ROOM = "there is not enough memory to read it; send less at a time"
_STRING_OR_VALUE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([,\[{])', re.S)

_CHUNK = 64 * 1024
_ESCAPES = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F]..)|(.))", re.S
)
_SCALARS = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"'
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _SCALARS + rb"\s*,\s*)*" + _ID + rb"\s*[,}]")
_ID_LAST = re.compile(rb",\s*" + _ID + rb"(?:\s*,\s*" + _SCALARS + rb")*\s*\}\s*\Z")
_TAIL = 1000


class AnswerableLines(io.RawIOBase):
    """A stream of the lines of another, none longer than `MAX_MESSAGE_BYTES`, each as `answerable` returns it."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__()
        self._source = source
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - of all buffers BufferedReader gives these
        """Fill the buffer from the present line; read the next one when it is used up."""
        if not self._left:
            self._left = memoryview(self._next_line())
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def _next_line(self) -> bytes:
        line = self._source.readline(MAX_MESSAGE_BYTES)
        if len(line) < MAX_MESSAGE_BYTES or line.endswith(b"\n"):
            return answerable(line)
        head, tail = line[:_TAIL], line[-_TAIL:]
        del line
        while piece := self._source.readline(_CHUNK):
            tail = (tail + piece)[-_TAIL:]
            if piece.endswith(b"\n"):
                break
        return _refused(head, tail, f"it is larger than {MAX_MESSAGE_BYTES} bytes") or b"\n"


def answerable(line: bytes) -> bytes:
    """Return a line that the SDK will answer: as it is, with lone surrogates replaced, or a refusable request."""
    if not line.strip():
        return line
    if (fault := _too_dear(line)) is not None:
        return _refused(line, line[-_TAIL:], fault) or b"\n"
    if _fault(line) is None:
        return line
    mended = without_lone_surrogates(line)
    fault = _fault(mended)
    if fault is None:
        return mended
    return _refused(mended, mended[-_TAIL:], fault) or line


def without_lone_surrogates(line: bytes) -> bytes:
    """Return JSON in which every escaped surrogate without its other half is U+FFFD."""

    def mend(match: re.Match[bytes]) -> bytes:
        high, low, alone, _ = match.groups()
        return rb"\ufffd" if alone or (high and not low) else match[0]

    return _ESCAPES.sub(mend, line)


def memory_to_read(line: bytes) -> int:
    """Return how many bytes of memory it takes at most to read a message; exact counts are for the dear ones."""
    values = sum(line.count(sign) for sign in (b",", b"[", b"{"))
    if _BYTE_COST * len(line) + _VALUE_COST * values > _LOOKED_AT_COST:
        values = sum(match.lastindex is not None for match in _STRING_OR_VALUE.finditer(line))
    return _BYTE_COST * len(line) + _VALUE_COST * values


def _is_there_room(size: int) -> bool:
    """Return whether this process may have so much memory. Parsers in native code abort where they get none."""
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        return False
    return True


def _too_dear(line: bytes) -> str | None:
    """Return why a message must not be read: here and in the SDK, which reads it once more."""
    cost = memory_to_read(line)
    if cost > MAX_MEMORY_BYTES:
        return "it holds too many values"
    return None if cost <= _SMALL_COST or _is_there_room(2 * cost) else _NO_ROOM


def _fault(line: bytes) -> str | None:
    """Return why the SDK would drop the line; None when it would not."""
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        return faults[0]["msg"] if faults[0]["type"] == "json_invalid" else "it is no JSON-RPC message"
    return None


def _refused(head: bytes, tail: bytes, reason: str) -> bytes | None:
    """Return a request with the same id and a method that tells the reason; None where no id can be read."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    method = json.dumps(f"refused: the message cannot be taken: {reason}").encode()
    return b'{"jsonrpc":"2.0","id":%b,"method":%b}\n' % (found[1], method)


def take_stdin() -> None:
    """Put the answerable lines in the place of `sys.stdin`, and nothing into that of what children inherit."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(AnswerableLines(_private_stdin()), _CHUNK), encoding="utf-8")


def _private_stdin() -> IO[bytes]:
    if sys.platform == "win32":
        return sys.stdin.buffer
    private = os.open(os.devnull, os.O_RDONLY)
    kept = os.dup(0)
    os.dup2(private, 0)
    os.close(private)
    return os.fdopen(kept, "rb", _CHUNK, closefd=False)


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
