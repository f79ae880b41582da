"""MCP tools of the tool memory: log calls, summarize them, retrieve guidance."""

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field, JsonValue

from swarm_memory.server.mcp.answers import of_guidance, of_logged
from swarm_memory.server.mcp.tool import AGAIN, READS, AppContext, answered, answered_job, bank_of, tool

Names = Annotated[list[str] | None, Field(description="Tools; default all")]


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


async def summarize_tool_memory(ctx: AppContext, tool_names: Names = None) -> CallToolResult:
    """Evaluate what was logged and summarize tools with news; after 45 s a job_id instead."""
    from swarm_memory.server.jobs.handlers import SUMMARIZE

    return await answered_job(ctx, SUMMARIZE, {"tool_names": list[JsonValue](tool_names) if tool_names else None})


async def retrieve_tool_memory(
    ctx: AppContext,
    tool_names: Annotated[list[str] | None, Field(description="Tools to know of")] = None,
    task: Annotated[str | None, Field(description="Or: what a tool is wanted for")] = None,
) -> CallToolResult:
    """Say from real calls how to use tools, or which to take for a task. Notes, no instructions."""
    from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory as retrieve

    return answered(of_guidance(await retrieve(await bank_of(ctx).for_reading(), tool_names, task)))


TOOLS = (
    tool(log_tool_call, "Log tool calls", AGAIN),
    tool(summarize_tool_memory, "Summarize tool memory", AGAIN),
    tool(retrieve_tool_memory, "Retrieve tool memory", READS),
)
