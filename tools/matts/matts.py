"""Memory-aware test-time scaling: one task done several times, and what the comparison teaches (ReasoningBank, MaTTS).

A run is durable: each rollout is saved as it ends, and whoever calls with the same `run_id` goes on from there.
"""

import asyncio
from collections.abc import Sequence

import anyio

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Report
from swarm_memory.schema.memory import Distillation, MemoryItem
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsRequest, MattsResult, MattsRun, RunSummary
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.guard.gate import check_quota
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.learn.items import Origin, SortedOut, drawn_item, mean_confidence, new_items
from swarm_memory.tools.matts.contrast import Contrast, self_contrast
from swarm_memory.tools.matts.rollouts import Attempt, best_of, numbered
from swarm_memory.tools.matts.scaling import Scaling
from swarm_memory.tools.ports.outside import AgentRunner
from swarm_memory.tools.ports.trajectories import RunEnd
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

MAX_TASK_CHARS = 20_000

_NOTHING = SortedOut()


async def run_matts(
    toolbox: Toolbox, asked: MattsRequest, runner: AgentRunner, on_progress: Report | None = None
) -> MattsResult:
    """Do a task several times at once, or once and then refine it several times, and learn from the comparison.

    Parallel: the memories that fit are retrieved once and put into every rollout's prompt; seeds and temperatures
    differ. Sequential: each rollout checks and corrects the one before; it stops as soon as hard evidence says Success.
    Every rollout is judged and kept. The items that the comparison gives are checked and stored with the run's id; the
    best rollout is returned. A call with the `run_id` of a run that was interrupted or failed does only what is missing
    (its task and mode are those of the first call); of one that has ended it returns the result again.

    The run ends `completed`; `failed` when no rollout left a trajectory, or when an error is raised; `cancelled` when
    `store.cancel_run` was called meanwhile. Cancelling this call leaves the run to be gone on with. Raises `InputError`
    and `ConfigError` (also the runner's), `StorageError`.
    """
    run = await _begin(toolbox, asked, runner)
    if run.status != "running":
        return await _result(toolbox, run)
    scaling = Scaling(toolbox, runner, run, on_progress)
    try:
        await scaling.work()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await _clear_if_cancelled(toolbox, runner, run)
        raise
    except (InputError, ConfigError) as error:
        await runner.settle(run.run_id, None)
        await _end(toolbox, scaling.run.failed(redact(str(error)).text), _NOTHING)
        raise
    run = await _ended(toolbox, runner, scaling)
    stands = await toolbox.store.get_run(toolbox.scope, run.run_id)
    return await _result(toolbox, stands or run)


async def _begin(toolbox: Toolbox, asked: MattsRequest, runner: AgentRunner) -> MattsRun:
    """Write the run as running, and return it as it stands."""
    settings = toolbox.settings.matts
    former = await toolbox.store.get_run(toolbox.scope, asked.run_id)
    if former is not None:
        return await toolbox.store.begin_run(former)
    if not settings.enabled:
        raise ConfigError("matts.enabled is false: set it to true to scale tasks")
    name, default = ("k", settings.parallel_k) if asked.mode == "parallel" else ("r", settings.sequential_r)
    wanted = default if asked.count is None else asked.count
    if not 1 <= wanted <= MAX_ROLLOUTS:
        raise InputError(f"{name} is {wanted}: it must be from 1 to {MAX_ROLLOUTS}")
    words = redact(clean(asked.task, MAX_TASK_CHARS).strip(), pii=toolbox.settings.distill.redact_pii).text
    if not words:
        raise InputError("task is empty: say what is to be done")
    task_id = asked.task_id or f"task-{digest(words)[:16]}"
    await check_quota(toolbox)
    run = MattsRun(
        run_id=asked.run_id,
        scope=toolbox.scope,
        task_id=task_id,
        task=words,
        mode=asked.mode,
        k=wanted,
        summary=await _begun(toolbox, runner, words, task_id),
        created_at=toolbox.clock.now(),
    )
    return await toolbox.store.begin_run(run)


async def _begun(toolbox: Toolbox, runner: AgentRunner, task: str, task_id: str) -> RunSummary:
    """Return what a run begins with: for a runner that takes notes, the memories that fit its task."""
    if not runner.takes_notes:
        return RunSummary(runner=runner.name)
    found = await retrieve(toolbox, task, task_id=task_id)
    ids = tuple(memory.item.id for memory in found.memories)
    return RunSummary(runner=runner.name, memory_ids=ids, preamble=found.preamble)


async def _clear_if_cancelled(toolbox: Toolbox, runner: AgentRunner, run: MattsRun) -> None:
    """Clear away what the rollouts left, unless the run is to be gone on with."""
    stands = await toolbox.store.get_run(run.scope, run.run_id)
    if stands is not None and stands.status == "cancelled":
        await runner.settle(run.run_id, None)


async def _ended(toolbox: Toolbox, runner: AgentRunner, scaling: Scaling) -> MattsRun:
    """End a run whose rollouts have ended; of one that was cancelled meanwhile only clear away what they left."""
    if scaling.is_cancelled:
        await runner.settle(scaling.run.run_id, None)
        return scaling.run
    ended = await _complete(toolbox, runner, scaling.run)
    if ended.status == "completed":
        await scaling.tell("compared", ended.total + 1)
    return ended


async def _complete(toolbox: Toolbox, runner: AgentRunner, run: MattsRun) -> MattsRun:
    """Compare the rollouts, store what that teaches, and return the run as it ended.

    It ends `failed` where no rollout left anything to compare.
    """
    best = best_of(run)
    folder = await runner.settle(run.run_id, best)
    attempts = await _attempts(toolbox, run)
    if best is None or not attempts:
        return await _end(toolbox, run.failed(_why_none(run)), _NOTHING)
    await _credit(toolbox, run, attempts[0])
    contrast = await self_contrast(toolbox.chat, attempts, run.mode, toolbox.settings)
    found = await new_items(toolbox, attempts[0].trajectory, lambda had: _items(toolbox, run, contrast, attempts, had))
    told = {
        "best": best,
        "best_folder": folder,
        "stored": tuple(item.id for item in found.items),
        "reinforced": found.known,
        "distiller": contrast.distiller,
        "prompt_hash": contrast.prompt_hash,
        "model": contrast.model,
        "notes": contrast.notes,
        "reason": found.why_less(contrast.reason),
    }
    ended = await _end(toolbox, run.completed(run.summary.model_copy(update=told)), found)
    await link_contradictions(toolbox, found.new, run.run_id)
    return ended


async def _end(toolbox: Toolbox, ended: MattsRun, found: SortedOut) -> MattsRun:
    """Write how a run ended, with what it taught."""
    end = RunEnd(
        run=ended,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=found.reinforcement,
        new_per_day=toolbox.new_per_day,
    )
    await toolbox.store.end_run(end)
    return ended


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
    verdicts = [each.verdict for each in attempts]
    how = Distillation(drafts=(), distiller=contrast.distiller, prompt_hash=contrast.prompt_hash, model=contrast.model)
    return [
        drawn_item(
            draft,
            Origin(run.run_id, run.scope, owner.trajectory_id, owner.trajectory, owner.verdict, how),
            had,
            outcome=outcome,
            confidence=mean_confidence(outcome, verdicts, toolbox.settings),
            at=toolbox.clock.now(),
        )
        for draft, outcome, owner in contrast.drawn
    ]


def _why_none(run: MattsRun) -> str:
    errors = dict.fromkeys(each.error for each in run.summary.rollouts if each.error)
    told = "; ".join(error for error in errors if error) or "nothing says why"
    return f"none of {run.total} rollouts left anything to learn from: {told}"[:1_000]


async def _result(toolbox: Toolbox, run: MattsRun) -> MattsResult:
    """Read what a run gave."""
    best = run.rollout(run.summary.best) if run.summary.best is not None else None
    kept = await toolbox.store.get_trajectory(run.scope, best.trajectory_id) if best and best.trajectory_id else None
    stored = await toolbox.store.get_memories((run.scope,), run.summary.stored) if run.summary.stored else []
    return MattsResult(
        run=run,
        best=kept[0] if kept else None,
        best_verdict=kept[1] if kept else None,
        stored=tuple(stored),
        consolidation_due=await queue_when_due(toolbox),
    )
