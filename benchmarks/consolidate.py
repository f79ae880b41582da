"""How well duplicates are told from mere neighbours at each threshold, and how long a large bank takes.

    python benchmarks/consolidate.py [--data FILE.jsonl] [--memories 10000] [--pairs N] [--table] [--model-dir FOLDER]

Quality: labelled pairs. `hand`: those of `memory_pairs.py`, where neighbours and opposites are no duplicates; `fresh`
is the part that was written after the rules. The same groups tell how many contradictions the rules find, and how many
they see where there are none. `rules`: a memory and its paraphrase made by
rules (synonyms, other order, a sentence less, another opening), against a memory and its twin that says another thing
(another number, another named command, a negated instruction). `strangers`: two memories drawn at random. The memories
of the last two come from lines {when_to_use, content} of `--data`, or from the hand-written ones. `vectors` is the
cosine alone, `guarded` what consolidation and learning do. MiniLM is measured; with `--table` the static table, with
`--model-dir` an ONNX model of yours. Every rule is seeded; none knows the threshold.

Speed: a bank of seeded text, one in twenty a near copy of another, consolidated in full, dry and for real, and undone.
"""

import argparse
import asyncio
import itertools
import json
import random
import re
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from made_banks import add, made_memory, open_bank
from memory_pairs import FRESH, GROUPS, Group, Text

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import EmbeddingSettings, Settings
from swarm_memory.server.embedding.fastembed import FastEmbedEmbedder
from swarm_memory.server.embedding.minilm import MiniLMEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.consolidate.duplicates import gist_of, is_same
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.rank import cosine
from swarm_memory.tools.text.opposition import opposition

SEED = 5
THRESHOLDS = (0.70, 0.75, 0.80, 0.83, 0.85, 0.87, 0.89, 0.91, 0.93)
SCOPE = Scope(project="benchmark")

SYNONYMS = {
    "ensure": "make sure", "use": "employ", "verify": "check", "check": "verify", "before": "prior to",
    "retrieve": "fetch", "fetch": "retrieve", "required": "needed", "needed": "required", "error": "failure",
    "errors": "failures", "always": "in every case", "when": "whenever", "obtain": "get", "multiple": "several",
    "requires": "needs", "must": "has to", "first": "at the start", "correct": "right", "necessary": "needed",
}  # fmt: skip
OPENINGS = ("In general: ", "As a rule, ", "Note that ", "Remember: ", "")
WORDS = """
    cache token retry queue index schema branch commit merge deploy rollback migration fixture mock stub timeout socket
    header cookie session cursor batch stream buffer parser lexer compiler linker thread lock mutex signal container
    image volume network proxy gateway router endpoint payload webhook scheduler worker pipeline artifact registry
    package version license secret vault certificate key cipher hash digest pixel layout widget canvas shader texture
    camera sensor battery driver kernel module interrupt page heap stack pointer array matrix tensor gradient epoch
    model dataset label feature cluster vector graph node edge tree leaf root path file folder archive backup snapshot
    table column row trigger view cursor invoice order customer payment refund ledger account report chart filter
""".split()  # noqa: SIM905
VERBS = "check validate rebuild encrypt compress rotate trace profile isolate split merge sort lock queue log".split()  # noqa: SIM905


class Pair(NamedTuple):
    """Two memories and whether they say the same."""

    one: MemoryItem
    other: MemoryItem
    same: bool


def memory(title: str, content: str) -> MemoryItem:
    return made_memory(SCOPE, title[:190].strip() or "Untitled", content, confidence=0.5)


def paraphrase(item: MemoryItem, draw: random.Random) -> MemoryItem:
    """Say the same in other words, as far as rules can."""

    def other_word(found: re.Match[str]) -> str:
        word = found[0]
        return SYNONYMS.get(word.lower(), word) if draw.random() < 0.8 else word

    sentences = re.split(r"(?<=[.!?])\s+", item.content)
    if len(sentences) > 2:
        del sentences[draw.randrange(1, len(sentences))]
    if len(sentences) > 1 and draw.random() < 0.5:
        sentences = [*sentences[1:], sentences[0]]
    content = draw.choice(OPENINGS) + re.sub(r"\w+", other_word, " ".join(sentences))
    return memory(re.sub(r"\w+", other_word, item.title), content)


def twin(item: MemoryItem, draw: random.Random) -> MemoryItem | None:
    """Say another thing in nearly the same words; None where no rule applies."""
    negated = re.sub(r"\b(Always|Never|Ensure|Use|Verify|Include)\b", lambda found: f"Do not {found[0].lower()}"
                     if found[0] not in ("Always", "Never") else {"Always": "Never", "Never": "Always"}[found[0]],
                     item.content, count=1)  # fmt: skip
    numbered = memory(f"{item.title} ({draw.choice((404, 500, 503))})", item.content)
    named = memory(f"{item.title} with `{draw.choice(WORDS)}`", item.content)
    choices = [numbered, named]
    if negated != item.content:
        choices.append(memory(item.title, negated))
    return draw.choice(choices)


def hand_pairs(groups: Sequence[Group]) -> Iterator[Pair]:
    for group in groups:
        one, same, other, opposite = (memory(*text) for text in group)
        yield Pair(one, same, same=True)
        yield from (Pair(left, right, same=False) for left in (one, same) for right in (other, opposite))


def contradictions(name: str, groups: Sequence[Group], threshold: float) -> None:
    """Print how many opposites the rules find, and what they call a contradiction that is none."""
    found = sum(opposition(_words(group.one), _words(group.opposite)) >= threshold for group in groups)
    near = [pair for group in groups for pair in ((group.one, group.same), (group.one, group.other))]
    far = [
        pair
        for at, group in enumerate(groups)
        for later in groups[at + 1 :]
        for pair in itertools.product(group, later)
    ]
    false_near, false_far = (
        sum(opposition(_words(one), _words(other)) >= threshold for one, other in pairs) for pairs in (near, far)
    )
    said = found + false_near + false_far
    print(
        f"\ncontradictions by rules, {name}: recall {found} of {len(groups)}, precision {found} of {said}; false: "
        f"{false_near} of {len(near)} near pairs, {false_far} of {len(far)} unrelated ones"
    )


def _words(text: Text) -> str:
    return "\n".join(text)


def made_pairs(items: Sequence[MemoryItem], count: int, draw: random.Random) -> Iterator[Pair]:
    for _ in range(count):
        item = draw.choice(items)
        if draw.random() < 0.5:
            yield Pair(item, paraphrase(item, draw), same=True)
        elif other := twin(item, draw):
            titled = item.model_copy(update={"title": f"{item.title} (401)" if "(" in other.title else item.title})
            yield Pair(titled, other, same=False)


def strangers(items: Sequence[MemoryItem], count: int, draw: random.Random) -> Iterator[Pair]:
    for _ in range(count):
        yield Pair(*draw.sample(items, 2), same=False)


async def quality(name: str, pairs: Sequence[Pair], embedder: Embedder) -> None:
    """Print precision and recall of the cosine alone and of the whole decision at each threshold."""
    texts = [item.embedding_text for pair in pairs for item in pair[:2]]
    vectors = await embedder.embed_documents(texts)
    near = [cosine(vectors[2 * at], vectors[2 * at + 1]) for at in range(len(pairs))]
    fits = [is_same(gist_of(pair.one), gist_of(pair.other), 0.6) for pair in pairs]
    positive = sum(pair.same for pair in pairs)
    print(f"\n{name}: {positive} that say the same, {len(pairs) - positive} that do not")
    print("threshold   vectors: precision recall false   guarded: precision recall false")
    for threshold in THRESHOLDS:
        cells: list[str] = []
        for guarded in (False, True):
            said = [value >= threshold and (fit or not guarded) for value, fit in zip(near, fits, strict=True)]
            right = sum(yes and pair.same for yes, pair in zip(said, pairs, strict=True))
            precision = f"{right / sum(said):9.3f}" if sum(said) else "        -"
            recall = f"{right / positive:6.3f}" if positive else "     -"
            cells.append(f"{precision} {recall} {sum(said) - right:5d}")
        mark = "*" if threshold == embedder.duplicate_cosine else " "
        print(f"    {mark}{threshold:.2f}            {cells[0]}            {cells[1]}")


def given(path: Path | None) -> dict[str, list[MemoryItem]]:
    """Return the memories of a file by script: the shipped embedder knows English only."""
    if path is None:
        return {"hand-written": [memory(*group.one) for group in GROUPS]}
    found: dict[str, list[MemoryItem]] = {"English": [], "other languages": []}
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            item = memory(row["when_to_use"] or "Always", row["content"])
            found["English" if item.embedding_text.isascii() else "other languages"].append(item)
    return found


def made_items(count: int, draw: random.Random) -> Iterator[MemoryItem]:
    """Yield memories of random words; each twentieth is a near copy of an earlier one."""
    earlier: list[MemoryItem] = []
    for number in range(count):
        if number % 20 == 19:
            source = draw.choice(earlier)
            item = memory(f"{draw.choice(OPENINGS)}{source.title}", f"{source.content} {draw.choice(VERBS)} it.")
        else:
            steps = [
                f"{step}. {draw.choice(VERBS)} the {' '.join(draw.sample(WORDS, 3))} of the {draw.choice(WORDS)}"
                for step in range(1, draw.randint(4, 7))
            ]
            item = memory(f"{draw.choice(VERBS)} {' '.join(draw.sample(WORDS, 3))}", "\n".join(steps))
            earlier.append(item)
        yield item


def most_memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def speed(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_bank(Path(folder), SCOPE) as toolbox:
            await add(toolbox, list(made_items(count, random.Random(SEED))))
            print(f"\n{count} memories, {count // 20} of them near copies; most memory so far: {most_memory_mb()} MB")
            for name, dry in (("dry run", True), ("for real", False)):
                start_s = time.perf_counter()
                done = await consolidate(toolbox, full=True, dry_run=dry)
                took_s = time.perf_counter() - start_s
                print(f"full, {name}: {took_s:.1f} s, {len(done.merged)} merged, {len(done.related)} related")
            start_s = time.perf_counter()
            undone = await undo_consolidation(toolbox, done.run_id)
            print(f"undone: {time.perf_counter() - start_s:.1f} s, {undone.restored} restored")
            print(f"most memory: {most_memory_mb()} MB")


def embedder_of(table: bool, model_dir: Path | None) -> Embedder:
    if model_dir is None:
        return StaticEmbedder() if table else MiniLMEmbedder()
    return FastEmbedEmbedder(EmbeddingSettings(provider="fastembed", model=model_dir.name, model_dir=str(model_dir)))


async def measure(data: Path | None, count: int, embedder: Embedder) -> None:
    draw, limit = random.Random(SEED), Settings().consolidate.contradiction_threshold
    for name, groups in (("hand", GROUPS), ("fresh", FRESH)):
        await quality(name, list(hand_pairs(groups)), embedder)
        contradictions(name, groups, limit)
    for name, items in given(data).items():
        if len(items) > 1:
            await quality(f"rules, {name}", list(made_pairs(items, count, draw)), embedder)
            await quality(f"strangers, {name}", list(strangers(items, 20 * count, draw)), embedder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--model-dir", type=Path)
    chosen = parser.parse_args()
    asyncio.run(measure(chosen.data, chosen.pairs, embedder_of(chosen.table, chosen.model_dir)))
    if chosen.memories:
        asyncio.run(speed(chosen.memories))


if __name__ == "__main__":
    main()
