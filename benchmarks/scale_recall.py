"""What a large bank loses in recall by its short cuts: LoCoMo's questions among 100,000 memories.

    python benchmarks/scale_recall.py --locomo locomo10.json [--memories 100000] [--data memories.jsonl] [--bank folder]

The turns of all conversations are put into one project and filled up with the memories of `scale.py`. Every question is
asked twice: as `retrieve` does it, and with every vector compared and every keyword of the query searched. Given are
the shares of a question's evidence among the first 5 and 10, their differences in points, and the time of each.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy
from made_banks import add, kept_or_scratch, made_memory
from scale import PROJECT, memories, sentences, write
from speed_retrieve import SEED

from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.search import vectors as search
from swarm_memory.server.storage.search import words
from swarm_memory.server.storage.search.vectors import QueryVector
from swarm_memory.server.storage.store import SqliteStore, open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

DEPTHS = (5, 10)


class Question(NamedTuple):
    text: str
    evidence: frozenset[str]


def conversations(path: Path) -> tuple[dict[str, str], list[Question]]:
    """Return the texts of all turns by their ids, and the questions that name evidence."""
    turns: dict[str, str] = {}
    questions: list[Question] = []
    for number, each in enumerate(json.loads(path.read_text("utf-8"))):
        for name, session in each["conversation"].items():
            if re.fullmatch(r"session_\d+", name):
                for turn in session:
                    turns[f"{number}/{turn['dia_id']}"] = f"{turn['speaker']}: {turn['text']}"
        for asked in each["qa"]:
            named = frozenset(
                f"{number}/{found}" for text in asked["evidence"] for found in re.findall(r"D\d+:\d+", text)
            )
            if known := named & turns.keys():
                questions.append(Question(asked["question"], known))
    return turns, questions


async def fill(toolbox: Toolbox, store: SqliteStore, turns: dict[str, str], count: int, data: Path | None) -> None:
    said = Provenance(distiller="user")
    items = [
        made_memory(PROJECT, text[:80], text, id=f"turn:{turn_id}", confidence=0.5, provenance=said)
        for turn_id, text in turns.items()
    ]
    await add(toolbox, items)
    draw, embedder = random.Random(SEED), StaticEmbedder()
    made = memories(sentences(data, draw, embedder), draw)
    await write(store, embedder.name, made, count - len(items))


@contextmanager
def exact(store: SqliteStore, space: list[Any]) -> Generator[None]:
    """Have every vector compared and every keyword searched."""
    seqs, matrix = space

    def nearest(
        _c: object, _i: object, vector: QueryVector, _p: int, _n: object, pool: int, *_: object
    ) -> dict[int, float]:
        own = numpy.frombuffer(vector.encoded, "i1").astype("f4")
        cosines = matrix @ (own / numpy.linalg.norm(own))
        best = numpy.argpartition(-cosines, pool)[:pool]
        best = best[numpy.argsort(-cosines[best])]
        return dict(zip(seqs[best].tolist(), cosines[best].tolist(), strict=True))

    everything = 10**9
    with (
        mock.patch.object(search, "nearest_in", nearest),
        mock.patch.object(words, "MAX_POSTINGS", everything),
        mock.patch.object(words, "SURE_POSTINGS", everything),
        mock.patch.object(words, "COUNTED_WHOLE", everything),
    ):
        yield


async def vectors(store: SqliteStore) -> list[Any]:
    rows = await store.read(lambda c: c.execute("SELECT seq, vector FROM pattern_embeddings").fetchall())
    matrix = numpy.frombuffer(b"".join(row[1] for row in rows), "i1").reshape(len(rows), -1).astype("f4")
    return [numpy.array([row[0] for row in rows]), matrix / numpy.linalg.norm(matrix, axis=1, keepdims=True)]


async def recall(toolbox: Toolbox, questions: list[Question]) -> tuple[dict[int, float], float]:
    """Return the mean share of the evidence among the first of each depth, and the median seconds."""
    shares: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    took: list[float] = []
    for question in questions:
        started = time.perf_counter()
        found = await retrieve(toolbox, question.text, k=max(DEPTHS))
        took.append(time.perf_counter() - started)
        ids = [each.item.id.removeprefix("turn:") for each in found.memories]
        for depth in DEPTHS:
            shares[depth].append(len(question.evidence & set(ids[:depth])) / len(question.evidence))
    return {depth: 100 * statistics.fmean(each) for depth, each in shares.items()}, statistics.median(took)


async def run(given: argparse.Namespace, folder: Path) -> None:
    turns, questions = conversations(given.locomo)
    questions = random.Random(SEED).sample(questions, min(given.questions, len(questions)))
    embedder, database = StaticEmbedder(), folder / "memory.db"
    known = database.exists()
    store = await open_store(database, embedder=embedder)
    settings = Settings(retrieve=RetrieveSettings(alpha=1.0, beta=0.0, gamma=0.0, min_cosine=0.0))
    toolbox = Toolbox(store, embedder, SystemClock(), settings, PROJECT)
    if not known:
        await fill(toolbox, store, turns, given.memories, given.data)
    fast, fast_s = await recall(toolbox, questions)
    with exact(store, await vectors(store)):
        whole, whole_s = await recall(toolbox, questions)
    await store.close()
    print(f"{len(questions)} questions, {given.memories:,} memories; {1000 * fast_s:.1f} and {1000 * whole_s:.1f} ms")
    for depth in DEPTHS:
        lost = whole[depth] - fast[depth]
        print(f"R@{depth}: {fast[depth]:.1f}; with everything compared {whole[depth]:.1f}; lost {lost:.2f} points")


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall of a large bank")
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--data", type=Path, help="JSON lines with when_to_use and content")
    parser.add_argument("--bank", type=Path, help="a folder in which the bank is kept")
    given = parser.parse_args()
    with kept_or_scratch(given.bank) as folder:
        asyncio.run(run(given, folder))


if __name__ == "__main__":
    main()
