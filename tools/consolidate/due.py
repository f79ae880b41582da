"""Queues what the bank needs: consolidation when enough is new, vectors for what has none. Nobody waits for it."""

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.job import Job
from swarm_memory.tools.consolidate.embedding_backlog import queue_embedding
from swarm_memory.tools.toolbox import Toolbox

CONSOLIDATE = "consolidate"
"""The kind of the jobs that consolidate."""

FINISHED = "consolidation.finished"
"""The event of one that ended."""

WHOLE_BANK = "bank"
"""The key of the one that was not asked for: there is at most one that waits."""


async def queue_when_due(toolbox: Toolbox, *, embedder_answers: bool = False) -> bool:
    """Queue a consolidation if `consolidate.run_every_new_items` are new and none waits or runs; return if it is due.

    Where the embedder has just answered, the embedding of what was stored while it did not is queued too. Raises
    `StorageError`.
    """
    store, scope, enough = toolbox.store, toolbox.scope, toolbox.settings.consolidate.run_every_new_items
    pending = await store.pending_upkeep(scope, toolbox.embedder.name, enough)
    if embedder_answers and pending.not_embedded:
        await queue_embedding(toolbox, pending.not_embedded)
    if pending.new < enough:
        return False
    former = await store.find_job(scope, CONSOLIDATE, WHOLE_BANK)
    if former is None or former.ended_at is not None:
        now = toolbox.clock.now()
        job = Job(id=new_id(JOB), scope=scope, kind=CONSOLIDATE, key=WHOLE_BANK, run_after=now, created_at=now)
        await store.enqueue(job)
    return True
