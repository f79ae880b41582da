"""The loop, written down once: keep the trajectory, judge, distill, store what is new, credit what the task was given.

When enough is new, its consolidation is queued.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from swarm_memory.schema.base import RUN, TRAJECTORY, counted, new_id
from swarm_memory.schema.memory import WAY_OUT, Distillation, LearnResult, MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.duplicates import supersede_ways
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.distill.bounds import check_drafts
from swarm_memory.tools.distill.distill import distill, distill_by_extraction, known_fixes
from swarm_memory.tools.distill.fixes import drawn_fixes, tried
from swarm_memory.tools.guard.gate import check_quota
from swarm_memory.tools.guard.redact import archivable, stored
from swarm_memory.tools.judge.judge import Judged, audit_event, judge_by_evidence, judge_in_full
from swarm_memory.tools.learn.items import Origin, SortedOut, confidence_of, drawn_item, new_items
from swarm_memory.tools.ports.trajectories import LearnedBefore, LearnRecord, TriedWay
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read


async def learn(
    toolbox: Toolbox,
    trajectory: Trajectory,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
) -> LearnResult:
    """Learn from one trajectory; a second time from the same one changes nothing.

    One that the host's own connection broke off before the agent did anything is not recorded; one that ended so later
    is, as Undecided, and teaches nothing until it is gone on with.

    The agent that acted may bring its own verdict and its own drafts: both are checked. Whatever is stored was redacted
    first. When enough is new in the bank its consolidation is queued, and nobody waits for it. Raises `InputError` for
    a verdict of the agent that does not fit the trajectory, `QuotaReached`, `StorageError` from the store; a failing
    embedder costs the vectors only, and the answer says so. What takes time without waiting runs in a thread, so that a
    server goes on answering.
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
    judged = await judge_in_full(toolbox, reading, agent_verdict=agent_verdict)
    seen = None
    if agent_drafts is None:
        drawn = await distill(toolbox, reading, judged.verdict)
    else:
        drawn = await asyncio.to_thread(_checked, agent_drafts, kept, toolbox)
        known = await known_fixes(toolbox, reading)
        seen = await asyncio.to_thread(distill_by_extraction, reading, judged.verdict, toolbox.settings, known)
    origin = Origin(new_id(RUN), toolbox.scope, new_id(TRAJECTORY), kept, judged.verdict, drawn)
    found = await new_items(toolbox, kept, lambda had: _drawn(toolbox, origin, (drawn, seen), had))
    written = await _write(toolbox, origin, judged, found, archived, reading)
    if isinstance(written, LearnedBefore):
        return await _already(toolbox, kept, written)
    credited = await _credit(toolbox, reading, judged.verdict)
    return LearnResult(
        status="learned" if found.new else "nothing_new",
        task_id=kept.task_id,
        trajectory_id=origin.trajectory_id,
        run_id=origin.run_id,
        verdict=judged.verdict,
        distiller=drawn.distiller,
        stored=found.items,
        reinforced=found.known,
        superseded=written,
        credited=credited,
        reason=found.why_less(drawn.reason),
        consolidation_due=await queue_when_due(
            toolbox, embedder_answers=any(memory.vector is not None for memory in found.new)
        ),
    )


async def learn_anew(toolbox: Toolbox, before: LearnedBefore, kept: Trajectory, verdict: Verdict) -> LearnResult:
    """Learn from a trajectory as it is kept under another verdict, in place of what was learned from it `before`.

    What it does not give again is archived, as after a later version of its task. Credit is the caller's. Raises
    `StorageError`.
    """
    reading, replaced = read(kept), before.run_id
    drawn = await distill(toolbox, reading, verdict)
    origin = Origin(new_id(RUN), toolbox.scope, before.trajectory_id, kept, verdict, drawn)
    found = await new_items(toolbox, kept, lambda had: _items(toolbox, origin, drawn.drafts, had))
    found = replace(found, reinforcement=0.0)  # what it found again, it found before
    written = await _write(toolbox, origin, Judged(verdict, verdict, None), found, kept, reading, replaced)
    if isinstance(written, LearnedBefore):
        return await _already(toolbox, kept, written)
    return LearnResult(
        status="learned" if found.new else "nothing_new",
        task_id=kept.task_id,
        trajectory_id=origin.trajectory_id,
        run_id=origin.run_id,
        verdict=verdict,
        distiller=drawn.distiller,
        stored=found.items,
        reinforced=found.known,
        superseded=written,
        reason=found.why_less(drawn.reason),
    )


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


def _checked(drafts: Sequence[MemoryDraft], kept: Trajectory, toolbox: Toolbox) -> Distillation:
    accepted, rejections = check_drafts(drafts, kept, toolbox.settings)
    return Distillation(drafts=accepted, distiller="agent", reason="; ".join(rejections) or None)


def _drawn(
    toolbox: Toolbox, origin: Origin, drawings: tuple[Distillation, Distillation | None], had: Sequence[MemoryItem]
) -> list[MemoryItem]:
    """Return what was drawn, and beside an agent's own words the ways past errors that the calls show."""
    drawn, seen = drawings
    items = _items(toolbox, origin, drawn.drafts, had)
    if seen is None:
        return items
    ways = [draft for draft in seen.drafts if WAY_OUT in draft.tags]
    return [*items, *_items(toolbox, replace(origin, drawing=seen), ways, had)]


def _items(
    toolbox: Toolbox, origin: Origin, drafts: Sequence[MemoryDraft], had: Sequence[MemoryItem]
) -> list[MemoryItem]:
    outcome = "Failure" if origin.verdict.label == "Failure" else "Success"
    confidence, now = confidence_of(origin.verdict, toolbox.settings), toolbox.clock.now()
    return [drawn_item(draft, origin, had, outcome=outcome, confidence=confidence, at=now) for draft in drafts]


async def _write(
    toolbox: Toolbox,
    origin: Origin,
    judged: Judged,
    found: SortedOut,
    archived: Trajectory,
    reading: Reading,
    replaces: str | None = None,
) -> tuple[str, ...] | LearnedBefore:
    """Store it all, and return the ids of what it supersedes; the earlier run where another process was first."""
    ways = await _tried(toolbox, reading, found)
    record = LearnRecord(
        scope=toolbox.scope,
        run_id=origin.run_id,
        trajectory_id=origin.trajectory_id,
        trajectory=archived,
        verdict=origin.verdict,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=found.reinforcement,
        at=toolbox.clock.now(),
        ways_out=ways,
        new_per_day=toolbox.new_per_day,
        failures=sum(call.failed for call in reading.calls),
        replaces=replaces,
    )
    superseded = await toolbox.store.save_learning(record)
    written = await toolbox.store.learned_before(toolbox.scope, archived.task_id, archived.content_digest)
    if written is not None and written.run_id != origin.run_id:
        return written
    superseded += await supersede_ways(toolbox, ways, origin.run_id)
    await link_contradictions(toolbox, found.new, origin.run_id)
    audit = audit_event(origin.trajectory_id, judged, record.at)
    if audit is not None:
        await toolbox.store.add_event(toolbox.scope, audit)
    return superseded


async def _tried(toolbox: Toolbox, reading: Reading, found: SortedOut) -> tuple[TriedWay, ...]:
    """Return which fixes the trajectory shows to work, and which it did in vain."""
    worked = await asyncio.to_thread(drawn_fixes, reading, found.drawn)
    known = await known_fixes(toolbox, reading)
    again = await asyncio.to_thread(lambda: tuple(tried(reading, known)))
    return tuple(dict.fromkeys((*worked, *again)))


async def _credit(toolbox: Toolbox, kept: Trajectory | Reading, verdict: Verdict) -> tuple[str, ...]:
    """Record what came of the task, and return the ids of the memories whose confidence that changed."""
    outcome = await record_outcome(toolbox, read(kept).trajectory.task_id, verdict, kept)
    if outcome.status == "already_credited":
        return ()
    return tuple(credit.memory_id for credit in outcome.credits if credit.applied)
