"""Operations of the loop: judge, distill, learn, credit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from pydantic import Field, JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.trajectory import MAX_REASONS, Label, Verdict
from swarm_memory.server.hosts.input import Given, existing_folder, read_all, read_one
from swarm_memory.server.operations.operation import APPEND, WRITE, Only, Operation, Row, Site, row

if TYPE_CHECKING:
    from swarm_memory.schema.memory import LearnResult, MemoryItem
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.tools.toolbox import Toolbox

TranscriptPath = Annotated[str | None, Field(description="Transcript or trajectory (.jsonl, .json)")]
Task = Annotated[str | None, Field(description="With steps: what was asked"), Only.AGENT]
TaskId = Annotated[str | None, Field(max_length=500)]
Steps = Annotated[
    list[dict[str, JsonValue]] | None,
    Field(description="In order: {role, content}, or chat messages with calls and results"),
    Only.AGENT,
]
Outcome = Annotated[Label | None, Field(description="Your verdict; omit to judge from evidence"), Only.AGENT]
Sure = Annotated[float, Field(ge=0, le=1), Only.AGENT]
Reasons = Annotated[list[str] | None, Field(max_length=MAX_REASONS), Only.AGENT]
AgentId = Annotated[str | None, Field(description="Who acted"), Only.AGENT]


def of_verdict(task_id: str, verdict: Verdict, **more: object) -> Row:
    """Return a task's verdict, who gave it and why, and what came of it."""
    return row(
        task_id=task_id,
        verdict=verdict.label,
        confidence=round(verdict.confidence, 3),
        reasons=verdict.reasons,
        judge=_who(verdict.judge, verdict.model),
        **more,
    )


def _who(by: str, model: str | None) -> str:
    """Return the chat model's name, else `evidence`, `extractive`, `agent` or `user`."""
    return model if by == "model" and model else by


def _of_draft(texts: "MemoryDraft | MemoryItem", evidence: tuple[str, ...]) -> Row:
    """Return the texts of a memory, and the steps that it is based on."""
    return texts.model_dump(include={"title", "description", "content", "tags"}) | {"evidence": evidence}


def of_learned(result: "LearnResult") -> Row:
    """Return what one task taught."""
    waiting = ", ".join(item.id for item in result.stored if item.status == "candidate")
    return of_verdict(
        result.task_id,
        result.verdict,
        trajectory_id=result.trajectory_id or None,
        status=result.status,
        stored=[item.id for item in result.stored],
        titles=[item.title for item in result.stored],
        distiller=result.distiller,
        notice=f"{waiting}: shown to no agent until another session confirms it, or you restore it"
        if waiting
        else None,
        reinforced=result.reinforced,
        credited=result.credited or None,
        calls=result.calls,
        reason=result.reason,
    )


async def judge_trajectory(
    site: Site,
    transcript_path: TranscriptPath = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    agent_id: AgentId = None,
    store: Annotated[bool, Field(description="false: judge without storing")] = True,
) -> Row:
    """Say whether a task succeeded, why and by which steps, and keep that verdict.

    Give either transcript_path (its last task, or task_id) or task and steps. Without `verdict`, evidence and a chat
    model, if set, judge.
    """
    from swarm_memory.tools.judge.judge import judge_given

    toolbox = await site.toolbox()
    own = _own_verdict(verdict, confidence, reasons)
    trajectory = await read_one(Given(transcript_path, task, steps, task_id, agent_id, site.folders))
    kept, judged, trajectory_id = await judge_given(toolbox, trajectory, own, store=store)
    return of_verdict(kept.task_id, judged, evidence=judged.evidence, trajectory_id=trajectory_id)


async def distill_memories(
    site: Site,
    transcript_path: TranscriptPath = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    items: Annotated[list[MemoryDraft] | None, Field(max_length=10, description="Your own")] = None,
    agent_id: AgentId = None,
) -> Row:
    """Distill general strategies (success) or guardrails (failure) from a trajectory.

    Without `items` they are only proposed. With `items` and your `verdict`, yours are checked, cleaned and stored.
    """
    from swarm_memory.tools.tool_memory.log import learn_and_log

    toolbox = await site.toolbox()
    trajectory = await read_one(Given(transcript_path, task, steps, task_id, agent_id, site.folders))
    own = _own_verdict(verdict, confidence, reasons)
    if not items:
        return await _proposed(toolbox, trajectory, own)
    had_read = await anyio.to_thread.run_sync((await site.session_so_far()).read)
    result = await learn_and_log(toolbox, trajectory, agent_verdict=own, agent_drafts=items, had_read=had_read)
    site.wake()
    return of_learned(result) | {"items": [_of_draft(item, item.provenance.evidence) for item in result.stored]}


async def _proposed(toolbox: "Toolbox", trajectory: "Trajectory", own: Verdict | None = None) -> Row:
    """Judge and distill; only an agent's own verdict is stored."""
    from swarm_memory.tools.distill.distill import distill
    from swarm_memory.tools.judge.judge import judge_given

    kept, judged, _ = await judge_given(toolbox, trajectory, own, store=own is not None)
    found = await distill(toolbox, kept, judged)
    items, by = [_of_draft(draft, draft.evidence) for draft in found.drafts], _who(found.distiller, found.model)
    return of_verdict(kept.task_id, judged, items=items, distiller=by, reason=found.reason)


async def learn_from_trajectory(
    site: Site,
    transcript_path: Annotated[
        str | None, Field(description="Transcript or trajectory (.jsonl, .json), or a folder of them: as a job")
    ] = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    agent_id: AgentId = None,
    dry_run: Annotated[bool, Only.USER] = False,
) -> Row:
    """Learn from finished work: judge it, distill what it teaches, and store that for later tasks.

    Give transcript_path (all its tasks, or only task_id) or task and steps. Learning the same work twice changes
    nothing. Says what was stored, or why nothing was.
    """
    from swarm_memory.server.jobs.transcripts import IMPORT, checked_files
    from swarm_memory.tools.learn.learn import TaskFaults
    from swarm_memory.tools.tool_memory.log import learn_and_log

    own = _own_verdict(verdict, confidence, reasons)
    if own is not None and transcript_path is not None and task_id is None:
        raise InputError("a verdict applies to one task: give task_id")
    if transcript_path is not None and (folder := existing_folder(transcript_path)) is not None:
        if dry_run:
            raise InputError("--dry-run reads transcript files, not a folder")
        if task_id is not None:
            raise InputError("task_id belongs to one transcript: give its file, or leave task_id out")
        if site.is_users:
            return await learn_from_files(site, [Path(folder)])
        # An export in a folder may be anybody's: its memories wait in quarantine.
        await anyio.to_thread.run_sync(checked_files, [folder], site.root)
        speakers = (await site.toolbox()).speakers
        return await site.work(IMPORT, {"paths": [folder], "quarantine": True, "speakers": [*speakers]})
    settings = (await site.for_reading()).settings
    contained, tasks, consolidation_due = TaskFaults(), list[Row](), False

    async def answer(trajectory: "Trajectory") -> Row:
        nonlocal consolidation_due
        if dry_run:
            spends = settings.chat.providers  # what a model spends is recorded in the bank
            return await _proposed(await (site.toolbox() if spends else site.for_reading()), trajectory)
        result = await learn_and_log(await site.toolbox(), trajectory, agent_verdict=own)
        consolidation_due = result.consolidation_due
        return of_learned(result)

    async for trajectory in read_all(Given(transcript_path, task, steps, task_id, agent_id, site.folders)):
        done = await contained.answer(trajectory.task_id, answer(trajectory))
        tasks += [] if done is None else [done]
        await site.report(Progress(done=contained.tasks, message=trajectory.task[:80]))
    site.wake()
    return row(tasks=tasks, consolidation_due=consolidation_due, fault=contained.notice)


async def learn_from_files(site: Site, given: Sequence[Path]) -> Row:
    """Import the user's files and folders. Raises `InputError` where there is nothing to read."""
    from swarm_memory.server.hosts.transcript import ACCEPTED
    from swarm_memory.server.jobs.transcripts import as_row, files_of, import_files

    if not (files := files_of(given)):
        raise InputError(f"there are no .jsonl files below {', '.join(map(str, given))}")
    tally = await import_files(await site.toolbox(), files, True, site.report)
    skipped = [name for name, why in tally.faults.items() if why.endswith(ACCEPTED)]  # not transcripts
    for name in skipped:
        del tally.faults[name]
    return as_row(tally) | {"skipped": skipped}


async def record_outcome(
    site: Site,
    task_id: Annotated[str, Field(min_length=1, max_length=500, description="As in retrieve_memories")],
    outcome: Label,
    used: Annotated[list[str] | None, Field(description="Memory ids that helped")] = None,
    reasons: Annotated[list[str] | None, "Why; repeatable", "--reason", Only.USER] = None,
) -> Row:
    """Record how a task ended: its memories gain or lose trust. Learning does so by itself; your word wins."""
    from swarm_memory.tools.credit.outcome import record_outcome as record

    verdict = Verdict.by_agent(outcome, reasons=reasons or ())
    done = await record(await site.toolbox(), task_id, verdict, given=True, named=used or ())
    return row(status=done.status, changed={credit.memory_id: credit.applied for credit in done.credits})


def _own_verdict(label: Label | None, confidence: float, reasons: Sequence[str] | None) -> Verdict | None:
    return None if label is None else Verdict.by_agent(label, confidence, reasons or ())


JUDGE = Operation(judge_trajectory, "Judge a trajectory", APPEND, "write")
DISTILL = Operation(distill_memories, "Distill memories", APPEND, "write")
LEARN = Operation(learn_from_trajectory, "Learn from a trajectory", WRITE, "write")
OUTCOME = Operation(record_outcome, "Record an outcome", WRITE, "write")
