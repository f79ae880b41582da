"""Debris for a poisoned store: many near-duplicates of one worthless item in each group, seeded."""

import random
from collections import Counter
from collections.abc import Sequence

from swarm_memory.schema.benchmark import BenchmarkItem, Dataset
from swarm_memory.tools.benchmark.datasets import by_group
from swarm_memory.tools.text.tokens import STOP_WORDS

PREFIX = "debris-"
"""Begins the id of every item of debris."""

_WORDS = 24


def poisoned(dataset: Dataset, per_group: int, seed: int) -> Dataset:
    """Return the dataset with debris in every group, as a careless bulk import leaves it.

    The debris restates the group's commonest words, so that it answers nothing and resembles many queries; its items
    differ in a number and one word, so that a look for duplicates can find them.
    """
    items = list(dataset.items)
    for group, own in by_group(dataset).items():
        drawn = random.Random(f"{seed} {group}")
        words = _common_words(own)
        for number in range(per_group):
            text = f"Imported note {number + 1}: talked about {', '.join(words)} and {drawn.choice(words)}."
            items.append(BenchmarkItem(id=f"{PREFIX}{number + 1}", content=text, group=group))
    return Dataset(name=f"{dataset.name} with debris", items=tuple(items), questions=dataset.questions)


def _common_words(items: Sequence[BenchmarkItem]) -> list[str]:
    words = (word.strip(".,;:!?()\"'`").lower() for item in items for word in item.content.split())
    counts = Counter(word for word in words if len(word) > 2 and word.isalpha() and word not in STOP_WORDS)
    return [word for word, _ in counts.most_common(_WORDS)] or ["nothing"]
