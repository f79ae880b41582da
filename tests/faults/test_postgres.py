"""Faults on PostgreSQL: servers and the database killed under load, restarted, cut off; eight servers that learn."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from patience import FULL, HANG_S
from postgres_server import of_database, start
from rig import HERE

from swarm_memory.schema.base import new_id
from swarm_memory.schema.job import Job
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.migrate import make_ready
from swarm_memory.server.storage.postgres.store import open_postgres

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not FULL, reason="`make faults` runs it: it kills a database")]

WORKER = Path(__file__).with_name("postgres_worker.py")
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
"""Memories that lack a part of themselves."""

WRONG = """
SELECT count(*) FROM swarm_memory.scopes AS s WHERE s.active <> (
  SELECT count(*) FROM swarm_memory.patterns AS p WHERE p.scope_id = s.id AND p.status = 'active')
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of its own, which flushes as it does anywhere."""
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
def serving(tmp_path: Path) -> Iterator[Callable[[str, str], "Servers"]]:
    """Return what makes servers that do one thing on a bank; none outlives the test."""
    made: list[Servers] = []

    def serve(role: str, url: str) -> Servers:
        made.append(Servers(tmp_path, role, url))
        return made[-1]

    yield serve
    for each in made:
        each.end()


class Servers:
    """Processes that work on a bank; what they said is kept, of killed ones too."""

    def __init__(self, folder: Path, role: str, url: str) -> None:
        self._folder, self._role, self._url = folder, role, url
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def begin(self, number: int) -> None:
        for _ in range(number):
            name = f"w{next(_numbers)}"
            with (self._folder / f"{name}.out").open("wb") as out:
                command = [sys.executable, str(WORKER), self._role, self._url, name]
                self._running.append(subprocess.Popen(command, stdout=out, cwd=WORKER.parent, env=_environment()))

    def kill_one(self, draw: random.Random) -> None:
        gone = self._running.pop(draw.randrange(len(self._running)))
        gone.send_signal(signal.SIGKILL)
        gone.wait()
        self.killed += 1
        self.begin(1)

    def end(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()

    def said(self, word: str) -> list[str]:
        lines = [line for file in self._folder.glob("w*.out") for line in file.read_text("utf-8").splitlines()]
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == word]

    def wait_for(self, word: str, number: int) -> None:
        give_up = time.monotonic() + HANG_S
        while len(self.said(word)) < number:
            assert time.monotonic() < give_up, f"{word}: {len(self.said(word))} of {number}; {self.said('error')[-3:]}"
            time.sleep(0.1)


def _environment() -> dict[str, str]:
    paths = [str(WORKER.parent.parent / "shared"), str(WORKER.parents[2] / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


async def lost(url: str, acknowledged: list[str]) -> int:
    """Return how many acknowledged memories are not there."""
    there = 0
    async with await open_postgres(Place(url), pool_size=2, embedder=StaticEmbedder()) as store:
        for begin in range(0, len(acknowledged), 500):
            there += len(await store.get_memories([HERE], acknowledged[begin : begin + 500]))
    return len(acknowledged) - there


def sound(url: str) -> tuple[int, int]:
    """Return (memories that lack a part, scopes whose count is wrong)."""
    with psycopg.connect(url) as raw:
        halves, wrong = (raw.execute(each).fetchone() or (-1,) for each in (UNSOUND.encode(), WRONG.encode()))
        return int(halves[0]), int(wrong[0])


async def tell(record: Any, row: str, url: str, servers: Servers, what: str) -> None:
    acknowledged = servers.said("ack")
    gone = await lost(url, acknowledged)
    halves, wrong = sound(url)
    errors = len(servers.said("error"))
    record(row, f"lost {gone} of {len(acknowledged)} acknowledged; half-written {halves}; {what}; refused {errors}")
    assert len(acknowledged) > 50
    assert (gone, halves, wrong) == (0, 0, 0)


async def test_servers_killed_under_load_lose_nothing_that_was_acknowledged(
    url: str, serving: Any, record: Any
) -> None:
    servers, draw = serving("write", url), random.Random(1)
    servers.begin(8)
    servers.wait_for("ready", 8)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        servers.wait_for("ack", len(servers.said("ack")) + draw.randrange(1, 9))
        servers.kill_one(draw)
    servers.end()
    await tell(record, "P1", url, servers, f"{servers.killed} servers killed")


@pytest.mark.parametrize(("row", "how"), [("P2", "killed"), ("P3", "restarted")])
async def test_a_database_that_is_killed_or_restarted_under_load_loses_nothing(
    row: str, how: str, server: Any, url: str, serving: Any, record: Any
) -> None:
    servers = serving("write", url)
    servers.begin(4)
    servers.wait_for("ready", 4)
    times = 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until or times < 3:
        await asyncio.sleep(2)
        if how == "killed":
            _kill_database(server)
        else:
            server.stop()
        _start_database(server)
        times += 1
        servers.wait_for("ack", len(servers.said("ack")) + 8)  # all go on by themselves
    servers.end()
    await tell(record, row, url, servers, f"database {how} {times} times")


def _start_database(server: Any) -> None:
    give_up = time.monotonic() + HANG_S
    while True:
        try:
            server.ensure_postgres_running()
            psycopg.connect(server.get_uri()).close()
        except (psycopg.OperationalError, subprocess.SubprocessError):  # it is still mending what was cut off
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
    """Between servers and the database: it forwards until it is asked to cut, or to swallow."""

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
async def test_a_network_that_is_cut_or_stands_still_loses_nothing(
    server: Any, url: str, serving: Any, record: Any
) -> None:
    folder = url.partition("host=")[2]
    proxy = Proxy(f"{folder}/.s.PGSQL.5432")
    name = url.partition("?")[0].rpartition("/")[2]
    draw = random.Random(2)
    servers = serving("write", f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}")
    servers.begin(4)
    servers.wait_for("ready", 4)
    cuts, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(draw.uniform(0.3, 1.5))
        if draw.random() < 0.3:
            proxy.swallows.set()
            await asyncio.sleep(draw.uniform(0.2, 1.5))
            if draw.random() < 0.5:
                proxy.cut()
            proxy.swallows.clear()
        else:
            proxy.cut()
        cuts += 1
    servers.wait_for("ack", len(servers.said("ack")) + 8)
    servers.end()
    proxy.close()
    await tell(record, "P4", url, servers, f"cut off {cuts} times")


async def test_eight_servers_that_learn_at_once_and_are_killed_learn_nothing_twice(
    url: str, serving: Any, record: Any
) -> None:
    store = await open_postgres(Place(url), pool_size=2, embedder=StaticEmbedder())
    now = datetime.now(UTC)
    for number in range(TASKS):
        payload: Any = {"task_id": f"task {number}"}
        job = Job(
            id=new_id("job"), scope=HERE, kind="learn", key=str(number), payload=payload, run_after=now, created_at=now
        )
        await store.enqueue(job)
    servers, draw = serving("learn", url), random.Random(3)
    servers.begin(8)
    servers.wait_for("ready", 8)
    give_up = time.monotonic() + 10 * HANG_S
    while (jobs := (await store.statistics(HERE, StaticEmbedder().name)).jobs).get("completed", 0) < TASKS:
        assert time.monotonic() < give_up, jobs
        await asyncio.sleep(0.3)
        if servers.killed < 24:
            servers.kill_one(draw)
    servers.end()
    await store.close()
    with psycopg.connect(url) as raw:
        memories, tasks = (
            raw.execute(f"SELECT count(*), count(DISTINCT task_id) FROM swarm_memory.{table}".encode()).fetchone()
            or (0, 0)
            for table in ("patterns", "task_trajectories")
        )
        (again,) = raw.execute("SELECT count(*) FROM swarm_memory.jobs WHERE attempts > 1").fetchone() or (0,)
    twice = memories[0] - memories[1] + tasks[0] - tasks[1]
    record("P5", f"{memories[1]} of {TASKS} learned, twice {twice}; {servers.killed} killed, {again} jobs taken over")
    assert (memories, tasks) == ((TASKS, TASKS), (TASKS, TASKS))
    assert sound(url) == (0, 0)
