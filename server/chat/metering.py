"""What calls to chat models cost and whether the day's budget allows another one; it knows no endpoint and no store."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, Protocol

from swarm_memory.schema.chat import ChatUsage

Outcome = Literal["answered", "invalid", "unavailable", "cancelled"]


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One call that was sent, whatever became of it, as it is written to `performance_metrics`."""

    purpose: str
    model: str
    """`provider:model`."""
    usage: ChatUsage
    """Over all tries; tokens of a try that was never answered are not known and not in it."""
    latency_ms: float
    outcome: Outcome


class ChatMeter(Protocol):
    """Keeps what was spent."""

    async def used_today(self) -> int:
        """Return the tokens (input and output) of all recorded calls since 00:00 UTC."""
        ...

    def record(self, call: ChatCall) -> None:
        """Take the call and return at once, also while the caller is being cancelled."""
        ...


class InMemoryMeter:
    """A meter that forgets with its process."""

    def __init__(self, today: Callable[[], date] = lambda: datetime.now(UTC).date()) -> None:
        self._today = today
        self._calls: list[tuple[date, ChatCall]] = []

    @property
    def calls(self) -> tuple[ChatCall, ...]:
        """All calls, oldest first."""
        return tuple(call for _, call in self._calls)

    async def used_today(self) -> int:
        today = self._today()
        return sum(call.usage.input_tokens + call.usage.output_tokens for day, call in self._calls if day == today)

    def record(self, call: ChatCall) -> None:
        self._calls.append((self._today(), call))


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
