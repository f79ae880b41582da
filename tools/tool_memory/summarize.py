"""The summary of a tool from its newest calls: figures with intervals, and guidelines by the model or from the calls.

Without a model guidelines are sentences with their counts, and none that chance explains. Requests are compared by
the word that they begin with and the words that they are about, commands by their program, errors by what went
through after them. Of other arguments only a model says something.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, SwarmMemoryError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import Guidelines, KeptCall, Measure, ToolMemory, ToolSummary
from swarm_memory.tools.credit.intervals import rate_difference, wilson
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask, load_prompt, render
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.tool_memory.evaluate import (
    EvaluateResult,
    as_read,
    evaluate_tool_calls,
    interval_of,
    resolving_call,
    spaced,
    symptom_of,
)
from swarm_memory.tools.tool_memory.log import (
    COMMANDS,
    arguments_of,
    asked_of,
    difference,
    opening_of,
    read_names,
    safe_name,
    topics_of,
)
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.phrasing import show_symptom
from swarm_memory.tools.trajectory.shell import parse_command

MAX_EACH = 5
_MAX_NAMED = 6
"""Words that one sentence names."""

_MIN_GAP = 0.1
"""An opening counts for or against a tool when its smoothed rate is so far from that of all."""

_MIN_GROUP = 3
"""Calls that a sentence rests on, at least."""

_MIN_TOPIC = 4
"""Calls that speak of a word, before it is called a topic."""


class Counts(NamedTuple):
    """How calls went."""

    good: int
    calls: int

    @property
    def rate(self) -> float:
        """The share of good calls, smoothed (Laplace)."""
        return (self.good + 1) / (self.calls + 2)

    def __str__(self) -> str:
        return f"{self.good} of {self.calls}"

    def differs_in(self, total: "Counts", *, best: bool) -> bool:
        """Return whether these calls did better (else worse) than the others of `total`: the 95 % interval of the
        difference leaves out 0.
        """
        good, calls = total.good - self.good, total.calls - self.calls
        if not calls or not self.calls:
            return False
        found = rate_difference(self.good, self.calls, good, calls)
        return found.low > 0 if best else found.high < 0


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what the evaluated ones of these calls of one tool teach; `calls` in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    return Guidelines(
        best_for=(*_openings(known, best=True), *_topics(known, best=True)),
        worst_for=(*_openings(known, best=False), *_topics(known, best=False)),
        errors=tuple(_errors(known))[:MAX_EACH],
        recommendations=tuple(_programs(known))[:MAX_EACH],
    )


def _counts(calls: Iterable[KeptCall]) -> Counts:
    outcomes = [each.is_good for each in calls]
    return Counts(sum(outcomes), len(outcomes))


def _by(calls: Iterable[KeptCall], key: Callable[[KeptCall], Iterable[str]]) -> dict[str, list[KeptCall]]:
    """Return the calls with each thing that has a name, and that at least two have."""
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in calls:
        for thing in key(each):
            groups[thing].append(each)
    return {thing: found for thing, found in groups.items() if thing and len(found) >= 2}


def _request(kept: KeptCall) -> str:
    return asked_of(arguments_of(kept.call.input))


def _openings(known: Sequence[KeptCall], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the word that they begin with: all words whose calls did better, or worse."""
    asked, sign = list(filter(_request, known)), 1 if best else -1
    total = _counts(asked)
    found = {word: _counts(made) for word, made in _by(asked, lambda each: [opening_of(_request(each))]).items()}
    named = [word for word, counts in found.items() if sign * (counts.rate - total.rate) >= _MIN_GAP]
    named = sorted(named, key=lambda word: (-sign * found[word].rate, -found[word].calls, word))[:_MAX_NAMED]
    group = Counts(sum(found[word].good for word in named), sum(found[word].calls for word in named))
    if group.calls >= _MIN_GROUP and group.differs_in(total, best=best):
        yield f"requests that begin with {_listed(named)}: {group} good here"


def _topics(known: Sequence[KeptCall], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the words that they are about, each of which sets them apart by itself."""
    asked = list(filter(_request, known))
    total, found = _counts(asked), _by(asked, lambda each: topics_of(_request(each)))
    sure = [
        word for word, made in found.items() if len(made) >= _MIN_TOPIC and _counts(made).differs_in(total, best=best)
    ]
    if named := sorted(sorted(sure, key=lambda word: (-len(found[word]), word))[:_MAX_NAMED]):
        about = _counts({each.seq: each for word in named for each in found[word]}.values())
        others = Counts(total.good - about.good, total.calls - about.calls)
        yield f"requests about {_listed(named)}: {about} good here, others {others}"


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def _programs(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the programs that fail here, of a tool that runs commands, and the one that went through instead."""
    total = _counts(known)
    groups = _by(known, lambda each: [program_of(each)])
    for program in sorted(groups, key=lambda each: (_counts(groups[each]).rate, each)):
        made, counts = groups[program], _counts(groups[program])
        if counts.calls < _MIN_GROUP or not counts.differs_in(total, best=False):
            continue
        ends = (resolving_call(each, known) for each in made if not each.is_good)
        others = Counter(name for good in ends if good and (name := program_of(good)) and name != program)
        name = safe_name(made[0].call.tool_name)
        said = f"`{name}` with `{program}`: {counts.calls - counts.good} of {counts.calls} failed here"
        yield f"{said}; `{others.most_common(1)[0][0]}` went through" if others else said


def program_of(kept: KeptCall) -> str:
    """Return the program that a call runs; empty for a call that runs no command."""
    arguments = arguments_of(kept.call.input)
    text = next((each for name, each in arguments.items() if name.lower() in COMMANDS and isinstance(each, str)), "")
    main = parse_command(text).main if text else None
    return safe_name(main.program) if main else ""


def _errors(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the errors that came again or were ended, with what went through after them, the most frequent first."""
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in known:
        if as_read(each.call).failed and (line := symptom_of(each.call)):
            groups[line].append(each)
    for line in sorted(groups, key=lambda each: (-len(groups[each]), each)):
        failed = groups[line]
        fixes = Counter(fix for each in failed if (fix := _resolution(each, known)))
        times = f" ({len(failed)} times)" if len(failed) > 1 else ""
        if fixes:
            fix, count = fixes.most_common(1)[0]
            yield f'"{line}"{times}: {count} of {len(failed)} times {fix}'
        elif len(failed) > 1:
            yield f'"{line}": {len(failed)} of {len(known)} calls'


def _resolution(failed: KeptCall, calls: Sequence[KeptCall]) -> str:
    """Return what the next good call like a failed one was; empty when there was none.

    `calls` are those of the same tool, by arrival. The same call counts only where no other call of any tool arrived
    between the two: else something was changed, and nobody knows what of it helped.
    """
    good = resolving_call(failed, calls)
    if good is None:
        return ""
    changed = difference(failed.call.input, good.call.input)
    if changed:
        return f"the call {changed} went through"
    return "the same call went through right after it" if good.seq == failed.seq + 1 else ""


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
    count = Counter(each.status for each in tools)
    message = (
        f"Successfully processed {count['summarized'] + count['skipped']} tool memories:"
        f" {count['summarized']} summarized, {count['skipped']} skipped (already up-to-date)"
    )
    message += f"; {count['failed']} failed" if count["failed"] else ""
    unknown = ", ".join(each.tool_name for each in tools if each.status == "unknown")
    return SummarizeResult(message + (f"; never called: {unknown}" if unknown else ""), tools, evaluation)


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
    calls, name = kept[:RECENT], None
    if model is None:
        guidelines = await asyncio.to_thread(extract_guidelines, kept)
    else:
        guidelines, name = await _written(calls, model, settings, tool_schema)
    evaluated = sum(each.evaluation is not None for each in calls)
    return ToolSummary(
        recent=len(calls),
        evaluated=evaluated,
        success_rate=_rate(sum(each.call.success for each in calls), len(calls)),
        score=_rate(sum(each.is_good for each in calls), evaluated) if evaluated else None,
        time_cost_s=_mean([each.call.time_cost_s for each in calls if each.call.time_cost_s is not None]),
        token_cost=_mean([float(each.call.token_cost) for each in calls if each.call.token_cost is not None]),
        guidelines=guidelines,
        method="extractive" if model is None else "model",
        model=name,
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
    lists: dict[str, tuple[str, ...]] = {}
    for field, texts in answer.model_dump().items():
        # Redacted, generalised, short, and none that gives its reader orders.
        plain = (redact(clean(each), pii=settings.distill.redact_pii).text for each in texts)
        shown = (show_symptom(each, limit=_MAX_SENTENCE) for each in plain)
        lists[field] = tuple(filter(None, shown))[:MAX_EACH]
    return Guidelines.model_validate(lists), by


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
