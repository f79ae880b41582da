"""Records that are written behind: each once, whatever happens meanwhile."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StoreBusy
from swarm_memory.server.storage.engine.engine import MAX_WAITING, Record, Recorder
from swarm_memory.tools.ports.memories import RetrievalRecord


def record(number: int) -> RetrievalRecord:
    return RetrievalRecord(f"rt_{number}", Scope(), "query", {}, 1.0, datetime(2026, 3, 1, tzinfo=UTC))


class Slow:
    """Writes when it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.written: list[Record] = []

    async def __call__(self, records: Sequence[Record]) -> None:
        self.begun.set()
        await self.go.wait()
        self.written += records


async def test_closing_in_the_middle_of_a_write_writes_nothing_twice() -> None:
    slow = Slow()
    recorder = Recorder(slow)
    recorder.add(record(1))
    await slow.begun.wait()
    closing = asyncio.create_task(recorder.close())
    await asyncio.sleep(0)
    slow.go.set()
    await closing
    assert [each.retrieval_id for each in slow.written if isinstance(each, RetrievalRecord)] == ["rt_1"]
    assert recorder.waiting == ()


async def test_what_comes_during_a_write_is_kept_when_the_oldest_are_dropped() -> None:
    slow = Slow()
    recorder = Recorder(slow)
    recorder.add(record(0))
    await slow.begun.wait()
    for number in range(1, MAX_WAITING + 1):
        recorder.add(record(number))
    slow.go.set()
    await recorder.close()
    assert recorder.dropped == 1
    assert len(slow.written) == len(set(map(id, slow.written))) == MAX_WAITING + 1


async def test_a_busy_database_is_tried_again_before_closing() -> None:
    tries: list[int] = []

    async def busy_once(records: Sequence[Record]) -> None:
        tries.append(len(records))
        if len(tries) == 1:
            raise StoreBusy("locked")

    recorder = Recorder(busy_once)
    recorder.add(record(1))
    await recorder.settle()
    await recorder.close()
    assert tries == [1, 1]
    assert recorder.waiting == ()


async def test_a_record_that_the_database_cannot_hold_keeps_no_other_one_waiting() -> None:
    written: list[Record] = []

    async def write(records: Sequence[Record]) -> None:
        if any(isinstance(each, RetrievalRecord) and each.retrieval_id == "rt_1" for each in records):
            raise InputError("a text holds a NUL character")
        written.extend(records)

    recorder = Recorder(write)
    for number in range(4):
        recorder.add(record(number))
    await recorder.close()
    assert written == [record(0), record(2), record(3)]
    assert recorder.waiting == ()
