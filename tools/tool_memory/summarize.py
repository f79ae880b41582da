"""The summary of one tool from its newest calls: figures with intervals, guidelines by the model or extracted."""

import asyncio
import math
from collections.abc import Sequence
from statistics import fmean, stdev

from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import Guidelines, KeptCall, Measure, ToolSummary
from swarm_memory.tools.credit.intervals import t_quantile, wilson
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.tool_memory.guidelines import MAX_EACH, extract_guidelines
from swarm_memory.tools.trajectory.phrasing import show_symptom

PROMPT = "summarize_tool_memory"
_MAX_SENTENCE = 300
_MAX_SHOWN_INPUT, _MAX_SHOWN_TEXT = 500, 300
_ANSWER_TOKENS, _TIMEOUT_S = 1200, 60.0


class WrittenGuidelines(Answered):
    """What the prompt asks for."""

    best_for: list[str]
    worst_for: list[str]
    parameters: list[str]
    errors: list[str]
    recommendations: list[str]


async def summarize_calls(
    calls: Sequence[KeptCall], model: ChatModel | None, settings: Settings, tool_schema: str | None
) -> ToolSummary:
    """Return the summary of calls of one tool, newest first; figures of scores rest on the evaluated ones alone.

    Raises `ModelError` when a model is given and gives no guidelines.
    """
    if model is None:
        guidelines = await asyncio.to_thread(extract_guidelines, calls)
        return _summary(calls, guidelines)
    guidelines, name = await _written(calls, model, settings, tool_schema)
    return _summary(calls, guidelines).model_copy(update={"method": "model", "model": name})


def _summary(calls: Sequence[KeptCall], guidelines: Guidelines) -> ToolSummary:
    evaluated = [each.evaluation for each in calls if each.evaluation is not None]
    good = sum(each.score >= 1.0 for each in evaluated)
    return ToolSummary(
        recent=len(calls),
        evaluated=len(evaluated),
        success_rate=_rate(sum(each.call.success for each in calls), len(calls)),
        score=_rate(good, len(evaluated)) if evaluated else None,
        time_cost_s=mean_of([each.call.time_cost_s for each in calls if each.call.time_cost_s is not None]),
        token_cost=mean_of([float(each.call.token_cost) for each in calls if each.call.token_cost is not None]),
        guidelines=guidelines,
        method="extractive",
    )


def _rate(good: int, n: int) -> Measure:
    found = wilson(good, n)
    return Measure(n=n, value=found.value, low=found.low, high=found.high)


def mean_of(values: Sequence[float]) -> Measure | None:
    """Return the mean with its t interval (never below 0); one value has no interval, and none no mean."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Measure(n=1, value=mean)
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Measure(n=len(values), value=mean, low=max(0.0, mean - half), high=mean + half)


async def _written(
    calls: Sequence[KeptCall], model: ChatModel, settings: Settings, tool_schema: str | None
) -> tuple[Guidelines, str]:
    rated = [each for each in reversed(calls) if each.evaluation is not None]
    name = calls[0].call.tool_name
    good = sum(each.evaluation is not None and each.evaluation.score >= 1.0 for each in rated)
    prompt = render(
        load_prompt(PROMPT),
        given={"figures": f"{len(rated)} rated calls, {good} of them good."},
        untrusted={
            "tool": f"{name}\n{tool_schema or '(no description is known)'}",
            "calls": "\n\n".join(_shown(number, each) for number, each in enumerate(rated, start=1)),
        },
    )
    answer, by = await ask(
        model,
        prompt,
        WrittenGuidelines,
        purpose=PROMPT,
        temperature=0.0,
        max_tokens=_ANSWER_TOKENS,
        timeout_s=_TIMEOUT_S,
    )
    if isinstance(answer, Unparsed):
        raise ModelAnswerInvalid(f"the guidelines cannot be used: {answer.reason}")
    lists = {field: _sentences(told, settings) for field, told in answer.model_dump().items()}
    return Guidelines.model_validate(lists), by


def _sentences(told: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """Keep sentences that may be told: redacted, generalised, short, and none that speaks to its reader as a master."""
    plain = (redact(clean(each), pii=settings.distill.redact_pii).text for each in told)
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
