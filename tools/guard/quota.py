"""How much agents and hooks may add to the bank in a day; what the user does on the command line is not counted."""

from swarm_memory.schema.errors import QuotaReached
from swarm_memory.tools.toolbox import Toolbox


async def check_quota(toolbox: Toolbox) -> None:
    """Raise `QuotaReached` when nothing more may be added today: before a model is asked for what cannot be kept.

    The store counts once more, exactly, in the transaction that adds.
    """
    limit = toolbox.new_per_day
    if limit is not None and await toolbox.store.added_on(toolbox.scope, toolbox.clock.now()) >= limit:
        raise QuotaReached(limit)
