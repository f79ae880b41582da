"""A bank of 100,000 or a million memories: how large it is, and how fast it is written and queried.

    python benchmarks/scale.py --data memories.jsonl [--memories 100000] [--queries 300]

Memories consist of sentences sampled from the lines {when_to_use, content} of `--data` that are plain ASCII. A
memory's vector is the normalized sum of its sentences' vectors, nearly what a static embedder would return, so that a
million memories take only minutes. A query is half of the words of a memory's title and a dozen words of its content.
Two threads are busy while a query runs.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy
from made_banks import made_memory
from numpy.typing import NDArray

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

POOL = 20_000
BATCH = 1_000
SINGLE = 200
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
PROJECT = Scope(project="scale")
SEED = 11


class Sentence(NamedTuple):
    text: str
    tokens: tuple[str, ...]
    vector: NDArray[numpy.float32]


def sentences(data: Path, embedder: StaticEmbedder) -> list[Sentence]:
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    whole = [f"{row['when_to_use'] or ''}\n{row['content']}" for row in rows]
    texts = [part for text in whole if text.isascii() for part in _SENTENCE.split(text) if len(part) > 20]
    distinct = list(dict.fromkeys(texts))[:POOL]
    return [Sentence(text, tokenize(text), numpy.asarray(embedder.embed(text), "f4")) for text in distinct]


def memories(pool: list[Sentence], chance: random.Random) -> Iterator[StoredMemory]:
    now = datetime.now(UTC)
    while True:
        title, *content = chance.sample(pool, 4)
        vector = title.vector + sum(each.vector for each in content)
        item = made_memory(
            PROJECT, title.text, " ".join(each.text for each in content), confidence=chance.random(),
            provenance=Provenance(distiller="user"), created_at=now - timedelta(days=chance.random() * 200),
        )  # fmt: skip
        unit = (vector / numpy.linalg.norm(vector)).tolist()
        tokens = tuple(token for each in content for token in each.tokens)
        yield StoredMemory(item, unit, title.tokens, (), tokens)


async def write(store: SqliteStore, embedder: str, made: Iterator[StoredMemory], count: int) -> int:
    """Write `count` memories and print progress; return the size of their texts in bytes."""
    size, started = 0, time.perf_counter()
    for done in range(0, count, BATCH):
        batch = list(islice(made, min(BATCH, count - done)))
        size += sum(len(f"{each.item.title}{each.item.content}".encode()) for each in batch)
        await store.add_memories(batch, embedder)
        if (done + BATCH) % 100_000 == 0:
            print(f"  {done + BATCH:,} in {time.perf_counter() - started:.0f} s", flush=True)
    return size


async def write_singly(store: SqliteStore, embedder: str, made: Iterator[StoredMemory]) -> list[float]:
    """Write `SINGLE` memories one by one, each with its own commit; return the seconds that each took."""
    took: list[float] = []
    for memory in islice(made, SINGLE):
        started = time.perf_counter()
        await store.add_memories([memory], embedder)
        took.append(time.perf_counter() - started)
    return took


async def ask(toolbox: Toolbox, queries: list[str]) -> list[float]:
    took: list[float] = []
    for query in queries:
        started = time.perf_counter()
        await retrieve(toolbox, query)
        took.append(time.perf_counter() - started)
    return took


def question(memory: StoredMemory, chance: random.Random) -> str:
    title, content = memory.item.title.split(), memory.item.content.split()
    words = chance.sample(title, -(-len(title) // 2)) + chance.sample(content, min(12, len(content)))
    return " ".join(words)


async def run(count: int, asked: int, data: Path) -> None:
    chance, embedder = random.Random(SEED), StaticEmbedder()
    made = memories(sentences(data, embedder), chance)
    queries = [question(each, chance) for each in islice(made, asked)]
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "memory.db"
        async with await open_store(database, embedder=embedder) as store:
            started = time.perf_counter()
            size = await write(store, embedder.name, made, count)
            took = time.perf_counter() - started
        text, total = size / count, database.stat().st_size / count
        print(f"written at {count / took:,.0f} memories/s in transactions of {BATCH:,}")
        print(f"bytes a memory: {total:,.0f}, of which text {text:,.0f}; beyond it {total - text:,.0f}", flush=True)
        async with await open_store(database, embedder=embedder) as store:
            toolbox = Toolbox(store, embedder, SystemClock(), Settings(), PROJECT)
            await ask(toolbox, queries[:50])
            whole = await ask(toolbox, queries)
            single = await write_singly(store, embedder.name, made)
    print(f"retrieve: p50 {_ms(whole, 50)} ms, p95 {_ms(whole, 95)} ms")
    print(f"written singly, with commit: {1 / statistics.median(single):,.0f}/s, p95 {_ms(single, 95)} ms")


def _ms(took: list[float], percent: int) -> str:
    return f"{1000 * statistics.quantiles(took, n=100)[percent - 1]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and speed of a large bank")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--data", type=Path, required=True, help="JSON lines with when_to_use and content")
    given = parser.parse_args()
    asyncio.run(run(given.memories, given.queries, given.data))


if __name__ == "__main__":
    main()
