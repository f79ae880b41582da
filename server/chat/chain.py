"""Asks chat models in their order until one answers."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from swarm_memory.schema.errors import (
    ModelAnswerInvalid,
    ModelError,
    ModelTooSlow,
    ModelUnavailable,
    ModelWindowTooSmall,
)
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest

_log = logging.getLogger(__name__)

SLOW_S = 600.0
"""So long a model that was too slow for a task is not waited for again in it."""


@dataclass(slots=True)
class _Link:
    """A model and how it has fared: closed, or open until a moment, after which one call may try it."""

    model: ChatModel
    failures: int = 0
    open_until: float = 0.0
    slow_until: dict[str, float] = field(default_factory=dict[str, float])
    """By task: until when it is not waited for."""


class ChainChatModel:
    """A list of models in their order of preference; `orders` are others, for purposes such as `judge`.

    The next one is asked when one is unavailable, refuses, or answers with what cannot be used. After `max_failures`
    failures in a row a model is passed over for `cool_down_s`; then one call tries it again. One that was too slow is
    passed over for the rest of the task.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        *,
        orders: Mapping[str, Sequence[ChatModel]] | None = None,
        timeout_s: float = 45.0,
        max_failures: int = 3,
        cool_down_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take at least one model; `timeout_s` is the longest time for one that is not the last."""
        assert models
        self._links = [_Link(model) for model in models]
        self._orders = {
            purpose: [link for model in order for link in self._links if link.model is model]
            for purpose, order in (orders or {}).items()
        }
        self._timeout_s = timeout_s
        self._max_failures = max_failures
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic

    @property
    def name(self) -> str:
        return " → ".join(link.model.name for link in self._links)

    @property
    def is_local(self) -> bool:
        return all(link.model.is_local for link in self._links)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer by the first model that can; the answer names it.

        Raises with every reason `ModelAnswerInvalid` when one answered badly, else `ModelUnavailable`; for a request
        that can be shortened `ModelWindowTooSmall` at once.
        """
        deadline = self._monotonic() + request.timeout_s
        reasons: list[str] = []
        kind: type[ModelError] = ModelUnavailable
        links = self._orders.get(request.purpose) or self._links
        for link, is_last in zip(links, self._lasts(links, request), strict=True):
            left_s = deadline - self._monotonic()
            if left_s <= 0:
                reasons.append(f"{link.model.name} was not asked: no time was left.")
            elif why := self._why_not(link, request):
                reasons.append(why)
            else:
                share_s = left_s if is_last else min(self._timeout_s, left_s * 2 / 3)
                try:
                    return await self._ask(link, request.model_copy(update={"timeout_s": share_s}))
                except ModelError as error:
                    if isinstance(error, ModelWindowTooSmall) and request.can_shorten:
                        raise
                    kind = ModelAnswerInvalid if isinstance(error, ModelAnswerInvalid) else kind
                    reasons.append(str(error))
                    _log.warning("%s", error)
        raise kind(" ".join(reasons))

    def _why_not(self, link: _Link, request: ChatRequest) -> str | None:
        """Say why a model is passed over; None when it is asked."""
        now = self._monotonic()
        if request.task_id is not None and link.slow_until.get(request.task_id, now) > now:
            return f"{link.model.name} was too slow for this task before and is not waited for again."
        if link.open_until > now:
            return f"{link.model.name} rests for {link.open_until - now:.0f} s after {link.failures} failures."
        return None

    def _lasts(self, links: Sequence[_Link], request: ChatRequest) -> list[bool]:
        """Tell of each model whether no later one will be asked: it then has all the time that remains."""
        asked = [self._why_not(link, request) is None for link in links]
        return [not any(asked[place + 1 :]) for place in range(len(asked))]

    async def _ask(self, link: _Link, request: ChatRequest) -> ChatAnswer:
        if link.failures >= self._max_failures:
            # Only this call tries a model that rested; others pass it over meanwhile.
            link.open_until = self._monotonic() + self._cool_down_s
        try:
            answer = await link.model.complete(request)
        except ModelWindowTooSmall:
            # A shorter request may fit: it is there.
            link.open_until = 0.0
            raise
        except ModelUnavailable as error:
            self._failed(link, request, error)
            raise
        except BaseException:
            # It answered badly, or the caller went away: neither shows that it is gone.
            link.open_until = 0.0
            raise
        link.failures, link.open_until = 0, 0.0
        return answer

    def _failed(self, link: _Link, request: ChatRequest, error: ModelUnavailable) -> None:
        now = self._monotonic()
        link.failures += 1
        if link.failures >= self._max_failures:
            link.open_until = now + self._cool_down_s
        if isinstance(error, ModelTooSlow) and request.task_id is not None:
            link.slow_until = {task: until for task, until in link.slow_until.items() if until > now}
            link.slow_until[request.task_id] = now + SLOW_S
