"""What search_sources answers: small shapes, because an agent pays for every token of them."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, JsonValue

if TYPE_CHECKING:
    from swarm_memory.schema.source import SourceHit, SourceSearch

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
