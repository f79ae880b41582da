"""Measuring memories in the background: what harms withdraws itself; what is expected of the others is kept."""

from collections.abc import Sequence
from typing import NamedTuple

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.outcome import Lift, LiftReport
from swarm_memory.tools.consolidate.upkeep import UpkeepRun
from swarm_memory.tools.credit.lift import HARMFUL, measured, rates_of, withdrawn_memories
from swarm_memory.tools.ports.upkeep import UpkeepChange
from swarm_memory.tools.toolbox import Toolbox

_DIGITS = 4


class Measured(NamedTuple):
    """What one measuring found and did."""

    run_id: str
    """What `undo_consolidation` takes back."""
    report: LiftReport
    withdrawn: tuple[str, ...]


async def measure_memories(toolbox: Toolbox) -> Measured:
    """Archive the project's memories whose lift is below 0, with their figures; keep what is expected of the others.

    A memory that somebody restores is measured anew from then on. Nothing that the user said goes, nor what belongs to
    every project: one project alone does not tell. Raises `StorageError`.
    """
    run = UpkeepRun(toolbox, new_id(RUN), toolbox.clock.now(), dry_run=False, on_progress=None)
    report = await measured(toolbox)
    withdrawn = await _withdraw(run, [lift for lift in report.memories if lift.worth == "harmful"])
    if report.whole is not None:
        every = report.whole.expected
        expected = {lift.of: round(lift.expected - every, _DIGITS) for lift in report.memories}
        report = report.model_copy(update={"withdrawn": await withdrawn_memories(toolbox)})
        await toolbox.store.save_lifts(toolbox.scope, expected, report, rates_of(report.memories, report.dropout))
    return Measured(run.id, report, tuple(withdrawn))


async def _withdraw(run: UpkeepRun, harmful: Sequence[Lift]) -> set[str]:
    if not harmful:
        return set()
    embedder, figures = run.toolbox.embedder, {lift.of: lift for lift in harmful}
    items = await run.toolbox.store.upkeep_items_of(
        run.toolbox.scope, embedder.name, embedder.dimensions, list(figures)
    )
    changes = [
        UpkeepChange(item, item.confidence, "archived", f"{HARMFUL}: {figures[item.id].says}")
        for item in items
        if item.standing <= 0
    ]
    return await run.withdraw(changes)
