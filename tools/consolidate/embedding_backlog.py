"""Embeds what was stored while the embedder failed, when it answers again; whoever works off jobs does it.

What has the vectors of another embedder is left alone: to move a bank costs what only its user may spend.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Job
from swarm_memory.tools.ports.models import Embedder, Vector
from swarm_memory.tools.toolbox import Toolbox

EMBED = "embed"
"""The kind of the jobs that embed a project's backlog."""

BACKLOG = "backlog"
"""Their key: there is at most one that waits."""

BATCH = 128


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of a backlog."""

    embedded: int
    left: int
    """Memories still without a vector of the embedder: refused texts, and those with vectors of another one."""


async def queue_embedding(toolbox: Toolbox, waiting: int) -> None:
    """Queue the embedding of so many memories that wait, unless the last such job had to leave as many.

    Raises `StorageError`.
    """
    store, scope = toolbox.store, toolbox.scope
    former = await store.find_job(scope, EMBED, BACKLOG)
    if former is None or (former.ended_at is not None and waiting > _left(former)):
        now = toolbox.clock.now()
        await store.enqueue(Job(id=new_id(JOB), scope=scope, kind=EMBED, key=BACKLOG, run_after=now, created_at=now))


def _left(former: Job) -> int:
    left = (former.result or {}).get("left")
    return left if isinstance(left, int) else 0


async def embed_backlog(toolbox: Toolbox, on_progress: Callable[[int], Awaitable[None]]) -> Embedded:
    """Give each memory of the scope that has no vector at all one of the embedder; `on_progress` is told how many have.

    Each batch is written as it is done, and no model is called in a transaction. Raises `ModelError`: what was embedded
    until then is kept.
    """
    store, embedder = toolbox.store, toolbox.embedder
    embedded = after = 0
    while rows := await store.unembedded(toolbox.scope, BATCH, after):
        vectors = await embed_batch(embedder, [text for _, _, text in rows])
        found = {row[1]: vector for row, vector in zip(rows, vectors, strict=True) if vector is not None}
        embedded += await store.put_first_vectors(embedder.name, found) if found else 0
        after = rows[-1][0]
        await on_progress(embedded)
    return Embedded(embedded, (await store.pending_upkeep(toolbox.scope, embedder.name, 0)).not_embedded)


async def embed_batch(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """Embed a batch; where one text is refused, each by itself, and None for the refused. Raises `ModelError`."""
    try:
        return [*await embedder.embed_documents(texts)]
    except InputError:
        return [await _embed_one(embedder, text) for text in texts]


async def _embed_one(embedder: Embedder, text: str) -> Vector | None:
    try:
        (vector,) = await embedder.embed_documents([text])
    except InputError:
        return None
    return vector
