"""The loop, written down once: keep the trajectory, judge, distill, store what is new, credit what the task was given.

When enough is new, its consolidation is queued. How each is done is not here.
"""

import asyncio
from collections.abc import Sequence

from swarm_memory.schema.counting import counted
from swarm_memory.schema.ids import MEMORY, RUN, TRAJECTORY, new_id
from swarm_memory.schema.learning import Distillation, LearnResult
from swarm_memory.schema.memory import MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.schema.verdict import Verdict
from swarm_memory.tools.archive import archivable
from swarm_memory.tools.distill import check_drafts
from swarm_memory.tools.gating import told_of
from swarm_memory.tools.hearsay import is_hearsay
from swarm_memory.tools.judge import judge_in_full
from swarm_memory.tools.judged import drawn
from swarm_memory.tools.novelty import not_vouched_for, prepared_for_bank, sort_out
from swarm_memory.tools.outcome import record_outcome
from swarm_memory.tools.ports import LearnedBefore, LearnRecord
from swarm_memory.tools.quota import check_quota
from swarm_memory.tools.superseding import supersede_guardrails
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.upkeep_due import queue_when_due
from swarm_memory.tools.verdicts import audit_event

ASSUMED_CONFIDENCE = 0.6
"""Stands for the judge's confidence in what an undecided trajectory proves within itself."""


async def learn(
    toolbox: Toolbox,
    trajectory: Trajectory,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
) -> LearnResult:
    """Learn from one trajectory; a second time from the same one changes nothing.

    The agent that acted may bring its own verdict and its own drafts: both are checked. Whatever is stored was redacted
    first. When enough is new in the bank its consolidation is queued, and nobody waits for it. Raises `InputError` for
    a verdict of the agent that does not fit the trajectory, `QuotaReached`, `StorageError` from the store; a failing
    embedder costs the vectors only, and the answer says so. What takes time without waiting runs in a thread, so that a
    server goes on answering.
    """
    kept = await asyncio.to_thread(archivable, trajectory, toolbox.settings)
    before = await toolbox.store.learned_before(toolbox.scope, kept.task_id, kept.content_digest)
    if before is not None:
        return await _already(toolbox, kept, before)
    await check_quota(toolbox)
    judged = await judge_in_full(toolbox, kept, agent_verdict=agent_verdict)
    verdict = judged.verdict
    distilled = await _distill(toolbox, kept, verdict, agent_drafts)
    trajectory_id, run_id = new_id(TRAJECTORY), new_id(RUN)
    had = await not_vouched_for(toolbox, kept)
    hearsay = await asyncio.to_thread(lambda: [is_hearsay(draft, kept, had) for draft in distilled.drafts])
    items = [
        _item(toolbox, kept, verdict, distilled, draft, (trajectory_id, run_id), hearsay=told)
        for draft, told in zip(distilled.drafts, hearsay, strict=True)
    ]
    prepared, fault = await prepared_for_bank(toolbox, items)
    found = await sort_out(toolbox, kept, prepared)
    record = LearnRecord(
        scope=toolbox.scope,
        run_id=run_id,
        trajectory_id=trajectory_id,
        trajectory=kept,
        verdict=verdict,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=found.reinforcement,
        at=toolbox.clock.now(),
        new_per_day=toolbox.new_per_day,
    )
    superseded = await toolbox.store.save_learning(record)
    written = await toolbox.store.learned_before(toolbox.scope, kept.task_id, kept.content_digest)
    if written is not None and written.run_id != run_id:
        return await _already(toolbox, kept, written)
    superseded += await supersede_guardrails(toolbox, (memory.item for memory in found.new), run_id)
    audit = audit_event(trajectory_id, judged, record.at)
    if audit is not None:
        await toolbox.store.add_event(toolbox.scope, audit)
    outcome = await record_outcome(toolbox, kept.task_id, verdict, kept)
    known = f"the bank already says {len(found.known)} of them" if found.known else None
    held = told_of(memory.item for memory in found.new)
    return LearnResult(
        status="learned" if found.new else "nothing_new",
        task_id=kept.task_id,
        trajectory_id=trajectory_id,
        run_id=run_id,
        verdict=verdict,
        distiller=distilled.distiller,
        stored=tuple(memory.item for memory in found.new),
        reinforced=found.known,
        superseded=superseded,
        credited=_credited(outcome),
        reason="; ".join(part for part in (distilled.reason, known, held, fault) if part) or None,
        consolidation_due=await queue_when_due(toolbox),
    )


async def _already(toolbox: Toolbox, trajectory: Trajectory, before: LearnedBefore) -> LearnResult:
    """An outcome is recorded only where the run before was cut off; a later version's must not be replaced."""
    task_id = trajectory.task_id
    outcome = await toolbox.store.get_outcome(toolbox.scope, task_id)
    credited = () if outcome else _credited(await record_outcome(toolbox, task_id, before.verdict, trajectory))
    return LearnResult(
        status="already_learned",
        task_id=trajectory.task_id,
        trajectory_id=before.trajectory_id,
        run_id=before.run_id,
        verdict=before.verdict,
        credited=credited,
        reason=f"this trajectory was learned from before; {counted(len(before.memory_ids), 'memory')} came from it",
    )


def _credited(outcome: OutcomeRecord) -> tuple[str, ...]:
    if outcome.status == "already_credited":
        return ()
    return tuple(credit.memory_id for credit in outcome.credits if credit.applied)


async def _distill(
    toolbox: Toolbox, trajectory: Trajectory, verdict: Verdict, drafts: Sequence[MemoryDraft] | None
) -> Distillation:
    if drafts is None:
        return await drawn(toolbox, trajectory, verdict)
    accepted, rejections = await asyncio.to_thread(check_drafts, drafts, trajectory, toolbox.settings)
    return Distillation(drafts=accepted, distiller="agent", reason="; ".join(rejections) or None)


def _item(
    toolbox: Toolbox,
    trajectory: Trajectory,
    verdict: Verdict,
    distilled: Distillation,
    draft: MemoryDraft,
    ids: tuple[str, str],
    *,
    hearsay: bool,
) -> MemoryItem:
    trajectory_id, run_id = ids
    provenance = Provenance(
        task_id=trajectory.task_id,
        trajectory_id=trajectory_id,
        session_id=trajectory.session_id,
        agent_id=trajectory.agent_id,
        evidence=draft.evidence,
        judge=verdict.judge,
        distiller=distilled.distiller,
        prompt_hash=distilled.prompt_hash,
        model=distilled.model,
        run_id=run_id,
        hearsay=hearsay,
    )
    return MemoryItem(
        id=new_id(MEMORY),
        scope=toolbox.scope,
        title=draft.title,
        description=draft.description,
        content=draft.content,
        tags=draft.tags,
        domain=draft.domain,
        outcome="Failure" if verdict.label == "Failure" else "Success",
        confidence=confidence_of(verdict, toolbox.settings),
        created_at=toolbox.clock.now(),
        provenance=provenance,
    )


def confidence_of(verdict: Verdict, settings: Settings) -> float:
    """Return the first confidence of an item: that of the judge times the prior of its outcome."""
    if verdict.label == "Failure":
        return round(verdict.confidence * settings.distill.failure_prior, 4)
    sure = ASSUMED_CONFIDENCE if verdict.label == "Undecided" else verdict.confidence
    return round(sure * settings.distill.success_prior, 4)
