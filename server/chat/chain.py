"""Asks chat models in their order until one answers."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Breaker:
    """How one model has fared: closed, or open until a moment, after which one call may try it."""

    failures: int = 0
    open_until: float = 0.0


class ChainChatModel:
    """A list of models in their order of preference.

    The next one is asked when one is unavailable; a model that answered badly has answered, and its error is passed on.
    After `max_failures` failures in a row a model is passed over for `cool_down_s`; then one call tries it again.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        *,
        timeout_s: float = 45.0,
        max_failures: int = 3,
        cool_down_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take at least one model; `timeout_s` is the longest time for one that is not the last."""
        assert models
        self._models = tuple(models)
        self._timeout_s = timeout_s
        self._max_failures = max_failures
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic
        self._breakers = [_Breaker() for _ in models]

    @property
    def name(self) -> str:
        return " → ".join(model.name for model in self._models)

    @property
    def is_local(self) -> bool:
        return all(model.is_local for model in self._models)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer by the first model that is there; the answer names it. Raises `ModelUnavailable` with every reason."""
        deadline = self._monotonic() + request.timeout_s
        reasons: list[str] = []
        for model, breaker, is_last in zip(self._models, self._breakers, self._lasts(), strict=True):
            left_s = deadline - self._monotonic()
            paused_s = breaker.open_until - self._monotonic()
            if left_s <= 0:
                reasons.append(f"{model.name} was not asked: no time was left.")
            elif paused_s > 0:
                reasons.append(f"{model.name} rests for {paused_s:.0f} s after {breaker.failures} failures.")
            else:
                share_s = left_s if is_last else min(self._timeout_s, left_s * 2 / 3)
                try:
                    return await self._ask(model, breaker, request.model_copy(update={"timeout_s": share_s}))
                except ModelUnavailable as error:
                    reasons.append(str(error))
                    _log.warning("%s", error)
        raise ModelUnavailable(" ".join(reasons))

    def _lasts(self) -> list[bool]:
        """Tell of each model whether no later one is awake: it then has all the time that remains."""
        now = self._monotonic()
        awake = [breaker.open_until <= now for breaker in self._breakers]
        return [not any(awake[place + 1 :]) for place in range(len(awake))]

    async def _ask(self, model: ChatModel, breaker: _Breaker, request: ChatRequest) -> ChatAnswer:
        if breaker.failures >= self._max_failures:
            # Only this call tries a model that rested; others pass it over meanwhile.
            breaker.open_until = self._monotonic() + self._cool_down_s
        try:
            answer = await model.complete(request)
        except ModelUnavailable:
            breaker.failures += 1
            if breaker.failures >= self._max_failures:
                breaker.open_until = self._monotonic() + self._cool_down_s
            raise
        except BaseException:
            # It answered badly, or the caller went away: neither shows that it is gone.
            breaker.open_until = 0.0
            raise
        breaker.failures, breaker.open_until = 0, 0.0
        return answer
