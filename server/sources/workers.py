"""Preparation of a large source in processes: several at once, and a file that ends its parser ends nothing else.

python -I -m swarm_memory.server.sources.workers   answers the preparation on its input

Question and answer are pickles; both ends are ours.
"""

import asyncio
import os
import pickle
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.source import Fault

if TYPE_CHECKING:
    from swarm_memory.tools.sources.prepare import Preparation, Prepared

MOST = 4
MIN_GROUPS = 32
"""Fewer are prepared in a thread: a process is worth its start only for more."""

LIMIT_S = 150.0
"""Of one group. What reads a format has limits of its own, which are shorter."""

_COMMAND = (sys.executable, "-I", "-m", "swarm_memory.server.sources.workers")


class Workers:
    """Runs preparations, each in a process of its own; in a thread a small one, or where no process can be started."""

    def __init__(self, processes: int | None = None) -> None:
        count = min(os.cpu_count() or 1, MOST) if processes is None else processes
        self._in_threads = count < 2
        self._free = asyncio.Semaphore(max(count, 1))

    async def __call__(self, preparation: "Preparation") -> "list[Prepared]":
        """Return what became of each group. Raises `ConfigError` as its `parse` does."""
        async with self._free:
            if not self._in_threads and len(preparation.groups) >= MIN_GROUPS:
                with suppress(OSError):  # no process can be started
                    return await _in_process(preparation)
            return await asyncio.to_thread(preparation)


async def _in_process(preparation: "Preparation") -> "list[Prepared]":
    """Return what a process answers; where it ends or takes too long, what it does with each half of the groups."""
    groups = preparation.groups
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(LIMIT_S * len(groups)):
            answer, _ = await process.communicate(pickle.dumps(preparation))
        if process.returncode:  # what it wrote before may be half of an answer
            answer = b""
    except TimeoutError:
        answer = b""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
            await process.wait()
    if not answer and len(groups) == 1:
        return [Fault(group=groups[0][0], reason="the process that parsed it ended, or took too long")]
    if not answer:
        middle = len(groups) // 2
        halves = preparation.of(groups[:middle]), preparation.of(groups[middle:])
        return [each for half in halves for each in await _in_process(half)]
    done = pickle.loads(answer)  # noqa: S301 - from our own process
    if isinstance(done, ConfigError):
        raise done
    return done


def _serve() -> None:
    """Answer the preparation; what a parser prints goes elsewhere."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    preparation: Preparation = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from our own process
    try:
        done = preparation()
    except ConfigError as error:
        done = error
    answers.write(pickle.dumps(done))


if __name__ == "__main__":
    _serve()
