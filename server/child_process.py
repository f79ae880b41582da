"""Runs one program to its end with input, a limit on its output, and no survivors."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio

from swarm_memory.server.numpy_threads import for_others

OUTER_SESSION = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR"})
"""Environment variables of an agent's session, which a program started from it must not mistake for its own."""

_GRACE_S = 0.15
_REAP_S = 0.2
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    output: bytes
    error: bytes
    is_cut: bool
    """Whether it printed more than allowed and was therefore ended."""


async def run(
    command: Sequence[str],
    *,
    stdin: bytes,
    cwd: Path,
    environment: Mapping[str, str],
    max_output_bytes: int,
    printed: bytearray | None = None,
) -> Finished:
    """Run `command` in a process group of its own and return what it printed.

    `printed` receives the output as it comes, so it is available even when the caller's time limit ends the program.
    However this ends (also by cancellation, as from a time limit), a program still running gets SIGTERM, then SIGKILL
    after 0.15 s; whatever is left of its group gets SIGKILL, and the program is reaped. A process that starts a session
    of its own leaves the group and is not ended. Raises `OSError` when the program cannot be started.
    """
    program = _Program(max_output_bytes, bytearray() if printed is None else printed)
    transport, _ = await asyncio.get_running_loop().subprocess_exec(
        lambda: program, *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=for_others(environment),
        start_new_session=True,
    )  # fmt: skip
    try:
        feed = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        feed.write(stdin)
        feed.close()  # once all is written
        await program.ended.wait()
        with anyio.move_on_after(_GRACE_S):  # a grandchild may hold the pipes; the output is there by now
            await program.silent.wait()
        code = transport.get_returncode()
        output, error = bytes(program.output[:max_output_bytes]), bytes(program.error[:max_output_bytes])
        return Finished(-1 if code is None else code, output, error, len(program.output) > max_output_bytes)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(transport, program)


class _Program(asyncio.SubprocessProtocol):
    """Collects what a program prints, up to the limit, and notes when the program ends."""

    def __init__(self, max_bytes: int, output: bytearray) -> None:
        self.output, self.error = output, bytearray()
        self.exited, self.silent = asyncio.Event(), asyncio.Event()
        self.ended = asyncio.Event()
        """Set when the program exits or prints more than allowed."""
        self._max_bytes = max_bytes
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        into = self.output if fd == 1 else self.error
        if len(into) <= self._max_bytes:
            into += data
        if len(self.output) > self._max_bytes:
            self.ended.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.ended.set()


async def _end(transport: asyncio.SubprocessTransport, program: _Program) -> None:
    if not program.exited.is_set():
        _signal_group(transport, signal.SIGTERM)
        with anyio.move_on_after(_GRACE_S):
            await program.exited.wait()
    _signal_group(transport, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    with anyio.move_on_after(_REAP_S):
        await program.exited.wait()
        while _signal_group(transport, 0):  # noqa: ASYNC110 - grandchildren are not ours to wait for
            await asyncio.sleep(_POLL_S)
    transport.close()  # a process that left the group may still hold its ends of the pipes; ours are closed


def _signal_group(transport: asyncio.SubprocessTransport, number: int) -> bool:
    """Send the signal (0: none) to the group; return whether any process was in it."""
    if sys.platform == "win32":
        if transport.get_returncode() is None:
            transport.kill()
        return False
    try:
        os.killpg(transport.get_pid(), number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
