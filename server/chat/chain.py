"""Asks chat models in their order until one answers."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Link:
    """A model and how it has fared: closed, or open until a moment, after which one call may try it."""

    model: ChatModel
    failures: int = 0
    open_until: float = 0.0


class ChainChatModel:
    """A list of models in their order of preference; `judges` are the same ones in another order, for what is to judge.

    The next one is asked when one is unavailable; a model that answered badly has answered, and its error is passed on.
    After `max_failures` failures in a row a model is passed over for `cool_down_s`; then one call tries it again.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        *,
        judges: Sequence[ChatModel] = (),
        timeout_s: float = 45.0,
        max_failures: int = 3,
        cool_down_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take at least one model; `timeout_s` is the longest time for one that is not the last."""
        assert models
        self._links = [_Link(model) for model in models]
        self._judging = [link for judge in judges for link in self._links if link.model is judge] or self._links
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
        """Answer by the first model that is there; the answer names it. Raises `ModelUnavailable` with every reason."""
        deadline = self._monotonic() + request.timeout_s
        reasons: list[str] = []
        links = self._judging if request.purpose == "judge" else self._links
        for link, is_last in zip(links, self._lasts(links), strict=True):
            left_s = deadline - self._monotonic()
            paused_s = link.open_until - self._monotonic()
            if left_s <= 0:
                reasons.append(f"{link.model.name} was not asked: no time was left.")
            elif paused_s > 0:
                reasons.append(f"{link.model.name} rests for {paused_s:.0f} s after {link.failures} failures.")
            else:
                share_s = left_s if is_last else min(self._timeout_s, left_s * 2 / 3)
                try:
                    return await self._ask(link, request.model_copy(update={"timeout_s": share_s}))
                except ModelUnavailable as error:
                    reasons.append(str(error))
                    _log.warning("%s", error)
        raise ModelUnavailable(" ".join(reasons))

    def _lasts(self, links: Sequence[_Link]) -> list[bool]:
        """Tell of each model whether no later one is awake: it then has all the time that remains."""
        now = self._monotonic()
        awake = [link.open_until <= now for link in links]
        return [not any(awake[place + 1 :]) for place in range(len(awake))]

    async def _ask(self, link: _Link, request: ChatRequest) -> ChatAnswer:
        if link.failures >= self._max_failures:
            # Only this call tries a model that rested; others pass it over meanwhile.
            link.open_until = self._monotonic() + self._cool_down_s
        try:
            answer = await link.model.complete(request)
        except ModelUnavailable:
            link.failures += 1
            if link.failures >= self._max_failures:
                link.open_until = self._monotonic() + self._cool_down_s
            raise
        except BaseException:
            # It answered badly, or the caller went away: neither shows that it is gone.
            link.open_until = 0.0
            raise
        link.failures, link.open_until = 0, 0.0
        return answer
