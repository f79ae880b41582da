"""Several writers, cancelled callers, a busy database, background records: nothing is lost, readers never wait."""

import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from made_items import HERE
from patience import HANG_S

from swarm_memory.schema.errors import InputError, StorageError, StoreBusy
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import engine, files
from swarm_memory.server.storage.engine.connection import close, connect, write_transaction
from swarm_memory.server.storage.engine.engine import MAX_WAITING, Record, WriteBehindQueue
from swarm_memory.server.storage.engine.files import writer_lock
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord


async def test_closing_with_a_busy_database_gives_up_its_retrievals_in_time(
    open_bank: Any, database: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CLOSE_LIMIT_S", 0.2)
    async with open_bank(busy_timeout_s=0.05) as store:
        await store.record_retrieval(record(1))
        with writer_lock(database, 1):
            with anyio.fail_after(HANG_S):
                await store.close()
    assert "1 records were not written" in caplog.text


async def test_too_many_waiting_retrievals_drop_the_oldest_and_health_says_so(
    open_bank: Any, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_WAITING", 3)
    async with open_bank() as store:
        for number in range(5):
            await store.record_retrieval(record(number))
        assert any("2 retrievals were not recorded" in notice for notice in (await store.health()).notices)
    async with open_bank() as store:
        assert [len(await store.memory_history([HERE], f"rt_{number}")) for number in range(5)] == [0, 0, 1, 1, 1]


async def test_a_closed_bank_refuses_and_closing_twice_is_nothing(store: Any) -> None:
    await store.close()
    with pytest.raises(StorageError, match="closed"):
        await store.list_memories([HERE], MemoryFilter())


def test_a_log_that_grew_large_is_emptied_after_a_write(
    database: Path, driver_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swarm_memory.server.storage.engine import connection as module

    monkeypatch.setattr(module, "LARGE_WAL_BYTES", 50_000)
    connection = connect(database, driver=choose(driver_name))
    with write_transaction(connection, database, 1):
        connection.execute("INSERT INTO meta VALUES ('a', ?)", ("x" * 200_000,))
    assert (database.parent / "memory.db-wal").stat().st_size == 0
    close(connection, database)


def test_on_windows_the_writer_lock_is_held_by_one_and_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[tuple[int, int], int] = {}

    def locking(descriptor: int, mode: int, count: int) -> None:
        """Lock as Windows documents it: one descriptor holds a byte of a file; a lock attempt does not wait."""
        place = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        assert count == 1
        if mode == 0:
            assert held.pop(place) == descriptor
        elif held.setdefault(place, descriptor) != descriptor:
            raise PermissionError(13, "Permission denied")

    spec = importlib.util.spec_from_file_location("lock_of_windows", Path(str(files.__file__)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as windows:
        windows.setattr(sys, "platform", "win32")
        windows.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, LK_UNLCK=0, locking=locking))
        spec.loader.exec_module(module)
    database = tmp_path / "memory.db"
    for _ in range(2):
        with module.writer_lock(database, 1.0):
            assert len(held) == 1
            with pytest.raises(StoreBusy), module.writer_lock(database, 0.0):
                pass
        assert held == {}


def record(number: int) -> RetrievalRecord:
    return RetrievalRecord(f"rt_{number}", HERE, "query", {}, 1.0, datetime(2026, 5, 1, tzinfo=UTC))


class Slow:
    """Writes once `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.written: list[Record] = []

    async def __call__(self, records: Sequence[Record]) -> None:
        self.begun.set()
        await self.go.wait()
        self.written += records


async def test_what_comes_during_a_write_is_kept_when_the_oldest_are_dropped() -> None:
    slow = Slow()
    recorder = WriteBehindQueue(slow)
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

    recorder = WriteBehindQueue(busy_once)
    recorder.add(record(1))
    await recorder.settle()
    await recorder.close()
    assert tries == [1, 1]
    assert recorder.waiting == ()


async def test_a_record_that_the_database_cannot_hold_keeps_no_other_one_waiting() -> None:
    written: list[Record] = []

    async def write(records: Sequence[Record]) -> None:
        if any(isinstance(each, RetrievalRecord) and each.retrieval_id == "rt_1" for each in records):
            raise InputError("a text contains a NUL character")
        written.extend(records)

    recorder = WriteBehindQueue(write)
    for number in range(4):
        recorder.add(record(number))
    await recorder.close()
    assert written == [record(0), record(2), record(3)]
    assert recorder.waiting == ()
