"""What the indexes of a memory item hold, made in one place; where they are kept is the store's business."""

from array import array
from collections.abc import Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.ports.bank import StoredMemory
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox


async def prepare(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[StoredMemory]:
    """Return the items, in order, with their vectors and the tokens of each field.

    Raises `ModelError` when the embedder's endpoint fails; `prepare_without_vectors` needs none.
    """
    if not items:
        return []
    vectors = await toolbox.embedder.embed_documents([item.embedding_text for item in items])
    return [_stored(item, vector) for item, vector in zip(items, vectors, strict=True)]


def prepare_without_vectors(items: Sequence[MemoryItem]) -> list[StoredMemory]:
    """Return the items with tokens only: keywords find them, vectors follow when the embedder answers again."""
    return [_stored(item, None) for item in items]


def cosine(left: Vector, right: Vector) -> float:
    """Return the cosine of two unit vectors of one space."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def _stored(item: MemoryItem, vector: "array[float] | None") -> StoredMemory:
    return StoredMemory(
        item=item,
        vector=vector,
        title_tokens=tokenize(item.title),
        description_tokens=tokenize(item.description),
        content_tokens=tokenize(item.content),
    )
