"""Measures a table's vector leg alone on public retrieval sets: exact cosine over all documents, R@5.

A set is a BEIR folder (corpus.jsonl, queries.jsonl, qrels.tsv) or LoCoMo's JSON file. LoCoMo is measured turn by turn:
a question with evidence is asked among its own conversation's turns. Its recall is the share of the evidence in the
first five, averaged over questions; "any" counts a question as found by one piece of its evidence.
"""

import argparse
import csv
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from swarm_memory.server.embedding.static import SHIPPED_TABLE, StaticEmbedder

K = 5


@dataclass(frozen=True, slots=True)
class Pool:
    """Documents, and the queries asked among them: (text, places of the right documents)."""

    documents: list[str]
    queries: list[tuple[str, set[int]]]


def beir(folder: Path) -> Iterator[Pool]:
    documents = _jsonl(folder / "corpus.jsonl")
    texts = {query["_id"]: query["text"] for query in _jsonl(folder / "queries.jsonl")}
    place = {document["_id"]: at for at, document in enumerate(documents)}
    right: dict[str, set[int]] = defaultdict(set)
    with (folder / "qrels.tsv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows, delimiter="\t"):
            right[row["query-id"]].add(place[row["corpus-id"]])
    yield Pool(
        [f"{document.get('title', '')} {document['text']}".strip() for document in documents],
        [(texts[query], gold) for query, gold in right.items()],
    )


def locomo(path: Path) -> Iterator[Pool]:
    for sample in json.loads(path.read_text("utf-8")):
        sessions = [value for key, value in sample["conversation"].items() if re.fullmatch(r"session_\d+", key)]
        turns = [turn for session in sessions for turn in session]
        place = {turn["dia_id"]: at for at, turn in enumerate(turns)}
        documents = [_turn_text(turn) for turn in turns]
        queries = []
        for question in sample["qa"]:
            named = [name for entry in question["evidence"] for name in re.findall(r"D\d+:\d+", entry)]
            gold = {place[name] for name in named if name in place}
            if gold:
                queries.append((question["question"], gold))
        yield Pool(documents, queries)


def _turn_text(turn: dict[str, str]) -> str:
    caption = turn.get("blip_caption", "")
    return f"{turn['speaker']}: {turn['text']}" + (f" [{caption}]" if caption else "")


def _jsonl(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def recalls(embedder: StaticEmbedder, pools: Iterator[Pool]) -> tuple[list[float], list[float]]:
    """Return, for each query, the share of its right documents in the first five, and whether any is there."""
    shares: list[float] = []
    found: list[float] = []
    for pool in pools:
        documents = matrix(embedder, pool.documents)
        scores = matrix(embedder, [text for text, _ in pool.queries]) @ documents.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :K].tolist()
        for places, (_, gold) in zip(best, pool.queries, strict=True):
            hits = len(gold.intersection(places))
            shares.append(hits / len(gold))
            found.append(float(hits > 0))
    return shares, found


def matrix(embedder: StaticEmbedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    return np.stack([np.frombuffer(vector, np.float32) for vector in embedder.embed_many(texts)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of BEIR folders and LoCoMo files")
    parser.add_argument("--table", type=Path, default=SHIPPED_TABLE)
    args = parser.parse_args()
    embedder = StaticEmbedder(args.table)
    sets = {folder.parent.name: beir(folder.parent) for folder in sorted(args.data.glob("*/corpus.jsonl"))}
    sets |= {file.stem: locomo(file) for file in sorted(args.data.glob("locomo*.json"))}
    for name, pools in sets.items():
        started = time.perf_counter()
        shares, found = recalls(embedder, pools)
        seconds = time.perf_counter() - started
        print(
            f"{name:16} {len(shares):5} queries  R@{K} {np.mean(shares):.3f}  any {np.mean(found):.3f}  {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
