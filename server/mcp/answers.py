"""What the MCP tools answer: small shapes, because an agent pays for every token of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from swarm_memory.schema.base import GLOBAL_PROJECT

if TYPE_CHECKING:
    from swarm_memory.schema.job import Job
    from swarm_memory.schema.memory import Distillation, LearnResult, MemoryDraft, MemoryItem, Retrieval, ScoredMemory
    from swarm_memory.schema.outcome import OutcomeRecord
    from swarm_memory.schema.source import SourceHit, SourceSearch
    from swarm_memory.schema.status import MemoryStatus
    from swarm_memory.schema.team.sharing import Sharing
    from swarm_memory.schema.tool_memory import LogResult, ToolGuidance
    from swarm_memory.schema.trajectory import Verdict
    from swarm_memory.tools.memories.remember import Remembered
    from swarm_memory.tools.ports.journal import Event

Row: TypeAlias = dict[str, Any]
"""An answer, or a part of one, as it becomes JSON."""


def row(**fields: object) -> Row:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


class RetrieveAnswer(BaseModel):
    """The preamble for the agent, and what stands behind it. Of this answer alone the schema is published."""

    preamble: str
    memories: list[Row]
    """Their steps stand in the preamble."""
    reason: str | None = None
    nearest: str | None = None
    notices: list[str] | None = None
    legs: list[str]
    embedder: str
    retrieval_id: str

    @classmethod
    def of(cls, found: "Retrieval", project: str) -> "RetrieveAnswer":
        near = found.nearest
        cosine = "" if near is None or near.cosine is None else f", cosine {near.cosine:.2f}"
        return cls(
            preamble=found.preamble,
            memories=[_found_memory(memory, project) for memory in found.memories],
            reason=found.reason,
            nearest=f"{near.id} {near.title} (keyword coverage {near.keyword_coverage:.2f}{cosine})" if near else None,
            notices=list(found.notices) or None,
            legs=list(found.legs),
            embedder=found.embedder,
            retrieval_id=found.retrieval_id,
        )

    @property
    def text(self) -> str:
        """What a model reads of it: the preamble, which names the ids, or why there is none, and the notices."""
        told = [self.preamble] if self.preamble else [self.reason, self.nearest and f"nearest: {self.nearest}"]
        return "\n".join(filter(None, (*told, *(self.notices or ()))))


def _found_memory(found: "ScoredMemory", project: str) -> Row:
    item, parts = found.item, found.parts
    return row(
        id=item.id,
        title=item.title,
        score=round(found.score, 4),
        relevance=round(parts.relevance, 4),
        recency=round(parts.recency, 4),
        confidence=round(parts.confidence, 4),
        outcome=item.outcome,
        scope="project" if item.scope.project == project else "global",
        task_id=item.provenance.task_id,
        judge=item.provenance.judge,
        contradicts=found.contradicts or None,
        said_by=_said_by(item),
    )


def _said_by(item: "MemoryItem") -> str | None:
    if item.provenance.is_users_word:
        return "user"
    return None if item.provenance.heard_in is None else "agent"


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
        said_by=_said_by(item),
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
    said_by = _said_by(item)
    return row(
        id=item.id, status=status, title=item.title, kind=item.tags[0], scope=scope, said_by=said_by,
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


BESIDE_CHARS = 300
"""So much is shown of each neighbour."""


def of_sources(found: "SourceSearch") -> Row:
    """The passages, how to get those behind them, and how they were found."""
    return row(
        hits=[of_passage(hit) for hit in found.hits],
        reason=found.reason,
        more=f"offset={found.offset + len(found.hits)}" if found.more and found.hits else None,
        passages=found.passages,
        legs=found.legs,
        embedder=found.embedder,
        reranker=found.reranker,
        notices=found.notices or None,
    )


def of_passage(hit: "SourceHit") -> Row:
    """One passage: what it is, where it stands (file and lines, or the server of a tool), and what one needs to use it.

    `of` is the title of the document or file; `use` says of tools and operations what a call takes.
    """
    passage = hit.passage
    called = passage.kind in ("tool", "api")
    uses = called and "input_schema" in passage.data
    return row(
        title=passage.title,
        kind=passage.kind,
        where=_where(hit),
        source=hit.location,
        url=passage.data.get("url") if passage.kind == "github" else None,
        sha=passage.data.get("sha") if passage.kind == "github" else None,
        score=round(hit.score, 4),
        rerank_score=None if hit.rerank_score is None else round(hit.rerank_score, 4),
        why=hit.justification,
        of=None if called or hit.group_title == passage.title else hit.group_title,
        description=None if passage.description in passage.content else passage.description,
        before=None if called else _end(hit.before),
        text=None if uses else passage.content or None,
        after=None if called else _beginning(hit.after),
        use=passage.data if called else None,
    )


def _where(hit: "SourceHit") -> str:
    passage = hit.passage
    place = passage.path or passage.group
    if passage.line is None:
        return place
    last = passage.end_line
    return f"{place}:{passage.line}" if last in (None, passage.line) else f"{place}:{passage.line}-{last}"


def _end(text: str | None) -> str | None:
    if not text or len(text) <= BESIDE_CHARS:
        return text or None
    return "… " + text[-BESIDE_CHARS:].partition(" ")[2]


def _beginning(text: str | None) -> str | None:
    if not text or len(text) <= BESIDE_CHARS:
        return text or None
    return text[:BESIDE_CHARS].rpartition(" ")[0] + " …"


def of_logged(result: "LogResult") -> Row:
    """What became of the calls."""
    return row(logged=result.logged, known=result.known, tools=result.tools)


def of_guidance(found: "ToolGuidance") -> Row:
    """Guidance as Markdown; for a task also the tools that were called for something similar, in their order."""
    ranked = [
        row(
            tool_name=each.tool_name,
            rank=round(each.rank, 4),
            expected_success=round(each.expected_success, 3),
            similar_calls=each.similar,
            similar_good=each.similar_good,
        )
        for each in found.experience
    ]
    return row(markdown=found.markdown, ranked=ranked or None, unknown=found.unknown or None, reason=found.reason)
