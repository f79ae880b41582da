"""What the MCP tools answer: small shapes, because an agent pays for every token of them."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, JsonValue

from swarm_memory.schema.job import JobStatus
from swarm_memory.schema.tool_memory import LogResult, ToolGuidance
from swarm_memory.schema.trajectory import Label

if TYPE_CHECKING:
    from swarm_memory.schema.job import Job
    from swarm_memory.schema.memory import Distillation, LearnResult, MemoryDraft, MemoryItem, Retrieval, ScoredMemory
    from swarm_memory.schema.outcome import OutcomeRecord
    from swarm_memory.schema.source import SourceHit, SourceSearch
    from swarm_memory.schema.status import MemoryStatus
    from swarm_memory.schema.trajectory import Verdict
    from swarm_memory.tools.ports.journal import Event


class Answer(BaseModel):
    """An answer made of a value of the schema: it has that value's fields of the same names, and some of its own."""

    @classmethod
    def made_of(cls, value: BaseModel, **own: object) -> Self:
        """Take the fields that answer and value both have from the value, but for those that are given."""
        same = {name: getattr(value, name) for name in cls.model_fields if name in type(value).model_fields}
        return cls.model_validate({**same, **own})


class FoundMemory(Answer):
    """One memory of an answer; its steps stand in the preamble."""

    id: str
    title: str
    score: float
    relevance: float
    recency: float
    confidence: float
    outcome: str
    scope: Literal["project", "global"]
    task_id: str | None = None
    judge: str | None = None

    @classmethod
    def of(cls, found: "ScoredMemory", project: str) -> "FoundMemory":
        item, parts = found.item, found.parts
        return cls.made_of(
            item,
            score=round(found.score, 4),
            relevance=round(parts.relevance, 4),
            recency=round(parts.recency, 4),
            confidence=round(parts.confidence, 4),
            scope="project" if item.scope.project == project else "global",
            task_id=item.provenance.task_id,
            judge=item.provenance.judge,
        )


class RetrieveAnswer(Answer):
    """The preamble for the agent, and what stands behind it."""

    preamble: str
    memories: list[FoundMemory]
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
        return cls.made_of(
            found,
            memories=[FoundMemory.of(memory, project) for memory in found.memories],
            nearest=f"{near.id} {near.title} (keyword coverage {near.keyword_coverage:.2f}{cosine})" if near else None,
            notices=found.notices or None,
        )


class VerdictAnswer(Answer):
    """A verdict and the steps it rests on."""

    task_id: str
    verdict: Label
    confidence: float
    reasons: list[str]
    evidence: list[str]
    judge: str
    """`evidence`, `agent`, or the chat model's name."""

    @classmethod
    def of(cls, task_id: str, verdict: "Verdict") -> "VerdictAnswer":
        return cls.made_of(
            verdict,
            task_id=task_id,
            verdict=verdict.label,
            confidence=round(verdict.confidence, 3),
            judge=_who(verdict.judge, verdict.model),
        )


def _who(by: str, model: str | None) -> str:
    return model if by == "model" and model else by


class Draft(Answer):
    """One proposed memory item."""

    title: str
    description: str
    content: str
    tags: list[str]
    evidence: list[str]

    @classmethod
    def of(cls, draft: "MemoryDraft") -> "Draft":
        return cls.made_of(draft)

    @classmethod
    def of_item(cls, item: "MemoryItem") -> "Draft":
        return cls.made_of(item, evidence=item.provenance.evidence)


class DistillAnswer(Answer):
    """What was drawn from a trajectory."""

    task_id: str
    verdict: Label
    confidence: float
    items: list[Draft]
    stored: list[str] | None = None
    distiller: str | None = None
    """`extractive`, `agent`, or the chat model's name."""
    reason: str | None = None

    @classmethod
    def proposed(cls, task_id: str, verdict: "Verdict", drawn: "Distillation") -> "DistillAnswer":
        return cls.made_of(
            drawn,
            task_id=task_id,
            verdict=verdict.label,
            confidence=round(verdict.confidence, 3),
            items=[Draft.of(draft) for draft in drawn.drafts],
            distiller=_who(drawn.distiller, drawn.model),
        )

    @classmethod
    def kept(cls, result: "LearnResult") -> "DistillAnswer":
        return cls.made_of(
            result,
            verdict=result.verdict.label,
            confidence=round(result.verdict.confidence, 3),
            items=[Draft.of_item(item) for item in result.stored],
            stored=[item.id for item in result.stored],
        )


class Learned(Answer):
    """What one task taught."""

    task_id: str
    trajectory_id: str
    status: str
    verdict: Label
    confidence: float
    judge: str
    reasons: list[str]
    stored: list[str]
    titles: list[str]
    reinforced: list[str]
    reason: str | None = None

    @classmethod
    def of(cls, result: "LearnResult") -> "Learned":
        return cls.made_of(
            result,
            verdict=result.verdict.label,
            confidence=round(result.verdict.confidence, 3),
            judge=_who(result.verdict.judge, result.verdict.model),
            reasons=result.verdict.reasons,
            stored=[item.id for item in result.stored],
            titles=[item.title for item in result.stored],
        )


class LearnAnswer(BaseModel):
    """What each task of the trajectory or transcript taught."""

    tasks: list[Learned]
    consolidation_due: bool = False


class OutcomeAnswer(BaseModel):
    """What it changed."""

    status: str
    changed: dict[str, float]
    """Of the confidence, by memory id."""

    @classmethod
    def of(cls, record: "OutcomeRecord") -> "OutcomeAnswer":
        return cls(
            status=record.status,
            changed={credit.memory_id: credit.applied for credit in record.credits},
        )


_LONG = ("description", "content", "tags", "domain", "provenance")
"""What a list of memories leaves out."""


class MemoryView(Answer):
    """One memory; a list leaves out the long texts."""

    id: str
    title: str
    status: str
    outcome: str
    confidence: float
    usage_count: int
    created_at: str
    project: str
    status_reason: str | None = None
    description: str | None = None
    content: str | None = None
    tags: list[str] | None = None
    domain: str | None = None
    provenance: dict[str, JsonValue] | None = None

    @classmethod
    def of(cls, item: "MemoryItem", *, full: bool) -> "MemoryView":
        long = (
            {"provenance": item.provenance.model_dump(mode="json", exclude_none=True)} if full else dict.fromkeys(_LONG)
        )
        return cls.made_of(
            item,
            confidence=round(item.confidence, 3),
            created_at=item.created_at.isoformat(timespec="seconds"),
            project=item.scope.project,
            **long,
        )


class EventView(BaseModel):
    """One change of a memory."""

    at: str
    kind: str
    data: dict[str, JsonValue]

    @classmethod
    def of(cls, event: "Event") -> "EventView":
        return cls(at=event.at.isoformat(timespec="seconds"), kind=event.kind, data=dict(event.data))


class ManageAnswer(BaseModel):
    """What `manage_memories` found or changed."""

    action: str
    memories: list[MemoryView] | None = None
    changed: int | None = None
    events: list[EventView] | None = None
    left: list[str] | None = None
    """What forgetting left, and how to take it too."""


class StatusAnswer(Answer):
    """How the bank stands, without the settings that are at their defaults."""

    version: str
    database: str
    schema_version: int
    sqlite: str
    vector_search: str
    embedder: str
    judge: str
    chat: str
    """Its models, what they cost today, and how far audited verdicts agree with the evidence."""
    project: str
    memories: dict[str, int]
    verdicts: dict[str, int]
    jobs: dict[str, int]
    trajectories: int
    retrievals: int
    consolidation: str
    """What is new since the last one, and how the next one stands."""
    tools: str
    """The tool memory: tools, calls, how many are not evaluated."""
    sources: str
    """Passages of documents, code, APIs and tools, by kind."""
    effect: str
    """Of memory on the tasks so far, with its intervals."""
    notices: list[str]

    @classmethod
    def of(cls, status: "MemoryStatus") -> "StatusAnswer":
        storage, counts = status.storage, status.statistics
        return cls.made_of(
            status,
            database=storage.path,
            schema_version=storage.schema_version,
            sqlite=f"{storage.sqlite_version} ({storage.driver}: {storage.driver_reason})",
            vector_search=storage.vector_search,
            chat=status.chat.says if status.chat else "none",
            project=counts.scope.project,
            memories=counts.memories,
            verdicts=counts.verdicts,
            jobs=counts.jobs,
            trajectories=counts.trajectories,
            retrievals=counts.retrievals,
            effect=status.effect.says if status.effect else "no task has an outcome yet",
        )


class JobAnswer(Answer):
    """One job."""

    job_id: str
    kind: str
    status: JobStatus
    done: int | None = None
    total: int | None = None
    message: str | None = None
    result: dict[str, JsonValue] | None = None
    error: str | None = None
    hint: str | None = None

    @classmethod
    def of(cls, job: "Job") -> "JobAnswer":
        progress = job.progress
        return cls.made_of(
            job,
            job_id=job.id,
            done=progress.done if progress else None,
            total=progress.total if progress else None,
            message=(progress.message or None) if progress else None,
            result=job.result if job.status == "completed" else None,
            hint=None if job.ended_at else "not done yet: call job with action result and this job_id",
        )


class JobsAnswer(BaseModel):
    """The jobs that were asked for."""

    jobs: list[JobAnswer]


BESIDE_CHARS = 300
"""So much is shown of each neighbour."""

_CALLED = ("tool", "api")


class FoundSource(BaseModel):
    """One passage: what it is, where it stands, and what one needs to use it."""

    title: str
    kind: str
    where: str
    """File and lines, or the server of a tool."""
    source: str
    score: float
    rerank_score: float | None = None
    why: str | None = None
    of: str | None = None
    """The title of the document or file."""
    description: str | None = None
    before: str | None = None
    text: str | None = None
    after: str | None = None
    use: dict[str, JsonValue] | None = None
    """Of tools and operations: what a call takes."""

    @classmethod
    def of_hit(cls, hit: "SourceHit") -> "FoundSource":
        passage = hit.passage
        called = passage.kind in _CALLED
        uses = called and "input_schema" in passage.data
        return cls(
            title=passage.title,
            kind=passage.kind,
            where=_where(hit),
            source=hit.location,
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


class SearchAnswer(BaseModel):
    """The hits, and how they were found."""

    hits: list[FoundSource]
    reason: str | None = None
    more: str | None = None
    """How to get those behind these."""
    passages: int
    legs: list[str]
    embedder: str
    reranker: str | None = None
    notices: list[str] | None = None

    @classmethod
    def of(cls, found: "SourceSearch") -> "SearchAnswer":
        return cls(
            hits=[FoundSource.of_hit(hit) for hit in found.hits],
            reason=found.reason,
            more=f"offset={found.offset + len(found.hits)}" if found.more and found.hits else None,
            passages=found.passages,
            legs=list(found.legs),
            embedder=found.embedder,
            reranker=found.reranker,
            notices=list(found.notices) or None,
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


class LogAnswer(BaseModel):
    """What became of the calls."""

    logged: int
    known: int
    tools: list[str]

    @classmethod
    def of(cls, result: LogResult) -> "LogAnswer":
        return cls(logged=result.logged, known=result.known, tools=list(result.tools))


class RankedTool(BaseModel):
    """One tool that was called for something similar."""

    tool_name: str
    rank: float
    expected_success: float
    similar_calls: int
    similar_good: int


class GuidanceAnswer(BaseModel):
    """Guidance as Markdown; for a task also the tools in their order."""

    markdown: str
    ranked: list[RankedTool] | None = None
    unknown: list[str] | None = None
    reason: str | None = None

    @classmethod
    def of(cls, found: ToolGuidance) -> "GuidanceAnswer":
        ranked = [
            RankedTool(
                tool_name=each.tool_name,
                rank=round(each.rank, 4),
                expected_success=round(each.expected_success, 3),
                similar_calls=each.similar,
                similar_good=each.similar_good,
            )
            for each in found.experience
        ]
        return cls(
            markdown=found.markdown, ranked=ranked or None, unknown=list(found.unknown) or None, reason=found.reason
        )
