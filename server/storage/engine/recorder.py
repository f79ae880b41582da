"""What is written behind: records are gathered for a moment, and a busy bank is tried again."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.tools.ports.journal import ChatRecord
from swarm_memory.tools.ports.memories import RetrievalRecord

Record = RetrievalRecord | ChatRecord

MAX_WAITING = 1000
GATHER_S, RETRY_S, CLOSE_LIMIT_S = 0.2, 0.5, 2.0

log = logging.getLogger(__name__)


class Recorder:
    """Gathers records for a moment and gives them to `write` in one batch; a busy database is tried again."""

    def __init__(self, write: Callable[[Sequence[Record]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: deque[Record] = deque()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self.dropped = 0
        """Records that were given up because too many were waiting."""

    @property
    def waiting(self) -> tuple[Record, ...]:
        """Records that are not written yet."""
        return tuple(self._waiting)

    def add(self, record: Record) -> None:
        """Queue a record; the oldest is dropped when too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(record)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_behind())

    async def settle(self) -> None:
        """Wait until what is queued was written, for at most two seconds."""
        if self._task is not None and not self._task.done():
            self._wanted.set()
            await asyncio.wait([self._task], timeout=CLOSE_LIMIT_S)

    async def close(self) -> None:
        """Write what waits, for at most two seconds; what then is left is logged and lost."""
        await self.settle()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._waiting:
            log.warning("%d records were not written: time is up", len(self._waiting))

    async def _write_behind(self) -> None:
        wait_s, most = GATHER_S, MAX_WAITING
        while self._waiting:
            # More records may come, unless somebody waits for those that are there.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            self._wanted.clear()
            batch = list(self._waiting)[:most]
            try:
                await self._write(batch)
            except StorageError as error:
                log.info("records wait to be written: %s", error)
                wait_s = RETRY_S
                continue
            except InputError as error:  # what the database cannot hold must not keep the others waiting
                if len(batch) > 1:
                    wait_s, most = 0.0, 1
                    continue
                log.warning("a record was not written: %s", error)
            for record in batch:
                if self._waiting and self._waiting[0] is record:  # the oldest may have been dropped meanwhile
                    self._waiting.popleft()
            wait_s = GATHER_S if most > 1 else 0.0
