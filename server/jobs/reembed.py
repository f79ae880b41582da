"""Gives every memory and passage a vector of the current embedder, in batches: if stopped, it resumes where it was."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.embed import BACKLOG, BATCH, REEMBED, embed_batch, not_embedded
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.storage.stores.upkeep import Vectors


@dataclass(slots=True)
class Reembedded:
    """What was done."""

    embedder: str
    embedded: int = 0
    passages: int = 0
    """How many passages of sources were embedded."""
    skipped: int = 0
    """Memories and passages without a text that can be embedded; keyword search still finds them."""
    dropped: tuple[str, ...] = ()
    """Embedders whose vectors were deleted."""


async def reembed(toolbox: Toolbox, *, on_progress: Callable[[int], None] = lambda _: None) -> Reembedded:
    """Embed what has no vector yet; `on_progress` receives how many are done. No model is called in a transaction.

    Raises `ModelError`; what was embedded until then is kept.
    """
    store, embedder = toolbox.store, toolbox.embedder
    done = Reembedded(embedder.name)

    async def fill(items: "Vectors", by: Embedder) -> int:
        filled = after = 0
        while rows := await items.without_vector(by.name, by.dimensions, BATCH, after):
            vectors = await embed_batch(by, [text for _, text in rows], toolbox.give_way)
            found = {seq: vector for (seq, _), vector in zip(rows, vectors, strict=True) if vector is not None}
            filled += await items.put_vectors(by.name, found) if found else 0
            after = rows[-1][0]
            if by is embedder:
                done.skipped += len(rows) - len(found)
                on_progress(done.passages + filled + done.skipped)
        return filled

    done.passages = await fill(store.sources.vectors, embedder)
    done.embedded = await fill(store.vectors, embedder)
    if embedder.light:
        await fill(store.vectors, embedder.light)
    return done


async def queue_reembedding(toolbox: Toolbox) -> None:
    """Queue reembedding if something lacks a vector of an embedder that ships; no bank is sent to an endpoint unasked.

    Raises `StorageError`.
    """
    store, embedder = toolbox.store, toolbox.embedder
    if toolbox.settings.embedding.provider == "openai":
        return
    passages = await store.sources.vectors.without_vector(embedder.name, embedder.dimensions, 1, 0)
    if passages or await not_embedded(toolbox):
        await toolbox.queue(REEMBED, BACKLOG)
