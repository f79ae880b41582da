"""What `retrieve` costs over the two bare SQL queries that it needs, in one run: medians and their ratio.

    python benchmarks/speed_retrieve.py [--memories 2431 10000] [--queries 300] [--data memories.jsonl]

The bank is made of seeded random text in the shape of strategies, or of lines {when_to_use, content} of `--data`, over
and over with one word changed where there are too few. Bare are the k nearest neighbours over vec0, by codes where the
bank is large enough for them, and the FTS5 match, with the pool and the tokens that `retrieve` asks for, in the calling
thread, over a connection of their own; both are timed in turns with `retrieve`, query by query.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from made_banks import add, made_memory, open_bank

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import connect
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import QueryVector, find_space, nearest_in
from swarm_memory.server.storage.search.words import EVERYTHING, MAX_QUERY_TOKENS, match_any
from swarm_memory.server.storage.stores.rows import find_scopes
from swarm_memory.tools.retrieve.retrieve import POOL_FACTOR, retrieve
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za".split()  # noqa: SIM905
VERBS = "check read retry split cache validate rebuild pin quote escape log lock sort merge batch".split()  # noqa: SIM905
SEED = 11


def made_texts(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Yield (title, content): words by Zipf's law, three to six steps."""
    words = [draw.choice(SYLLABLES) + draw.choice(SYLLABLES) + draw.choice(SYLLABLES) for _ in range(6000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]

    def phrase(length: int) -> str:
        return " ".join([draw.choice(VERBS), *draw.choices(words, weights, k=length)])

    while True:
        steps = [f"{number}. {phrase(draw.randint(6, 14))}" for number in range(1, draw.randint(4, 7))]
        yield phrase(5), "\n".join(steps)


def given_texts(path: Path, draw: random.Random) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for turn, row in enumerate(cycle(rows)):
        again = "" if turn < len(rows) else f" {draw.choice(SYLLABLES)}{turn}"
        yield (row["when_to_use"] or "Always")[:190], (row["content"] + again)[:4000]


async def fill(toolbox: Toolbox, texts: Iterator[tuple[str, str]], count: int, draw: random.Random) -> list[str]:
    """Write `count` memories; return a query for each of 300 of them: half of its title's words and a few others."""
    asked: list[str] = []
    now = datetime.now(UTC)
    for start in range(0, count, 500):
        items = [
            made_memory(
                toolbox.scope, title, content, confidence=draw.random(), provenance=Provenance(distiller="user"),
                created_at=now - timedelta(days=draw.random() * 200),
            )
            for title, content in (next(texts) for _ in range(min(500, count - start)))
        ]  # fmt: skip
        asked += [_query(item, draw) for item in items]
        await add(toolbox, items)
    return draw.sample(asked, min(300, len(asked)))


def _query(item: MemoryItem, draw: random.Random) -> str:
    words = [*item.title.split(), *item.content.split()]
    return " ".join(draw.sample(words, min(18, len(words))))


class Bare:
    """The two queries, over a connection of their own."""

    def __init__(self, database: Path, toolbox: Toolbox, embedder: StaticEmbedder) -> None:
        self._connection = connect(database, driver=choose())
        space = find_space(self._connection, embedder.name, embedder.dimensions)
        assert space is not None
        self._space, self._embedder = space, embedder
        (self._scope_id,) = find_scopes(self._connection, [toolbox.scope])
        self._index = Index(True, "")
        self._match = queries("memories")["keyword_matches"]

    def prepare(self, query: str, pool: int) -> tuple[QueryVector, dict[str, Any]]:
        vector = QueryVector.of(self._embedder.embed(query), self._space, self._index)
        expression = match_any(self._scope_id, query_tokens(query)[:MAX_QUERY_TOKENS])
        return vector, {"expression": expression, "limit": pool}

    def run(self, near: QueryVector, match: dict[str, Any]) -> tuple[float, float]:
        """Return the seconds of each."""
        started = time.perf_counter()
        nearest_in(self._connection, self._index, near, [self._scope_id], EVERYTHING, match["limit"])
        between = time.perf_counter()
        self._connection.execute(self._match, match).fetchall()
        return between - started, time.perf_counter() - between

    def close(self) -> None:
        self._connection.close()


async def measure(toolbox: Toolbox, bare: Bare, asked: list[str]) -> tuple[list[float], list[float], list[float]]:
    settings = toolbox.settings.retrieve
    pool = max(POOL_FACTOR * settings.k, settings.pool_floor)
    near_s: list[float] = []
    match_s: list[float] = []
    whole_s: list[float] = []
    for query in asked:
        near, match = bare.run(*bare.prepare(query, pool))
        started = time.perf_counter()
        await retrieve(toolbox, query)
        whole_s.append(time.perf_counter() - started)
        near_s.append(near)
        match_s.append(match)
    return near_s, match_s, whole_s


async def run(counts: list[int], rounds: int, data: Path | None) -> None:
    print(
        f"{'memories':>9}{'vec0 ms':>9}{'fts5 ms':>9}{'both ms':>9}{'retrieve p50 ms':>17}{'p95':>7}{'ratio p50':>11}"
    )
    for count in counts:
        draw = random.Random(SEED)
        texts = given_texts(data, draw) if data else made_texts(draw)
        with tempfile.TemporaryDirectory() as folder:
            async with open_bank(Path(folder), Scope(project="speed")) as toolbox:
                asked = await fill(toolbox, texts, count, draw)
                with closing(Bare(Path(folder) / "memory.db", toolbox, StaticEmbedder())) as bare:
                    await measure(toolbox, bare, asked[:50])  # warm
                    near, match, whole = await measure(toolbox, bare, [*asked] * (-(-rounds // len(asked))))
        both = statistics.median(first + second for first, second in zip(near, match, strict=True))
        p50, p95 = statistics.median(whole), statistics.quantiles(whole, n=20)[-1]
        print(
            f"{count:9d}{1000 * statistics.median(near):9.2f}{1000 * statistics.median(match):9.2f}{1000 * both:9.2f}"
            f"{1000 * p50:17.2f}{1000 * p95:7.2f}{p50 / both:11.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of retrieve, against its own SQL")
    parser.add_argument("--memories", type=int, nargs="+", default=[2431, 10_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--data", type=Path, help="JSON lines with when_to_use and content")
    given = parser.parse_args()
    asyncio.run(run(given.memories, given.queries, given.data))


if __name__ == "__main__":
    main()
