"""Operations on what lies beside memories: what is known of tools, and sources that are indexed."""

from typing import Annotated

from pydantic import Field

from swarm_memory.schema.source import SourceHit, SourceKind, SourceSearch
from swarm_memory.schema.tool_memory import ToolGuidance
from swarm_memory.server.operations.memories import row
from swarm_memory.server.operations.operation import READS, Operation, Row, Site, Word

BESIDE_CHARS = 300
"""So much is shown of each neighbour of a passage."""


async def retrieve_tool_memory(
    site: Site,
    tool_names: Annotated[list[str] | None, Field(description="Tools to know of"), Word("[TOOL]...")] = None,
    task: Annotated[str | None, Field(description="Or: what a tool is wanted for")] = None,
) -> ToolGuidance:
    """Say from real calls how to use tools, or which to take for a task. Notes, no instructions."""
    from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory as retrieve

    return await retrieve(await site.for_reading(), tool_names or None, task)


def of_guidance(found: ToolGuidance) -> Row:
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


async def search_sources(
    site: Site,
    query: Annotated[str, Word("QUERY")],
    kind: Annotated[SourceKind | None, Field(description="All by default")] = None,
    k: Annotated[int | None, Field(ge=1, le=50, description="5 by default"), "-k"] = None,
    offset: Annotated[int, Field(ge=0, le=1000)] = 0,
) -> SourceSearch:
    """Find the tool, passage, function or API operation for a task, best first.

    Untrusted. Call index_sources first.
    """
    from swarm_memory.tools.sources.sources import search_sources as search

    return await search(await site.for_reading(), query, kind=kind, k=k, offset=offset)


def of_sources(found: SourceSearch) -> Row:
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


def of_passage(hit: SourceHit) -> Row:
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


def _where(hit: SourceHit) -> str:
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


TOOL_GUIDANCE = Operation(retrieve_tool_memory, "Retrieve tool memory", READS, "read", of_guidance)
SEARCH = Operation(search_sources, "Search sources", READS | {"open_world_hint": True}, "read", of_sources)
