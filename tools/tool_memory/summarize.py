"""The summary of a tool from its newest calls: figures with intervals, and guidelines by the model or extracted."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, SwarmMemoryError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import (
    EvaluateResult,
    Guidelines,
    KeptCall,
    Measure,
    SummarizeResult,
    ToolMemory,
    ToolOutcome,
    ToolSummary,
)
from swarm_memory.tools.credit.intervals import rate_difference, t_quantile, wilson
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.tool_memory.evaluate import (
    error_line,
    evaluate_tool_calls,
    interval_of,
    is_error,
    resolving_call,
    spaced,
)
from swarm_memory.tools.tool_memory.inputs import arguments_of, difference, features_of, words_of
from swarm_memory.tools.tool_memory.log import read_names
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import show_symptom

PROMPT = "summarize_tool_memory"
_MAX_SENTENCE = 300
_MAX_SHOWN_INPUT, _MAX_SHOWN_TEXT = 500, 300
_TIMEOUT_S = 60.0
MAX_EACH = 5
MIN_WORD_CALLS = 3
MIN_LIFT = 0.15
"""A word counts for or against a tool when its calls do so much better or worse than all."""

MOSTLY, RARELY = 0.8, 0.2
"""Or where nearly all of them do well, or badly."""


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
    names = read_names(tool_names)
    evaluation = await evaluate_tool_calls(toolbox, names) if evaluate else EvaluateResult()
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, names)
    known = {memory.totals.tool_name for memory in memories}
    outcomes = {name: ToolOutcome(tool_name=name, status="unknown") for name in names or () if name not in known}

    async def one(memory: ToolMemory) -> None:
        outcomes[memory.totals.tool_name] = await _summarize(toolbox, memory, min_new)
        if on_progress is not None:
            on_progress(len(outcomes), len(memories))

    due = [memory for memory in memories if await news_of(toolbox, memory) >= min_new]
    for memory in memories:
        if memory not in due:
            outcomes[memory.totals.tool_name] = ToolOutcome(tool_name=memory.totals.tool_name, status="skipped")
    interval = interval_of(toolbox.settings.tool_memory.summary_sleep_interval, toolbox.chat)
    await spaced(due, one, interval, lambda: False)
    return _told([outcomes[name] for name in sorted(outcomes)], evaluation)


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


async def news_of(toolbox: Toolbox, memory: ToolMemory) -> int:
    recent = toolbox.settings.tool_memory.recent_call_count
    return await toolbox.store.tool_memory.new_calls(toolbox.scope, memory.totals.tool_name, recent)


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
    answer, by = await ask(model, prompt, WrittenGuidelines, purpose=PROMPT, effort=Effort(timeout_s=_TIMEOUT_S))
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


@dataclass(frozen=True, slots=True)
class _Contrast:
    """How calls with one thing went, and those without it."""

    what: str
    good: int
    calls: int
    other_good: int
    other_calls: int

    @property
    def rate(self) -> float:
        """The share of good calls, smoothed (Laplace)."""
        return (self.good + 1) / (self.calls + 2)

    @property
    def is_sure(self) -> bool:
        """Whether the difference of the rates leaves 0 out of its 95 % interval."""
        if not self.other_calls:
            return False
        found = rate_difference(self.good, self.calls, self.other_good, self.other_calls)
        return found.low > 0 or found.high < 0

    @property
    def says(self) -> str:
        """The contrast with its counts."""
        return (
            f"{self.what}: {self.good} of {self.calls} calls good, without it {self.other_good} of {self.other_calls}"
        )


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what the evaluated ones of these calls of one tool teach; `calls` in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    if not known:
        return Guidelines()
    features = [each for each in _contrasts(known, _features) if each.is_sure]
    words = [each for each in _contrasts(known, _words) if each.calls >= MIN_WORD_CALLS]
    overall = (sum(map(_is_good, known)) + 1) / (len(known) + 2)
    better = [each for each in words if each.rate >= min(overall + MIN_LIFT, MOSTLY)]
    worse = [each for each in words if each.rate <= max(overall - MIN_LIFT, RARELY)]
    errors, recommended = _errors(known)
    lengths = [each for each in features if " of " in each.what]
    return Guidelines(
        best_for=_said(better, best=True) + _said([each for each in lengths if _helps(each)], best=True),
        worst_for=_said(worse, best=False) + _said([each for each in lengths if not _helps(each)], best=False),
        parameters=tuple(_parameter(each) for each in _strongest(features)[:MAX_EACH]),
        errors=errors,
        recommendations=(*_from_rate(known), *_from_features(features), *recommended)[:MAX_EACH],
    )


def _is_good(kept: KeptCall) -> bool:
    return kept.evaluation is not None and kept.evaluation.score >= 1.0


def _helps(contrast: _Contrast) -> bool:
    return contrast.rate >= (contrast.other_good + 1) / (contrast.other_calls + 2)


def _contrasts(calls: Sequence[KeptCall], things: Callable[[KeptCall], set[str]]) -> list[_Contrast]:
    good, every = Counter[str](), Counter[str]()
    for each in calls:
        found = things(each)
        every.update(found)
        if _is_good(each):
            good.update(found)
    total, total_good = len(calls), sum(map(_is_good, calls))
    made = (_Contrast(what, good[what], count, total_good - good[what], total - count) for what, count in every.items())
    return [each for each in made if each.calls >= 2]


def _features(kept: KeptCall) -> set[str]:
    return features_of(arguments_of(kept.call.input))


def _words(kept: KeptCall) -> set[str]:
    return words_of(arguments_of(kept.call.input), kept.call.task)


def _said(contrasts: Iterable[_Contrast], *, best: bool) -> tuple[str, ...]:
    ordered = sorted(contrasts, key=lambda each: (-each.rate if best else each.rate, -each.calls, each.what))
    return tuple(f"{_quoted_word(each.what)} ({each.good} of {each.calls} good)" for each in ordered[:MAX_EACH])


def _quoted_word(what: str) -> str:
    return f"{what}" if what.startswith("`") else f'calls about "{what}"'


def _strongest(contrasts: Iterable[_Contrast]) -> list[_Contrast]:
    def gap(each: _Contrast) -> float:
        return abs(each.good / each.calls - each.other_good / each.other_calls)

    return sorted(contrasts, key=lambda each: (-gap(each), -each.calls, each.what))


def _parameter(contrast: _Contrast) -> str:
    return f"{'Works' if _helps(contrast) else 'Does not work'}: {contrast.says}"


def _from_rate(calls: Sequence[KeptCall]) -> list[str]:
    good = sum(map(_is_good, calls))
    if wilson(good, len(calls)).high >= 0.5 and (good or len(calls) < MIN_WORD_CALLS):
        return []
    return [f"Only {good} of {len(calls)} calls were good: take another tool where there is one."]


def _from_features(features: Sequence[_Contrast]) -> list[str]:
    told: list[str] = []
    for each in _strongest(features)[:2]:
        name = each.what
        told.append(f"Prefer calls with {name}." if _helps(each) else f"Avoid calls with {name}.")
    return told


def _errors(calls: Sequence[KeptCall]) -> tuple[tuple[str, ...], list[str]]:
    """Return the common errors with what resolved them, the most frequent first, and what follows from them."""
    groups: dict[str, list[KeptCall]] = {}
    for each in calls:
        if is_error(each.call):
            groups.setdefault(error_line(each.call.output) or "no error text", []).append(each)
    told: list[str] = []
    advice: list[str] = []
    for line, failed in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:MAX_EACH]:
        fixes = Counter(fix for each in failed if (fix := resolution(each, calls)))
        times = f" ({len(failed)} times)" if len(failed) > 1 else ""
        if fixes:
            fix, count = fixes.most_common(1)[0]
            told.append(f'"{line}"{times}: resolved {count} of {len(failed)} times by the call {fix}')
            advice.append(f'When it says "{line}", call it {fix}.')
            continue
        told.append(f'"{line}"{times}: nothing resolved it yet')
        first = classify(line).first
        if first and "{" not in first and len(failed) > 1:
            advice.append(f"First {first}.")
    return tuple(told), advice


def resolution(failed: KeptCall, calls: Sequence[KeptCall]) -> str:
    """Return what the next good call like a failed one did otherwise; empty when there was none.

    `calls` are those of the same tool, by arrival.
    """
    good = resolving_call(failed, calls)
    if good is None:
        return ""
    return difference(failed.call.input, good.call.input) or "again unchanged"
