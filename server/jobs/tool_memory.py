"""The jobs of the tool memory: evaluating what was logged, in the background, and summarizing on request."""

from collections.abc import Mapping
from datetime import timedelta
from typing import cast

import anyio
from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Job, Progress
from swarm_memory.schema.tool_memory import SummarizeResult
from swarm_memory.server.jobs.worker import Report
from swarm_memory.tools.tool_memory.tool_memory import (
    EVALUATE,
    evaluate_tool_calls,
    queue_evaluation,
    summarize_tool_memory,
)
from swarm_memory.tools.toolbox import Toolbox

SUMMARIZE = "summarize_tool_memory"
TELL_S = 0.3

__all__ = ["EVALUATE", "SUMMARIZE", "evaluate_logged", "summarize"]


async def evaluate_logged(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Evaluate the calls that have settled; summarize tools of which enough is new; come again for what failed."""
    done = await evaluate_tool_calls(toolbox, settled=True)
    await report(Progress(done=done.evaluated, message="evaluated"))
    if done.failed:
        await queue_evaluation(toolbox, timedelta(seconds=toolbox.settings.tool_memory.retry_after_s))
    told = await summarize_tool_memory(toolbox, min_new=toolbox.settings.tool_memory.summarize_after, evaluate=False)
    return {"evaluation": done.model_dump(mode="json"), "message": told.message}


async def summarize(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Summarize the tools of the payload, or all, telling how many are done."""
    named = job.payload.get("tool_names")
    if named is not None and not (isinstance(named, list) and all(isinstance(each, str) for each in named)):
        raise InputError("tool_names must be a list of names")
    standing = Progress(done=0, message="evaluating")

    def count(done: int, total: int) -> None:
        nonlocal standing
        standing = Progress(done=done, total=total, message="summarizing")

    async def tell() -> None:
        while True:
            await report(standing)
            await anyio.sleep(TELL_S)

    result: SummarizeResult | None = None
    async with anyio.create_task_group() as telling:
        telling.start_soon(tell)
        result = await summarize_tool_memory(toolbox, cast(list[str] | None, named), on_progress=count)
        telling.cancel_scope.cancel()
    assert result is not None
    return result.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
