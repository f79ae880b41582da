"""Evaluating calls that wait for it: by the chat model or by evidence, many at once, failures kept for later."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import anyio

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.schema.tool_memory import EvaluateResult, Evaluation, KeptCall
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import Rendered, load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.ports.tool_memory import EvaluatedCall, FailedEvaluation, PendingCalls
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.tool_memory.call_evidence import (
    Surroundings,
    evaluate_by_evidence,
    is_error,
    surroundings_of,
    tool_words,
)
from swarm_memory.tools.tool_memory.inputs import input_tokens
from swarm_memory.tools.toolbox import Toolbox

PROMPT = "evaluate_tool_call"
BATCH = 50
"""Calls that are read, evaluated and written together."""

GIVE_UP_AFTER = 3
"""Failures in a row of a model that cannot be reached, after which no more calls are tried now."""

MAX_INDEXED = 64
"""Tokens of a call that it is found by."""

REMOTE_INTERVAL_S = 1.0
_MAX_SUMMARY, _MAX_EVALUATION, _MAX_REASON = 300, 600, 300
_ANSWER_TOKENS, _TIMEOUT_S = 400, 45.0

T = TypeVar("T")


class CallRating(Answered):
    """What the prompt asks for."""

    summary: str
    evaluation: str
    score: float


async def evaluate_tool_calls(
    toolbox: Toolbox,
    tool_names: Sequence[str] | None = None,
    *,
    settled: bool = False,
    limit: int = 1000,
    on_progress: Callable[[int], None] | None = None,
) -> EvaluateResult:
    """Evaluate calls that have no evaluation, oldest first, at most `limit`; of the named tools, or of all.

    With `settled` only those that are older than `tool_memory.settle_s`, so that what followed them is known. A call
    whose evaluation fails stays as it is and is tried again later. Raises `StorageError`.
    """
    now = toolbox.clock.now()
    settings = toolbox.settings.tool_memory
    until = now - timedelta(seconds=settings.settle_s) if settled else now + timedelta(days=1)
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, None)
    schemas = {each.totals.tool_name: each.tool_schema for each in memories}
    after = total = failures = 0
    methods: dict[str, int] = {}
    reasons: dict[str, None] = {}
    while total + failures < limit:
        pending = await _pending(toolbox, now, until, tool_names, after, min(BATCH, limit - total - failures))
        if not pending.calls:
            break
        after = pending.calls[-1].seq
        done, failed, stop = await _evaluate_all(toolbox, pending, schemas)
        total += await toolbox.store.tool_memory.save_evaluations(
            toolbox.scope, done, failed, now=toolbox.clock.now(), retry_after_s=settings.retry_after_s
        )
        failures += len(failed)
        for each in done:
            methods[each.evaluation.method] = methods.get(each.evaluation.method, 0) + 1
        reasons.update(dict.fromkeys(each.reason for each in failed))
        if on_progress is not None:
            on_progress(total + failures)
        if stop:
            break
    waiting = (await toolbox.store.tool_memory.counts(toolbox.scope)).not_evaluated
    return EvaluateResult(
        evaluated=total, failed=failures, waiting=waiting, methods=methods, reasons=tuple(reasons)[:5]
    )


async def _pending(
    toolbox: Toolbox, now: datetime, until: datetime, tools: Sequence[str] | None, after: int, limit: int
) -> PendingCalls:
    return await toolbox.store.tool_memory.pending_calls(
        toolbox.scope, now=now, until=until, tools=tools, after=after, limit=limit
    )


async def _evaluate_all(
    toolbox: Toolbox, pending: PendingCalls, schemas: dict[str, str | None]
) -> tuple[list[EvaluatedCall], list[FailedEvaluation], bool]:
    """Return evaluations, failures, and whether the model cannot be reached, so that the rest waits."""
    if toolbox.chat is None or toolbox.settings.tool_memory.evaluator == "evidence":
        return await asyncio.to_thread(_all_by_evidence, pending, tool_words(schemas)), [], False
    model = toolbox.chat
    done: list[EvaluatedCall] = []
    failed: list[FailedEvaluation] = []
    unreached = 0

    async def one(kept: KeptCall) -> None:
        nonlocal unreached
        schema = schemas.get(kept.call.tool_name)
        try:
            found = await evaluate_by_model(model, kept, surroundings_of(kept, pending), schema, toolbox)
        except ModelError as error:
            unreached += isinstance(error, ModelUnavailable)
            failed.append(FailedEvaluation(kept.seq, _reason(str(error))))
            return
        unreached = 0
        done.append(EvaluatedCall(kept.seq, found, indexed_tokens(kept)))

    interval = interval_of(toolbox.settings.tool_memory.evaluation_sleep_interval, model)
    await spaced(pending.calls, one, interval, lambda: unreached >= GIVE_UP_AFTER)
    return done, failed, unreached >= GIVE_UP_AFTER


def interval_of(given: float | None, model: ChatModel | None) -> float:
    """Return the seconds between two starts: as set, or 1.0 for a remote model and 0 for a local one or none."""
    if given is not None:
        return given if model is not None else 0.0
    return 0.0 if model is None or model.is_local else REMOTE_INTERVAL_S


async def spaced(
    items: Sequence[T], work: Callable[[T], Coroutine[Any, Any, None]], interval_s: float, stop: Callable[[], bool]
) -> None:
    """Do the work of all items at the same time, each started `interval_s` after the one before, until `stop`."""
    async with anyio.create_task_group() as group:
        for number, item in enumerate(items):
            await anyio.sleep(interval_s if number else 0)
            if stop():
                return
            group.start_soon(work, item)


def _all_by_evidence(pending: PendingCalls, names: frozenset[str]) -> list[EvaluatedCall]:
    return [
        EvaluatedCall(
            kept.seq, evaluate_by_evidence(kept.call, surroundings_of(kept, pending), names), indexed_tokens(kept)
        )
        for kept in pending.calls
    ]


def indexed_tokens(kept: KeptCall) -> tuple[str, ...]:
    """Return the tokens by which a call is found: of its task and its arguments, never of what it returned."""
    both = (*query_tokens(kept.call.task or ""), *input_tokens(kept.call.input))
    return tuple(dict.fromkeys(both))[:MAX_INDEXED]


async def evaluate_by_model(
    model: ChatModel, kept: KeptCall, around: Surroundings, schema: str | None, toolbox: Toolbox
) -> Evaluation:
    """Return what the model says of a call. A call that failed cannot be rated as good. Raises `ModelError`."""
    answer, name = await ask(
        model,
        _prompt(kept, around, schema),
        CallRating,
        purpose=PROMPT,
        temperature=0.0,
        max_tokens=_ANSWER_TOKENS,
        timeout_s=_TIMEOUT_S,
    )
    if isinstance(answer, Unparsed):
        raise ModelAnswerInvalid(answer.reason)
    if answer.score not in (0.0, 1.0):
        raise ModelAnswerInvalid(f"its score is neither 0 nor 1: {answer.score:g}")
    return Evaluation(
        score=0.0 if is_error(kept.call) else answer.score,
        summary=_said(answer.summary, toolbox, _MAX_SUMMARY),
        evaluation=_said(answer.evaluation, toolbox, _MAX_EVALUATION),
        method="model",
        model=name,
    )


def _prompt(kept: KeptCall, around: Surroundings, schema: str | None) -> Rendered:
    call = kept.call
    took = "" if call.time_cost_s is None else f" It took {call.time_cost_s:.3g} s."
    return render(
        load_prompt(PROMPT),
        given={"reported": ("success." if call.success else "failure.") + took},
        untrusted={
            "tool": f"{call.tool_name}\n{schema or '(no description is known)'}",
            "task": call.task or "(not known)",
            "arguments": call.input or "(none)",
            "returned": call.output or "(nothing)",
            "followed": _followed(kept, around),
        },
    )


def _followed(kept: KeptCall, around: Surroundings) -> str:
    told = ["The user corrected what was done."] if around.corrected else []
    following = around.next_call
    if following is not None and following.tool_name == kept.call.tool_name:
        told.append(f"The same tool was called again with: {following.input[:600]}")
    elif following is not None:
        told.append("Another tool was called.")
    return "\n".join(told) or "(not known)"


def _said(text: str, toolbox: Toolbox, limit: int) -> str:
    return one_line(redact(clean(text), pii=toolbox.settings.distill.redact_pii).text, limit)


def _reason(text: str) -> str:
    return one_line(redact(f"not evaluated: {text}").text, _MAX_REASON)
