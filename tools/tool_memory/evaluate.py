"""How good a call was: judged by the chat model, or by what the call returned and what followed."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import anyio

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.schema.tool_memory import Evaluation, KeptCall, ToolCall
from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.ports.records import EvaluatedCall, PendingCalls
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.tool_memory.log import (
    SETTLE_S,
    asked_of,
    input_tokens,
    leading_ngram_tokens,
    parse_arguments,
    show_value,
    similarity,
)
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import LOOKING_TOOL, Call, says_nothing
from swarm_memory.tools.trajectory.failures import error_line
from swarm_memory.tools.trajectory.phrasing import show_symptom

PROMPT = "evaluate_tool_call"
BATCH, MAX_CALLS = 50, 1000
"""Calls that are read, evaluated and written together, and in all at one time."""

GIVE_UP_AFTER = 3
"""After this many failures in a row to reach the model, no more calls are tried for now."""

MAX_INDEXED = 64
"""At most this many tokens of a call are indexed, to find it by."""

RETRY_AFTER_S = 300.0
"""Seconds until an evaluation that failed is tried again; the wait doubles each time, up to a day."""

REMOTE_INTERVAL_S = 1.0
_MAX_SUMMARY, _MAX_EVALUATION, _MAX_REASON = 300, 600, 300
_TIMEOUT_S = 45.0

MIN_COVERAGE = 0.2
"""An answer that contains a smaller share of the question's words is irrelevant."""

MIN_ASKED = 2
"""At least this many words must be in a question for its answer to be compared with it."""

TRIES = 6
"""Only this many calls of a tool after a failed one are considered as what resolved it."""

MIN_ALIKE = 0.2
"""A good call that is at least this similar to a failed one resolved it."""

_MAX_LINES = 40

_IDENTIFIER = re.compile(r"\w+(?:[.-]\w+)*")
_DISTINCT_NAME = re.compile(r"[a-z][A-Z]|[_.\d-]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

T = TypeVar("T")


class CallRating(BaseAnswer):
    """What the prompt asks for."""

    summary: str
    evaluation: str
    score: float


class EvaluateResult(NamedTuple):
    """What became of calls that were waiting for an evaluation."""

    evaluated: int
    failed: int
    """Not evaluated, and to be tried again."""
    waiting: int
    """Left for a later time."""
    methods: Mapping[str, int]
    reasons: tuple[str, ...]
    """Why evaluations failed."""


async def evaluate_tool_calls(
    toolbox: Toolbox, tool_names: Sequence[str] | None = None, *, settled: bool = False
) -> EvaluateResult:
    """Evaluate calls that have no evaluation, oldest first, at most `MAX_CALLS`; of the named tools, or of all.

    With `settled` only calls older than a minute are evaluated, so that what followed them is known. A call
    whose evaluation fails stays as it is and is tried again later. Raises `StorageError`.
    """
    store, now = toolbox.store.tool_memory, toolbox.clock.now()
    until = now - timedelta(seconds=SETTLE_S) if settled else now + timedelta(days=1)
    schemas = {each.totals.tool_name: each.tool_schema for each in await store.memories(toolbox.scope, None)}
    after = total = failures = 0
    methods, reasons = Counter[str](), dict[str, None]()
    while (left := MAX_CALLS - total - failures) > 0:
        pending = await store.pending_calls(
            toolbox.scope, now=now, until=until, tools=tool_names, after=after, limit=min(BATCH, left)
        )
        if not pending.calls:
            break
        after = pending.calls[-1].seq
        done, failed, stop = await _evaluate_all(toolbox, pending, schemas)
        total += await store.save_evaluations(
            toolbox.scope, done, failed, now=toolbox.clock.now(), retry_after_s=RETRY_AFTER_S
        )
        failures += len(failed)
        methods.update(each.evaluation.method for each in done)
        reasons.update(dict.fromkeys(failed.values()))
        if stop:
            break
    waiting = (await store.counts(toolbox.scope)).not_evaluated
    return EvaluateResult(total, failures, waiting, methods, tuple(reasons)[:5])


async def _evaluate_all(
    toolbox: Toolbox, pending: PendingCalls, schemas: dict[str, str | None]
) -> tuple[list[EvaluatedCall], dict[int, str], bool]:
    """Return evaluations, failures, and whether the model cannot be reached, so that the rest waits."""
    if toolbox.chat is None or toolbox.settings.tool_memory.evaluator == "evidence":
        # Names by which a sentence is seen to be about a tool; a name that is an ordinary word is not among them.
        short = (name.rpartition("__")[2] for name in schemas)
        names = frozenset(name.lower() for name in short if _DISTINCT_NAME.search(name))

        def by_evidence(kept: KeptCall) -> EvaluatedCall:
            found = evaluate_by_evidence(kept.call, was_corrected_by_user(kept, pending), names)
            return EvaluatedCall(kept.seq, found, indexed_tokens(kept))

        return await asyncio.to_thread(lambda: [by_evidence(each) for each in pending.calls]), {}, False
    model = toolbox.chat
    done, failed, unreached = list[EvaluatedCall](), dict[int, str](), 0

    async def one(kept: KeptCall) -> None:
        nonlocal unreached
        schema = schemas.get(kept.call.tool_name)
        try:
            found = await evaluate_by_model(model, kept, was_corrected_by_user(kept, pending), schema, toolbox)
        except ModelError as error:
            unreached = unreached + 1 if isinstance(error, ModelUnavailable) else 0
            failed[kept.seq] = one_line(redact(f"not evaluated: {error}").text, _MAX_REASON)
            return
        unreached = 0
        done.append(EvaluatedCall(kept.seq, found, indexed_tokens(kept)))

    await run_staggered(pending.calls, one, interval_of(model), lambda: unreached >= GIVE_UP_AFTER)
    return done, failed, unreached >= GIVE_UP_AFTER


def interval_of(model: ChatModel | None) -> float:
    """Return the seconds between two starts: 1.0 for a remote model and 0 for a local one or none."""
    return 0.0 if model is None or model.is_local else REMOTE_INTERVAL_S


async def run_staggered(
    items: Sequence[T], work: Callable[[T], Coroutine[Any, Any, None]], interval_s: float, stop: Callable[[], bool]
) -> None:
    """Do the work of all items at the same time, each started `interval_s` after the one before, until `stop`."""
    async with anyio.create_task_group() as group:
        for number, item in enumerate(items):
            await anyio.sleep(interval_s if number else 0)
            if stop():
                return
            group.start_soon(work, item)


def indexed_tokens(kept: KeptCall) -> tuple[str, ...]:
    """Return the tokens by which a call is found: those of its task and its arguments, never of what it returned.

    The first ones say what the request begins with (`leading_ngram_tokens`).
    """
    asked = asked_of(parse_arguments(kept.call.input)) or kept.call.task or ""
    both = (*leading_ngram_tokens(asked), *query_tokens(kept.call.task or ""), *input_tokens(kept.call.input))
    return tuple(dict.fromkeys(both))[:MAX_INDEXED]


async def evaluate_by_model(
    model: ChatModel, kept: KeptCall, corrected: bool, schema: str | None, toolbox: Toolbox
) -> Evaluation:
    """Return the model's evaluation of a call. A call that failed cannot be rated as good. Raises `ModelError`."""
    call = kept.call
    took = "" if call.time_cost_s is None else f" It took {call.time_cost_s:.3g} s."
    prompt = render(
        load_prompt(PROMPT),
        given={"reported": ("success." if call.success else "failure.") + took},
        untrusted={
            "tool": f"{call.tool_name}\n{schema or '(no description is known)'}",
            "task": call.task or "(not known)",
            "arguments": call.input or "(none)",
            "returned": call.output or "(nothing)",
            "followed": "The user corrected what was done." if corrected else "(not known)",
        },
    )
    answer, name = await ask(model, prompt, CallRating, purpose=PROMPT, effort=AskOptions(timeout_s=_TIMEOUT_S))
    if isinstance(answer, ParseFailure):
        raise ModelAnswerInvalid(answer.reason)
    if answer.score not in (0.0, 1.0):
        raise ModelAnswerInvalid(f"its score is neither 0 nor 1: {answer.score:g}")
    return Evaluation(
        score=0.0 if as_call(call).failed else answer.score,
        summary=_said(answer.summary, toolbox, _MAX_SUMMARY),
        evaluation=_said(answer.evaluation, toolbox, _MAX_EVALUATION),
        method="model",
        model=name,
    )


def _said(text: str, toolbox: Toolbox, limit: int) -> str:
    return one_line(redact(clean(text), pii=toolbox.settings.distill.redact_pii).text, limit)


def was_corrected_by_user(kept: KeptCall, pending: PendingCalls) -> bool:
    """Whether a correction by the user came right after a call, with no other call of its session in between."""
    session = kept.call.session_id
    if session is None:
        return False
    later = (each.call for each in pending.after if each.seq > kept.seq and each.call.session_id == session)
    until = next((following.created_at for following in later), None)
    return any(
        at >= kept.call.created_at and (until is None or at <= until) for at in pending.corrections.get(session, ())
    )


def evaluate_by_evidence(call: ToolCall, corrected: bool, names: frozenset[str] = frozenset()) -> Evaluation:
    """Return score, summary and evaluation of a call; the reason for a 0 is the first proof that holds.

    `corrected`: right after the call the user corrected what was done. `names` are the names of all known tools: what
    an output says about any of them is no answer.
    """
    against, arguments = _against(call, corrected, names), parse_arguments(call.input)
    shown = [f"{name}: {value}" for name in list(arguments)[:3] if (value := show_value(name, arguments[name]))]
    lines = len(call.output.splitlines())
    returned = "nothing" if not call.output.strip() else f"{lines} line{'s' if lines != 1 else ''}"
    return Evaluation(
        score=0.0 if against else 1.0,
        summary=f"called with {'; '.join(shown) or 'no short arguments'}; returned {returned}",
        evaluation=against or "it returned something, and nothing that followed speaks against it",
        method="evidence",
    )


def quotable_error(call: ToolCall) -> str:
    """Return the line of a failed call's output that names the error, as it may be quoted; may be empty."""
    lines = (error_line(call.output), *call.output.splitlines()[:_MAX_LINES])
    return next((shown for line in lines if (shown := show_symptom(line.strip()))), "")


def as_call(call: ToolCall) -> Call:
    """Return a logged call as a call of a trajectory, so that the same signs decide whether it failed or was empty.

    The call failed where its caller says so, or its output does.
    """
    given = parse_arguments(call.input)
    step = Step(id="s1", kind="tool_call", role="assistant", tool_name=call.tool_name, tool_input=given)
    said = None if call.success else True
    return Call(0, step, Step(id="s2", kind="observation", role="tool", text=call.output, is_error=said), 1)


def _against(call: ToolCall, corrected: bool, names: frozenset[str]) -> str | None:
    if as_call(call).failed:
        line = quotable_error(call)
        return f'it failed: "{line}"' if line else "it failed"
    if corrected:
        return "right after it, the user corrected what was done"
    arguments = parse_arguments(call.input)
    looks = asked_of(arguments) or LOOKING_TOOL.search(call.tool_name.rpartition("__")[2])
    if looks and says_nothing(call.output):
        return "it found nothing"
    wanted = set(query_tokens(asked_of(arguments)))
    if len(wanted) < MIN_ASKED:
        return None
    own = call.tool_name.rpartition("__")[2].lower()
    sentences = (  # a sentence that names a tool is about the tool and not about the question
        part
        for part in _SENTENCE_END.split(call.output)
        if own not in part.lower() and names.isdisjoint(_IDENTIFIER.findall(part.lower()))
    )
    if len(wanted & set(tokenize(" ".join(sentences)))) / len(wanted) < MIN_COVERAGE:
        return "what it returned shares hardly a word with what was asked"
    return None


def resolving_call(failed: KeptCall, calls: Sequence[KeptCall]) -> KeptCall | None:
    """Return the good call that is most like a failed one, among the next few calls of its session.

    `calls` are the calls of the same tool, in the order of arrival.
    """
    later = [each for each in calls if each.seq > failed.seq and each.call.session_id == failed.call.session_id]
    good = [each for each in later[:TRIES] if each.is_good]
    alike = [(similarity(failed.call.input, each.call.input), -each.seq, each) for each in good]
    best = max(alike, key=lambda each: each[:2], default=None)
    return best[2] if best is not None and best[0] >= MIN_ALIKE else None
