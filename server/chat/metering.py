"""One call of any chat model: its time limit, the check of its answer, the record of what it cost."""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from datetime import UTC
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.parse import ParseFailure, parse_object
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest, ChatUsage, Clock
from swarm_memory.tools.ports.records import ChatRecord

if TYPE_CHECKING:
    from swarm_memory.server.storage.store import Store

CHARS_PER_TOKEN = 4
"""An estimate, where there is no count."""

MAX_ROOM = 16_000
"""Tokens that a second answer may take after a cut one: reasoning models use them up before they begin to answer."""

Outcome = Literal["answered", "invalid", "unavailable", "cancelled"]


class ChatMeter:
    """Records calls in a store and reads the day's sum from it, which includes what other processes recorded."""

    def __init__(self, store: "Store", scope: Scope, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock

    async def used_today(self) -> int:
        """Return the tokens (input and output) since 00:00 UTC in the whole database. Raises `StorageError`."""
        midnight = self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return (await self._store.chat_spending(midnight)).tokens

    def record(self, purpose: str, model: str, outcome: Outcome, usage: ChatUsage, latency_ms: float) -> None:
        """Queue the record of a sent call, whatever its outcome, without waiting, even while the caller is cancelled.

        `usage` covers all tries; the tokens of a try that was never answered are unknown and not included.
        """
        at = self._clock.now()
        self._store.record_chat(ChatRecord(self._scope, purpose, model, outcome, usage, latency_ms, at))


def add(usage: ChatUsage, input_tokens: int, output_tokens: int, cost_usd: float | None = None) -> None:
    """Add what one answer took; `cost_usd` is None if its cost is unknown."""
    usage.input_tokens += input_tokens
    usage.output_tokens += output_tokens
    if cost_usd is not None:
        usage.cost_usd = (usage.cost_usd or 0.0) + cost_usd


def shown(said: str) -> str:
    """Return what an endpoint or a program said, redacted and on one line, at most 300 characters."""
    return redact(" ".join(said.split())[:2000]).text[:300] or "no message"


class Reply(NamedTuple):
    """What a model answered, before any check."""

    text: str
    is_cut: bool = False
    """Whether the answer was cut off at its limit of tokens."""


class MeteredModel(ABC):
    """A chat model whose calls are checked and recorded."""

    is_local = False

    def __init__(self, name: str, meter: ChatMeter, fault: str | None = None) -> None:
        """`fault` says why the model cannot be called at all: nothing is sent then, and nothing recorded."""
        self.name = name
        self._meter = meter
        self._fault = fault

    @abstractmethod
    async def _ask(self, request: ChatRequest, usage: ChatUsage) -> Reply:
        """Send a request, and add its tries and what they cost to `usage`. Raises `ModelError`."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Call within the time limit, again with `MAX_ROOM` if the answer was cut; check and record the answer.

        Raises `ModelUnavailable` when `request.timeout_s` has passed, `ModelAnswerInvalid` for an unusable answer, and
        what `_ask` raises. All of it is recorded, cancelled calls too.
        """
        if self._fault is not None:
            raise ModelUnavailable(f"{self.name} cannot be called: {self._fault}")
        began, usage = time.perf_counter(), ChatUsage()
        outcome: Outcome = "cancelled"
        try:
            async with asyncio.timeout(request.timeout_s):
                reply = await self._ask(request, usage)
                data = _checked(reply, request)
                if reply.is_cut and isinstance(data, ParseFailure) and request.max_tokens < MAX_ROOM:
                    request = request.model_copy(update={"max_tokens": MAX_ROOM})
                    reply = await self._ask(request, usage)
                    data = _checked(reply, request)
            if isinstance(data, ParseFailure):
                raise ModelAnswerInvalid(f"{self.name} gave no usable answer: {data.reason}")
            outcome = "answered"
        except TimeoutError:
            outcome = "unavailable"
            raise ModelUnavailable(f"{self.name} gave no complete answer within {request.timeout_s:g} s.") from None
        except ModelError as error:
            outcome = "invalid" if isinstance(error, ModelAnswerInvalid) else "unavailable"
            raise
        finally:
            latency_ms = (time.perf_counter() - began) * 1000
            self._meter.record(request.purpose, self.name, outcome, usage, latency_ms)
        return ChatAnswer(data=data, model=self.name, usage=usage, latency_ms=latency_ms)


def _checked(reply: Reply, request: ChatRequest) -> dict[str, JsonValue] | ParseFailure:
    """Return the object of an answer, or why it cannot be used."""
    cut = ParseFailure(f"The answer was cut off at {request.max_tokens:,} tokens.")
    if reply.is_cut and not reply.text.lstrip().startswith("{"):
        return cut
    if not reply.text.strip():
        return ParseFailure("The answer is empty.")
    data = parse_object(reply.text, request.answer_schema)
    # A whole object counts even if a weak model went on after it until it was cut.
    return cut if reply.is_cut and isinstance(data, ParseFailure) else data


def system_with_schema(request: ChatRequest) -> str:
    """Return the system prompt with the answer's schema, for models that nothing else makes follow it."""
    return (
        f"{request.system}\n\nAnswer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It must be valid by this JSON schema:\n{json.dumps(request.answer_schema, ensure_ascii=False)}"
    )
