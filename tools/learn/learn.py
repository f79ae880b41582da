"""The loop, written down once: keep the trajectory, judge, distill, store what is new, credit what the task was given.

When enough is new, its consolidation is queued.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from swarm_memory.schema.base import RUN, TRAJECTORY, counted, new_id
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.memory import WAY_OUT, Distillation, LearnResult, MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.duplicates import supersede_ways
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.distill.bounds import check_drafts
from swarm_memory.tools.distill.distill import distill, distill_by_extraction, known_fixes
from swarm_memory.tools.distill.fixes import learned_fixes, tried
from swarm_memory.tools.guard.gate import check_quota
from swarm_memory.tools.guard.redact import archivable, stored
from swarm_memory.tools.judge.judge import judge_by_evidence, judge_in_full
from swarm_memory.tools.learn.items import Origin, confidence_of, distilled_item, new_items
from swarm_memory.tools.ports.trajectories import LearnedBefore, LearnRecord
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


async def learn(
    toolbox: Toolbox,
    trajectory: Trajectory,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
) -> LearnResult:
    """Learn from one trajectory; a second time from the same one changes nothing.

    One that the host's own connection broke off before the agent did anything is not recorded; one that ended so later
    is, as Undecided, and teaches nothing until it is gone on with. The agent that acted may bring its own verdict and
    drafts: both are checked. Whatever is stored was redacted first. When enough is new in the bank its consolidation is
    queued. What takes time without waiting runs in a thread, so that a server goes on answering.

    Raises `InputError` for a verdict of the agent that does not fit the trajectory, `QuotaReached`, `StorageError` from
    the store; a failing embedder costs the vectors only, and the answer says so.
    """
    kept = await asyncio.to_thread(archivable, trajectory, toolbox.settings)
    archived = await asyncio.to_thread(stored, kept, toolbox.settings)
    before = await toolbox.store.learned_before(toolbox.scope, kept.task_id, archived.content_digest)
    if before is not None:
        return await _already(toolbox, kept, before)
    if kept.broken_off is not None and not kept.has_acts and agent_verdict is None:
        verdict = judge_by_evidence(kept, toolbox.settings)
        return LearnResult(status="broken_off", task_id=kept.task_id, verdict=verdict, reason=verdict.reasons[0])
    await check_quota(toolbox)
    reading = read(kept)
    verdict = await judge_in_full(toolbox, reading, agent_verdict=agent_verdict)
    distillations = await _distillations(toolbox, reading, verdict, agent_drafts)
    return await _learned(toolbox, reading, verdict, distillations, archived)


async def learn_again(toolbox: Toolbox, before: LearnedBefore, kept: Trajectory, verdict: Verdict) -> LearnResult:
    """Learn from a trajectory as it is kept under another verdict, in place of what was learned from it `before`.

    What it does not give again is archived, as after a later version of its task. Credit is the caller's. Raises
    `StorageError`.
    """
    reading = read(kept)
    distillations = [await distill(toolbox, reading, verdict)]
    return await _learned(toolbox, reading, verdict, distillations, kept, before)


async def _distillations(
    toolbox: Toolbox, reading: Reading, verdict: Verdict, agent_drafts: Sequence[MemoryDraft] | None
) -> list[Distillation]:
    """Return what is distilled, and beside an agent's own words the fixes of errors that the calls show."""
    if agent_drafts is None:
        return [await distill(toolbox, reading, verdict)]
    drafts, refused = await asyncio.to_thread(
        check_drafts, agent_drafts, reading.trajectory, toolbox.settings, toolbox.root
    )
    known = await known_fixes(toolbox, reading)
    seen = await asyncio.to_thread(distill_by_extraction, reading, verdict, toolbox.settings, known)
    ways = tuple(draft for draft in seen.drafts if WAY_OUT in draft.tags)
    own = Distillation(drafts=drafts, distiller="agent", reason="; ".join(refused) or None)
    return [own, seen.model_copy(update={"drafts": ways})]


async def _learned(
    toolbox: Toolbox,
    reading: Reading,
    verdict: Verdict,
    distillations: Sequence[Distillation],
    archived: Trajectory,
    replaces: LearnedBefore | None = None,
) -> LearnResult:
    """Store what is new of the distillations, and credit; or put it in place of what an earlier run learned."""
    kept = reading.trajectory
    trajectory_id = replaces.trajectory_id if replaces else new_id(TRAJECTORY)
    origin = Origin(new_id(RUN), toolbox.scope, trajectory_id, kept, verdict, distillations[0])
    outcome = "Failure" if verdict.label == "Failure" else "Success"
    sure, now = confidence_of(verdict), toolbox.clock.now()

    def made(had: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [
            distilled_item(
                draft, replace(origin, distillation=distillation), had, outcome=outcome, confidence=sure, at=now
            )
            for distillation in distillations
            for draft in distillation.drafts
        ]

    found = await new_items(toolbox, kept, made)
    known = await known_fixes(toolbox, reading)
    new = {item.id: item for item in found.items}
    ways = await asyncio.to_thread(lambda: (*learned_fixes(reading, new.items()), *tried(reading, known)))
    record = LearnRecord(
        scope=toolbox.scope,
        run_id=origin.run_id,
        trajectory_id=origin.trajectory_id,
        trajectory=archived,
        verdict=verdict,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=0.0 if replaces else found.reinforcement,  # what it found again, it found before
        at=now,
        tried_fixes=tuple(dict.fromkeys(ways)),
        new_per_day=toolbox.new_per_day,
        failures=sum(call.failed for call in reading.calls),
        replaces=replaces.run_id if replaces else None,
    )
    written = await _write(toolbox, record)
    if isinstance(written, LearnedBefore):
        return await _already(toolbox, kept, written)
    is_embedded = any(memory.vector is not None for memory in found.new)
    return LearnResult(
        status="learned" if found.new else "nothing_new",
        task_id=kept.task_id,
        trajectory_id=origin.trajectory_id,
        run_id=origin.run_id,
        verdict=verdict,
        distiller=distillations[0].distiller,
        stored=found.items,
        reinforced=found.known,
        superseded=written,
        credited=() if replaces else await _credit(toolbox, reading, verdict),
        reason=found.why_less(distillations[0].reason),
        consolidation_due=await queue_when_due(toolbox, embedder_answers=is_embedded),
    )


async def _write(toolbox: Toolbox, record: LearnRecord) -> tuple[str, ...] | LearnedBefore:
    """Store it all, and return the ids of what it supersedes; the earlier run where another process was first."""
    superseded = await toolbox.store.save_learning(record)
    task = record.trajectory
    first = await toolbox.store.learned_before(toolbox.scope, task.task_id, task.content_digest)
    if first is not None and first.run_id != record.run_id:
        return first
    superseded += await supersede_ways(toolbox, record.tried_fixes, record.run_id)
    await link_contradictions(toolbox, record.memories, record.run_id)
    return superseded


async def _already(toolbox: Toolbox, trajectory: Trajectory, before: LearnedBefore) -> LearnResult:
    """An outcome is recorded only where the run before was cut off; a later version's must not be replaced."""
    is_recorded = await toolbox.store.get_outcome(toolbox.scope, trajectory.task_id) is not None
    return LearnResult(
        status="already_learned",
        task_id=trajectory.task_id,
        trajectory_id=before.trajectory_id,
        run_id=before.run_id,
        verdict=before.verdict,
        credited=() if is_recorded else await _credit(toolbox, trajectory, before.verdict),
        reason=f"this trajectory was learned from before; {counted(len(before.memory_ids), 'memory')} came from it",
    )


async def _credit(toolbox: Toolbox, kept: Trajectory | Reading, verdict: Verdict) -> tuple[str, ...]:
    """Record what came of the task, and return the ids of the memories whose confidence that changed."""
    outcome = await record_outcome(toolbox, read(kept).trajectory.task_id, verdict, kept)
    if outcome.status == "already_credited":
        return ()
    return tuple(credit.memory_id for credit in outcome.credits if credit.applied)


@dataclass(slots=True)
class Contained:
    """What became of tasks that were judged or learned from."""

    tasks: int = 0
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """By the id of the task the kind of the error that ended it."""

    async def answer(self, task_id: str, work: Awaitable[Answer]) -> Answer | None:
        """Return what the work on a task gives; None where a fault that nobody foresaw ended it, which is counted.

        Raises what is foreseen: a bank that cannot be written says nothing of one task.
        """
        self.tasks += 1
        try:
            return await work
        except SwarmMemoryError:
            raise
        except Exception as error:
            log.exception("the task %s could not be read", task_id)
            self.faults[task_id] = type(error).__name__
            return None

    @property
    def notice(self) -> str | None:
        """One line on the tasks that could not be read; None where all were."""
        if not self.faults:
            return None
        named = ", ".join(f"{task_id} ({why})" for task_id, why in self.faults.items())
        return one_line(f"{len(self.faults)} of {self.tasks} tasks could not be read: {named}", 400)
