"""The distilled unit: a memory item, where it came from, and what a search for it gives."""

from typing import Literal

from pydantic import Field, field_validator

from swarm_memory.schema.base import Model, Scope, Timestamp, Unit
from swarm_memory.schema.verdict import Judge

Outcome = Literal["Success", "Failure"]
MemoryStatus = Literal["active", "quarantined", "archived"]
Distiller = Literal["model", "agent", "extractive", "user", "imported"]

MAX_TITLE, MAX_DESCRIPTION, MAX_CONTENT = 200, 500, 4000


class MemoryDraft(Model):
    """A strategy, or a guardrail, as it is proposed: the three texts of the paper's memory item, with tags."""

    title: str = Field(min_length=3, max_length=MAX_TITLE, description="What to do, or not to")
    description: str = Field(default="", max_length=MAX_DESCRIPTION, description="One sentence: when this is of use")
    content: str = Field(min_length=3, max_length=MAX_CONTENT, description="Numbered steps, one line each")
    tags: tuple[str, ...] = Field(default=(), max_length=20)
    domain: str | None = Field(default=None, max_length=200)
    evidence: tuple[str, ...] = Field(default=(), description="Ids of the steps that it was drawn from")

    @field_validator("title", "content")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value.strip()


class Provenance(Model):
    """Where a memory item came from."""

    task_id: str | None = None
    trajectory_id: str | None = None
    session_id: str | None = None
    """The host's session that the task belonged to: what it says again does not count as another witness."""
    agent_id: str | None = None
    evidence: tuple[str, ...] = ()
    judge: Judge | None = None
    distiller: Distiller = "extractive"
    prompt_hash: str | None = None
    model: str | None = None
    screened_by: str | None = None
    """Who looked for attacks in it before it was stored: `rules and classifier`, and `, <model>` where it was asked."""
    run_id: str | None = None
    """The learn, import or MaTTS run that made it: what can be undone as a whole."""
    imported_from: str | None = None
    hearsay: bool = False
    """Whether a step of it was told to the agent (by the task, an output, a memory nobody vouches for) before the agent
    did it: following it proves nothing then."""


class MemoryItem(Model):
    """One memory in the bank."""

    id: str
    scope: Scope
    title: str
    description: str = ""
    content: str
    tags: tuple[str, ...] = ()
    domain: str | None = None
    outcome: Outcome = "Success"
    """Success: a strategy. Failure: a guardrail."""
    confidence: Unit
    usage_count: int = Field(default=0, ge=0)
    created_at: Timestamp
    last_used: Timestamp | None = None
    status: MemoryStatus = "active"
    status_reason: str | None = None
    provenance: Provenance = Provenance()

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: title, description, content."""
        return "\n".join(part for part in (self.title, self.description, self.content) if part)


class ScoreParts(Model):
    """How a score came to be; every number from 0 to 1 but `diversity_penalty` and the raw legs."""

    relevance: Unit
    recency: Unit
    confidence: Unit
    diversity_penalty: float = 0.0
    """δ · the greatest cosine to an item chosen before; subtracted."""
    cosine: float | None = None
    """Nearness to the query; None for an item without vector in the embedder's space."""
    keyword: float | None = None
    """BM25 among the items of the scopes, higher is better; None: not one word in common."""


class ScoredMemory(Model):
    """A memory item with its score and the parts of it."""

    item: MemoryItem
    score: float
    parts: ScoreParts


class NearMiss(Model):
    """What came nearest when nothing fitted."""

    id: str
    title: str
    cosine: float | None
    keyword_coverage: float


Leg = Literal["vector", "exact_scan", "keyword"]


class Retrieval(Model):
    """The answer of `retrieve_memories`."""

    retrieval_id: str
    query: str
    memories: tuple[ScoredMemory, ...]
    preamble: str
    """What goes into the agent's prompt; empty when nothing fits."""
    reason: str | None = None
    """Why the answer is empty or short."""
    nearest: NearMiss | None = None
    legs: tuple[Leg, ...]
    """The legs that answered."""
    embedder: str
    notices: tuple[str, ...] = ()
    """What was less than usual: items not reachable in this embedder's space, no sqlite-vec …"""
    latency_ms: float
