"""Keeps calls to a chat model within the limits of the settings: how many at once and how many tokens in a day."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from anyio import CapacityLimiter

from swarm_memory.schema.chat import ChatAnswer, ChatRequest
from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.server.chat.metering import ChatMeter
from swarm_memory.tools.ports.models import ChatModel

_CHARS_PER_TOKEN = 4


class LimitedChatModel:
    """A model within limits; what breaks one of them is never sent.

    Calls under way are counted against the budget with what they may cost at most, so that one process spends no more
    than the budget; of several processes each counts only what the others have recorded.
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
