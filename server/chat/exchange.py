"""What every provider does with a call: deadline, check of the answer, more room or one repair, meter."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelTooSlow, ModelUnavailable
from swarm_memory.server.chat.metering import ChatMeter, Outcome, Tally
from swarm_memory.tools.model.parse import Unparsed, parse_object
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest

MAX_ROOM = 16_000
"""Tokens that an answer may take at most, when it was cut with less."""

_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said in one try, before any check."""

    text: str
    problem: str | None = None
    """Why it cannot be used as it is although it came: cut, empty, refused."""
    is_final: bool = False
    """Whether asking again would not help."""
    is_cut: bool = False
    """Whether more room for the answer would help: models that reason take it before they begin to answer."""

    @classmethod
    def cut(cls, text: str, request: ChatRequest) -> Self:
        """Return what came of an answer until its room was used up."""
        return cls(text, f"The answer was cut at {request.max_tokens:,} tokens.", is_final=True, is_cut=True)


@dataclass(frozen=True, slots=True)
class Repair:
    """What a second try is told of the first."""

    text: str
    reason: str

    def message(self, schema: dict[str, JsonValue] | None) -> str:
        """Return what is said to the model."""
        wanted = "Answer again, with the JSON object and nothing else." if schema else "Answer again."
        return f"Your answer cannot be used. {self.reason} {wanted}"


Ask = Callable[[ChatRequest, Repair | None, Tally], Awaitable[Reply]]
"""Sends the request (with a `Repair` also the bad answer and what is wrong with it) and adds to the tally."""


def schema_instruction(schema: dict[str, JsonValue]) -> str:
    """Return what the system prompt says about the form of the answer; endpoints without JSON schema need it."""
    return (
        "Answer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It must be valid by this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )


async def exchange(name: str, request: ChatRequest, ask: Ask, meter: ChatMeter, tally: Tally) -> ChatAnswer:
    """Ask, check, give a cut answer more room, repair another one once, record.

    Raises `ModelTooSlow` when `request.timeout_s` is over, and what `ask` raises; `ModelAnswerInvalid` when the
    repaired answer is no better. All of it is recorded, cancelled calls too.
    """
    began = time.perf_counter()
    outcome: Outcome = "cancelled"
    try:
        async with asyncio.timeout(request.timeout_s):
            text, data = await _checked(name, request, ask, tally)
        outcome = "answered"
    except TimeoutError:
        outcome = "unavailable"
        raise ModelTooSlow(f"{name} gave no whole answer within {request.timeout_s:g} s.") from None
    except ModelUnavailable:
        outcome = "unavailable"
        raise
    except ModelAnswerInvalid:
        outcome = "invalid"
        raise
    finally:
        latency_ms = (time.perf_counter() - began) * 1000
        meter.record(request.purpose, name, outcome, tally.usage(), latency_ms)
    return ChatAnswer(text=text, data=data, model=name, usage=tally.usage(), latency_ms=latency_ms)


async def _checked(name: str, request: ChatRequest, ask: Ask, tally: Tally) -> tuple[str, dict[str, JsonValue] | None]:
    repair: Repair | None = None
    for _ in range(2):
        reply = await ask(request, repair, tally)
        checked = _check(reply, request.answer_schema)
        while isinstance(checked, Unparsed) and reply.is_cut and request.max_tokens < MAX_ROOM:
            request = request.model_copy(update={"max_tokens": min(request.max_tokens * _GROWTH, MAX_ROOM)})
            reply = await ask(request, repair, tally)
            checked = _check(reply, request.answer_schema)
        if not isinstance(checked, Unparsed):
            return reply.text, checked
        if reply.is_final:
            raise ModelAnswerInvalid(f"{name} gave no usable answer: {checked.reason}")
        repair = Repair(reply.text[:20_000], checked.reason)
    assert repair is not None
    raise ModelAnswerInvalid(f"{name} gave no usable answer, nor after one repair: {repair.reason}")


def _check(reply: Reply, schema: dict[str, JsonValue] | None) -> dict[str, JsonValue] | Unparsed | None:
    if reply.is_cut and schema is not None and reply.text.lstrip().startswith("{"):
        # A weak model may go on for ever behind a whole answer.
        answer = parse_object(reply.text, schema)
        return Unparsed(str(reply.problem)) if isinstance(answer, Unparsed) else answer
    if reply.problem is not None:
        return Unparsed(reply.problem)
    if not reply.text.strip():
        return Unparsed("The answer is empty.")
    return parse_object(reply.text, schema) if schema is not None else None
