"""Made memories without end, which a store is measured with."""

from datetime import datetime, timedelta
from random import Random

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import MemoryItem, Provenance

DOMAINS = ("shop", "billing", "search", "mobile")
"""Each has a quarter of the items."""

_SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za".split()  # noqa: SIM905 - shorter so
_VERBS = (
    "check", "read", "retry", "split", "cache", "validate", "rebuild", "pin", "quote", "escape", "log", "lock", "sort",
    "merge", "batch",
)  # fmt: skip
_VOCABULARY = 6000
_DAYS = 200


class MadeMemories:
    """Memories without end: words by Zipf's law, three to six steps each, of the last 200 days."""

    def __init__(self, seed: int, scope: Scope, now: datetime) -> None:
        self._draw, self._scope, self._now = Random(seed), scope, now
        self._words = ["".join(self._draw.choice(_SYLLABLES) for _ in range(3)) for _ in range(_VOCABULARY)]
        self._weights = [1 / (rank + 10) for rank in range(_VOCABULARY)]

    def take(self, count: int) -> list[MemoryItem]:
        """Return the next `count` of them."""
        return [self._item() for _ in range(count)]

    def query(self, item: MemoryItem) -> str:
        """Return a question that an item is found by: some of its words."""
        words = [*item.title.split(), *item.content.split()]
        return " ".join(self._draw.sample(words, min(18, len(words))))

    def _item(self) -> MemoryItem:
        steps = [f"{at}. {self._phrase(self._draw.randint(6, 14))}" for at in range(1, self._draw.randint(4, 7))]
        return MemoryItem(
            id=new_id(MEMORY),
            scope=self._scope,
            title=self._phrase(5),
            content="\n".join(steps),
            domain=self._draw.choice(DOMAINS),
            confidence=self._draw.random(),
            provenance=Provenance(judge="evidence"),
            created_at=self._now - timedelta(days=self._draw.random() * _DAYS),
        )

    def _phrase(self, length: int) -> str:
        return " ".join([self._draw.choice(_VERBS), *self._draw.choices(self._words, self._weights, k=length)])
