"""The vectors and tokens of memory items, also of those that are stored before they are embedded."""

from collections.abc import AsyncGenerator, Sequence

from swarm_memory.schema.errors import InputError, ModelError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import Accompanied, Embedder, Vector
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import GiveWay, Toolbox, at_once

EMBED = "embed"
"""The kind of the jobs that embed a project's backlog."""

REEMBED = "reembed"
"""The kind of those that give whatever has no vector of the current embedder one, passages too."""

BACKLOG = "backlog"
"""Their key: there is at most one that waits."""

BATCH = 128
_PIECE = 8
"""Of an embedder that takes milliseconds for a text, so many are embedded before a caller is let in."""


async def prepare(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[StoredMemory]:
    """Return the items, in order, with their vectors and the tokens of each field.

    Raises `ModelError` when the embedder's endpoint fails.
    """
    if not items:
        return []
    vectors = await toolbox.embedder.embed_documents([item.embedding_text for item in items])
    return [with_indexes(item, vector) for item, vector in zip(items, vectors, strict=True)]


async def prepare_or_say(toolbox: Toolbox, items: Sequence[MemoryItem]) -> tuple[list[StoredMemory], str | None]:
    """Return the items as `prepare` does; where the embedder fails without vectors, and what is to be said of it."""
    try:
        return await prepare(toolbox, items), None
    except ModelError as error:
        fault = f"stored without vectors, found by keywords until the embedder answers again: {redact(str(error)).text}"
        return [with_indexes(item, None) for item in items], fault


def with_indexes(item: MemoryItem, vector: Vector | None) -> StoredMemory:
    """Return an item with all that its indexes hold; without a vector words find it until the embedder answers."""
    return StoredMemory(item, vector, tokenize(item.title), tokenize(item.description), tokenize(item.content))


async def not_embedded(toolbox: Toolbox) -> int:
    """Return how many active memories of the project, and of all projects, lack a vector. Raises `StorageError`."""
    store, name = toolbox.store, toolbox.embedder.name
    return sum([(await store.pending_upkeep(scope, name, 0)).not_embedded for scope in toolbox.scope.readable()])


async def embed_backlog(toolbox: Toolbox) -> AsyncGenerator[dict[str, Vector]]:
    """Give each memory of the project, and of all projects, that has no vector at all one of the embedder.

    What it refuses stays without. Each piece is written, then its vectors are yielded by the memories' ids; no model is
    called in a transaction. Raises `ModelError`: what was embedded until then is kept.
    """
    store, embedder = toolbox.store, toolbox.embedder
    size = _PIECE if isinstance(embedder, Accompanied) else BATCH
    for scope in toolbox.scope.readable():
        after = 0
        await toolbox.give_way()
        while rows := await store.unembedded(scope, size, after):
            after = rows[-1][0]
            vectors = await embed_batch(embedder, [text for _, text in rows])
            found = {seq: vector for (seq, _), vector in zip(rows, vectors, strict=True) if vector is not None}
            yield await store.put_first_vectors(embedder.name, found)
            await toolbox.give_way()


async def embed_batch(embedder: Embedder, texts: Sequence[str], give_way: GiveWay = at_once) -> list[Vector | None]:
    """Embed a batch and give way before each piece; None for a text that is refused. Raises `ModelError`."""
    piece = _PIECE if isinstance(embedder, Accompanied) else max(1, len(texts))
    vectors: list[Vector | None] = []
    for at in range(0, len(texts), piece):
        await give_way()
        try:
            vectors += await embedder.embed_documents(texts[at : at + piece])
        except InputError:
            for text in texts[at : at + piece]:
                try:
                    vectors += await embedder.embed_documents([text])
                except InputError:
                    vectors.append(None)
    return vectors
