"""Many processes on one bank, killed, stopped and held up: everything acknowledged is there and whole; none hangs."""

import asyncio
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from driver_names import POSSIBLE
from patience import FULL, is_in_time

from swarm_memory.schema.errors import StorageError, StoreBusy
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.engine.files import size_of
from swarm_memory.tools.ports.memories import MemoryFilter
from tests.faults.rig import HERE, Crowd, fill, filled, made_item, nothing_is_lost, opened, with_vectors

pytestmark = pytest.mark.fault


async def test_killed_writers_lose_nothing_that_was_acknowledged(database: Path) -> None:
    seconds, chance, crowd = (600.0 if FULL else 1.5), random.Random(1), Crowd()
    for number in range(12):
        crowd.add("write" if number < 8 else "read", database, "auto", number, 0)
    crowd.wait(lambda: len(crowd.said("ready")) >= 12)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(crowd.said("ack")) <= 20:
        await asyncio.sleep(chance.uniform(0.1, 0.8 if FULL else 0.4))
        crowd.replace_one("write" if chance.random() < 0.8 else "read", chance)
    await asyncio.to_thread(crowd.end)
    assert len(await nothing_is_lost(database, crowd)) > 20
    created = await _created(database)
    assert created[0] == created[1]
    assert not crowd.said("torn")
    assert not crowd.said("error")


async def _created(database: Path) -> tuple[int, int]:
    """Return how many memories there are, and how many events that record a creation."""
    async with opened(database) as store:
        return await store.read(
            lambda connection: connection.execute(
                "SELECT (SELECT count(*) FROM patterns), "
                "(SELECT count(DISTINCT subject_id) FROM events WHERE type = 'reasoning_memory.created')"
            ).fetchone()
        )


async def test_a_storm_of_writers_gets_no_busy_error(database: Path) -> None:
    each = 500 if FULL else 25
    crowd = Crowd()
    for number in range(8):
        crowd.add("write", database, "auto", f"storm{number}", each)
    await asyncio.to_thread(crowd.finish)
    assert not crowd.said("error")
    assert len(crowd.said("ack")) == 8 * each


async def test_a_stopped_holder_of_the_lock_delays_writers_to_their_deadline_and_readers_not_at_all(
    database: Path,
) -> None:
    deadline_s = 10.0 if FULL else 1.0
    async with opened(database, busy_timeout_s=deadline_s) as store:
        await fill(store, 3)
        crowd = Crowd()
        holder = crowd.add("hold", database)
        crowd.wait(lambda: bool(crowd.said("held")))
        os.kill(crowd.pids[holder], signal.SIGSTOP)
        (memory,) = await with_vectors([made_item("Wait for the lock")])
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            await store.add_memories([memory], StaticEmbedder().name)
        waited = time.monotonic() - began
        began = time.monotonic()
        assert len(await store.list_memories([HERE], MemoryFilter())) == 3
        read = time.monotonic() - began
        writing = asyncio.ensure_future(store.add_memories([memory], StaticEmbedder().name))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await asyncio.to_thread(crowd.kill, holder)
        await writing
        recovered = time.monotonic() - began
        await asyncio.to_thread(crowd.finish)
    assert deadline_s <= waited
    assert is_in_time(waited, deadline_s + 1)
    assert is_in_time(read, 1)
    assert is_in_time(recovered, 1)


@pytest.mark.skipif(not FULL, reason="make faults runs it: it takes half a minute")
async def test_overlapping_readers_do_not_let_the_log_grow(database: Path) -> None:
    await filled(database, 500)
    crowd = Crowd()
    for number in range(6):
        crowd.add("read" if number < 4 else "write", database, "auto", number, 0)
    largest, deadline = 0, time.monotonic() + 30
    while time.monotonic() < deadline:
        largest = max(largest, size_of(f"{database}-wal"))
        await asyncio.sleep(0.02)
    await asyncio.to_thread(crowd.end)
    assert largest <= 128 * 1024 * 1024


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_a_forked_child_is_refused_to_read_and_to_write(database: Path) -> None:
    async with opened(database) as store:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (store.list_memories([HERE], MemoryFilter()), store.reindex()):
                try:
                    use.send(None)
                except StorageError:
                    refused += 1
            os.write(write, str(refused).encode())
            os._exit(0)
        refusals = os.read(read, 10)
        await asyncio.to_thread(os.waitpid, child, 0)
        os.close(read)
        os.close(write)
        assert await store.list_memories([HERE], MemoryFilter()) == []
    assert refusals == b"2"


async def test_processes_with_different_sqlite_libraries_share_a_bank(database: Path) -> None:
    driver_names, each = POSSIBLE, 60 if FULL else 15
    crowd = Crowd()
    for number, driver_name in enumerate((*driver_names, *driver_names[:1])):
        crowd.add("write", database, driver_name, number, each)
        crowd.add("read", database, driver_name, number, 5)
    await asyncio.to_thread(crowd.finish)
    async with opened(database) as store:
        await store.refresh()
    assert len(await nothing_is_lost(database, crowd)) == each * (len(driver_names) + 1)
    assert not crowd.said("error")
    assert len(crowd.said("read")) == 5 * (len(driver_names) + 1)


async def test_a_foreign_sqlite3_that_looks_at_the_live_file_costs_nothing(database: Path) -> None:
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("the sqlite3 command is not installed")
    crowd, looks, each = Crowd(), 0, 200 if FULL else 30
    for number in range(3):
        crowd.add("write", database, "auto", number, each)
    ended = asyncio.create_task(asyncio.to_thread(crowd.finish))
    command = (shell, "-cmd", ".timeout 5000", str(database), ".tables")
    while not ended.done():
        look = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        looks += await look.wait() == 0
    await ended
    assert len(await nothing_is_lost(database, crowd)) == 3 * each
    assert looks
