"""What calls to chat models cost, and the limits that they keep: how many at once, how many tokens in a day."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal

from anyio import CapacityLimiter

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.tools.ports.journal import ChatRecord
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest, ChatUsage
from swarm_memory.tools.ports.outside import Clock

if TYPE_CHECKING:
    from swarm_memory.server.storage.bank import Bank

_CHARS_PER_TOKEN = 4

Outcome = Literal["answered", "invalid", "unavailable", "cancelled"]


@dataclass
class Tally:
    """Adds up the tries of one call."""

    price_in: float | None = None
    """USD for a million input tokens."""
    price_out: float | None = None
    tries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    told_cost_usd: float | None = None
    """What the provider itself says that it cost; it goes before the prices."""

    def add(self, input_tokens: int, output_tokens: int, cost_usd: float | None = None) -> None:
        """Add the tokens of one answer."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        if cost_usd is not None:
            self.told_cost_usd = (self.told_cost_usd or 0.0) + cost_usd

    def usage(self) -> ChatUsage:
        """Return the sum so far."""
        return ChatUsage(
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost_usd=self._cost(), tries=self.tries
        )

    def _cost(self) -> float | None:
        if self.told_cost_usd is not None:
            return self.told_cost_usd
        if self.price_in is None or self.price_out is None:
            return None
        return (self.input_tokens * self.price_in + self.output_tokens * self.price_out) / 1_000_000


class ChatMeter:
    """Writes calls to a store and asks it for the day's sum, which holds what other processes wrote too."""

    def __init__(self, store: "Bank", scope: Scope, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock

    async def used_today(self) -> int:
        """Return the tokens (input and output) since 00:00 UTC in the whole database. Raises `StorageError`."""
        midnight = self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return (await self._store.chat_spending(midnight)).tokens

    def record(self, purpose: str, model: str, outcome: Outcome, usage: ChatUsage, latency_ms: float) -> None:
        """Queue a call that was sent, whatever became of it, and return at once, also while the caller is cancelled.

        `usage` is over all tries; tokens of a try that was never answered are not known and not in it.
        """
        at = self._clock.now()
        self._store.record_chat(ChatRecord(self._scope, purpose, model, outcome, usage, latency_ms, at))


class LimitedChatModel:
    """A model within limits; what breaks one of them is never sent.

    Calls under way are counted against the budget with what their first try may cost at most; what a repair or more
    room for an answer costs is counted when it is known. Of several processes each counts only what the others have
    recorded.
    """

    def __init__(
        self, model: ChatModel, meter: ChatMeter, *, max_concurrency: int, daily_token_budget: int | None
    ) -> None:
        self._model = model
        self._meter = meter
        self._slots = CapacityLimiter(max_concurrency)
        self._budget = daily_token_budget
        self._reserved = 0

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def is_local(self) -> bool:
        return self._model.is_local

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer as the model does. Raises `ModelUnavailable`, too, when a limit stands against it, and names it."""
        began = time.monotonic()
        async with self._slot(request.timeout_s), self._reservation(request):
            left_s = max(request.timeout_s - (time.monotonic() - began), 0.001)
            return await self._model.complete(request.model_copy(update={"timeout_s": left_s}))

    @asynccontextmanager
    async def _slot(self, timeout_s: float) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire_on_behalf_of(token := object())
        except TimeoutError:
            raise ModelUnavailable(
                f"{self.name} was busy for {timeout_s:g} s with other calls: raise chat.max_concurrency or try later."
            ) from None
        try:
            yield
        finally:
            self._slots.release_on_behalf_of(token)

    @asynccontextmanager
    async def _reservation(self, request: ChatRequest) -> AsyncGenerator[None]:
        if self._budget is None:
            yield
            return
        wanted = (len(request.system) + len(request.user)) // _CHARS_PER_TOKEN + request.max_tokens
        used = await self._meter.used_today()
        if used + self._reserved + wanted > self._budget:
            raise ModelUnavailable(
                f"The day's token budget does not allow the call: {used:,} of {self._budget:,} are used and "
                f"{self._reserved + wanted:,} wanted. Raise chat.daily_token_budget or wait for 00:00 UTC."
            )
        self._reserved += wanted
        try:
            yield
        finally:
            self._reserved -= wanted
