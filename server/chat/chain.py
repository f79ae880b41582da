"""The chat models of the settings as one: called in their order until one answers, within the day's budget."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings, ChatSettings
from swarm_memory.server.chat.claude_cli import ClaudeCliChatModel
from swarm_memory.server.chat.metering import CHARS_PER_TOKEN, ChatMeter
from swarm_memory.server.chat.openai import OpenAIChatModel
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest

RETRIES = 2
"""Retries of one model after an answer such as 429 or 503, or a lost connection."""

MAX_FAILURES, COOL_DOWN_S = 3, 60.0
"""After this many failures in a row a model is skipped for this many seconds."""

_log = logging.getLogger(__name__)


class ChainChatModel:
    """A list of models in order of preference; `orders` are other lists, for purposes such as `judge`.

    The next model is called when one is unavailable, refuses, or gives an unusable answer; one that keeps failing is
    skipped for a while. A call that would exceed a limit is never sent: calls in progress count against the day's
    budget with the most that their first try may cost, calls of other processes with what they recorded.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        settings: ChatSettings,
        meter: ChatMeter,
        *,
        orders: Mapping[str, Sequence[ChatModel]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take at least one model."""
        assert models
        self._settings = settings
        self._meter = meter
        self._models = models
        self._orders = orders or {}
        self._failures = Counter[ChatModel]()
        """The consecutive failures of each model."""
        self._rests_until = dict.fromkeys(models, 0.0)
        self._monotonic = monotonic
        self._reserved_tokens = 0

    @property
    def name(self) -> str:
        return " → ".join(model.name for model in self._models)

    @property
    def is_local(self) -> bool:
        return all(model.is_local for model in self._models)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer of the first model that gives one; the answer names the model.

        Raises `ModelAnswerInvalid` when one answered badly, else `ModelUnavailable`, with every reason; the latter also
        when a limit does not allow the call. A request that can be shortened raises `ModelWindowTooSmall` immediately.
        """
        deadline = self._monotonic() + request.timeout_s
        wanted = (len(request.system) + len(request.user)) // CHARS_PER_TOKEN + request.max_tokens
        budget = self._settings.daily_token_budget
        used = 0 if budget is None else await self._meter.used_today()
        if budget is not None and used + self._reserved_tokens + wanted > budget:
            raise ModelUnavailable(
                f"The day's token budget does not allow the call: {used:,} of {budget:,} are used, with "
                f"{self._reserved_tokens + wanted:,} more needed. Raise chat.daily_token_budget or wait for 00:00 UTC."
            )
        self._reserved_tokens += wanted
        try:
            return await self._answer(request, deadline)
        finally:
            self._reserved_tokens -= wanted

    async def _answer(self, request: ChatRequest, deadline: float) -> ChatAnswer:
        models = self._orders.get(request.purpose) or self._models
        now = self._monotonic()
        rests_s = {model: self._rests_until[model] - now for model in models}
        reasons = [
            f"{model.name} is paused for {left_s:.0f} s after {self._failures[model]} failures."
            for model, left_s in rests_s.items()
            if left_s > 0
        ]
        asked = [model for model in models if rests_s[model] <= 0]
        kind: type[ModelError] = ModelUnavailable
        for model in asked:
            left_s = deadline - self._monotonic()
            if left_s <= 0:
                reasons.append(f"{model.name} was not called: no time was left.")
                continue
            share_s = left_s if model is asked[-1] else min(self._settings.timeout_s, left_s * 2 / 3)
            try:
                answer = await model.complete(request.model_copy(update={"timeout_s": share_s}))
            except ModelError as error:
                if isinstance(error, ModelWindowTooSmall) and request.can_shorten:
                    raise
                kind = ModelAnswerInvalid if isinstance(error, ModelAnswerInvalid) else kind
                reasons.append(str(error))
                _log.warning("%s", error)
                # A model that answered badly, or that may take a shorter request, is available.
                if isinstance(error, ModelUnavailable) and not isinstance(error, ModelWindowTooSmall):
                    self._failures[model] += 1
                    if self._failures[model] >= MAX_FAILURES:
                        self._rests_until[model] = self._monotonic() + COOL_DOWN_S
            else:
                self._failures[model] = 0
                return answer
        raise kind(" ".join(reasons))


def build_chat_model(
    settings: ChatSettings, *, environ: Mapping[str, str], meter: ChatMeter, judge: str | None = None
) -> ChatModel | None:
    """Return the models of the settings as one, within their limits; None when there are none.

    Those that `judge` names (`model` or `provider:model`) are called first for judging. Keys are read from `environ`
    now and stay in memory. Nothing is imported or contacted before the first call.
    """
    if not settings.providers:
        return None

    def model(provider: ChatProviderSettings) -> ChatModel:
        if provider.provider == "claude_cli":
            return ClaudeCliChatModel(provider, environ, meter, retries=RETRIES)
        variable = provider.key_variable
        key = environ.get(variable, "").strip() if variable else None
        return OpenAIChatModel(provider, key, meter, retries=RETRIES)

    models = {provider: model(provider) for provider in settings.providers}
    return ChainChatModel(
        [models[provider] for provider in settings.providers],
        settings,
        meter,
        orders={"judge": [models[provider] for provider in settings.judging(judge)]},
    )
