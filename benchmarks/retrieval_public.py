"""How well retrieval finds what is relevant, on public sets, through the real store and the real `retrieve`.

    python benchmarks/retrieval_public.py --data DIR [--sets locomo cosqa_dev …] [--systems fused keywords …]

DIR holds `retrieval/locomo10.json` (LoCoMo as published) and folders in BEIR's form (corpus.jsonl, queries.jsonl,
qrels.tsv). R@k is the share of questions with at least one relevant document among the first k, MRR the mean of
1 / rank of the first one among 10. Of LoCoMo every turn is a document (speaker, text, caption of its picture), every
conversation a project of its own, and every question counts whose evidence names a turn that exists.
"""

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rank_bm25 import BM25Okapi

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.store import open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox

K = 10


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents that are searched together, and the questions about them."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


def locomo(data: Path) -> Iterator[Corpus]:
    """Yield one corpus for each conversation."""
    for number, record in enumerate(json.loads((data / "locomo10.json").read_text("utf-8"))):
        conversation: dict[str, Any] = record["conversation"]
        sessions = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
        turns = [turn for key in sessions for turn in conversation[key]]
        documents = tuple(Document(turn["dia_id"], "", _turn_text(turn)) for turn in turns)
        ids = {document.id for document in documents}
        asked = ((qa["question"], _evidence(qa) & ids) for qa in record["qa"])
        questions = tuple(Question(text, frozenset(relevant)) for text, relevant in asked if relevant)
        yield Corpus(f"locomo-{number}", documents, questions)


def _turn_text(turn: dict[str, str]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['speaker']}: {turn['text']}" + (f" {caption}" if caption else "")


def _evidence(qa: dict[str, Any]) -> set[str]:
    named = re.findall(r"D(\d+):(\d+)", " ".join(qa.get("evidence") or []))
    return {f"D{int(session)}:{int(turn)}" for session, turn in named}


def beir(name: str) -> Callable[[Path], Iterator[Corpus]]:
    """Return a reader of one folder in BEIR's form."""

    def read(data: Path) -> Iterator[Corpus]:
        folder = data / name
        documents = tuple(
            Document(row["_id"], row.get("title") or "", row["text"]) for row in _json_lines(folder / "corpus.jsonl")
        )
        relevant: dict[str, set[str]] = defaultdict(set)
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
            query_id, document_id, score = line.split("\t")
            if float(score) > 0:
                relevant[query_id].add(document_id)
        questions = tuple(
            Question(row["text"], frozenset(relevant[row["_id"]]))
            for row in _json_lines(folder / "queries.jsonl")
            if relevant[row["_id"]]
        )
        yield Corpus(name, documents, questions)

    return read


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


SETS: dict[str, Callable[[Path], Iterator[Corpus]]] = {
    "locomo": locomo,
    "metatool_single": beir("metatool_single"),
    "cosqa_dev": beir("cosqa_dev"),
    "humaneval": beir("humaneval"),
}
SYSTEMS = {
    "fused": {},
    "keywords": {"vector_weight": 0.0},
    "vectors": {"vector_weight": 1.0},
    "no floor": {"min_cosine": 0.0},
    "rrf": {"fusion": "rrf"},
}
REFERENCE = "rank-bm25"


@dataclass(slots=True)
class Tally:
    """Sums over the questions of a set."""

    questions: int = 0
    in_5: int = 0
    in_10: int = 0
    reciprocal: float = 0.0
    empty: int = 0
    seconds: float = 0.0

    def add(self, found: Sequence[str], relevant: frozenset[str], seconds: float) -> None:
        ranks = [rank for rank, each in enumerate(found[:K], start=1) if each in relevant]
        self.questions += 1
        self.in_5 += bool(ranks) and ranks[0] <= 5
        self.in_10 += bool(ranks)
        self.reciprocal += 1 / ranks[0] if ranks else 0.0
        self.empty += not found
        self.seconds += seconds

    def row(self) -> str:
        shares = (self.in_5, self.in_10, self.reciprocal, self.empty)
        figures = "".join(f"{100 * share / self.questions:8.1f}" for share in shares)
        return f"{self.questions:7d}{figures}{1000 * self.seconds / self.questions:9.2f}"


async def fill(toolbox: Toolbox, corpus: Corpus) -> dict[str, str]:
    """Put the documents into the bank; return the document's id by the memory's."""
    now = toolbox.clock.now()
    items = [
        MemoryItem(
            id=new_id(MEMORY),
            scope=toolbox.scope,
            title=document.title,
            content=document.text,
            confidence=0.5,
            provenance=Provenance(distiller="user"),
            created_at=now,
        )
        for document in corpus.documents
    ]
    await toolbox.store.add_memories(await prepare(toolbox, items), toolbox.embedder.name)
    return {item.id: document.id for item, document in zip(items, corpus.documents, strict=True)}


async def measure(toolbox: Toolbox, corpus: Corpus, document_of: dict[str, str], limit: int, tally: Tally) -> None:
    for question in corpus.questions[:limit]:
        started = time.perf_counter()
        found = await retrieve(toolbox, question.text, k=K)
        seconds = time.perf_counter() - started
        tally.add([document_of[each.item.id] for each in found.memories], question.relevant, seconds)


def measure_reference(corpus: Corpus, limit: int, tally: Tally) -> None:
    """The same tokens through rank-bm25."""
    index = BM25Okapi([tokenize(f"{document.title} {document.text}") or ("",) for document in corpus.documents])
    for question in corpus.questions[:limit]:
        started = time.perf_counter()
        scores = index.get_scores(query_tokens(question.text))
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:K]
        seconds = time.perf_counter() - started
        tally.add([corpus.documents[at].id for at in best if scores[at] > 0], question.relevant, seconds)


async def run(data: Path, sets: Sequence[str], systems: Sequence[str], limit: int) -> None:
    embedder = StaticEmbedder()
    print(f"{'set':17}{'system':12}{'asked':>7}{'R@5':>8}{'R@10':>8}{'MRR':>8}{'empty':>8}{'ms':>9}")
    for name in sets:
        tallies = {system: Tally() for system in systems}
        with tempfile.TemporaryDirectory() as folder:
            store = await open_store(Path(folder) / "memory.db", embedder=embedder)
            try:
                for corpus in SETS[name](data / "retrieval"):
                    scope = Scope(project=corpus.name)
                    toolbox = Toolbox(store, embedder, SystemClock(), Settings(), scope)
                    document_of = await fill(toolbox, corpus)
                    for system, tally in tallies.items():
                        if system == REFERENCE:
                            measure_reference(corpus, limit, tally)
                        else:
                            await measure(_with(toolbox, SYSTEMS[system]), corpus, document_of, limit, tally)
            finally:
                await store.close()
        for system, tally in tallies.items():
            print(f"{name:17}{system:12}{tally.row()}", flush=True)


def _with(toolbox: Toolbox, changes: dict[str, Any]) -> Toolbox:
    retrieve_settings = toolbox.settings.retrieve.model_copy(update=changes)
    return replace(toolbox, settings=toolbox.settings.model_copy(update={"retrieve": retrieve_settings}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Retrieval on public sets")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds retrieval/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, REFERENCE], default=["fused"])
    parser.add_argument("--limit", type=int, default=1_000_000, help="questions of each corpus")
    given = parser.parse_args()
    asyncio.run(run(given.data, given.sets, given.systems, given.limit))


if __name__ == "__main__":
    main()
