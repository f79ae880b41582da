"""The MCP tools whose work runs as a job: consolidation, scaling, benchmarks, and the jobs themselves."""

from typing import Annotated, Any, Literal

from mcp.types import CallToolResult
from pydantic import Field

from swarm_memory.schema.job import JobAction
from swarm_memory.schema.rollout import ToolName
from swarm_memory.server.hosts.input import GivenAttempt
from swarm_memory.server.mcp.answers import of_job
from swarm_memory.server.mcp.tool import AppContext, TaskId, answered, answered_job, bank_of, telling, tool, tool_of
from swarm_memory.server.operations.memories import CONSOLIDATE_BANK
from swarm_memory.server.operations.operation import AGAIN


async def run_matts(
    ctx: AppContext,
    task: Annotated[str, Field(min_length=1, max_length=20_000)],
    runner: Annotated[
        Literal["given", "command", "model"], Field(description="Who does it: you did, a command, the chat model")
    ],
    attempts: Annotated[list[GivenAttempt] | None, Field(max_length=32, description="given: yours, in order")] = None,
    command: Annotated[str | None, Field(description="One of the user's matts.allowed_commands")] = None,
    check: Annotated[str | None, Field(description="Test after each command; likewise")] = None,
    folder: Annotated[str, Field(description="Copied for each, unless given")] = ".",
    tools: Annotated[tuple[ToolName, ...], Field(description="Those of the model, in its copy")] = (),
    mode: Annotated[
        Literal["parallel", "sequential"], Field(description="sequential: each corrects the last")
    ] = "parallel",
    k: Annotated[int | None, Field(ge=1, le=32, description="Rollouts (6) or refinements (3)")] = None,
    task_id: TaskId = None,
) -> CallToolResult:
    """Do a task several times, judge each attempt, and store what tells success from failure.

    For attempts of your own, or when the user wants several. Answers the best and the items; after 45 s a job_id.
    """
    from swarm_memory.server.jobs.handlers import RUN_MATTS, check_runner, with_attempts
    from swarm_memory.server.runners.build import MattsJob, RunnerSpec

    bank = bank_of(ctx)
    toolbox = await bank.toolbox()
    who = RunnerSpec(kind=runner, command=command, check=check, folder=folder, tools=tools)
    asked = MattsJob(task=task, mode=mode, count=k, task_id=task_id, runner=who)
    asked = await with_attempts(toolbox, asked, attempts or ())
    check_runner(toolbox, asked, bank.root)
    return await answered_job(ctx, RUN_MATTS, asked.model_dump(mode="json"), key=asked.run_id)


async def job(
    ctx: AppContext,
    action: Annotated[JobAction, Field(description="result waits up to 45 s for the end")],
    job_id: Annotated[str | None, Field(description="Or run_id; for all but list")] = None,
) -> CallToolResult:
    """Ask how a tool's work stands; cancel it; resume what failed or was cancelled: what is done stays. List all."""
    from swarm_memory.server.jobs.control import manage_jobs

    bank = bank_of(ctx)
    toolbox = await bank.toolbox()
    with bank.serving(-1):
        found = await manage_jobs(toolbox, action, job_id, wake=bank.wake_worker, on_progress=telling(ctx))
    return answered({"jobs": [of_job(each) for each in found]})


NONE: dict[str, Any] = {}


async def run_benchmark(
    ctx: AppContext,
    suite: Annotated[str | None, Field(description="retrieval, tool-memory, performance, learning")] = None,
    options: Annotated[dict[str, Any], Field(description="Its options: dataset, path, limit …")] = NONE,
) -> CallToolResult:
    """When the user asks: measure this memory. Answers tables, or a job_id; without arguments what each suite costs."""
    from swarm_memory.server.benchmark.job import BENCHMARK, checked_payload, what_there_is

    await bank_of(ctx).toolbox()
    if suite is None and not options:
        return answered({"suites": what_there_is(), "hint": "nothing was run: call again with a suite"})
    return await answered_job(ctx, BENCHMARK, checked_payload(suite or "retrieval", options))


TOOLS = (
    tool_of(CONSOLIDATE_BANK),
    tool(run_matts, "Scale a task", AGAIN | {"open_world_hint": True}, "admin"),
    tool(
        job,
        "Long work",
        AGAIN,
        {"status": "write", "result": "write", "list": "write", "cancel": "review", "resume": "review"},
    ),
    tool(run_benchmark, "Run a benchmark", AGAIN, "admin"),
)
