"""The summary of a tool from its newest calls: figures with intervals, and guidelines by the model or from the calls.

Without a model, guidelines are sentences with their counts, and never what chance explains. Requests are compared by
the words they begin with and the words they are about, commands by their program, errors by the calls that succeeded
after them. Only a model says anything about other arguments. No sentence is shown that screening would hold back.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from statistics import NormalDist, fmean
from typing import Literal, NamedTuple

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, SwarmMemoryError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import Guidelines, KeptCall, Measure, ToolMemory, ToolSummary
from swarm_memory.tools.credit.intervals import LEVEL, rate_difference, wilson
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import screen
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.tool_memory.evaluate import (
    EvaluateResult,
    as_call,
    evaluate_tool_calls,
    interval_of,
    quotable_error,
    resolving_call,
    run_staggered,
)
from swarm_memory.tools.tool_memory.log import (
    COMMANDS,
    asked_of,
    difference,
    is_prose,
    leading_ngrams,
    parse_arguments,
    read_names,
    safe_name,
    topics_of,
)
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.phrasing import show_symptom
from swarm_memory.tools.trajectory.shell import parse_command

MAX_EACH = 5
_MAX_NAMED = 6
"""At most this many kinds of requests are named in one sentence."""

MIN_CALLS, MIN_SESSIONS = 5, 2
"""With fewer calls or sessions nothing is said about a tool, a kind of request, a program or an error."""

_MIN_GAP = 0.1
"""A kind of request stands out when its smoothed rate is at least this far from that of all requests."""

_FOLDS, _SENTENCES = 4, 4
"""The number of parts of the sessions, each predicted from the others; the most sentences on kinds that a tool gets."""


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

    def differs_in(self, total: "Counts", *, best: bool, among: int = 1) -> bool:
        """Whether these calls did better (not `best`: worse) than the others of `total`: the 95 % interval of the
        difference excludes 0, with a correction for the `among` groups that are compared together (Bonferroni).
        """
        others, z = self.others_of(total), NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / among)
        if not others.calls or not self.calls:
            return False
        found = rate_difference(*self, *others, z)
        return found.low > 0 if best else found.high < 0

    def others_of(self, total: "Counts") -> "Counts":
        return Counts(total.good - self.good, total.calls - self.calls)


def _session(kept: KeptCall) -> str:
    return kept.call.session_id or f"call {kept.seq}"


def suffice(calls: Sequence[KeptCall]) -> bool:
    """Whether these are enough calls, of enough sessions, to say anything; a call without a session has its own."""
    return len(calls) >= MIN_CALLS and len(set(map(_session, calls))) >= MIN_SESSIONS


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what these calls of one tool teach, as far as they are evaluated; `calls` may be in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    asked = [(each, text) for each in known if (text := asked_of(parse_arguments(each.call.input)))]
    kinds = (("that begin with", _openings(asked)), ("about", _topics(asked)))
    best, worst = ([_of_kinds(how, calls, best=best) for how, calls in kinds] for best in (True, False))
    return Guidelines(
        best_for=tuple(filter(None, best)),
        worst_for=tuple(filter(None, worst)),
        errors=tuple(_errors(known))[:MAX_EACH],
        recommendations=tuple(_programs(known))[:MAX_EACH],
    )


def screened_summary(memory: ToolMemory) -> ToolSummary | None:
    """Return a tool's summary without the sentences that screening objects to."""
    if (summary := memory.summary) is None:
        return None
    said = summary.guidelines.model_dump().items()
    sound = {field: tuple(each for each in sentences if not screen(each)) for field, sentences in said}
    return summary.model_copy(update={"guidelines": Guidelines(**sound)})


def _counts(calls: Iterable[KeptCall]) -> Counts:
    outcomes = [each.is_good for each in calls]
    return Counts(sum(outcomes), len(outcomes))


_Kinds = list[tuple[KeptCall, Collection[str]]]
"""Calls, each with the kinds that it belongs to."""


def _by(calls: _Kinds) -> dict[str, list[KeptCall]]:
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each, kinds in calls:
        for kind in filter(None, kinds):
            groups[kind].append(each)
    return groups


def _openings(asked: Sequence[tuple[KeptCall, str]]) -> _Kinds:
    """Return each request with its first word, or the first two ("how many") if any pair that begins so is frequent."""
    found = [(each, leading_ngrams(text)) for each, text in asked]
    often = Counter(openings for _, openings in found if openings[1:])
    split = {openings[0] for openings, times in often.items() if times >= MIN_CALLS}
    return [(each, openings[1:] if not split.isdisjoint(openings) else openings[:1]) for each, openings in found]


def _topics(asked: Sequence[tuple[KeptCall, str]]) -> _Kinds:
    """Return each request with the words that it is about, as far as enough other requests are about them too."""
    found = [(each, topics_of(text)) for each, text in asked]
    often = Counter(word for _, words in found for word in words)
    return [(each, [word for word in words if often[word] >= MIN_CALLS]) for each, words in found]


def _of_kinds(how: str, asked: _Kinds, *, best: bool) -> str:
    """Return which kinds of requests did better, or worse, than the others; empty where chance explains it."""
    # Kinds that are chosen for their outcome look good by it: those that three quarters name are tested on the fourth.
    part = {session: at % _FOLDS for at, session in enumerate(dict.fromkeys(_session(each) for each, _ in asked))}
    foretold: list[KeptCall] = []
    for fold in range(_FOLDS):
        named = _standing_out([each for each in asked if part[_session(each[0])] != fold], best=best)
        foretold += [each for each, kinds in asked if part[_session(each)] == fold and not named.isdisjoint(kinds)]
    total, named = _counts(each for each, _ in asked), _standing_out(asked, best=best)
    group = [each for each, kinds in asked if not named.isdisjoint(kinds)]
    # `among`: Bonferroni. The parts share calls: of tools with random outcomes 7 to 8 % get a sentence, not 5 %.
    if not (suffice(group) and suffice(foretold) and _counts(foretold).differs_in(total, best=best, among=_SENTENCES)):
        return ""
    counts, listed = _counts(group), " or ".join(f'"{kind}"' for kind in sorted(named))
    return f"requests {how} {listed}: {counts} good here, others {counts.others_of(total)}"


def _standing_out(asked: _Kinds, *, best: bool) -> set[str]:
    usual, sign = _counts(each for each, _ in asked).rate, 1 if best else -1
    found = [(kind, _counts(made)) for kind, made in _by(asked).items()]
    found.sort(key=lambda each: (-sign * each[1].rate, -each[1].calls, each[0]))
    return {kind for kind, counts in found[:_MAX_NAMED] if sign * (counts.rate - usual) >= _MIN_GAP}


def _programs(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield, for a tool that runs commands, the programs that fail here, each with the one that succeeded instead."""
    total = _counts(known)
    groups = _by([(each, [program_of(each)]) for each in known])
    for program in sorted(groups, key=lambda each: (_counts(groups[each]).rate, each)):
        made, counts = groups[program], _counts(groups[program])
        if not (suffice(made) and counts.differs_in(total, best=False, among=len(groups))):
            continue
        ends = (resolving_call(each, known) for each in made if not each.is_good)
        others = Counter(name for good in ends if good and (name := program_of(good)) and name != program)
        name = safe_name(made[0].call.tool_name)
        said = f"`{name}` with `{program}`: {counts.calls - counts.good} of {counts.calls} failed here"
        yield f"{said}; `{others.most_common(1)[0][0]}` went through" if others else said


def program_of(kept: KeptCall) -> str:
    """Return the program that a call runs; empty for a call that runs no command."""
    arguments = parse_arguments(kept.call.input)
    text = next((each for name, each in arguments.items() if name.lower() in COMMANDS and isinstance(each, str)), "")
    main = parse_command(text).main if text else None
    return safe_name(main.program) if main else ""


def _errors(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the errors that came again, each with the call that succeeded after it, the most frequent first."""
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in known:
        if as_call(each.call).failed and (line := quotable_error(each.call)):
            groups[line].append(each)
    prose = {
        name for each in known for name, value in parse_arguments(each.call.input).items() if is_prose(name, value)
    }
    for line in sorted((each for each in groups if suffice(groups[each])), key=lambda each: (-len(groups[each]), each)):
        failed = groups[line]
        ends = [(each, good) for each in failed if (good := resolving_call(each, known))]
        fixes = _by([(each, [difference(each.call.input, good.call.input, prose)]) for each, good in ends])
        sure = [fix for fix, made in fixes.items() if len(set(map(_session, made))) >= MIN_SESSIONS]
        if fix := max(sure, key=lambda each: len(fixes[each]), default=""):  # empty: the same call again
            count = f"{len(fixes[fix])} of {len(failed)}"
            yield f'"{line}" ({len(failed)} times): {count} times the call {fix} went through'
        else:
            yield f'"{line}": {len(failed)} of {len(known)} calls'


PROMPT = "summarize_tool_memory"
_MAX_SENTENCE = 300
_MAX_SHOWN_INPUT, _MAX_SHOWN_TEXT = 500, 300
_TIMEOUT_S = 60.0
SUMMARIZE_AFTER = 10
"""After this many new evaluated calls a tool is summarized in the background; on request one is enough."""

RECENT = 30
"""A summary is made from this many of a tool's newest calls."""

LEARNED_FROM = 200
"""Without a model, guidelines are made from this many of the newest calls, as far as kept; figures are from fewer."""


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

    Calls that are not evaluated yet are evaluated first, unless `evaluate` is False. A tool has news when at least
    `min_new` of its newest calls are evaluated and in no summary. A tool that fails is named and does not stop the
    others. Raises `InputError`, `StorageError`.
    """
    names = read_names(tool_names)
    evaluation = await evaluate_tool_calls(toolbox, names) if evaluate else EvaluateResult(0, 0, 0, {}, ())
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, names)
    known = {memory.totals.tool_name for memory in memories}
    due = [memory for memory in memories if await news_of(toolbox, memory) >= min_new]
    outcomes = {name: ToolOutcome(name, "skipped") for name in known - {memory.totals.tool_name for memory in due}}

    async def one(memory: ToolMemory) -> None:
        outcomes[memory.totals.tool_name] = await _summarize(toolbox, memory)
        if on_progress is not None:
            on_progress(len(outcomes), len(memories))

    await run_staggered(due, one, interval_of(toolbox.chat), lambda: False)
    outcomes |= {name: ToolOutcome(name, "unknown") for name in names or () if name not in known}
    tools = tuple(outcomes[name] for name in sorted(outcomes))
    count = Counter(each.status for each in tools)
    message = (
        f"Successfully processed {count['summarized'] + count['skipped']} tool memories:"
        f" {count['summarized']} summarized, {count['skipped']} skipped (already up-to-date)"
    )
    message += f"; {count['failed']} failed" if count["failed"] else ""
    unknown = ", ".join(each.tool_name for each in tools if each.status == "unknown")
    return SummarizeResult(message + (f"; never called: {unknown}" if unknown else ""), tools, evaluation)


async def _summarize(toolbox: Toolbox, memory: ToolMemory) -> ToolOutcome:
    name, store = memory.totals.tool_name, toolbox.store.tool_memory
    model = None if toolbox.settings.tool_memory.evaluator == "evidence" else toolbox.chat
    try:
        kept = await store.recent_calls(toolbox.scope, name, LEARNED_FROM)
        try:
            summary = await summarize_calls(kept, model, toolbox.settings, memory.tool_schema)
        except ModelError as error:
            reason = redact(f"the model gave no guidelines: {error}").text
            if memory.summary is None:
                # Better than nothing, but the calls stay unmarked, so that the model is asked again next time.
                noted = (await summarize_calls(kept, None, toolbox.settings, None)).model_copy(update={"note": reason})
                await store.save_summary(toolbox.scope, name, noted, (), toolbox.clock.now())
            return ToolOutcome(name, "failed", reason=reason)
        seen = [each.seq for each in kept[:RECENT] if each.evaluation is not None]
        await store.save_summary(toolbox.scope, name, summary, seen, toolbox.clock.now())
    except SwarmMemoryError as error:
        return ToolOutcome(name, "failed", reason=redact(str(error)).text)
    return ToolOutcome(name, "summarized", summary)


async def news_of(toolbox: Toolbox, memory: ToolMemory) -> int:
    """Return how many of a tool's newest calls are evaluated and in no summary yet."""
    return await toolbox.store.tool_memory.new_calls(toolbox.scope, memory.totals.tool_name, RECENT)


class WrittenGuidelines(BaseAnswer):
    """What the prompt asks for."""

    best_for: list[str]
    worst_for: list[str]
    parameters: list[str]
    errors: list[str]
    recommendations: list[str]


async def summarize_calls(
    kept: Sequence[KeptCall], model: ChatModel | None, settings: Settings, tool_schema: str | None
) -> ToolSummary:
    """Return the summary of one tool from its calls, newest first; the figures are those of the first 30 only.

    A model is shown the evaluated ones of those 30; without a model all of `kept` are read. Scores rest on the
    evaluated calls. Raises `ModelError` when a model is given and returns no guidelines.
    """
    calls, name, guidelines = kept[:RECENT], None, Guidelines()
    rated = [each for each in calls if each.evaluation is not None]
    if model is None:
        guidelines = await asyncio.to_thread(extract_guidelines, kept)
    elif suffice(rated):
        guidelines, name = await _ask_for_guidelines(rated, model, settings, tool_schema)
    return ToolSummary(
        recent=len(calls),
        evaluated=len(rated),
        success_rate=_rate(sum(each.call.success for each in calls), len(calls)),
        score=_rate(sum(each.is_good for each in rated), len(rated)) if rated else None,
        time_cost_s=_mean([each.call.time_cost_s for each in calls if each.call.time_cost_s is not None]),
        token_cost=_mean([float(each.call.token_cost) for each in calls if each.call.token_cost is not None]),
        guidelines=guidelines,
        method="extractive" if name is None else "model",
        model=name,
    )


def _rate(good: int, n: int) -> Measure:
    found = wilson(good, n)
    return Measure(n=n, value=found.value, low=found.low, high=found.high)


def _mean(values: Sequence[float]) -> Measure | None:
    return Measure(n=len(values), value=fmean(values)) if values else None


async def _ask_for_guidelines(
    rated: Sequence[KeptCall], model: ChatModel, settings: Settings, tool_schema: str | None
) -> tuple[Guidelines, str]:
    name, good = rated[0].call.tool_name, sum(each.is_good for each in rated)
    prompt = render(
        load_prompt(PROMPT),
        given={"figures": f"{len(rated)} rated calls, {good} of them good."},
        untrusted={
            "tool": f"{name}\n{tool_schema or '(no description is known)'}",
            "calls": "\n\n".join(_shown(number, each) for number, each in enumerate(reversed(rated), start=1)),
        },
    )
    answer, by = await ask(model, prompt, WrittenGuidelines, purpose=PROMPT, effort=AskOptions(timeout_s=_TIMEOUT_S))
    if isinstance(answer, ParseFailure):
        raise ModelAnswerInvalid(f"the guidelines cannot be used: {answer.reason}")
    lists: dict[str, tuple[str, ...]] = {}
    for field, texts in answer.model_dump().items():
        # Redacted, generalised, short, and without sentences that give their reader orders.
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
