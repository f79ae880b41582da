"""The vectors and tokens of memory items, including those that are stored before they are embedded."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any
from zlib import crc32

from swarm_memory.schema.errors import InputError, ModelError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.models import Embedder, Vector
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import GiveWay, Toolbox, noop

EMBED = "embed"
"""The kind of the jobs that embed a project's backlog."""

REEMBED = "reembed"
"""The kind of the jobs that embed everything that has no vector of the current embedder, passages too."""

BACKLOG = "backlog"
"""The key of these jobs: at most one of a kind waits."""

BATCH = 32
"""How many texts are in one request to an endpoint and written together: they are kept if the next request fails."""

_PIECE = 8
"""How many texts an embedder that takes milliseconds for each embeds before a caller is let in."""


async def prepare(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[StoredMemory]:
    """Return the items, in order, with their vectors and the tokens of each field.

    Raises `ModelError` when the embedder's endpoint fails.
    """
    if not items:
        return []
    vectors = await toolbox.embedder.embed_documents([item.embedding_text for item in items])
    return [with_indexes(item, vector) for item, vector in zip(items, vectors, strict=True)]


async def prepare_or_report(toolbox: Toolbox, items: Sequence[MemoryItem]) -> tuple[list[StoredMemory], str | None]:
    """Return the items as `prepare` does; if the embedder fails, without vectors and with a notice that says so."""
    try:
        return await prepare(toolbox, items), None
    except ModelError as error:
        fault = f"stored without vectors, found by keywords until the embedder answers again: {redact(str(error)).text}"
        return [with_indexes(item, None) for item in items], fault


def with_indexes(item: MemoryItem, vector: Vector | None) -> StoredMemory:
    """Return an item with all that its indexes hold; without a vector it is found by words until it has one."""
    return StoredMemory(item, vector, tokenize(item.title), tokenize(item.description), tokenize(item.content))


async def not_embedded(toolbox: Toolbox) -> int:
    """Return how many active memories of the project and the global scope lack a vector. Raises `StorageError`."""
    store, name = toolbox.store, toolbox.embedder.name
    return sum([(await store.pending_upkeep(scope, name, 0)).not_embedded for scope in toolbox.scope.readable()])


def _mark(embedder: Embedder, seq: int, text: str) -> str:
    """Return the mark of a text that an embedder refused; another text, or another embedder, has another mark."""
    return f"{seq}-{crc32(f'{embedder.name} {text}'.encode()):08x}"


async def embed_backlog(
    toolbox: Toolbox, on_asked: Callable[[tuple[int, Sequence[str]]], object] = lambda _: None
) -> AsyncGenerator[dict[str, Vector]]:
    """Embed each memory of the project and the global scope that has no vector at all.

    Those stored since the last such job come first, then older ones if any lack a vector. What was refused in that job
    is not sent again. `on_asked` is called with each position up to which all memories are done, and with the marks of
    those refused since the last position. Each piece is written, then its vectors are yielded by the memories' ids; no
    model is called in a transaction. Raises `ModelError`: what was embedded until then is kept.
    """
    store, embedder = toolbox.store, toolbox.embedder
    size = _PIECE if embedder.light else BATCH
    former = await store.find_job(toolbox.scope, EMBED, BACKLOG, "completed")
    compared = (await store.pending_upkeep(toolbox.scope, embedder.name, 0)).consolidated
    said: dict[str, Any] = (former and former.result) or {}
    refused = frozenset[str](said.get("refused", ()))
    on_asked((seen := said.get("seen", compared), ()))
    for start, end in ((seen, sys.maxsize), (0, seen)):
        for scope in toolbox.scope.readable():
            after = start
            await toolbox.give_way()
            while rows := [each for each in await store.unembedded(scope, size, after) if each[0] <= end]:
                after = rows[-1][0]
                asked = [each for each in rows if _mark(embedder, *each) not in refused]
                vectors = await embed_batch(embedder, [text for _, text in asked])
                found = {seq: vector for (seq, _), vector in zip(asked, vectors, strict=True) if vector is not None}
                yield await store.put_first_vectors(embedder.name, found)
                on_asked((after, [_mark(embedder, *each) for each in rows if each[0] not in found]))
                await toolbox.give_way()
        if not await not_embedded(toolbox):
            break


async def embed_batch(embedder: Embedder, texts: Sequence[str], give_way: GiveWay = noop) -> list[Vector | None]:
    """Embed a batch, giving way before each piece; None for a text that is refused. Raises `ModelError`."""
    piece = _PIECE if embedder.light else max(1, len(texts))
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
