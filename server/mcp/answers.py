"""What the MCP tools answer: small shapes, because an agent pays for every token of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.server.operations.memories import row, said_by
from swarm_memory.server.operations.operation import Row

if TYPE_CHECKING:
    from swarm_memory.schema.job import Job
    from swarm_memory.schema.memory import Distillation, LearnResult, MemoryDraft, MemoryItem
    from swarm_memory.schema.outcome import OutcomeRecord
    from swarm_memory.schema.status import MemoryStatus
    from swarm_memory.schema.team.sharing import Sharing
    from swarm_memory.schema.tool_memory import LogResult
    from swarm_memory.schema.trajectory import Verdict
    from swarm_memory.tools.memories.remember import Remembered
    from swarm_memory.tools.ports.journal import Event


def of_verdict(task_id: str, verdict: "Verdict", trajectory_id: str | None) -> Row:
    """A verdict, who gave it, the steps it rests on, and the trajectory that it was kept with."""
    return row(
        task_id=task_id,
        trajectory_id=trajectory_id,
        verdict=verdict.label,
        confidence=round(verdict.confidence, 3),
        reasons=verdict.reasons,
        evidence=verdict.evidence,
        judge=_who(verdict.judge, verdict.model),
    )


def _who(by: str, model: str | None) -> str:
    """Return the chat model's name, else `evidence`, `extractive` or `agent`."""
    return model if by == "model" and model else by


def of_proposed(task_id: str, verdict: "Verdict", drawn: "Distillation") -> Row:
    """What was drawn from a trajectory and is not stored."""
    return row(
        task_id=task_id,
        verdict=verdict.label,
        confidence=round(verdict.confidence, 3),
        items=[_draft(draft, draft.evidence) for draft in drawn.drafts],
        distiller=_who(drawn.distiller, drawn.model),
        reason=drawn.reason,
    )


def of_kept(result: "LearnResult") -> Row:
    """What an agent drew from a trajectory and is stored."""
    return row(
        task_id=result.task_id,
        verdict=result.verdict.label,
        confidence=round(result.verdict.confidence, 3),
        items=[_draft(item, item.provenance.evidence) for item in result.stored],
        stored=[item.id for item in result.stored],
        distiller=result.distiller,
        reason=result.reason,
    )


def _draft(texts: "MemoryDraft | MemoryItem", evidence: tuple[str, ...]) -> Row:
    return texts.model_dump(include={"title", "description", "content", "tags"}) | {"evidence": evidence}


def of_learned(result: "LearnResult") -> Row:
    """What one task taught."""
    return row(
        task_id=result.task_id,
        trajectory_id=result.trajectory_id or None,
        status=result.status,
        verdict=result.verdict.label,
        confidence=round(result.verdict.confidence, 3),
        judge=_who(result.verdict.judge, result.verdict.model),
        reasons=result.verdict.reasons,
        stored=[item.id for item in result.stored],
        titles=[item.title for item in result.stored],
        reinforced=result.reinforced,
        calls=result.calls,
        reason=result.reason,
    )


def of_outcome(record: "OutcomeRecord") -> Row:
    """What an outcome changed: of the confidence, by memory id."""
    return row(status=record.status, changed={credit.memory_id: credit.applied for credit in record.credits})


def of_memory(item: "MemoryItem", *, full: bool) -> Row:
    """One memory; a list leaves out the long texts."""
    short = row(
        id=item.id,
        title=item.title,
        status=item.status,
        outcome=item.outcome,
        confidence=round(item.confidence, 3),
        usage_count=item.usage_count,
        created_at=item.created_at.isoformat(timespec="seconds"),
        project=item.scope.project,
        said_by=said_by(item),
        status_reason=item.status_reason,
        suspect=item.provenance.suspect,
    )
    if not full:
        return short
    return short | row(
        description=item.description,
        content=item.content,
        tags=item.tags,
        domain=item.domain,
        provenance=item.provenance.model_dump(mode="json", exclude_none=True),
    )


def of_sharing(sharing: "Sharing") -> Row:
    """What is known of a memory that a team shares."""
    return row(evidence=sharing.evidence.says, proposed_by=sharing.proposed_by, accepted_by=sharing.accepted_by)


def of_remembered(done: "Remembered") -> Row:
    """What the user said, as it is stored; `notices` say what is held back, why, and how the user releases it."""
    item = done.item
    status = "held back" if item.status == "quarantined" else "stored" if done.is_new else "known"
    scope = "global" if item.scope.project == GLOBAL_PROJECT else "project"
    return row(
        id=item.id, status=status, title=item.title, kind=item.tags[0], scope=scope, said_by=said_by(item),
        notices=done.notices or None,
    )  # fmt: skip


def of_all_remembered(done: "Sequence[Remembered]", outcome: str | None) -> Row:
    """What became of each note; how the task ended is read from the call itself when the task is judged."""
    if len(done) == 1 and outcome is None:
        return of_remembered(done[0])
    return row(notes=[of_remembered(each) for each in done] or None, outcome=outcome)


def of_event(event: "Event") -> Row:
    """One change of a memory."""
    return row(at=event.at.isoformat(timespec="seconds"), kind=event.kind, data=dict(event.data))


def of_status(status: "MemoryStatus") -> Row:
    """How the bank stands, without the settings that are at their defaults."""
    storage, counts = status.storage, status.statistics
    return row(
        version=status.version,
        database=storage.path,
        schema_version=storage.schema_version,
        sqlite=f"{storage.sqlite_version} ({storage.driver}: {storage.driver_reason})",
        vector_search=storage.vector_search,
        embedder=status.embedder,
        judge=status.judge,
        learning=status.learning,
        chat=status.chat.says if status.chat else "none",
        project=counts.scope.project,
        memories=counts.memories,
        verdicts=counts.verdicts,
        jobs=counts.jobs,
        trajectories=counts.trajectories,
        retrievals=counts.retrievals,
        consolidation=status.consolidation,
        tools=status.tools,
        sources=status.sources,
        effect=status.effect.says if status.effect else "no task has an outcome yet",
        notices=status.notices,
    )


def of_job(job: "Job") -> Row:
    """One job."""
    progress = job.progress
    return row(
        job_id=job.id,
        kind=job.kind,
        status=job.status,
        done=progress.done if progress else None,
        total=progress.total if progress else None,
        message=(progress.message or None) if progress else None,
        result=job.result if job.status == "completed" else None,
        error=job.error,
        hint=None if job.ended_at else "not done yet: call job with action result and this job_id",
    )


def of_logged(result: "LogResult") -> Row:
    """What became of the calls."""
    return row(logged=result.logged, known=result.known, tools=result.tools)
