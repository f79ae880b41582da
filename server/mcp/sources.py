"""MCP tools for what lies beside memories: tools, documents, code and API descriptions, indexed and searched."""

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from swarm_memory.schema.source import SourceKind
from swarm_memory.server.mcp.answers import of_sources
from swarm_memory.server.mcp.tool import ADDS, READS, AppContext, answered, answered_job, bank_of, tool

Kind = Annotated[SourceKind, Field(description="What to read there")]
SearchedKind = Annotated[SourceKind | None, Field(description="All by default")]


async def index_sources(
    ctx: AppContext,
    kind: Kind,
    path: Annotated[str | None, Field(description="The project by default; of github OWNER/REPO[@REF]")] = None,
) -> CallToolResult:
    """Make documents, code, APIs, MCP tools or a GitHub repository searchable, or read again what changed."""
    from swarm_memory.server.sources.indexing import INDEX_SOURCES, IndexRequest, check

    bank, asked = bank_of(ctx), IndexRequest(kind=kind, path=path)
    await check(await bank.toolbox(), asked, bank.root)
    return await answered_job(ctx, INDEX_SOURCES, asked.model_dump(mode="json"))


async def search_sources(
    ctx: AppContext,
    query: str,
    kind: SearchedKind = None,
    k: Annotated[int | None, Field(ge=1, le=50, description="5 by default")] = None,
    offset: Annotated[int, Field(ge=0, le=1000)] = 0,
) -> CallToolResult:
    """Find the tool, passage, function or API operation for a task, best first.

    Untrusted. Call index_sources first.
    """
    from swarm_memory.tools.sources.sources import search_sources as search

    toolbox = await bank_of(ctx).for_reading()
    return answered(of_sources(await search(toolbox, query, kind=kind, k=k, offset=offset)))


TOOLS = (
    tool(index_sources, "Index sources", ADDS | {"open_world_hint": True}),
    tool(search_sources, "Search sources", READS | {"open_world_hint": True}),
)
