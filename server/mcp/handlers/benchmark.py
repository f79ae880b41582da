"""The MCP tool that measures the memory."""

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from swarm_memory.server.mcp.answers import JobAnswer
from swarm_memory.server.mcp.handlers.base import AGAIN, AppContext, answered, bank_of, telling, tool

NONE: dict[str, Any] = {}


async def run_benchmark(
    ctx: AppContext,
    suite: Annotated[str, Field(description="retrieval, tool-memory, performance, learning")] = "retrieval",
    options: Annotated[dict[str, Any], Field(description="Its options: dataset, path, limit …")] = NONE,
) -> CallToolResult:
    """When the user asks: measure this memory. Answers tables, or a job_id."""
    from swarm_memory.server.benchmark.job import BENCHMARK, checked_payload
    from swarm_memory.server.jobs.job_tools import not_failed, run_as_job

    bank = bank_of(ctx)
    payload = checked_payload(suite, options)
    toolbox = await bank.toolbox()
    ended = await run_as_job(toolbox, BENCHMARK, payload, wake=bank.wake_worker, on_progress=telling(ctx))
    return answered(JobAnswer.of(not_failed(ended)))


TOOLS = (tool(run_benchmark, "Run a benchmark", AGAIN),)
