"""How a MaTTS run ends: its rollouts compared, what that teaches stored, and the memories they were given credited.

How rollouts are compared stands in `self_contrast`; when they are done is not here (`scaling`).
"""

import asyncio
from collections.abc import Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.rollout import MattsRun, RunSummary
from swarm_memory.tools.consolidate.duplicates import supersede_guardrails
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.learn.items import Origin, drawn_item, mean_confidence
from swarm_memory.tools.learn.novelty import SortedOut, not_vouched_for, prepared_for_bank, sort_out, why_less
from swarm_memory.tools.matts.attempts import Attempt, Drawn, numbered
from swarm_memory.tools.matts.rollouts import best_of
from swarm_memory.tools.matts.self_contrast import Contrast, self_contrast
from swarm_memory.tools.ports.rollouts import AgentRunner, RunEnd
from swarm_memory.tools.toolbox import Toolbox

_NOTHING = SortedOut(new=(), known=(), reinforcement=0.0)


async def complete_run(toolbox: Toolbox, runner: AgentRunner, run: MattsRun) -> MattsRun:
    """Compare the rollouts, store what that teaches, and return the run as it ended.

    It ends `failed` where no rollout left anything to compare. Raises `StorageError`.
    """
    best = best_of(run)
    folder = await runner.settle(run.run_id, best)
    attempts = await _attempts(toolbox, run)
    if best is None or not attempts:
        return await _end_failed(toolbox, run, _why_none(run))
    await _credit(toolbox, run, attempts[0])
    contrast = await self_contrast(toolbox.chat, attempts, best, run.mode, toolbox.settings)
    had = await not_vouched_for(toolbox, attempts[0].trajectory)
    items = await asyncio.to_thread(_items, toolbox, run, contrast, attempts, had)
    memories, fault = await prepared_for_bank(toolbox, items)
    found = await sort_out(toolbox, attempts[0].trajectory, memories)
    ended = run.completed(_summary(run.summary, best, folder, contrast, found, fault))
    await toolbox.store.end_run(_end_of(toolbox, ended, found))
    await supersede_guardrails(toolbox, (memory.item for memory in found.new), run.run_id)
    return ended


async def fail_run(toolbox: Toolbox, runner: AgentRunner, run: MattsRun, reason: str) -> None:
    """Clear away what the rollouts left, and write down that the run has failed. Raises `StorageError`."""
    await runner.settle(run.run_id, None)
    await _end_failed(toolbox, run, reason)


async def _end_failed(toolbox: Toolbox, run: MattsRun, reason: str) -> MattsRun:
    ended = run.failed(reason)
    await toolbox.store.end_run(_end_of(toolbox, ended, _NOTHING))
    return ended


def _summary(
    former: RunSummary, best: int, folder: str | None, contrast: Contrast, found: SortedOut, fault: str | None
) -> RunSummary:
    """Return how a completed run stands: what it began with and its rollouts stay, all else is told anew."""
    return RunSummary(
        runner=former.runner,
        memory_ids=former.memory_ids,
        preamble=former.preamble,
        rollouts=former.rollouts,
        best=best,
        best_folder=folder,
        stored=tuple(memory.item.id for memory in found.new),
        reinforced=found.known,
        distiller=contrast.distiller,
        prompt_hash=contrast.prompt_hash,
        model=contrast.model,
        notes=contrast.notes,
        reason=why_less(contrast.reason, found, fault),
    )


def _end_of(toolbox: Toolbox, ended: MattsRun, found: SortedOut) -> RunEnd:
    return RunEnd(
        run=ended,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=found.reinforcement,
        new_per_day=toolbox.new_per_day,
    )


async def _attempts(toolbox: Toolbox, run: MattsRun) -> list[Attempt]:
    """Return the rollouts that left a trajectory, as they are compared; also those from before a restart."""
    attempts: list[Attempt] = []
    for each in run.summary.rollouts:
        if each.trajectory_id is None:
            continue
        kept = await toolbox.store.get_trajectory(run.scope, each.trajectory_id)
        if kept is not None and kept[1] is not None:
            made = await asyncio.to_thread(numbered, each.number, each.trajectory_id, kept[0], kept[1], each.notes)
            attempts.append(made)
    return attempts


async def _credit(toolbox: Toolbox, run: MattsRun, first: Attempt) -> None:
    """Credit the memories by the first rollout alone: it is what one try would have given, the best is luck too."""
    if run.summary.memory_ids and first.number == 1:
        kept = await toolbox.store.get_trajectory(run.scope, first.trajectory_id)
        if kept is not None and kept[1] is not None:
            await record_outcome(toolbox, run.task_id, kept[1], kept[0])


def _items(
    toolbox: Toolbox, run: MattsRun, contrast: Contrast, attempts: Sequence[Attempt], had: Sequence[MemoryItem]
) -> list[MemoryItem]:
    now = toolbox.clock.now()
    verdicts = [each.verdict for each in attempts]

    def item(drawn: Drawn) -> MemoryItem:
        owner = next(each for each in attempts if each.number == drawn.attempt)
        return drawn_item(
            drawn.draft,
            Origin(run.run_id, run.scope, owner.trajectory_id, owner.trajectory, owner.verdict, contrast, had),
            outcome=drawn.outcome,
            confidence=mean_confidence(drawn.outcome, verdicts, toolbox.settings),
            at=now,
        )

    return [item(drawn) for drawn in contrast.drawn]


def _why_none(run: MattsRun) -> str:
    errors = dict.fromkeys(each.error for each in run.summary.rollouts if each.error)
    told = "; ".join(error for error in errors if error) or "nothing says why"
    return f"none of {run.total} rollouts left anything to learn from: {told}"[:1_000]
