"""What the fault tests share: processes that write and report acknowledgements, kills, and checks of what is left."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from forked import ISOLATED, Forked
from made_items import HERE, made_item
from patience import HANG_S

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.engine.files import size_of, writer_lock
from swarm_memory.server.storage.inspection import Inspection
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.server.storage.store import Store
from swarm_memory.tools.ports.memories import MemoryFilter, StoredMemory
from swarm_memory.tools.retrieve.embed import with_indexes

EVERY = MemoryFilter(statuses=("active", "quarantined", "archived"), limit=500)
WORKER = Path(__file__).with_name("worker.py")
_TEXT = (
    "retry migrate database schema token cache lock queue timeout parse branch deploy index vector socket thread "
    "build lint format review merge rebase config secret header cookie session worker"
)
WORDS = tuple(_TEXT.split())


def sentence(chance: random.Random) -> str:
    """Return a few words for a title."""
    return " ".join(chance.choices(WORDS, k=6))


async def with_vectors(items: Sequence[MemoryItem]) -> list[StoredMemory]:
    """Return items with their index contents, embedded by the built-in embedder."""
    vectors = await StaticEmbedder().embed_documents([item.embedding_text for item in items])
    return [with_indexes(item, vector) for item, vector in zip(items, vectors, strict=True)]


async def fill(store: SqliteStore, count: int, seed: int = 7) -> list[MemoryItem]:
    """Write `count` items in batches; return them."""
    chance = random.Random(seed)
    items = [made_item(f"{sentence(chance)} {number}") for number in range(count)]
    for start in range(0, count, 200):
        await store.add_memories(await with_vectors(items[start : start + 200]), StaticEmbedder().name)
    return items


@asynccontextmanager
async def opened(database: Path, *, sqlite: str = "auto", busy_timeout_s: float = 10.0) -> AsyncGenerator[SqliteStore]:
    """Open a bank."""
    embedder = StaticEmbedder()
    async with await open_store(database, sqlite=sqlite, embedder=embedder, busy_timeout_s=busy_timeout_s) as store:
        yield store


async def filled(database: Path, count: int) -> list[MemoryItem]:
    """Open a bank, write `count` items, and close it; return them."""
    async with opened(database) as store:
        return await fill(store, count)


async def inspected(database: Path) -> Inspection:
    """Open a bank, check it for damage of every kind, and close it."""
    async with opened(database) as store:
        return await store.inspect()


async def present(database: Path, ids: Sequence[str]) -> set[str]:
    """Return which of the memories are in the bank at a path."""
    async with opened(database) as store:
        return await present_in(store, ids)


async def present_in(store: Store, ids: Sequence[str], scopes: Sequence[Scope] = (HERE,)) -> set[str]:
    """Return which of the memories are in a bank."""
    parts = (ids[start : start + 500] for start in range(0, len(ids), 500))
    return {item.id for part in parts for item in await store.get_memories(scopes, part)}


async def nothing_is_lost(database: Path, crowd: "Crowd") -> list[str]:
    """Assert that the bank is sound and has all that a crowd acknowledged, without errors; return the memories."""
    acknowledged = [line[0] for line in crowd.said("ack")]
    there, found = await present(database, acknowledged), await inspected(database)
    assert not set(acknowledged) - there
    assert found.sound, found
    assert not crowd.errors, "".join(crowd.errors)
    return acknowledged


def is_left_alone(database: Path) -> bool:
    """Whether a bank's lock is free (else raise `StoreBusy`), its log is short, and no partial file is next to it."""
    with writer_lock(database, 0.5):
        return size_of(f"{database}-wal") < 4_200_000 and not list(database.parent.glob("*.part"))


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process of the rig, with `more` variables."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1", **more}


def start(role: str, *arguments: object, **more: str) -> "subprocess.Popen[str]":
    """Start a worker process in a role (see `worker.py`); `more` are environment variables.

    A variable that the loader reads works only in a new process, so with `LD_PRELOAD` the worker is not forked.
    """
    script, pipe = [str(WORKER), role, *map(str, arguments)], subprocess.PIPE
    again = "LD_PRELOAD" in more
    command = [sys.executable, *script] if again else [*ISOLATED, "-c", f"{importing(sys.path)}; {RUN_FILE}", *script]
    kind: type[subprocess.Popen[str]] = subprocess.Popen if again else Forked
    return kind(command, env=environment(**more), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run_program(text: str, *arguments: object, behind: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Run Python code in its own process, which can import what tests can, as an argument of the command `behind`."""
    command = [*behind, sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=HANG_S)


def built(source: Path, to: Path, *libraries: str) -> Path:
    """Compile a library that a process can be told to preload."""
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(to), str(source), *libraries]
    subprocess.run(command, check=True)
    return to


def importing(paths: Sequence[str]) -> str:
    """Return the beginning of an isolated program that also imports from these paths."""
    return f"import sys; sys.path[:0] = {list(filter(None, paths))!r}"


RUN_FILE = "import runpy; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""A program that runs the file named by its first argument."""


class Crowd:
    """Processes that perform roles, some of which are killed; everything that they print is collected."""

    def __init__(self, *, niceness: int = 0, **more: str) -> None:
        self._nursery = start("nursery", **more)
        os.setpriority(os.PRIO_PROCESS, self._nursery.pid, niceness)
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._count = 0
        self.pids: dict[str, int] = {}
        self.lines: list[str] = []
        self.running: dict[str, tuple[str, ...]] = {}
        """The role and arguments of each running process, by name."""
        self.gone: set[str] = set()
        self.killed = 0

    def add(self, role: str, *arguments: object) -> str:
        """Start a process; return its name."""
        self._count += 1
        name = f"{role}{self._count}"
        self.running[name] = (role, *map(str, arguments))
        self._write(name, *self.running[name])
        return name

    def _write(self, *words: str) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.write("\t".join(words) + "\n")
        self._nursery.stdin.flush()

    def kill(self, name: str) -> tuple[str, ...]:
        """Kill a process as soon as it has started and wait for its end; return its role and arguments."""
        self.wait(lambda: name in self.pids)
        os.kill(self.pids[name], signal.SIGKILL)
        self.killed += 1
        what = self.running[name]
        self.wait_for_end({name})
        return what

    def replace_one(self, role: str, chance: random.Random) -> None:
        """Kill a random process of a role, and start another in its place."""
        chosen = chance.choice([name for name, what in self.running.items() if what[0] == role])
        self.add(*self.kill(chosen))

    def wait_for_end(self, names: set[str], timeout_s: float = HANG_S) -> None:
        """Wait until the named processes have ended."""
        deadline = time.monotonic() + timeout_s
        while not names <= self.gone:
            if time.monotonic() > deadline:
                raise TimeoutError(self.lines[-20:])
            self._poke()
        for name in names:
            del self.running[name]

    def _poke(self) -> None:
        """Make the nursery check which processes have ended."""
        self._write("poke", "poke")
        with self._news:
            self._news.wait(0.01)

    def kill_all(self) -> None:
        """Kill all processes."""
        for name in list(self.running):
            self.kill(name)

    def end(self) -> None:
        """Kill all processes and read their last lines."""
        self.kill_all()
        self.finish()

    def finish(self) -> None:
        """Read all lines until every process has ended by itself."""
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._reader.join()
        assert self._nursery.stderr is not None
        self.errors = [line for line in self._nursery.stderr if line.strip()]
        self._nursery.stderr.close()
        self._nursery.wait()

    def wait(self, until: Callable[[], bool], timeout_s: float = HANG_S) -> None:
        """Wait until a printed line makes the condition true."""
        with self._news:
            if not self._news.wait_for(until, timeout_s):
                raise TimeoutError(self.lines[-20:])

    def said(self, word: str) -> list[list[str]]:
        """Return the words that follow a word in the lines that begin with it."""
        return [line.split()[1:] for line in list(self.lines) if line.startswith(f"{word} ") or line == word]

    def _read(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                if line.startswith("born "):
                    _, name, pid = line.split()
                    self.pids[name] = int(pid)
                elif line.startswith("gone "):
                    self.gone.add(line.split()[1])
                self._news.notify_all()
        self._nursery.stdout.close()
