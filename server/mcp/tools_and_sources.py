"""The MCP tools for what lies beside memories: tool memory, and sources that are indexed and searched."""

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field, JsonValue

from swarm_memory.schema.source import SourceKind
from swarm_memory.server.mcp.answers import of_logged
from swarm_memory.server.mcp.tool import AppContext, answered, answered_job, bank_of, tool, tool_of
from swarm_memory.server.operations.operation import ADDS, AGAIN
from swarm_memory.server.operations.tools_and_sources import SEARCH, TOOL_GUIDANCE


async def index_sources(
    ctx: AppContext,
    kind: Annotated[SourceKind, Field(description="What to read there")],
    path: Annotated[str | None, Field(description="The project by default; of github OWNER/REPO[@REF]")] = None,
) -> CallToolResult:
    """Make documents, code, APIs, MCP tools or a GitHub repository searchable, or read again what changed."""
    from swarm_memory.server.sources.indexing import INDEX_SOURCES, IndexRequest, check

    bank, asked = bank_of(ctx), IndexRequest(kind=kind, path=path)
    await check(await bank.toolbox(), asked, bank.root)
    return await answered_job(ctx, INDEX_SOURCES, asked.model_dump(mode="json"))


async def log_tool_call(
    ctx: AppContext,
    calls: Annotated[
        list[dict[str, Any]],
        Field(description="{tool_name, input, output, success}, maybe time_cost (s), token_cost, create_time, task_id"),
    ],
) -> CallToolResult:
    """Log calls of tools, so that it is known what each is good for. Hooks log the host's own calls by themselves."""
    from swarm_memory.tools.tool_memory.log import log_tool_calls

    bank = bank_of(ctx)
    result = await log_tool_calls(await bank.toolbox(), calls)
    bank.wake_worker()
    return answered(of_logged(result))


async def summarize_tool_memory(
    ctx: AppContext, tool_names: Annotated[list[str] | None, Field(description="Tools; default all")] = None
) -> CallToolResult:
    """Evaluate what was logged and summarize tools with news; after 45 s a job_id instead."""
    from swarm_memory.server.jobs.handlers import SUMMARIZE

    return await answered_job(ctx, SUMMARIZE, {"tool_names": list[JsonValue](tool_names) if tool_names else None})


TOOLS = (
    tool(log_tool_call, "Log tool calls", AGAIN, "write"),
    tool(summarize_tool_memory, "Summarize tool memory", AGAIN, "write"),
    tool_of(TOOL_GUIDANCE),
    tool(index_sources, "Index sources", ADDS | {"open_world_hint": True}, "admin"),
    tool_of(SEARCH),
)
