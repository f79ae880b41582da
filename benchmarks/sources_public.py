"""How well `search_sources` finds tools, code and turns of conversations, on public sets, through the real store.

    python benchmarks/sources_public.py --data DIR [--sets metatool_single …] [--legs both keywords vectors] [--half 1]

DIR holds folders in BEIR's form (corpus.jsonl, queries.jsonl, qrels.tsv) in `retrieval/`, and LoCoMo's file. Tools are
indexed by name and description; functions as the reader of code gives them: name, docstring, text; a turn as a passage
of a document, its session. `--half` keeps the questions of which the hash of the id (a conversation's) is even (0) or
odd (1): what is chosen on one is reported on the other. R@k is the share of questions
with at least one relevant passage among the first k, MRR the mean of 1 / rank of the first one among 10.
"""

import argparse
import asyncio
import hashlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from made_banks import open_bank

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.sources.code import code_passages
from swarm_memory.server.sources.definitions import LANGUAGES
from swarm_memory.server.wiring import make_embedder
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.toolbox import Toolbox

K = 10
CONVERSATIONS = "locomo10"
LEGS: dict[str, float | None] = {"both": None, "keywords": 0.0, "vectors": 1.0}
PYTHON = next(language for language in LANGUAGES if language.name == "python")


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages by group that are searched together, and the questions about them."""

    name: str
    kind: SourceKind
    groups: Mapping[str, Callable[[], list[Passage]]]
    questions: tuple[Question, ...]
    found: Callable[[Passage], str]
    """The id that the questions name a passage by."""


def read(folder: Path) -> list[Corpus]:
    """Return the corpus of one folder in BEIR's form."""
    kind, passage = SETS[folder.name]
    documents = [Document(row["_id"], row.get("title") or "", row["text"]) for row in _rows(folder / "corpus.jsonl")]
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query_id, document_id, score = line.split("\t")
        if float(score) > 0:
            relevant[query_id].add(document_id)
    questions = tuple(
        Question(row["_id"], row["text"], frozenset(relevant[row["_id"]]))
        for row in _rows(folder / "queries.jsonl")
        if relevant[row["_id"]]
    )
    groups = {document.id: partial(_one, passage, document) for document in documents}
    return [Corpus(folder.name, kind, groups, questions, lambda each: each.group)]


def _one(passage: Callable[[Document], Passage], document: Document) -> list[Passage]:
    return [passage(document)]


def read_conversations(file: Path) -> list[Corpus]:
    """Return LoCoMo's conversations, each by itself."""
    corpora: list[Corpus] = []
    for row in json.loads(file.read_text("utf-8")):
        parts: dict[str, Any] = row["conversation"]
        sessions: dict[str, list[dict[str, Any]]] = {key: each for key, each in parts.items() if isinstance(each, list)}
        ids: set[str] = {turn["dia_id"] for turns in sessions.values() for turn in turns}
        asked = [(each["question"], ids & _named(each)) for each in row["qa"]]
        questions = tuple(Question(row["sample_id"], text, frozenset(found)) for text, found in asked if found)
        groups = {name: partial(_turns, name, turns) for name, turns in sessions.items()}
        corpora.append(Corpus(row["sample_id"], "document", groups, questions, lambda each: each.title))
    return corpora


def _named(question: dict[str, Any]) -> set[str]:
    return {each for evidence in question.get("evidence", ()) for each in str(evidence).replace(";", " ").split()}


def _turns(session: str, turns: Sequence[dict[str, Any]]) -> list[Passage]:
    return [
        Passage(kind="document", group=session, position=at, title=turn["dia_id"], content=_said(turn))
        for at, turn in enumerate(turns)
    ]


def _said(turn: dict[str, Any]) -> str:
    shown = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{shown}"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
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


async def fill(toolbox: Toolbox, corpus: Corpus) -> None:
    """Index the groups of a corpus, with all vectors: on a slow machine some of them come later."""

    async def groups() -> AsyncIterator[ReadGroup]:
        for name, parse in corpus.groups.items():
            yield name, "1", parse

    await index_source(toolbox, corpus.kind, corpus.name, groups())
    await reembed(toolbox.store, toolbox.embedder, drop_others=False, on_progress=lambda _: None)


async def measure(toolbox: Toolbox, corpus: Corpus, tally: Tally, half: int | None, limit: int) -> None:
    asked = [each for each in corpus.questions if half is None or half_of(each.id) == half]
    for question in asked[:limit]:
        started = time.perf_counter()
        found = await search_sources(toolbox, question.text, kind=corpus.kind, k=K)
        seconds = time.perf_counter() - started
        tally.add([corpus.found(hit.passage) for hit in found.hits], question.relevant, seconds)


def half_of(name: str) -> int:
    """Return 0 or 1 by the hash of an id."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 2


async def run(given: argparse.Namespace) -> None:
    embedder = make_embedder(Settings().embedding)
    print(f"{'set':17}{'legs':12}{'asked':>7}{'R@5':>8}{'R@10':>8}{'MRR':>8}{'empty':>8}{'ms':>9}")
    folder = given.data / "retrieval"
    for name in given.sets:
        corpora = read_conversations(folder / f"{name}.json") if name == CONVERSATIONS else read(folder / name)
        tallies = {leg: Tally() for leg in given.legs}
        for corpus in corpora:
            with tempfile.TemporaryDirectory() as bank:
                async with open_bank(Path(bank), Scope(project=name), embedder=embedder) as toolbox:
                    await fill(toolbox, corpus)
                    for leg, tally in tallies.items():
                        await measure(_with(toolbox, LEGS[leg]), corpus, tally, given.half, given.limit)
        for leg, tally in tallies.items():
            print(f"{name:17}{leg:12}{tally.row()}", flush=True)


def _with(toolbox: Toolbox, vector_weight: float | None) -> Toolbox:
    changed = toolbox.settings.sources.model_copy(update={"vector_weight": vector_weight, "reranker": "none"})
    return replace(toolbox, settings=toolbox.settings.model_copy(update={"sources": changed}))


def main() -> None:
    parser = argparse.ArgumentParser(description="search_sources on public sets")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds retrieval/")
    parser.add_argument("--sets", nargs="+", choices=[*SETS, CONVERSATIONS], default=[*SETS, CONVERSATIONS])
    parser.add_argument("--legs", nargs="+", choices=LEGS, default=list(LEGS))
    parser.add_argument("--limit", type=int, default=1_000_000, help="questions of each set")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only the questions of this half")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
