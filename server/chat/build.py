"""Makes the chat model that the settings describe."""

from collections.abc import Mapping
from importlib.util import find_spec

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import ChatProviderSettings, ChatSettings
from swarm_memory.server.chat.anthropic import AnthropicChatModel
from swarm_memory.server.chat.chain import ChainChatModel
from swarm_memory.server.chat.claude_cli import ClaudeCliChatModel
from swarm_memory.server.chat.metering import ChatMeter, LimitedChatModel
from swarm_memory.server.chat.openai import OpenAIChatModel
from swarm_memory.server.folders import CHILD_VARIABLE
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest


class MissingChatModel:
    """A model that is set and cannot work: it stays in the list, so that every answer of the chain says why."""

    is_local = True

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Raise `ModelUnavailable` with the reason."""
        del request
        raise ModelUnavailable(f"{self.name} cannot be asked: {self._reason}")


def build_chat_model(
    settings: ChatSettings,
    *,
    environ: Mapping[str, str],
    meter: ChatMeter,
    judge: str | None = None,
    reranker: str | None = None,
) -> ChatModel | None:
    """Return the models of the settings as one, within their limits; None when there are none.

    Those that `judge` names (`model` or `provider:model`) are asked first to judge, those that `reranker` names alone
    to rerank; where one names none, all keep their order. Keys are read from `environ` now and stay in memory. Nothing
    is imported or reached before the first call.
    """
    if not settings.providers:
        return None
    models = {provider: _build(provider, settings.retries, environ, meter) for provider in settings.providers}
    asked = ChainChatModel(
        [models[provider] for provider in settings.providers],
        orders={
            "judge": [models[provider] for provider in settings.judging(judge)],
            "rerank": [models[provider] for provider in settings.named(reranker)],
        },
        timeout_s=settings.timeout_s,
        max_failures=settings.max_failures,
        cool_down_s=settings.cool_down_s,
    )
    return LimitedChatModel(
        asked, meter, max_concurrency=settings.max_concurrency, daily_token_budget=settings.daily_token_budget
    )


def _build(provider: ChatProviderSettings, retries: int, environ: Mapping[str, str], meter: ChatMeter) -> ChatModel:
    if provider.provider == "claude_cli":
        if environ.get(CHILD_VARIABLE):
            return MissingChatModel(provider.name, "this process was itself started by a claude_cli call.")
        return ClaudeCliChatModel(provider, environ, meter, retries=retries)
    variable = provider.key_variable
    key = environ.get(variable, "").strip() if variable else None
    if key == "":
        return MissingChatModel(provider.name, f"the environment variable {variable} is not set.")
    if provider.provider == "openai":
        return OpenAIChatModel(provider, key, meter, retries=retries)
    if find_spec("anthropic") is None:
        return MissingChatModel(provider.name, "install its package: pip install 'swarm-memory[anthropic]'.")
    return AnthropicChatModel(provider, key, meter, retries=retries)
