"""What the memories distilled without a model are worth, as rated by two readers who also see the trajectories.

    python benchmarks/rating.py draw --data FOLDER --half looked|unseen --out ITEMS.md [--most N] [--order SEED]
    python benchmarks/rating.py figures ITEMS.md RATINGS RATINGS

FOLDER holds what benchmarks/judge_evidence.py reads; tasks fall into the same halves. `draw` writes each item with
its shortened trajectory, at most N per file, in an order that depends on SEED. A reader writes one line per item,
"NUMBER RATING" and optionally the reason:

    0  harmful: it names a false cure or a false rule, or says what is wrong or cannot be done
    1  useless: true, but only about this one bug or slip, or common knowledge, or too vague to follow
    2  useful: it saves the next person who works there steps or an error
    3  of value to others too: beyond this project, to anyone who uses the tool or meets the error

The two work separately, the second in another order, and neither sees the other's ratings. `figures` counts an item as
useful if both gave it 2 or more, and as harmful if either gave it 0; intervals are 95 % (Wilson).
"""

import argparse
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge_evidence import HALVES, files_of, read

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.trajectory.excerpt import shorten_trajectory

KINDS = ("user-correction", "repair", "open-problem", "guardrail", "loop", "search", "procedure", "convention")
"""Tags that name the kind of an item; the first of these that an item has counts."""

SHOWN_TOKENS = 2_500
HEADING = re.compile(r"(?m)^## (\d+) \[([\w-]+)\]")


@dataclass(frozen=True, slots=True)
class Item:
    """A draft and what it was distilled from."""

    draft: MemoryDraft
    trajectory: Trajectory
    judged: str
    file: str
    way: str = ""
    """How it was distilled, if that says more than its tags."""

    @property
    def kind(self) -> str:
        return self.way or next((kind for kind in KINDS if kind in self.draft.tags), "other")


def main() -> None:
    """Write items to be rated, or count ratings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("draw")
    writing.add_argument("--data", type=Path, required=True, help="folder, searched through, or one file")
    writing.add_argument("--half", choices=HALVES, required=True)
    writing.add_argument("--out", type=Path, required=True)
    writing.add_argument("--most", type=int, default=1000, help="items of one file")
    writing.add_argument("--order", type=int, default=0, metavar="SEED")
    counting = commands.add_parser("figures")
    counting.add_argument("items", type=Path)
    counting.add_argument("ratings", type=Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.command == "figures":
        figures(arguments.items, arguments.ratings)
        return
    items = list(items_of(arguments.data, arguments.half, arguments.most))
    numbered = list(enumerate(items, 1))
    random.Random(arguments.order).shuffle(numbered)
    arguments.out.write_text("\n".join(shown(number, item) for number, item in numbered), encoding="utf-8")
    print(f"{len(items)} items of {len({item.trajectory.task_id for item in items})} trajectories in {arguments.out}")


def items_of(data: Path, half: str, most: int) -> Iterator[Item]:
    """Yield the items of one half, at most `most` of each file, sampled over its trajectories."""
    settings = Settings()
    for path in files_of(data):
        found: list[Item] = []
        try:
            for each, known in read(path):
                if known.half == half:
                    trajectory = archivable(each, settings)
                    verdict = judge_by_evidence(trajectory, settings)
                    distilled = distill_by_extraction(trajectory, verdict, settings)
                    judged = f"{verdict.label} {verdict.confidence}"
                    found += (Item(draft, trajectory, judged, path.name) for draft in distilled.drafts)
        except InputError:
            continue
        yield from found if len(found) <= most else random.Random(0).sample(found, most)


def shown(number: int, item: Item) -> str:
    """Return an item and its trajectory as Markdown."""
    draft = item.draft
    steps = shorten_trajectory(item.trajectory, SHOWN_TOKENS).text
    return (
        f"## {number} [{item.kind}] {item.file}, {item.trajectory.task_id}, judged {item.judged}\n\n"
        f"**{draft.title}**\n{draft.description}\n{draft.content}\n{draft.domain} {' '.join(draft.tags)}; "
        f"distilled from {' '.join(draft.evidence)}\n\nTask: {item.trajectory.task[:1500]}\n\n{steps}\n"
    )


def figures(items: Path, ratings: Sequence[Path]) -> None:
    """Print by kind how many items are useful and harmful, and how far the two readers agree."""
    kinds = {int(number): kind for number, kind in HEADING.findall(items.read_text(encoding="utf-8"))}
    one, other = (_ratings(path) for path in ratings)
    both = [number for number in kinds if number in one and number in other]
    if not both:
        sys.exit("no item was rated by both readers")
    if missing := len(kinds) - len(both):
        print(f"{missing} items were not rated by both and do not count")
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number in both:
        for kind in (kinds[number], "all"):
            groups[kind].append((one[number], other[number]))
    for kind, pairs in sorted(groups.items(), key=lambda group: (group[0] == "all", group[0])):
        useful, harmful = sum(min(pair) >= 2 for pair in pairs), sum(min(pair) == 0 for pair in pairs)
        rate = wilson(useful, len(pairs))
        print(
            f"{kind:16} n={len(pairs):3} useful={useful:3} {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}]"
            f" of value to others={sum(min(pair) == 3 for pair in pairs)} harmful={harmful}"
        )
    pairs = groups["all"]
    same = sum(left == right for left, right in pairs) / len(pairs)
    print(f"the same rating: {same:.2f}; kappa of useful or not: {_kappa([(a >= 2, b >= 2) for a, b in pairs]):.2f}")


def _ratings(path: Path) -> dict[int, int]:
    found = re.findall(r"(?m)^\s*(\d+)[\s:]+([0-3])\b", path.read_text(encoding="utf-8"))
    return {int(number): int(rating) for number, rating in found}


def _kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Return Cohen's kappa: agreement beyond what the two readers' shares alone would give; 1 if they never differ."""
    n = len(pairs)
    agreed = sum(left == right for left, right in pairs) / n
    left, right = sum(each[0] for each in pairs) / n, sum(each[1] for each in pairs) / n
    by_chance = left * right + (1 - left) * (1 - right)
    return 1.0 if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)


if __name__ == "__main__":
    main()
