"""Memory-aware test-time scaling: one task done several times, and what the comparison teaches (ReasoningBank, MaTTS).

How a rollout is made and judged stands in `rollouts`, how rollouts are compared in `self_contrast`. A run is durable:
each rollout is saved as it ends, and whoever calls with the same `run_id` goes on from there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import anyio

from swarm_memory.schema.errors import ConfigError, InputError, StorageError, SwarmMemoryError
from swarm_memory.schema.ids import MEMORY, RUN, digest, new_id
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsResult, MattsRun, RunSummary, ScalingMode
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.verdict import Verdict
from swarm_memory.tools.attempts import Attempt, Drawn, numbered
from swarm_memory.tools.gating import told_of
from swarm_memory.tools.hearsay import is_hearsay
from swarm_memory.tools.learn import confidence_of
from swarm_memory.tools.novelty import SortedOut, not_vouched_for, prepared_for_bank, sort_out
from swarm_memory.tools.outcome import record_outcome
from swarm_memory.tools.ports import ChatModel
from swarm_memory.tools.quota import check_quota
from swarm_memory.tools.redact import redact
from swarm_memory.tools.retrieve import retrieve
from swarm_memory.tools.rollout_ports import AgentRunner, RunEnd
from swarm_memory.tools.rollouts import Former, best_of, do_rollout
from swarm_memory.tools.sanitize import clean
from swarm_memory.tools.self_contrast import Contrast, self_contrast
from swarm_memory.tools.superseding import supersede_guardrails
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.upkeep_due import queue_when_due

CANCEL_LOOK_S = 0.5
"""How often a running run looks whether another process cancelled it."""

MAX_TASK_CHARS = 20_000

OnProgress: TypeAlias = Callable[[Progress], Awaitable[None]]

log = logging.getLogger(__name__)


async def run_matts(
    toolbox: Toolbox,
    task: str,
    *,
    runner: AgentRunner,
    mode: ScalingMode = "parallel",
    k: int | None = None,
    r: int | None = None,
    task_id: str | None = None,
    chat: ChatModel | None = None,
    run_id: str | None = None,
    on_progress: OnProgress | None = None,
) -> MattsResult:
    """Do a task `k` times at the same time, or once and then refine it `r` times, and learn from the comparison.

    Parallel: the memories that fit are retrieved once and put into every rollout's prompt; seeds and temperatures
    differ. Sequential: each rollout checks and corrects the one before; it stops as soon as hard evidence says Success.
    Every rollout is judged and kept. The items that the comparison gives are checked and stored with the run's id; the
    best rollout is returned. A call with the `run_id` of a run that was interrupted or failed does only what is missing
    (its task and mode are those of the first call); of one that has ended it returns the result again.

    The run ends `completed`; `failed` when no rollout left a trajectory, or when an error is raised; `cancelled` when
    `store.cancel_run` was called meanwhile. Cancelling this call leaves the run to be gone on with. `chat` is asked
    instead of the toolbox's chat model. Raises `InputError` and `ConfigError` (also the runner's), `StorageError`.
    """
    if chat is not None:
        toolbox = replace(toolbox, chat=chat)
    run = await _begin(toolbox, task, runner, mode, k if mode == "parallel" else r, task_id, run_id)
    if run.status != "running":
        return await _result(toolbox, run)
    scaling = _Scaling(toolbox, runner, run, on_progress)
    try:
        await scaling.work()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await scaling.clear_if_cancelled()
        raise
    except (InputError, ConfigError) as error:
        await scaling.fail(redact(str(error)).text)
        raise
    if not scaling.is_cancelled:
        await scaling.finish()
    else:
        await runner.settle(run.run_id, None)
    ended = await toolbox.store.get_run(toolbox.scope, run.run_id)
    return await _result(toolbox, ended or scaling.run)


async def _begin(
    toolbox: Toolbox,
    task: str,
    runner: AgentRunner,
    mode: ScalingMode,
    count: int | None,
    task_id: str | None,
    run_id: str | None,
) -> MattsRun:
    """Write the run as running, and return it as it stands."""
    settings = toolbox.settings.matts
    former = await toolbox.store.get_run(toolbox.scope, run_id) if run_id else None
    if former is not None:
        return await toolbox.store.begin_run(former)
    if not settings.enabled:
        raise ConfigError("matts.enabled is false: set it to true to scale tasks")
    default = settings.parallel_k if mode == "parallel" else settings.sequential_r
    wanted = default if count is None else count
    if not 1 <= wanted <= MAX_ROLLOUTS:
        raise InputError(f"{'k' if mode == 'parallel' else 'r'} is {wanted}: it must be from 1 to {MAX_ROLLOUTS}")
    words = redact(clean(task, MAX_TASK_CHARS).strip(), pii=toolbox.settings.distill.redact_pii).text
    if not words:
        raise InputError("task is empty: say what is to be done")
    named = task_id or f"task-{digest(words)[:16]}"
    await check_quota(toolbox)
    summary = RunSummary(runner=runner.name)
    if runner.takes_notes:
        found = await retrieve(toolbox, words, task_id=named)
        ids = tuple(memory.item.id for memory in found.memories)
        summary = summary.model_copy(update={"memory_ids": ids, "preamble": found.preamble})
    run = MattsRun(
        run_id=run_id or new_id(RUN),
        scope=toolbox.scope,
        task_id=named,
        task=words,
        mode=mode,
        k=wanted,
        summary=summary,
        created_at=toolbox.clock.now(),
    )
    return await toolbox.store.begin_run(run)


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


@dataclass
class _Scaling:
    """One call's work on a run."""

    toolbox: Toolbox
    runner: AgentRunner
    run: MattsRun
    on_progress: OnProgress | None
    is_cancelled: bool = False
    fault: SwarmMemoryError | None = None
    _done: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._done = {each.number for each in self.run.summary.rollouts if each.status != "failed"}

    async def work(self) -> None:
        """Do the rollouts that are missing, until all have ended or the run is cancelled. Raises what one raises."""
        await self._tell("begun")
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, group.cancel_scope)
            if self.run.mode == "parallel":
                await self._parallel(group.cancel_scope)
            else:
                await self._sequential(group.cancel_scope)
            group.cancel_scope.cancel()
        if self.fault is not None:
            raise self.fault

    async def _watch(self, work: anyio.CancelScope) -> None:
        """End the work soon after somebody cancelled the run."""
        while True:
            await anyio.sleep(CANCEL_LOOK_S)
            try:
                stands = await self.toolbox.store.get_run(self.run.scope, self.run.run_id)
            except StorageError as error:
                log.warning("it was not seen whether run %s is cancelled: %s", self.run.run_id, error)
                continue
            if stands is not None and stands.status == "cancelled":
                self.is_cancelled = True
                work.cancel()

    async def _parallel(self, work: anyio.CancelScope) -> None:
        limiter = anyio.CapacityLimiter(self.toolbox.settings.matts.max_concurrency)

        async def one(number: int) -> None:
            async with limiter:
                await self._rollout(number, None, work)

        async with anyio.create_task_group() as rollouts:
            for number in range(1, self.run.total + 1):
                if number not in self._done:
                    rollouts.start_soon(one, number)

    async def _sequential(self, work: anyio.CancelScope) -> None:
        """Refine until the end, or until hard evidence says that the task is met; a failed attempt is tried once."""
        former: Former | None = None
        for number in range(1, self.run.total + 1):
            if number not in self._done:
                await self._rollout(number, former, work)
            ended = self.run.rollout(number)
            if ended is None or (ended.is_hard and ended.label == "Success"):
                return
            former = await self._former(ended.trajectory_id) or former

    async def _former(self, trajectory_id: str | None) -> Former | None:
        if trajectory_id is None:
            return None
        kept = await self.toolbox.store.get_trajectory(self.run.scope, trajectory_id)
        return None if kept is None else Former(*kept)

    async def _rollout(self, number: int, former: Former | None, work: anyio.CancelScope) -> None:
        """Do one rollout and save it at once. An error ends all of the run's work."""
        try:
            ended = await do_rollout(self.toolbox, self.run, number, self.runner, former)
            kept = await self.toolbox.store.save_rollout(
                self.run.scope, self.run.run_id, ended.rollout, ended.trajectory, ended.verdict
            )
            if kept and ended.audit is not None:
                await self.toolbox.store.add_event(self.run.scope, ended.audit)
        except SwarmMemoryError as error:
            self.fault = self.fault or error
            work.cancel()
            return
        if not kept:
            self.is_cancelled = True
            work.cancel()
            return
        others = [each for each in self.run.summary.rollouts if each.number != number]
        rollouts = tuple(sorted((*others, ended.rollout), key=lambda each: each.number))
        self.run = self.run.model_copy(update={"summary": self.run.summary.model_copy(update={"rollouts": rollouts})})
        self._done.add(number)
        told = ended.rollout.label or ended.rollout.status.replace("_", " ")
        await self._tell(f"rollout {number}: {told}")

    async def _tell(self, message: str, done: int | None = None) -> None:
        """Say how far the run is; comparing the rollouts counts as one more."""
        if self.on_progress is not None:
            done = len(self._done) if done is None else done
            await self.on_progress(Progress(done=done, total=self.run.total + 1, message=message))

    async def clear_if_cancelled(self) -> None:
        """Clear away what the rollouts left, unless the run is to be gone on with."""
        stands = await self.toolbox.store.get_run(self.run.scope, self.run.run_id)
        if stands is not None and stands.status == "cancelled":
            await self.runner.settle(self.run.run_id, None)

    async def fail(self, reason: str) -> None:
        """Write down that the run has failed."""
        await self.runner.settle(self.run.run_id, None)
        await self._end("failed", reason=reason)

    async def finish(self) -> None:
        """Compare the rollouts, store what that teaches, and write down how the run ended."""
        best = best_of(self.run)
        folder = await self.runner.settle(self.run.run_id, best)
        attempts = await self._attempts()
        if best is None or not attempts:
            await self._end("failed", reason=_why_none(self.run))
            return
        await self._credit(attempts[0])
        contrast = await self_contrast(self.toolbox.chat, attempts, best, self.run.mode, self.toolbox.settings)
        had = await not_vouched_for(self.toolbox, attempts[0].trajectory)
        items = await asyncio.to_thread(
            lambda: [self._item(drawn, contrast, attempts, had) for drawn in contrast.drawn]
        )
        prepared, fault = await prepared_for_bank(self.toolbox, items)
        found = await sort_out(self.toolbox, attempts[0].trajectory, prepared)
        known = f"the bank already says {len(found.known)} of them" if found.known else None
        held = told_of(memory.item for memory in found.new)
        await self._end(
            "completed",
            found,
            best=best,
            best_folder=folder,
            stored=tuple(memory.item.id for memory in found.new),
            reinforced=found.known,
            distiller=contrast.distiller,
            prompt_hash=contrast.prompt_hash,
            model=contrast.model,
            notes=contrast.notes,
            reason="; ".join(part for part in (contrast.reason, known, held, fault) if part) or None,
        )
        await supersede_guardrails(self.toolbox, (memory.item for memory in found.new), self.run.run_id)
        await self._tell("compared", self.run.total + 1)

    async def _end(self, status: str, found: SortedOut | None = None, **told: object) -> None:
        summary = self.run.summary.model_copy(update=told)
        self.run = self.run.model_copy(update={"status": status, "summary": summary})
        end = RunEnd(
            run=self.run,
            embedder=self.toolbox.embedder.name,
            memories=found.new if found else (),
            reinforced=found.known if found else (),
            reinforcement=found.reinforcement if found else 0.0,
            new_per_day=self.toolbox.new_per_day,
        )
        await self.toolbox.store.end_run(end)

    async def _attempts(self) -> list[Attempt]:
        """Return the rollouts that left a trajectory, as they are compared; also those from before a restart."""
        attempts: list[Attempt] = []
        for each in self.run.summary.rollouts:
            if each.trajectory_id is None:
                continue
            kept = await self.toolbox.store.get_trajectory(self.run.scope, each.trajectory_id)
            if kept is not None and kept[1] is not None:
                made = await asyncio.to_thread(numbered, each.number, each.trajectory_id, kept[0], kept[1], each.notes)
                attempts.append(made)
        return attempts

    async def _credit(self, first: Attempt) -> None:
        """Credit the memories by the first rollout alone: it is what one try would have given, the best is luck too."""
        if self.run.summary.memory_ids and first.number == 1:
            kept = await self.toolbox.store.get_trajectory(self.run.scope, first.trajectory_id)
            if kept is not None and kept[1] is not None:
                await record_outcome(self.toolbox, self.run.task_id, kept[1], kept[0])

    def _item(self, drawn: Drawn, contrast: Contrast, attempts: list[Attempt], had: Sequence[MemoryItem]) -> MemoryItem:
        owner = next(each for each in attempts if each.number == drawn.attempt)
        provenance = Provenance(
            task_id=self.run.task_id,
            trajectory_id=owner.trajectory_id,
            session_id=owner.trajectory.session_id,
            agent_id=owner.trajectory.agent_id,
            evidence=drawn.draft.evidence,
            judge=owner.verdict.judge,
            distiller=contrast.distiller,
            prompt_hash=contrast.prompt_hash,
            model=contrast.model,
            run_id=self.run.run_id,
            hearsay=is_hearsay(drawn.draft, owner.trajectory, had),
        )
        return MemoryItem(
            id=new_id(MEMORY),
            scope=self.run.scope,
            title=drawn.draft.title,
            description=drawn.draft.description,
            content=drawn.draft.content,
            tags=drawn.draft.tags,
            domain=drawn.draft.domain,
            outcome=drawn.outcome,
            confidence=mean_confidence(drawn, (each.verdict for each in attempts), self.toolbox.settings),
            created_at=self.toolbox.clock.now(),
            provenance=provenance,
        )


def mean_confidence(drawn: Drawn, verdicts: Iterable[Verdict], settings: Settings) -> float:
    """Return the first confidence of an item: the mean of what the verdicts of its side give for one rollout."""
    sure = [confidence_of(verdict, settings) for verdict in verdicts if verdict.label == drawn.outcome]
    undecided = confidence_of(Verdict(label="Undecided", confidence=0.0, judge="evidence"), settings)
    return round(sum(sure) / len(sure), 4) if sure else undecided


def _why_none(run: MattsRun) -> str:
    errors = dict.fromkeys(each.error for each in run.summary.rollouts if each.error)
    told = "; ".join(error for error in errors if error) or "nothing says why"
    return f"none of {run.total} rollouts left anything to learn from: {told}"[:1_000]
