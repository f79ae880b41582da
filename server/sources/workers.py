"""Preparation of groups in processes: several at once, and a file that ends its parser ends nothing else.

python -I -m swarm_memory.server.sources.workers   answers each preparation on its input, until that ends

A message is its length in 8 bytes and a pickle; both ends are ours.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.source import Fault

if TYPE_CHECKING:
    from swarm_memory.tools.sources.prepare import Preparation, Prepared

MOST = 4
IN_THREADS = 4
"""So many preparations are done before a process is worth its start."""

LIMIT_S = 150.0
"""Of one group. What reads a format has limits of its own, which are shorter."""

_COMMAND = (sys.executable, "-I", "-m", "swarm_memory.server.sources.workers")
_LENGTH = struct.Struct(">Q")
_PIPE_BYTES = 1 << 20


class Workers:
    """Runs preparations, the first ones in threads, then in processes that end with the block.

    Where there is one processor, or none more can be started, threads go on.
    """

    def __init__(self, processes: int | None = None, in_threads: int = IN_THREADS) -> None:
        count = min(os.cpu_count() or 1, MOST) if processes is None else processes
        self._in_threads = in_threads if count > 1 else sys.maxsize
        self._free = asyncio.Semaphore(max(count, 1))
        self._idle: list[Process] = []
        self.started: list[Process] = []

    async def __aenter__(self) -> "Workers":
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.started:
            _end(process)
        await asyncio.gather(*(process.wait() for process in self.started))

    async def __call__(self, preparation: "Preparation") -> "list[Prepared]":
        """Return what became of each group. Raises `ConfigError` as its `parse` does."""
        if self._in_threads > 0:
            self._in_threads -= 1
            return await asyncio.to_thread(preparation)
        async with self._free:
            try:
                return await self._answer(preparation)
            except OSError:  # no process can be started
                return await asyncio.to_thread(preparation)

    async def _answer(self, preparation: "Preparation") -> "list[Prepared]":
        groups = preparation.groups
        process = self._idle.pop() if self._idle else await self._start()
        try:
            async with asyncio.timeout(LIMIT_S * len(groups)):
                answer = await _ask(process, preparation)
        except (TimeoutError, EOFError, ConnectionError):
            _end(process)
            if len(groups) > 1:  # one of them did it: each by itself
                return [each for one in groups for each in await self._answer(preparation.of(one))]
            return [Fault(group=groups[0][0], reason="the process that parsed it ended, or took too long")]
        self._idle.append(process)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True, limit=_PIPE_BYTES
        )
        self.started.append(process)
        return process


async def _ask(process: Process, preparation: "Preparation") -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    message = pickle.dumps(preparation)
    process.stdin.write(_LENGTH.pack(len(message)) + message)
    await process.stdin.drain()
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    return pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - from our own process


def _end(process: Process) -> None:
    """End a process, and whatever it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


def _serve() -> None:
    """Answer until the input ends, as it does when whoever asks has ended."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while head := sys.stdin.buffer.read(_LENGTH.size):
        preparation: Preparation = pickle.loads(sys.stdin.buffer.read(*_LENGTH.unpack(head)))  # noqa: S301 - as above
        try:
            answer = preparation()
        except ConfigError as error:
            answer = error
        message = pickle.dumps(answer)
        answers.write(_LENGTH.pack(len(message)) + message)
        answers.flush()


if __name__ == "__main__":
    _serve()
