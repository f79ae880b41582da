"""Tool memory: log calls, evaluate them, summarize what they teach, retrieve guidance. It knows no protocol and no SQL.

Calls are rows; how one is evaluated, what is drawn from many and how tools are ranked stand in the `tool_` modules.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from pydantic import JsonValue

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.errors import InputError, ModelError, SwarmMemoryError
from swarm_memory.schema.job import Job
from swarm_memory.schema.tool_memory import (
    EvaluateResult,
    LoggedCall,
    LogResult,
    SummarizeResult,
    ToolGuidance,
    ToolMemory,
    ToolOutcome,
)
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls, interval_of, spaced
from swarm_memory.tools.tool_memory.experience import Overall, rank_tools
from swarm_memory.tools.tool_memory.guidance import MAX_RANKED, of_task, of_tools
from swarm_memory.tools.tool_memory.log import kept_call, kept_schema, read_calls
from swarm_memory.tools.tool_memory.summarize import summarize_calls
from swarm_memory.tools.toolbox import Toolbox

__all__ = ["evaluate_tool_calls", "log_tool_calls", "retrieve_tool_memory", "summarize_tool_memory"]

EVALUATE = "evaluate_tool_calls"
"""The kind of the job that evaluates what was logged, and summarizes what is due."""

MAX_NAMES = 200
MAX_TASK_CHARS = 20_000
_MAX_QUERY_TOKENS = 64


async def log_tool_calls(
    toolbox: Toolbox, calls: Sequence[LoggedCall | Mapping[str, JsonValue]], *, evaluate_later: bool = True
) -> LogResult:
    """Keep calls, redacted and capped, and count them; queue their evaluation unless `evaluate_later` is False.

    A repeated call is a new row; only one with the session and call id of an earlier one is known already. Raises
    `InputError` that names the call and key to change, and then nothing is kept; `StorageError`.
    """
    mappings = [each for each in calls if not isinstance(each, LoggedCall)]
    read = iter(read_calls(mappings) if mappings or not calls else ())
    logged = [each if isinstance(each, LoggedCall) else next(read) for each in calls]
    now = toolbox.clock.now()
    kept = [kept_call(each, toolbox.scope, toolbox.settings, now) for each in logged]
    window = toolbox.settings.tool_memory.max_history_tool_call_cnt
    added = await toolbox.store.tool_memory.add_calls(kept, window)
    for each, call in zip(logged, kept, strict=True):
        if schema := kept_schema(each, toolbox.settings):
            await toolbox.store.tool_memory.put_schema(toolbox.scope, call.tool_name, schema)
    if added and evaluate_later:
        await queue_evaluation(toolbox)
    return LogResult(logged=added, known=len(kept) - added, tools=tuple(sorted({call.tool_name for call in kept})))


async def queue_evaluation(toolbox: Toolbox, delay: timedelta | None = None) -> None:
    """Have what was logged evaluated when it has settled, or after `delay`; what is logged meanwhile goes with it."""
    now = toolbox.clock.now()
    after = timedelta(seconds=toolbox.settings.tool_memory.settle_s) if delay is None else delay
    job = Job(id=new_id(JOB), scope=toolbox.scope, kind=EVALUATE, key=EVALUATE, run_after=now + after, created_at=now)
    await toolbox.store.enqueue(job)


async def summarize_tool_memory(
    toolbox: Toolbox,
    tool_names: Sequence[str] | None = None,
    *,
    min_new: int = 1,
    evaluate: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> SummarizeResult:
    """Summarize tools, or all of the scope, over their `recent_call_count` newest calls; skip those without news.

    What is not evaluated yet is evaluated first, unless `evaluate` is False. A tool has news when at least `min_new` of
    its newest calls are evaluated and in no summary. A tool that fails is told of and does not stop the others. Raises
    `InputError`, `StorageError`.
    """
    names = _names(tool_names)
    evaluation = await evaluate_tool_calls(toolbox, names) if evaluate else EvaluateResult()
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, names)
    known = {memory.totals.tool_name for memory in memories}
    outcomes = {name: ToolOutcome(tool_name=name, status="unknown") for name in names or () if name not in known}

    async def one(memory: ToolMemory) -> None:
        outcomes[memory.totals.tool_name] = await _summarize(toolbox, memory, min_new)
        if on_progress is not None:
            on_progress(len(outcomes), len(memories))

    due = [memory for memory in memories if await _news(toolbox, memory) >= min_new]
    for memory in memories:
        if memory not in due:
            outcomes[memory.totals.tool_name] = ToolOutcome(tool_name=memory.totals.tool_name, status="skipped")
    interval = interval_of(toolbox.settings.tool_memory.summary_sleep_interval, toolbox.chat)
    await spaced(due, one, interval, lambda: False)
    return _told([outcomes[name] for name in sorted(outcomes)], evaluation)


async def retrieve_tool_memory(
    toolbox: Toolbox, tool_names: Sequence[str] | None = None, task: str | None = None
) -> ToolGuidance:
    """Return guidance as Markdown: for named tools, or for a task which tool to take and why; with both, which of them.

    Where nothing is known the answer says so: `reason` is set and nothing is invented. Raises `InputError`,
    `StorageError`.
    """
    names = _names(tool_names)
    if names is None and not (task and task.strip()):
        raise InputError("name tools, or give a task to find the tool for, or both")
    if task and task.strip():
        return await _for_task(toolbox, clean(task[:MAX_TASK_CHARS]), names)
    memories = await _with_news(toolbox, await toolbox.store.tool_memory.memories(toolbox.scope, names))
    known = {memory.totals.tool_name for memory in memories}
    unknown = tuple(name for name in names or () if name not in known)
    text = of_tools(memories, unknown, toolbox.settings.tool_memory.guidance_tokens)
    reason = None if memories else "none of these tools was ever called in this project"
    return ToolGuidance(markdown=text, tools=tuple(memories), unknown=unknown, reason=reason)


async def _for_task(toolbox: Toolbox, task: str, names: Sequence[str] | None) -> ToolGuidance:
    tokens = query_tokens(task)[:_MAX_QUERY_TOKENS]
    past = await toolbox.store.tool_memory.past_calls(toolbox.scope, tokens, names)
    candidates = sorted({call.tool_name for call in past.calls})
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, candidates if names is None else names)
    overall = {memory.totals.tool_name: Overall(memory.totals.evaluated, memory.totals.good) for memory in memories}
    ranked = rank_tools(tokens, past, overall)[:MAX_RANKED]
    budget = toolbox.settings.tool_memory.guidance_tokens
    unknown = tuple(name for name in names or () if name not in overall)
    if ranked:
        best = {each.tool_name for each in ranked}
        told = tuple(memory for memory in memories if memory.totals.tool_name in best)
        return ToolGuidance(
            markdown=of_task(ranked, told, budget), tools=told, experience=tuple(ranked), unknown=unknown
        )
    reason = "no evaluated call of this project was similar to the task"
    text = "No experience with tasks like this."
    if names is not None and memories:
        text = f"{text} What is known of these tools otherwise:\n\n{of_tools(memories, unknown, budget - 20)}"
        return ToolGuidance(markdown=text, tools=tuple(memories), unknown=unknown, reason=reason)
    return ToolGuidance(markdown=text, unknown=unknown, reason=reason)


async def _summarize(toolbox: Toolbox, memory: ToolMemory, min_new: int) -> ToolOutcome:
    name, store = memory.totals.tool_name, toolbox.store.tool_memory
    recent = toolbox.settings.tool_memory.recent_call_count
    model = None if toolbox.settings.tool_memory.evaluator == "evidence" else toolbox.chat
    try:
        calls = await store.recent_calls(toolbox.scope, name, recent)
        try:
            summary = await summarize_calls(calls, model, toolbox.settings, memory.tool_schema)
        except ModelError as error:
            reason = redact(f"the model gave no guidelines: {error}").text
            if memory.summary is None:
                # Better than nothing, but its calls stay unmarked: the model is asked again next time.
                extracted = await summarize_calls(calls, None, toolbox.settings, None)
                noted = extracted.model_copy(update={"note": reason})
                await store.save_summary(toolbox.scope, name, noted, (), toolbox.clock.now())
            return ToolOutcome(tool_name=name, status="failed", reason=reason)
        seen = [each.seq for each in calls if each.evaluation is not None]
        await store.save_summary(toolbox.scope, name, summary, seen, toolbox.clock.now())
    except SwarmMemoryError as error:
        return ToolOutcome(tool_name=name, status="failed", reason=redact(str(error)).text)
    return ToolOutcome(tool_name=name, status="summarized", summary=summary)


async def _news(toolbox: Toolbox, memory: ToolMemory) -> int:
    recent = toolbox.settings.tool_memory.recent_call_count
    return await toolbox.store.tool_memory.new_calls(toolbox.scope, memory.totals.tool_name, recent)


async def _with_news(toolbox: Toolbox, memories: Sequence[ToolMemory]) -> list[ToolMemory]:
    return [memory.model_copy(update={"new_calls": await _news(toolbox, memory)}) for memory in memories]


def _told(outcomes: Sequence[ToolOutcome], evaluation: EvaluateResult) -> SummarizeResult:
    """Say it as one sentence too; what failed is added to it only where something did."""
    summarized, skipped, failed = (
        sum(each.status == status for each in outcomes) for status in ("summarized", "skipped", "failed")
    )
    done = summarized + skipped
    message = (
        f"Successfully processed {done} tool memories: {summarized} summarized, {skipped} skipped (already up-to-date)"
    )
    unknown = [each.tool_name for each in outcomes if each.status == "unknown"]
    if failed:
        message += f"; {failed} failed"
    if unknown:
        message += f"; never called: {', '.join(unknown)}"
    return SummarizeResult(
        message=message,
        processed=done,
        summarized=summarized,
        skipped=skipped,
        failed=failed,
        tools=tuple(outcomes),
        evaluation=evaluation,
    )


def _names(tool_names: Sequence[str] | None) -> list[str] | None:
    """Return distinct cleaned names; None for all. Raises `InputError`."""
    if tool_names is None:
        return None
    names = list(dict.fromkeys(clean(name).strip()[:300] for name in tool_names))
    if not names or not all(names):
        raise InputError("tool_names must hold names of tools; leave it out for all")
    if len(names) > MAX_NAMES:
        raise InputError(f"tool_names has {len(names)} names; at most {MAX_NAMES} are allowed")
    return names
