"""Memory-aware test-time scaling: one task done several times, and what the comparison teaches (ReasoningBank, MaTTS).

A run is durable: each rollout is saved as it ends, and a call with the same `run_id` resumes from there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError, InputError, SwarmMemoryError
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.memory import Distillation, MemoryItem
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsRequest, MattsRun, Rollout, RunSummary
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.distill.bounds import tool_outputs
from swarm_memory.tools.guard.gate import check_daily_quota
from swarm_memory.tools.guard.redact import kept_text, redact
from swarm_memory.tools.guard.wording import AgentContext
from swarm_memory.tools.learn.learn import NewAndKnown, Origin, distilled_item, mean_confidence, new_items
from swarm_memory.tools.matts.contrast import Contrast, self_contrast
from swarm_memory.tools.matts.rollouts import Attempt, Former, best_of, do_rollout, numbered_attempt
from swarm_memory.tools.ports.models import AgentRunner
from swarm_memory.tools.ports.records import MattsRunEnd
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve
from swarm_memory.tools.toolbox import Toolbox

MAX_TASK_CHARS = 20_000


class MattsResult(NamedTuple):
    """The answer of `run_matts`."""

    run: MattsRun
    best: Trajectory | None
    """The best rollout; None when no rollout left a trajectory."""
    stored: tuple[MemoryItem, ...]
    consolidation_due: bool


async def run_matts(
    toolbox: Toolbox, asked: MattsRequest, runner: AgentRunner, on_progress: Report | None = None
) -> MattsResult:
    """Do a task several times in parallel, or once and then refine it several times, and learn from the comparison.

    The memories that fit are retrieved once and injected into every rollout's prompt. Parallel: seeds and temperatures
    differ. Sequential: each rollout checks and corrects the one before; the run stops once hard evidence says Success.
    Every rollout is judged and kept. The items that the comparison yields are checked and stored with the run's id; the
    best rollout is returned. A call with the `run_id` of a run that was interrupted or failed does only what is missing
    (with the task and mode of the first call); for a run that has ended otherwise it returns the result again.

    The run ends `completed`; `failed` when no rollout left a trajectory, or when an error is raised; `cancelled` when
    `store.cancel_run` was called meanwhile: then no further rollout is written. Cancelling only this call leaves a run
    that can be resumed. Raises `InputError` and `ConfigError` (also the runner's), `StorageError`.
    """
    run = await _begin(toolbox, asked, runner)
    if run.status != "running":
        return await _result(toolbox, run)
    scaling = _Scaling(toolbox, runner, run, on_progress)
    try:
        await scaling.work()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            stands = await toolbox.store.get_run(run.scope, run.run_id)
            if stands is not None and stands.status == "cancelled":  # the run will not be resumed
                await runner.settle(run.run_id, None)
        raise
    except (InputError, ConfigError) as error:
        await runner.settle(run.run_id, None)
        await _end(toolbox, scaling.run.failed(redact(str(error)).text), NewAndKnown())
        raise
    if scaling.is_cancelled:  # there is nothing to do but to clean up after the rollouts
        await runner.settle(run.run_id, None)
    elif (await _complete(toolbox, runner, scaling.run)).status == "completed":
        await scaling.report("compared", run.total + 1)
    return await _result(toolbox, await toolbox.store.get_run(toolbox.scope, run.run_id) or scaling.run)


async def _begin(toolbox: Toolbox, asked: MattsRequest, runner: AgentRunner) -> MattsRun:
    """Write the run as running unless it is completed or cancelled, and return its current state."""
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
    words = kept_text(asked.task, toolbox.settings, MAX_TASK_CHARS).strip()
    if not words:
        raise InputError("task is empty: say what to do")
    task_id = asked.task_id or f"task-{digest(words)[:16]}"
    await check_daily_quota(toolbox)
    summary = RunSummary(runner=runner.name)
    if runner.takes_notes:
        found = await retrieve(toolbox, words, task_id=task_id, unasked=Unasked())
        ids = tuple(memory.item.id for memory in found.memories)
        summary = RunSummary(runner=runner.name, memory_ids=ids, preamble=found.preamble)
    run = MattsRun(
        run_id=asked.run_id,
        scope=toolbox.scope,
        task_id=task_id,
        task=words,
        mode=asked.mode,
        k=wanted,
        summary=summary,
        created_at=toolbox.clock.now(),
    )
    return await toolbox.store.begin_run(run)


async def _complete(toolbox: Toolbox, runner: AgentRunner, run: MattsRun) -> MattsRun:
    """Compare the rollouts, store what that teaches, and return the run as it ended."""
    best = best_of(run)
    folder = await runner.settle(run.run_id, best)
    kept: list[tuple[Rollout, Trajectory, Verdict]] = []  # also those from before a restart
    for each in run.summary.rollouts:
        found = await toolbox.store.get_trajectory(run.scope, each.trajectory_id) if each.trajectory_id else None
        if found is not None and found[1] is not None:
            kept.append((each, found[0], found[1]))
    if best is None or not kept:
        why = "; ".join(dict.fromkeys(each.error for each in run.summary.rollouts if each.error)) or "no known reason"
        failed = run.failed(f"none of {run.total} rollouts left anything to learn from: {why}"[:1_000])
        return await _end(toolbox, failed, NewAndKnown())
    first, trajectory, verdict = kept[0]
    if run.summary.memory_ids and first.number == 1:
        # By the first rollout alone: it is what a single attempt would have given; the best one is partly luck.
        await record_outcome(toolbox, run.task_id, verdict, trajectory)
    attempts = await asyncio.to_thread(lambda: [numbered_attempt(*each) for each in kept])
    contrast = await self_contrast(toolbox.chat, attempts, run.mode, toolbox.settings)
    found = await new_items(toolbox, attempts[0].trajectory, lambda had: _items(toolbox, run, contrast, attempts, had))
    taught = {
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
    ended = await _end(toolbox, run.completed(run.summary.model_copy(update=taught)), found, trajectory.session_id)
    await link_contradictions(toolbox, {each.item.id: each.vector for each in found.new}, run.run_id)
    return ended


async def _end(toolbox: Toolbox, ended: MattsRun, found: NewAndKnown, session_id: str | None = None) -> MattsRun:
    """Write how a run ended, with what it taught."""
    end = MattsRunEnd(
        run=ended,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=found.reinforcement,
        new_per_day=toolbox.new_per_day,
        session_id=session_id,
    )
    await toolbox.store.end_run(end)
    return ended


def _items(
    toolbox: Toolbox, run: MattsRun, contrast: Contrast, attempts: Sequence[Attempt], had: Sequence[MemoryItem]
) -> list[MemoryItem]:
    verdicts = [each.verdict for each in attempts]
    how = Distillation(drafts=(), distiller=contrast.distiller, prompt_hash=contrast.prompt_hash, model=contrast.model)
    read = AgentContext.of(tool_outputs(*(each.trajectory for each in attempts)))
    return [
        distilled_item(
            toolbox,
            draft,
            Origin(run.run_id, run.scope, owner.trajectory_id, owner.trajectory, owner.verdict, how, read),
            had,
            outcome=outcome,
            confidence=mean_confidence(outcome, verdicts),
        )
        for draft, outcome, owner in contrast.lessons
    ]


async def _result(toolbox: Toolbox, run: MattsRun) -> MattsResult:
    """Return the result of a run as it is stored."""
    best = run.rollout(run.summary.best) if run.summary.best is not None else None
    kept = await toolbox.store.get_trajectory(run.scope, best.trajectory_id) if best and best.trajectory_id else None
    stored = await toolbox.store.get_memories((run.scope,), run.summary.stored) if run.summary.stored else []
    return MattsResult(run, kept[0] if kept else None, tuple(stored), await queue_when_due(toolbox))


@dataclass
class _Scaling:
    """One call's work on a run: `run` grows with every rollout that has ended."""

    toolbox: Toolbox
    runner: AgentRunner
    run: MattsRun
    on_progress: Report | None
    is_cancelled: bool = False
    _fault: SwarmMemoryError | None = None
    _work: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def __post_init__(self) -> None:
        self._done = {each.number for each in self.run.summary.rollouts if each.status != "failed"}

    async def work(self) -> None:
        """Do the missing rollouts, until all have ended or the run is cancelled. Raises what a rollout raises."""
        await self.report("begun")
        with self._work:
            await (self._parallel() if self.run.mode == "parallel" else self._sequential())
        if self._fault is not None:
            raise self._fault

    async def _parallel(self) -> None:
        limiter = anyio.CapacityLimiter(self.toolbox.settings.matts.max_concurrency)

        async def one(number: int) -> None:
            async with limiter:
                await self._rollout(number, None)

        async with anyio.create_task_group() as rollouts:
            for number in range(1, self.run.total + 1):
                if number not in self._done:
                    rollouts.start_soon(one, number)

    async def _sequential(self) -> None:
        """Refine until the last number, or until hard evidence says Success; an attempt that fails is not repeated."""
        former: Former | None = None
        for number in range(1, self.run.total + 1):
            if number not in self._done:
                await self._rollout(number, former)
            ended = self.run.rollout(number)
            if ended is None or (ended.is_hard and ended.label == "Success"):
                return
            if ended.trajectory_id is not None:
                former = await self.toolbox.store.get_trajectory(self.run.scope, ended.trajectory_id) or former

    async def _rollout(self, number: int, former: Former | None) -> None:
        """Do and save one rollout. An error ends all work on the run."""
        try:
            ended = await do_rollout(self.toolbox, self.run, number, self.runner, former)
        except SwarmMemoryError as error:
            self._fault = self._fault or error
            self._work.cancel()
            return
        if ended is None:
            self.is_cancelled = True
            self._work.cancel()
            return
        self.run = self.run.with_rollout(ended)
        self._done.add(number)
        await self.report(f"rollout {number}: {ended.label or ended.status.replace('_', ' ')}")

    async def report(self, message: str, done: int | None = None) -> None:
        """Report how far the run has come; comparing the rollouts counts as one more step."""
        if self.on_progress is not None:
            done = len(self._done) if done is None else done
            await self.on_progress(Progress(done=done, total=self.run.total + 1, message=message))
