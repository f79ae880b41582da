"""The MCP tools of the loop: judge, distill, learn, credit."""

from typing import Annotated, Literal

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field, JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.server.hosts.input import Given, folder_of, read_all, read_one
from swarm_memory.server.mcp.answers import of_kept, of_learned, of_outcome, of_proposed, of_verdict
from swarm_memory.server.mcp.tool import AppContext, TaskId, answered, answered_job, bank_of, tool
from swarm_memory.server.operations.operation import ADDS, AGAIN, Row

TranscriptPath = Annotated[str | None, Field(description="Transcript or trajectory (.jsonl, .json)")]
Task = Annotated[str | None, Field(description="With steps: what was asked")]
Steps = Annotated[
    list[dict[str, JsonValue]] | None,
    Field(description="In order: {role, content}, or chat messages with calls and results"),
]
Outcome = Annotated[Literal["Success", "Failure", "Undecided"] | None, Field(description="Yours; else from evidence")]
Sure = Annotated[float, Field(ge=0, le=1)]
Reasons = Annotated[list[str] | None, Field(max_length=20)]
AgentId = Annotated[str | None, Field(description="Who acted")]


async def judge_trajectory(
    ctx: AppContext,
    transcript_path: TranscriptPath = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    agent_id: AgentId = None,
    store: Annotated[bool, Field(description="false: only look")] = True,
) -> CallToolResult:
    """Say whether a task was met, why and by which steps, and keep that verdict.

    Give either transcript_path (its last task, or task_id) or task and steps. Without `verdict` evidence and a chat
    model, if one is set, judge.
    """
    from swarm_memory.tools.judge.judge import judge_given

    toolbox = await bank_of(ctx).toolbox()
    given = _given(ctx, transcript_path, task, steps, task_id, agent_id)
    own = _own_verdict(verdict, confidence, reasons)
    trajectory = await read_one(given, toolbox.settings.learn)
    kept, result, trajectory_id = await judge_given(toolbox, trajectory, own, store=store)
    return answered(of_verdict(kept.task_id, result, trajectory_id))


async def distill_memories(
    ctx: AppContext,
    transcript_path: TranscriptPath = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    items: Annotated[list[MemoryDraft] | None, Field(max_length=10, description="Your own")] = None,
    agent_id: AgentId = None,
) -> CallToolResult:
    """Draw general strategies (of a success) or guardrails (of a failure) from a trajectory.

    Without `items` they are only proposed. With `items` and your `verdict`, yours are checked, cleaned and
    stored.
    """
    from swarm_memory.tools.distill.distill import distill
    from swarm_memory.tools.judge.judge import judge_given
    from swarm_memory.tools.tool_memory.log import learn_and_log

    toolbox = await bank_of(ctx).toolbox()
    given = _given(ctx, transcript_path, task, steps, task_id, agent_id)
    trajectory = await read_one(given, toolbox.settings.learn)
    own = _own_verdict(verdict, confidence, reasons)
    if not items:
        kept, judged, _ = await judge_given(toolbox, trajectory, own, store=own is not None)
        return answered(of_proposed(kept.task_id, judged, await distill(toolbox, kept, judged)))
    result = await learn_and_log(toolbox, trajectory, agent_verdict=own, agent_drafts=items)
    bank_of(ctx).wake_worker()
    return answered(of_kept(result))


async def learn_from_trajectory(
    ctx: AppContext,
    transcript_path: Annotated[
        str | None, Field(description="Transcript or trajectory (.jsonl, .json), or a folder of them: as a job")
    ] = None,
    task: Task = None,
    steps: Steps = None,
    task_id: TaskId = None,
    verdict: Outcome = None,
    confidence: Sure = 0.8,
    reasons: Reasons = None,
    agent_id: AgentId = None,
) -> CallToolResult:
    """Learn from finished work: judge it, distill what it teaches, and store that for later tasks.

    Give either transcript_path (all its tasks, or only task_id) or task and steps. Twice from the same work changes
    nothing. Says what was stored, or why nothing.
    """
    own = _own_verdict(verdict, confidence, reasons)
    if own is not None and transcript_path is not None and task_id is None:
        raise InputError("your verdict is of one task: say which by task_id")
    if transcript_path is not None and (folder := folder_of(transcript_path)) is not None:
        return await _imported(ctx, folder, task_id)
    return answered(await _learned(ctx, _given(ctx, transcript_path, task, steps, task_id, agent_id), own))


async def _learned(ctx: AppContext, given: Given, own: Verdict | None) -> Row:
    """Learn from each task of what was given, telling which one is done."""
    from swarm_memory.tools.learn.learn import Contained
    from swarm_memory.tools.tool_memory.log import learn_and_log

    toolbox, contained = await bank_of(ctx).toolbox(), Contained()
    tasks: list[Row] = []
    consolidation_due = False
    async for trajectory in read_all(given, toolbox.settings.learn):
        work = learn_and_log(toolbox, trajectory, agent_verdict=own)
        result = await contained.answer(trajectory.task_id, work)
        if result is not None:
            tasks.append(of_learned(result))
            consolidation_due = result.consolidation_due
        await ctx.report_progress(contained.tasks, message=trajectory.task[:80])
    bank_of(ctx).wake_worker()
    told: Row = {"fault": contained.notice} if contained.notice else {}
    return {"tasks": tasks, "consolidation_due": consolidation_due, **told}


async def _imported(ctx: AppContext, folder: str, task_id: str | None) -> CallToolResult:
    """Take in a folder as a job. An export in it may be anybody's: its memories wait in quarantine."""
    from swarm_memory.server.jobs.transcripts import IMPORT, checked_files

    if task_id is not None:
        raise InputError("task_id is of one transcript: name its file, or leave task_id out")
    await anyio.to_thread.run_sync(checked_files, [folder], bank_of(ctx).root)
    return await answered_job(ctx, IMPORT, {"paths": [folder], "quarantine": True})


async def record_outcome(
    ctx: AppContext,
    task_id: Annotated[str, Field(min_length=1, max_length=500, description="As in retrieve_memories")],
    outcome: Literal["Success", "Failure", "Undecided"],
    used: Annotated[list[str] | None, Field(description="Memory ids that helped")] = None,
) -> CallToolResult:
    """Say what came of a task: its memories are trusted more, or less. Learning does so by itself; your word wins."""
    from swarm_memory.tools.credit.outcome import record_outcome as record

    toolbox = await bank_of(ctx).toolbox()
    verdict = Verdict.by_agent(outcome)
    return answered(of_outcome(await record(toolbox, task_id, verdict, given=True, named=used or ())))


def _given(
    ctx: AppContext, path: str | None, task: str | None, steps: Steps, task_id: str | None, agent_id: str | None
) -> Given:
    return Given(path, task, steps, task_id, agent_id, bank_of(ctx).transcript_folders)


def _own_verdict(label: Outcome, confidence: float, reasons: Reasons) -> Verdict | None:
    return None if label is None else Verdict.by_agent(label, confidence, reasons or ())


TOOLS = (
    tool(judge_trajectory, "Judge a trajectory", AGAIN, "write"),
    tool(distill_memories, "Distill memories", AGAIN, "write"),
    tool(learn_from_trajectory, "Learn from a trajectory", ADDS, "write"),
    tool(record_outcome, "Record an outcome", AGAIN, "write"),
)
