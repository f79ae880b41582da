"""Gives every memory and passage a vector of the current embedder, in batches: stopped, it goes on where it was."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm_memory.tools.ports.models import Accompanied, Embedder
from swarm_memory.tools.retrieve.embed import BACKLOG, BATCH, REEMBED, embed_batch
from swarm_memory.tools.toolbox import GiveWay, Toolbox, at_once

if TYPE_CHECKING:
    from swarm_memory.server.storage.bank import Bank
    from swarm_memory.server.storage.stores.upkeep import Vectors


@dataclass(slots=True)
class Reembedded:
    """What was done."""

    embedder: str
    embedded: int = 0
    passages: int = 0
    """Of sources, embedded too."""
    skipped: int = 0
    """Memories and passages without a text that can be embedded; keywords find them."""
    dropped: tuple[str, ...] = ()
    """Embedders whose vectors were deleted."""


async def reembed(
    store: "Bank",
    embedder: Embedder,
    *,
    drop_others: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
    give_way: GiveWay = at_once,
) -> Reembedded:
    """Embed what has no vector yet; `on_progress` is given how many are done. No model is called in a transaction.

    With `drop_others` the vectors of other embedders are deleted, once every memory has its own. Raises `ModelError`:
    what was embedded until then is kept.
    """
    done = Reembedded(embedder.name)
    async for written, skipped in _batches(store.sources.vectors, embedder, give_way):
        done.passages += written
        done.skipped += skipped
        on_progress(done.embedded + done.passages + done.skipped)
    async for written, skipped in _batches(store.vectors, embedder, give_way):
        done.embedded += written
        done.skipped += skipped
        on_progress(done.embedded + done.passages + done.skipped)
    if isinstance(embedder, Accompanied):
        async for _ in _batches(store.vectors, embedder.light, give_way):
            pass
    if drop_others:
        done.dropped = tuple(await store.drop_other_spaces(embedder.name, embedder.dimensions))
    return done


async def queue_reembedding(toolbox: Toolbox) -> None:
    """Queue it where something has no vector of an embedder that ships; an endpoint is sent no bank unasked.

    Raises `StorageError`.
    """
    store, embedder = toolbox.store, toolbox.embedder
    if toolbox.settings.embedding.provider in ("openai", "fastembed"):
        return
    waiting = [(await store.pending_upkeep(scope, embedder.name, 0)).not_embedded for scope in toolbox.scope.readable()]
    if any(waiting) or await store.sources.vectors.without_vector(embedder.name, embedder.dimensions, 1, 0):
        await toolbox.queue(REEMBED, BACKLOG)


async def _batches(items: "Vectors", embedder: Embedder, give_way: GiveWay) -> AsyncGenerator[tuple[int, int]]:
    """Embed what has no vector; yield after each batch how many got one, and how many texts were refused."""
    after = 0
    while rows := await items.without_vector(embedder.name, embedder.dimensions, BATCH, after):
        vectors = await embed_batch(embedder, [text for _, text in rows], give_way)
        found = {seq: vector for (seq, _), vector in zip(rows, vectors, strict=True) if vector is not None}
        written = await items.put_vectors(embedder.name, found) if found else 0
        yield written, len(rows) - len(found)
        after = rows[-1][0]
