"""How well `search_sources` finds tools and code, on public sets, through the real store.

    python benchmarks/sources_public.py --data DIR [--sets metatool_single …] [--legs both keywords vectors]

DIR holds folders in BEIR's form (corpus.jsonl, queries.jsonl, qrels.tsv) in `retrieval/`. Tools are indexed by
name and description; functions as the reader of code gives them: name, docstring, text. R@k is the share of questions
with at least one relevant passage among the first k, MRR the mean of 1 / rank of the first one among 10.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.sources.code import code_passages
from swarm_memory.server.sources.definitions import LANGUAGES
from swarm_memory.server.storage.store import open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.toolbox import Toolbox

K = 10
LEGS: dict[str, float | None] = {"both": None, "keywords": 0.0, "vectors": 1.0}
PYTHON = next(language for language in LANGUAGES if language.name == "python")


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


def read(folder: Path) -> Corpus:
    """Return the corpus of one folder."""
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
    return Corpus(folder.name, documents, questions)


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


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


def tool(document: Document) -> Passage:
    """One tool is one passage: its name and its description."""
    return Passage(kind="tool", group=document.id, position=0, title=document.title, description=document.text)


def function(document: Document) -> Passage:
    """A snippet is the function in it, as the reader of code gives it; as it is, when it cannot be parsed."""
    found = [each for each in code_passages("snippet.py", PYTHON, document.text) if each.data["symbol"] != "file"]
    named = found[0] if found else Passage(kind="code", group=document.id, position=0, title=document.id)
    return named.model_copy(update={"group": document.id, "position": 0, "content": document.text})


SETS: dict[str, tuple[SourceKind, Callable[[Document], Passage]]] = {
    "metatool_single": ("tool", tool),
    "cosqa_dev": ("code", function),
    "humaneval": ("code", function),
}


async def fill(toolbox: Toolbox, corpus: Corpus, kind: SourceKind, passage: Callable[[Document], Passage]) -> None:
    """Index the documents, one a group."""

    async def groups() -> AsyncIterator[tuple[str, str, Callable[[], list[Passage]]]]:
        for document in corpus.documents:
            yield document.id, "1", partial(lambda each: [passage(each)], document)

    await index_source(toolbox, kind, corpus.name, groups())


async def measure(toolbox: Toolbox, corpus: Corpus, kind: SourceKind, limit: int) -> Tally:
    tally = Tally()
    for question in corpus.questions[:limit]:
        started = time.perf_counter()
        found = await search_sources(toolbox, question.text, kind=kind, k=K)
        seconds = time.perf_counter() - started
        tally.add([hit.passage.group for hit in found.hits], question.relevant, seconds)
    return tally


async def run(data: Path, sets: Sequence[str], legs: Sequence[str], limit: int) -> None:
    embedder = StaticEmbedder()
    print(f"{'set':17}{'legs':12}{'asked':>7}{'R@5':>8}{'R@10':>8}{'MRR':>8}{'empty':>8}{'ms':>9}")
    for name in sets:
        kind, passage = SETS[name]
        corpus = read(data / "retrieval" / name)
        with tempfile.TemporaryDirectory() as folder:
            store = await open_store(Path(folder) / "memory.db", embedder=embedder)
            try:
                toolbox = Toolbox(store, embedder, SystemClock(), Settings(), Scope(project=name))
                await fill(toolbox, corpus, kind, passage)
                for leg in legs:
                    tally = await measure(_with(toolbox, LEGS[leg]), corpus, kind, limit)
                    print(f"{name:17}{leg:12}{tally.row()}", flush=True)
            finally:
                await store.close()


def _with(toolbox: Toolbox, vector_weight: float | None) -> Toolbox:
    changed = toolbox.settings.sources.model_copy(update={"vector_weight": vector_weight, "reranker": "none"})
    return replace(toolbox, settings=toolbox.settings.model_copy(update={"sources": changed}))


def main() -> None:
    parser = argparse.ArgumentParser(description="search_sources on public sets")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds retrieval/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--legs", nargs="+", choices=LEGS, default=list(LEGS))
    parser.add_argument("--limit", type=int, default=1_000_000, help="questions of each set")
    given = parser.parse_args()
    asyncio.run(run(given.data, given.sets, given.legs, given.limit))


if __name__ == "__main__":
    main()
