"""How well duplicates are told from mere neighbours at each threshold, and how long a large bank takes.

    python benchmarks/consolidate.py [--data memories.jsonl] [--memories 10000] [--pairs 1000]

Quality: three sets of labelled pairs. `hand`: pairs written for this file. `rules`: a memory and its paraphrase made by
rules (synonyms, other order, a sentence less, another opening), against a memory and its twin that says another thing
(another number, another named command, a negated instruction). `strangers`: two memories drawn at random. The memories
of the last two come from lines {when_to_use, content} of `--data`, or from the hand-written ones. `vectors` is the
cosine alone, `guarded` what the consolidation does. Every rule is seeded; none knows the threshold.

Speed: a bank of seeded text, one in twenty a near copy of another, consolidated in full, dry and for real, and undone.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.ids import MEMORY, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.duplicates import gist_of, is_same
from swarm_memory.tools.indexing import cosine, prepare
from swarm_memory.tools.toolbox import Toolbox

SEED = 5
THRESHOLDS = (0.80, 0.83, 0.85, 0.87, 0.89, 0.91, 0.93)
SCOPE = Scope(project="benchmark")

# (title, content, a title and content that say the same, a title and content near it that say something else)
HAND = (
    (("Run the migrations before the tests", "Apply pending migrations to the test database, then start the suite."),
     ("Migrate the test database first", "Before the suite starts, apply all pending migrations to the test database."),
     ("Seed the test database before the tests", "Load the fixtures into the test database, then start the suite.")),
    (("Retry with back-off on 429", "When the API answers 429, wait twice as long before each retry, and add jitter."),
     ("Back off when rate limited", "On a 429 answer retry after a wait that doubles each time, with some jitter."),
     ("Fail fast on 401", "When the API answers 401, do not retry; fetch a new token first.")),
    (("Quote shell variables", "Put double quotes around variables in shell scripts so that spaces do not split them."),
     ("Double-quote variables in shell scripts", "Unquoted variables split at spaces: put double quotes around them."),
     ("Use arrays for shell arguments", "Collect arguments in an array in shell scripts and expand it in quotes.")),
    (("Pin the Node version", "Write the Node version into .nvmrc so that CI and developers use the same one."),
     ("Keep Node the same everywhere", "Record the Node version in .nvmrc; CI and every developer then use it."),
     ("Pin the npm packages", "Commit package-lock.json so that CI and developers install the same packages.")),
    (("Read the whole stack trace", "Find the deepest frame of your own code in the stack trace before you change it."),
     ("Start from the deepest own frame", "Before changing code, read the stack trace down to your own deepest frame."),
     ("Log the stack trace", "Write the whole stack trace to the log when an exception is caught.")),
    (("Freeze the clock in date tests", "Tests about dates fail at midnight: freeze the clock."),
     ("Use a fixed time in tests of dates", "Freeze the clock, or tests about dates fail at midnight."),
     ("Use UTC in date tests", "Tests about dates fail in other time zones: compare moments in UTC.")),
    (("Paginate the list endpoint", "Follow the next link until there is none; the first page holds 50 entries only."),
     ("Fetch every page of the list", "The list gives 50 entries a page: follow the next link until it is missing."),
     ("Filter the list endpoint", "Give a query to the list endpoint; without one all entries are returned.")),
    (("Check the exit code after pip install", "pip may print warnings and fail: look at its exit code, not its text."),
     ("Trust pip's exit code, not its output", "After pip install look at the exit code: its warnings mean little."),
     ("Use a virtual environment for pip install", "pip may break the system's Python: install into an environment.")),
    (("Make the file's folder first", "Writing fails when the folder is missing: make it with its parents first."),
     ("Create missing folders before writing", "Make the folder and its parents first, or writing the file fails."),
     ("Write to a temporary file first", "Writing may stop half-way: write a temporary file and rename it.")),
    (("Log in before calling the orders API", "Get a token from the login endpoint and send it as a bearer token."),
     ("The orders API needs a token", "Call the login endpoint first and send its token as a bearer token to orders."),
     ("Sign requests to the payments API", "Compute the signature of the body and send it in the header of payments.")),
    (("Add an index on the foreign key", "Deleting parents scans the child table: put an index on its foreign key."),
     ("Index foreign keys", "Without an index on the foreign key of the child table each delete of a parent scans it."),
     ("Add a cascade on the foreign key", "Deleting parents fails while children exist: declare ON DELETE CASCADE.")),
    (("Close the browser in the fixture", "A failed test leaves browsers open: close them in the fixture's teardown."),
     ("Tear the browser down in its fixture", "Close it in the fixture's teardown: a failed test leaves it open."),
     ("Take a screenshot in the fixture", "A failed test is hard to read: save a screenshot in the teardown.")),
    (("Run the formatter before committing", "CI rejects unformatted code: run the formatter on what changed first."),
     ("Format what changed, then commit", "Run the formatter on changed files before each commit, or CI rejects them."),
     ("Run the type checker before pushing", "CI rejects untyped code: run the type checker on the package first.")),
    (("Set a timeout on HTTP calls", "A request without a timeout can hang for ever: give connect and read limits."),
     ("Never call HTTP without a time limit", "Give each request limits for connecting and reading; it may hang else."),
     ("Reuse the HTTP session", "A new connection for each request is slow: keep one session and reuse it.")),
    (("Escape user text in HTML", "Text of users put into a page may hold scripts: escape it in the template."),
     ("Templates must escape what users wrote", "Escape text of users in the template, since it may hold scripts."),
     ("Validate user text on the server", "Text of users may be too long: check its length on the server.")),
    (("Bisect a regression", "Mark one good and one bad commit and let git bisect run the failing test."),
     ("Find the breaking commit with git bisect", "Tell git bisect a good and a bad commit and the failing test."),
     ("Revert a regression", "Revert the bad commit on main first, then look for the cause on a branch.")),
)  # fmt: skip

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
    return MemoryItem(
        id=new_id(MEMORY),
        scope=SCOPE,
        title=title[:190].strip() or "Untitled",
        content=content[:4000],
        confidence=0.5,
        created_at=datetime.now(UTC),
    )


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


def hand_pairs() -> Iterator[Pair]:
    for first, same, other in HAND:
        yield Pair(memory(*first), memory(*same), same=True)
        yield Pair(memory(*first), memory(*other), same=False)


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


def quality(name: str, pairs: Sequence[Pair], embedder: StaticEmbedder) -> None:
    """Print precision and recall of the cosine alone and of the whole decision at each threshold."""
    texts = [item.embedding_text for pair in pairs for item in pair[:2]]
    vectors = embedder.embed_many(texts)
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
        print(f"     {threshold:.2f}            {cells[0]}            {cells[1]}")


def given(path: Path | None) -> dict[str, list[MemoryItem]]:
    """Return the memories of a file by script: the shipped embedder knows English only."""
    if path is None:
        return {"hand-written": [memory(*row[0]) for row in HAND]}
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


async def speed(count: int, embedder: StaticEmbedder) -> None:
    draw = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(Path(folder) / ".swarm" / "memory.db", embedder=embedder)
        toolbox = Toolbox(store, embedder, SystemClock(), Settings(), SCOPE)
        items = list(made_items(count, draw))
        for start in range(0, count, 1000):
            await store.add_memories(await prepare(toolbox, items[start : start + 1000]), embedder.name)
        del items
        print(f"\n{count} memories, {count // 20} of them near copies")
        for name, dry in (("dry run", True), ("for real", False)):
            start_s = time.perf_counter()
            done = await consolidate(toolbox, full=True, dry_run=dry)
            took_s = time.perf_counter() - start_s
            print(f"full, {name}: {took_s:.1f} s, {len(done.merged)} merged, {len(done.related)} related")
        start_s = time.perf_counter()
        undone = await undo_consolidation(toolbox, done.run_id)
        print(f"undone: {time.perf_counter() - start_s:.1f} s, {undone.restored} restored")
        print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=1000)
    chosen = parser.parse_args()
    embedder, draw = StaticEmbedder(), random.Random(SEED)
    quality("hand", list(hand_pairs()), embedder)
    for name, items in given(chosen.data).items():
        if len(items) > 1:
            quality(f"rules, {name}", list(made_pairs(items, chosen.pairs, draw)), embedder)
            quality(f"strangers, {name}", list(strangers(items, 20 * chosen.pairs, draw)), embedder)
    if chosen.memories:
        asyncio.run(speed(chosen.memories, embedder))


if __name__ == "__main__":
    main()
