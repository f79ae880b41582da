"""The summary of a tool from its newest calls: figures with intervals, and guidelines by the model or extracted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, SwarmMemoryError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import Guidelines, KeptCall, Measure, ToolMemory, ToolSummary
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.tool_memory.evaluate import EvaluateResult, evaluate_tool_calls, interval_of, spaced
from swarm_memory.tools.tool_memory.guidelines import MAX_EACH, extract_guidelines
from swarm_memory.tools.tool_memory.log import read_names
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.phrasing import show_symptom

PROMPT = "summarize_tool_memory"
_MAX_SENTENCE = 300
_MAX_SHOWN_INPUT, _MAX_SHOWN_TEXT = 500, 300
_TIMEOUT_S = 60.0
SUMMARIZE_AFTER = 10
"""New evaluated calls of a tool after which it is summarized in the background; on request one is enough."""

RECENT = 30
"""The newest calls of a tool that a summary is made of."""

LEARNED_FROM = 200
"""The newest calls, as far as they are kept, that guidelines are made of without a model: figures are of fewer."""


class ToolOutcome(NamedTuple):
    """What became of one tool in a summarization."""

    tool_name: str
    status: Literal["summarized", "skipped", "failed", "unknown"]
    summary: ToolSummary | None = None
    reason: str | None = None


class SummarizeResult(NamedTuple):
    """What a summarization did, in a sentence and tool by tool."""

    message: str
    tools: tuple[ToolOutcome, ...]
    evaluation: EvaluateResult


async def summarize_tool_memory(
    toolbox: Toolbox,
    tool_names: Sequence[str] | None = None,
    *,
    min_new: int = 1,
    evaluate: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> SummarizeResult:
    """Summarize tools, or all of the scope, over their 30 newest calls; skip those without news.

    What is not evaluated yet is evaluated first, unless `evaluate` is False. A tool has news when at least `min_new` of
    its newest calls are evaluated and in no summary. A tool that fails is named and does not stop the others. Raises
    `InputError`, `StorageError`.
    """
    names = read_names(tool_names)
    evaluation = await evaluate_tool_calls(toolbox, names) if evaluate else EvaluateResult(0, 0, 0, {}, ())
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, names)
    known = {memory.totals.tool_name for memory in memories}
    outcomes = {name: ToolOutcome(name, "unknown") for name in names or () if name not in known}

    async def one(memory: ToolMemory) -> None:
        outcomes[memory.totals.tool_name] = await _summarize(toolbox, memory, min_new)
        if on_progress is not None:
            on_progress(len(outcomes), len(memories))

    due = [memory for memory in memories if await news_of(toolbox, memory) >= min_new]
    for memory in memories:
        if memory not in due:
            outcomes[memory.totals.tool_name] = ToolOutcome(memory.totals.tool_name, "skipped")
    await spaced(due, one, interval_of(toolbox.chat), lambda: False)
    tools = tuple(outcomes[name] for name in sorted(outcomes))
    return SummarizeResult(_in_a_sentence(tools), tools, evaluation)


async def _summarize(toolbox: Toolbox, memory: ToolMemory, min_new: int) -> ToolOutcome:
    name, store = memory.totals.tool_name, toolbox.store.tool_memory
    model = None if toolbox.settings.tool_memory.evaluator == "evidence" else toolbox.chat
    try:
        kept = await store.recent_calls(toolbox.scope, name, LEARNED_FROM)
        calls = kept[:RECENT]
        try:
            summary = await summarize_calls(kept, model, toolbox.settings, memory.tool_schema)
        except ModelError as error:
            reason = redact(f"the model gave no guidelines: {error}").text
            if memory.summary is None:
                # Better than nothing, but its calls stay unmarked: the model is asked again next time.
                extracted = await summarize_calls(kept, None, toolbox.settings, None)
                noted = extracted.model_copy(update={"note": reason})
                await store.save_summary(toolbox.scope, name, noted, (), toolbox.clock.now())
            return ToolOutcome(name, "failed", reason=reason)
        seen = [each.seq for each in calls if each.evaluation is not None]
        await store.save_summary(toolbox.scope, name, summary, seen, toolbox.clock.now())
    except SwarmMemoryError as error:
        return ToolOutcome(name, "failed", reason=redact(str(error)).text)
    return ToolOutcome(name, "summarized", summary)


async def news_of(toolbox: Toolbox, memory: ToolMemory) -> int:
    """Return how many of a tool's newest calls are evaluated and in no summary yet."""
    return await toolbox.store.tool_memory.new_calls(toolbox.scope, memory.totals.tool_name, RECENT)


def _in_a_sentence(outcomes: Sequence[ToolOutcome]) -> str:
    """Say what was done; what failed is added only where something did."""
    count = Counter(each.status for each in outcomes)
    summarized, skipped, failed = count["summarized"], count["skipped"], count["failed"]
    unknown = ", ".join(each.tool_name for each in outcomes if each.status == "unknown")
    message = f"Successfully processed {summarized + skipped} tool memories: {summarized} summarized, "
    message += f"{skipped} skipped (already up-to-date)"
    return message + (f"; {failed} failed" if failed else "") + (f"; never called: {unknown}" if unknown else "")


class WrittenGuidelines(Answered):
    """What the prompt asks for."""

    best_for: list[str]
    worst_for: list[str]
    parameters: list[str]
    errors: list[str]
    recommendations: list[str]


async def summarize_calls(
    kept: Sequence[KeptCall], model: ChatModel | None, settings: Settings, tool_schema: str | None
) -> ToolSummary:
    """Return the summary of one tool from its calls, newest first; figures are of the first 30 alone.

    The model is shown those too; without one all of `kept` are read. Figures of scores rest on the evaluated
    calls. Raises `ModelError` when a model is given and gives no guidelines.
    """
    calls = kept[:RECENT]
    if model is None:
        return _summary(calls, await asyncio.to_thread(extract_guidelines, kept))
    guidelines, name = await _written(calls, model, settings, tool_schema)
    return _summary(calls, guidelines).model_copy(update={"method": "model", "model": name})


def _summary(calls: Sequence[KeptCall], guidelines: Guidelines) -> ToolSummary:
    evaluated = sum(each.evaluation is not None for each in calls)
    return ToolSummary(
        recent=len(calls),
        evaluated=evaluated,
        success_rate=_rate(sum(each.call.success for each in calls), len(calls)),
        score=_rate(sum(each.is_good for each in calls), evaluated) if evaluated else None,
        time_cost_s=_mean([each.call.time_cost_s for each in calls if each.call.time_cost_s is not None]),
        token_cost=_mean([float(each.call.token_cost) for each in calls if each.call.token_cost is not None]),
        guidelines=guidelines,
        method="extractive",
    )


def _rate(good: int, n: int) -> Measure:
    found = wilson(good, n)
    return Measure(n=n, value=found.value, low=found.low, high=found.high)


def _mean(values: Sequence[float]) -> Measure | None:
    return Measure(n=len(values), value=fmean(values)) if values else None


async def _written(
    calls: Sequence[KeptCall], model: ChatModel, settings: Settings, tool_schema: str | None
) -> tuple[Guidelines, str]:
    rated = [each for each in reversed(calls) if each.evaluation is not None]
    name = calls[0].call.tool_name
    good = sum(each.is_good for each in rated)
    prompt = render(
        load_prompt(PROMPT),
        given={"figures": f"{len(rated)} rated calls, {good} of them good."},
        untrusted={
            "tool": f"{name}\n{tool_schema or '(no description is known)'}",
            "calls": "\n\n".join(_shown(number, each) for number, each in enumerate(rated, start=1)),
        },
    )
    answer, by = await ask(model, prompt, WrittenGuidelines, purpose=PROMPT, effort=Effort(timeout_s=_TIMEOUT_S))
    if isinstance(answer, Unparsed):
        raise ModelAnswerInvalid(f"the guidelines cannot be used: {answer.reason}")
    lists = {field: _sentences(texts, settings) for field, texts in answer.model_dump().items()}
    return Guidelines.model_validate(lists), by


def _sentences(texts: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """Keep sentences that may be shown: redacted, generalised, short, and none that gives its reader orders."""
    plain = (redact(clean(each), pii=settings.distill.redact_pii).text for each in texts)
    shown = (show_symptom(each, limit=_MAX_SENTENCE) for each in plain)
    return tuple(each for each in shown if each)[:MAX_EACH]


def _shown(number: int, kept: KeptCall) -> str:
    call, rating = kept.call, kept.evaluation
    assert rating is not None
    lines = [
        f"[{number}] score {rating.score:g}, {'success' if call.success else 'failure'} reported",
        f"arguments: {shorten(call.input, _MAX_SHOWN_INPUT)}",
        f"what came of it: {rating.summary} {rating.evaluation}",
    ]
    if rating.score < 1.0:
        lines.append(f"returned: {shorten(call.output, _MAX_SHOWN_TEXT)}")
    return "\n".join(lines)
