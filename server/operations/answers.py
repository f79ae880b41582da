"""What operations answer: small rows, because an agent pays for every token of them."""

from typing import TYPE_CHECKING

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.server.operations.operation import Row, row
from swarm_memory.tools.text.cleaning import one_line

if TYPE_CHECKING:
    from swarm_memory.schema.job import Job
    from swarm_memory.schema.memory import LearnResult, MemoryDraft, MemoryItem
    from swarm_memory.schema.trajectory import Verdict
    from swarm_memory.tools.memories.remember import Remembered
    from swarm_memory.tools.ports.records import Event
    from swarm_memory.tools.ports.sources import FoundPassage

BESIDE_CHARS = 300
"""So much is shown of each neighbour of a passage."""


def of_verdict(task_id: str, verdict: "Verdict", **more: object) -> Row:
    """A task's verdict, who gave it and why, and what came of it."""
    return row(
        task_id=task_id,
        verdict=verdict.label,
        confidence=round(verdict.confidence, 3),
        reasons=verdict.reasons,
        judge=who(verdict.judge, verdict.model),
        **more,
    )


def who(by: str, model: str | None) -> str:
    """Return the chat model's name, else `evidence`, `extractive`, `agent` or `user`."""
    return model if by == "model" and model else by


def of_draft(texts: "MemoryDraft | MemoryItem", evidence: tuple[str, ...]) -> Row:
    """The words of a memory, and the steps that it rests on."""
    return texts.model_dump(include={"title", "description", "content", "tags"}) | {"evidence": evidence}


def of_learned(result: "LearnResult") -> Row:
    """What one task taught."""
    return of_verdict(
        result.task_id,
        result.verdict,
        trajectory_id=result.trajectory_id or None,
        status=result.status,
        stored=[item.id for item in result.stored],
        titles=[item.title for item in result.stored],
        distiller=result.distiller,
        reinforced=result.reinforced,
        credited=result.credited or None,
        calls=result.calls,
        reason=result.reason,
    )


def said_by(item: "MemoryItem") -> str | None:
    """Return whose words a memory has, where they are the user's or an agent's note."""
    if item.provenance.is_users_word:
        return "user"
    return None if item.provenance.heard_in is None else "agent"


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


def of_event(event: "Event") -> Row:
    """One change of a memory."""
    return row(at=event.at.isoformat(timespec="seconds"), kind=event.kind, data=dict(event.data))


def of_remembered(done: "Remembered") -> Row:
    """What was said, as it is stored; `notices` say what is held back, why, and how the user releases it."""
    item = done.item
    return row(
        id=item.id,
        status="held back" if item.status == "quarantined" else "stored" if done.is_new else "known",
        title=item.title,
        kind=item.tags[0],
        scope="global" if item.scope.project == GLOBAL_PROJECT else "project",
        said_by=said_by(item),
        notices=done.notices or None,
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


def of_passage(hit: "FoundPassage") -> Row:
    """One passage: what it is, where it stands (file and lines, or the server of a tool), and what one needs to use it.

    `of` is the title of the document or file; `use` says of tools and operations what a call takes.
    """
    passage = hit.passage
    called, is_github = passage.kind in ("tool", "api"), passage.kind == "github"
    uses = called and "input_schema" in passage.data
    return row(
        title=passage.title,
        kind=passage.kind,
        where=_where(hit),
        source=hit.location,
        url=passage.data.get("url") if is_github else None,
        sha=passage.data.get("sha") if is_github else None,
        score=round(hit.score, 4),
        rerank_score=None if hit.rerank_score is None else round(hit.rerank_score, 4),
        why=hit.justification,
        of=None if called or hit.group_title == passage.title else hit.group_title,
        description=None if passage.description in passage.content else passage.description,
        before=None if called or not hit.before else _end(hit.before),
        text=None if uses else passage.content or None,
        after=None if called or not hit.after else one_line(hit.after, BESIDE_CHARS),
        use=passage.data if called else None,
    )


def _where(hit: "FoundPassage") -> str:
    passage = hit.passage
    place = passage.path or passage.group
    if passage.line is None:
        return place
    last = passage.end_line
    return f"{place}:{passage.line}" if last in (None, passage.line) else f"{place}:{passage.line}-{last}"


def _end(text: str) -> str:
    return text if len(text) <= BESIDE_CHARS else "… " + text[-BESIDE_CHARS:].partition(" ")[2]
