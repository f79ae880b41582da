"""Prepares a large source in processes, several at a time; a file that crashes its parser crashes nothing else.

python -I -m swarm_memory.server.sources.workers   carries out the preparation on its input

Input and output are pickles; both ends are ours.
"""

import asyncio
import os
import pickle
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.source import Fault
from swarm_memory.server.child_process import run

if TYPE_CHECKING:
    from swarm_memory.tools.sources.sources import PreparationBatch, Prepared

MIN_GROUPS = 32
"""Fewer groups are prepared in a thread: starting a process pays only for more."""

LIMIT_S = 150.0
"""Seconds for one group. The readers of formats have limits of their own, which are shorter."""

_MAX_ANSWER_BYTES = 2_000_000_000
_COMMAND = (sys.executable, "-I", "-m", "swarm_memory.server.sources.workers")


async def prepare(preparation: "PreparationBatch") -> "list[Prepared]":
    """Return each group prepared: in a process, or in a thread if no process can be started or it would not pay."""
    loads_model = preparation.pii == "names"  # which takes seconds, in each process
    if not loads_model and len(preparation.groups) >= MIN_GROUPS and (os.cpu_count() or 1) > 1:
        with suppress(OSError):
            return await _in_process(preparation)
    return await asyncio.to_thread(preparation)


async def _in_process(preparation: "PreparationBatch") -> "list[Prepared]":
    """Return what a process prepared; if it dies or takes too long, do the same with each half of the groups."""
    groups, finished = preparation.groups, None
    with suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S * len(groups)):
            finished = await run(
                _COMMAND,
                stdin=pickle.dumps(preparation),
                cwd=Path.cwd(),
                environment=os.environ,
                max_output_bytes=_MAX_ANSWER_BYTES,
            )
    if finished is not None and finished.code == 0:  # else its output may be half of an answer
        return pickle.loads(finished.output)  # noqa: S301 - from our own process
    if len(groups) == 1:
        return [Fault(group=groups[0][0], reason="the process that parsed it died or took too long")]
    middle = len(groups) // 2
    halves = (replace(preparation, groups=half) for half in (groups[:middle], groups[middle:]))
    return [each for half in halves for each in await _in_process(half)]


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # anything a parser prints goes elsewhere
    asked = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from our own process
    answers.write(pickle.dumps(asked()))
