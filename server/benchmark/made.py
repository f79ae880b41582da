"""Made memories without end, and an embedder without a model: what a store is measured with."""

import hashlib
import re
from array import array
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Literal

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Provenance

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

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


class HashedEmbedder:
    """Sums a random vector for each word: as fast as adding, and near for texts that share words.

    It measures a store with vectors of a published size where no model of that size is at hand; it says nothing of how
    well anything is found.
    """

    quantization: Literal["int8", "float32"] = "float32"
    fusion_weight = 0.5
    min_cosine = 0.0
    duplicate_cosine = 0.95

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.name = f"benchmark-hashed-{dimensions}"
        self._known: dict[str, Vector] = {}

    async def embed_query(self, text: str) -> "Vector":
        return self.embed(text)

    async def embed_queries(self, texts: Sequence[str]) -> "list[Vector]":
        return [self.embed(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector]":
        return [self.embed(text) for text in texts]

    def embed(self, text: str) -> "Vector":
        """Return the unit vector of a text. Raises `InputError` for one without a word."""
        import numpy

        words = re.findall(r"\w+", text.lower())
        if not words:
            raise InputError("the text holds nothing to embed: give it at least one word")
        summed = numpy.sum([numpy.asarray(self._word(word)) for word in words], axis=0)
        return array("f", (summed / numpy.linalg.norm(summed)).astype("f4").tobytes())

    def _word(self, word: str) -> "Vector":
        import numpy

        if word not in self._known:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            drawn = numpy.random.default_rng(seed).standard_normal(self.dimensions)
            self._known[word] = array("f", drawn.astype("f4").tobytes())
        return self._known[word]
