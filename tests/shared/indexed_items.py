"""An embedder of unrelated vectors, and items with their index contents, as a bank stores them."""

import math
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.text.tokens import tokenize


@dataclass(frozen=True)
class Numbers:
    """An embedder whose vectors are made from the text by a seeded generator: unrelated, but always the same."""

    name: str = "numbers"
    dimensions: int = 16
    quantization: Literal["int8", "float32"] = "int8"
    light: None = None
    fusion_weight: float = 0.5
    min_cosine: float = 0.0
    duplicate_cosine: float = 0.87

    def vector(self, text: str) -> Vector:
        rng = random.Random(text)
        values = [rng.gauss(0, 1) for _ in range(self.dimensions)]
        length = math.hypot(*values)
        return array("f", [value / length for value in values])

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [self.vector(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self.vector(text) for text in texts]


NUMBERS = Numbers()


def stored(item: MemoryItem, embedder: Numbers | None = None) -> StoredMemory:
    """Return an item with its index contents; without an embedder it has no vector."""
    return StoredMemory(
        item=item,
        vector=None if embedder is None else embedder.vector(item.embedding_text),
        title_tokens=tokenize(item.title),
        description_tokens=tokenize(item.description),
        content_tokens=tokenize(item.content),
    )
