"""Faults on PostgreSQL: servers and the database killed under load, restarted, cut off; eight servers that learn."""

import asyncio
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from made_work import made_job
from patience import FULL, HANG_S
from postgres_server import of_database, start

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import make_ready, open_postgres
from tests.faults.rig import HERE, Crowd, present_in

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not FULL, reason="`make faults` runs it: it kills a database")]

SECONDS = 30.0
TASKS = 400
_numbers = count()

UNSOUND = """
SELECT count(*) FROM swarm_memory.patterns AS p WHERE p.status = 'active' AND NOT (
  EXISTS (SELECT 1 FROM swarm_memory.pattern_tokens AS t WHERE t.seq = p.seq)
  AND EXISTS (SELECT 1 FROM swarm_memory.pattern_embeddings AS e WHERE e.seq = p.seq)
  AND EXISTS (SELECT 1 FROM swarm_memory.item_vectors AS v WHERE v.seq = p.seq)
  AND EXISTS (SELECT 1 FROM swarm_memory.events AS e WHERE e.subject_id = p.id))
"""
"""Memories that lack one of their parts."""

WRONG = """
SELECT count(*) FROM swarm_memory.scopes AS s WHERE s.active <> (
  SELECT count(*) FROM swarm_memory.patterns AS p WHERE p.scope_id = s.id AND p.status = 'active')
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A separate server, which flushes as usual."""
    folder = Path(f"/tmp/swarm-memory-faults-{next(_numbers)}-{time.time_ns()}")
    held = start(folder)
    _start_database(held)
    yield held
    held.cleanup()


@pytest.fixture
def url(server: Any) -> str:
    """The address of an empty bank."""
    name = f"faults_{next(_numbers)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as raw:
        raw.execute(f"CREATE DATABASE {name}".encode())
    address = of_database(server.get_uri(), name)
    make_ready(Place(address))
    return address


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """A crowd of servers, none of which outlives the test."""
    made = Crowd()
    yield made
    made.end()


def begin(crowd: Crowd, count: int, role: str, *arguments: object) -> None:
    """Start `count` servers and wait until each is working."""
    for number in range(count):
        crowd.add(role, *arguments, *(("auto", number, 0) if role == "write" else (number,)))
    crowd.wait(lambda: len(crowd.said("ready")) >= count)


def wait_for_more(crowd: Crowd, count: int) -> None:
    """Wait until `count` more writes are acknowledged."""
    wanted = len(crowd.said("ack")) + count
    crowd.wait(lambda: len(crowd.said("ack")) >= wanted)


def sound(url: str) -> tuple[int, int]:
    """Return (number of memories that lack a part, number of scopes whose count is wrong)."""
    with psycopg.connect(url) as raw:
        halves, wrong = (raw.execute(each).fetchone() or (-1,) for each in (UNSOUND.encode(), WRONG.encode()))
        return int(halves[0]), int(wrong[0])


async def nothing_is_lost(url: str, crowd: Crowd) -> bool:
    """Kill all servers; return whether everything acknowledged is there, and complete."""
    await asyncio.to_thread(crowd.kill_all)
    acknowledged = {line[0] for line in crowd.said("ack")}
    assert len(acknowledged) > 50
    async with await open_postgres(Place(url), pool_size=2, embedder=StaticEmbedder()) as store:
        there = await present_in(store, sorted(acknowledged))
    return there == acknowledged and sound(url) == (0, 0)


async def test_servers_killed_under_load_lose_nothing_that_was_acknowledged(url: str, crowd: Crowd) -> None:
    chance = random.Random(1)
    begin(crowd, 8, "write", url)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        wait_for_more(crowd, chance.randrange(1, 9))
        crowd.replace_one("write", chance)
    assert await nothing_is_lost(url, crowd)


@pytest.mark.parametrize("how", ["killed", "restarted"])
async def test_a_database_that_is_killed_or_restarted_under_load_loses_nothing(
    how: str, server: Any, url: str, crowd: Crowd
) -> None:
    begin(crowd, 4, "write", url)
    times, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until or times < 3:
        await asyncio.sleep(2)
        if how == "killed":
            _kill_database(server)
        else:
            server.stop()
        _start_database(server)
        times += 1
        wait_for_more(crowd, 8)  # all continue by themselves
    assert await nothing_is_lost(url, crowd)


def _start_database(server: Any) -> None:
    give_up = time.monotonic() + HANG_S
    while True:
        try:
            server.ensure_postgres_running()
            psycopg.connect(server.get_uri()).close()
        except (psycopg.OperationalError, subprocess.SubprocessError):  # it is still recovering from the interruption
            assert time.monotonic() < give_up
            time.sleep(0.2)
        else:
            return


def _kill_database(server: Any) -> None:
    process = server.get_postmaster_info().process
    children = process.children(recursive=True)
    for each in (process, *children):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait(30)
    for each in children:
        each.wait(30)


class Proxy:
    """A proxy between servers and the database: it forwards until a test makes it cut connections, or swallow data."""

    def __init__(self, target: str) -> None:
        self._target, self.swallows, self._open = target, threading.Event(), True
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while self._open:
            with suppress(OSError):
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._target)
                self._pairs.append((near, far))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), closing(one), closing(other):
            while data := one.recv(65536):
                while self.swallows.is_set():
                    time.sleep(0.05)
                other.sendall(data)

    def cut(self) -> None:
        for pair in self._pairs:
            for each in pair:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def close(self) -> None:
        self._open = False
        self._listener.close()
        self.cut()


@pytest.mark.enable_socket
async def test_a_network_that_is_cut_or_stands_still_loses_nothing(url: str, crowd: Crowd) -> None:
    folder, name = url.partition("host=")[2], url.partition("?")[0].rpartition("/")[2]
    proxy, chance = Proxy(f"{folder}/.s.PGSQL.5432"), random.Random(2)
    begin(crowd, 4, "write", f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        if chance.random() < 0.3:
            proxy.swallows.set()
            await asyncio.sleep(chance.uniform(0.2, 1.5))
            if chance.random() < 0.5:
                proxy.cut()
            proxy.swallows.clear()
        else:
            proxy.cut()
    wait_for_more(crowd, 8)
    assert await nothing_is_lost(url, crowd)
    proxy.close()


async def test_eight_servers_that_learn_at_once_and_are_killed_learn_nothing_twice(url: str, crowd: Crowd) -> None:
    store, now = await open_postgres(Place(url), pool_size=2, embedder=StaticEmbedder()), datetime.now(UTC)
    for number in range(TASKS):
        await store.enqueue(made_job(str(number), now, payload={"task_id": f"task {number}"}))
    begin(crowd, 8, "learn", url)
    chance, give_up = random.Random(3), time.monotonic() + 10 * HANG_S
    while (jobs := (await store.statistics(HERE, StaticEmbedder().name)).jobs).get("completed", 0) < TASKS:
        assert time.monotonic() < give_up, jobs
        await asyncio.sleep(0.3)
        if crowd.killed < 24:
            crowd.replace_one("learn", chance)
    await asyncio.to_thread(crowd.kill_all)
    await store.close()
    with psycopg.connect(url) as raw:
        for table in ("patterns", "task_trajectories"):
            counted = raw.execute(f"SELECT count(*), count(DISTINCT task_id) FROM swarm_memory.{table}".encode())
            assert counted.fetchone() == (TASKS, TASKS)
    assert sound(url) == (0, 0)
