"""Runs one program to its end with input, a limit on its output, and no survivors."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from swarm_memory.server.footprint import for_others

OUTER_SESSION = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR"})
"""Marks of an agent's session that a program started from it must not take for its own."""

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
    """Whether it printed more than allowed; it was ended then."""


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

    `printed` gets the output while it comes: it is there even when the time limit of the caller ends the program.
    However this ends (also by cancellation, as from a time limit) the whole group is ended, SIGTERM and after 0.15 s
    SIGKILL, and the program is reaped. Raises `OSError` when it cannot be started. A process that makes itself a
    session of its own leaves the group and is not ended.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=for_others(environment), start_new_session=True
    )
    try:
        return await _collect(process, stdin, max_output_bytes, bytearray() if printed is None else printed)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _collect(process: Process, stdin: bytes, max_bytes: int, output: bytearray) -> Finished:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    error = bytearray()
    feeding = asyncio.create_task(_feed(process.stdin, stdin))
    reading = asyncio.create_task(_read(process.stdout, output, max_bytes))
    warned = asyncio.create_task(_read(process.stderr, error, max_bytes))
    exiting = asyncio.create_task(_exited(process))
    try:
        while not exiting.done() and len(output) <= max_bytes:
            await asyncio.wait([reading, exiting] if not reading.done() else [exiting], return_when="FIRST_COMPLETED")
        # A grandchild may hold the pipes open: what the program itself said is there by now.
        await asyncio.wait([reading, warned], timeout=_GRACE_S)
        is_cut = len(output) > max_bytes
        code = process.returncode if process.returncode is not None else -1
        return Finished(code, bytes(output[:max_bytes]), bytes(error[:max_bytes]), is_cut)
    finally:
        tasks = (feeding, reading, warned, exiting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader, into: bytearray, max_bytes: int) -> None:
    """Read to the end, or until `into` holds more than `max_bytes`."""
    while len(into) <= max_bytes and (chunk := await pipe.read(65_536)):
        into += chunk


async def _exited(process: Process) -> None:
    """Wait for the program itself: `Process.wait` may also wait for whoever holds its pipes."""
    while process.returncode is None:  # noqa: ASYNC110 - no event tells it on every Python that is supported
        await asyncio.sleep(_POLL_S)


async def _end(process: Process) -> None:
    if process.returncode is None:
        _signal_group(process, signal.SIGTERM)
        with anyio.move_on_after(_GRACE_S):
            await _exited(process)
    _signal_group(process, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    with anyio.move_on_after(_REAP_S):
        await _exited(process)
        while _signal_group(process, 0):  # noqa: ASYNC110 - grandchildren are not ours to wait for
            await asyncio.sleep(_POLL_S)
    # A process that left the group may still hold the pipes; ours are closed all the same.
    process._transport.close()  # pyright: ignore


def _signal_group(process: Process, number: int) -> bool:
    """Send the signal (0: none) to the group; return whether anybody was in it."""
    if sys.platform == "win32":
        if process.returncode is None:
            process.kill()
        return False
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
