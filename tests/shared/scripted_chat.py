"""A chat model that returns prepared answers, and a meter that keeps its calls in memory only."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelError, ModelUnavailable
from swarm_memory.schema.settings import ChatSettings
from swarm_memory.server.chat.chain import ChainChatModel
from swarm_memory.server.chat.metering import ChatMeter, MeteredModel, Outcome, Reply, add
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest, ChatUsage
from swarm_memory.tools.ports.records import ChatRecord

ScriptedAnswer = str | dict[str, JsonValue] | ModelError
"""A text, an object that is sent as JSON, or the error that the call raises."""


class InMemoryMeter(ChatMeter):
    """A meter whose calls are lost when the process ends."""

    def __init__(self, today: Callable[[], date] = lambda: datetime.now(UTC).date()) -> None:
        self._today = today
        self._calls: list[tuple[date, ChatRecord]] = []

    @property
    def calls(self) -> tuple[ChatRecord, ...]:
        """All calls, oldest first."""
        return tuple(call for _, call in self._calls)

    async def used_today(self) -> int:
        today = self._today()
        return sum(call.usage.input_tokens + call.usage.output_tokens for day, call in self._calls if day == today)

    def record(self, purpose: str, model: str, outcome: Outcome, usage: ChatUsage, latency_ms: float) -> None:
        call = ChatRecord(Scope(), purpose, model, outcome, usage, latency_ms, datetime.now(UTC))
        self._calls.append((self._today(), call))


class ScriptedChatModel(MeteredModel):
    """Returns `answers` in order, validated like a real model's. Four characters count as one token.

    Raises `ModelUnavailable` once the answers are used up.
    """

    is_local = True

    def __init__(
        self, answers: Sequence[ScriptedAnswer], *, name: str = "scripted:test", meter: ChatMeter | None = None
    ) -> None:
        super().__init__(name, meter or InMemoryMeter())
        self.requests: list[ChatRequest] = []
        """Every request, in order."""
        self._answers = iter(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the next answer. Raises the error that the script has in its place."""
        self.requests.append(request)
        answer = await super().complete(request)
        return answer.model_copy(update={"latency_ms": 0.0})

    async def _ask(self, request: ChatRequest, usage: ChatUsage) -> Reply:
        answer = next(self._answers, None)
        if answer is None:
            raise ModelUnavailable(f"{self.name} has no answer left for call {len(self.requests)}.")
        usage.tries += 1
        if isinstance(answer, ModelError):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        add(usage, (len(request.system) + len(request.user)) // 4, len(text) // 4)
        return Reply(text)


def chain_of(
    *models: ChatModel,
    monotonic: Callable[[], float] = time.monotonic,
    meter: ChatMeter | None = None,
    **settings: object,
) -> ChainChatModel:
    """Return a chain of models, without a token budget unless `settings` (of `chat`) set one."""
    chosen = ChatSettings.model_validate({"daily_token_budget": None, **settings})
    return ChainChatModel(models, chosen, meter or InMemoryMeter(), monotonic=monotonic)
