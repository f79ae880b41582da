"""After each outcome: what harms is withdrawn, what is suspected rests, the user is asked about his own word."""

from typing import NamedTuple

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.tools.consolidate.upkeep import UpkeepRun
from swarm_memory.tools.credit.harm import HARMFUL, memory_records
from swarm_memory.tools.ports.trajectories import Trials
from swarm_memory.tools.ports.upkeep import UpkeepChange
from swarm_memory.tools.toolbox import Toolbox


class Withdrawal(NamedTuple):
    """What one look at the records did."""

    run_id: str
    """What `undo_consolidation` takes back."""
    withdrawn: tuple[str, ...]
    trials: Trials


async def withdraw_harmful(toolbox: Toolbox) -> Withdrawal:
    """Archive the project's memories that proved harmful, with their figures, and keep which rest from now on.

    What the user said neither rests nor goes: it is put before him. What belongs to every project or to a team stays:
    one project alone does not tell. Raises `StorageError`.
    """
    store, scope, embedder = toolbox.store, toolbox.scope, toolbox.embedder
    records = {each: it for each, it in (await memory_records(toolbox)).items() if it.resting or it.harmful}
    items = await store.upkeep_items_of(scope, embedder.name, embedder.dimensions, list(records))
    found = [(each, records[each.id]) for each in items]
    trials = Trials(
        frozenset(each.id for each, record in found if record.resting and each.standing <= 0),
        {each.id: record.says for each, record in found if record.is_doubtful and each.standing > 0},
    )
    changes = [
        UpkeepChange(each, each.confidence, "archived", f"{HARMFUL}: {record.says}")
        for each, record in found
        if record.harmful and each.standing <= 0
    ]
    run = UpkeepRun(toolbox, new_id(RUN), toolbox.clock.now(), dry_run=False, on_progress=None)
    await store.save_trials(scope, trials)
    return Withdrawal(run.id, tuple(await run.withdraw(changes)) if changes else (), trials)
