"""From settings to a chat model: order, keys, the guard against calling ourselves; and what settings refuse."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError
from scripted_chat import InMemoryMeter
from scripted_server import ScriptedServer, completion, error

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import ChatSettings
from swarm_memory.server.chat.chain import build_chat_model
from swarm_memory.tools.ports.models import ChatRequest

REQUEST = ChatRequest(purpose="judge", system="s", user="u", answer_schema={"type": "object"}, timeout_s=100)


def settings(*providers: Mapping[str, object], **changes: object) -> ChatSettings:
    return ChatSettings.model_validate({"providers": providers, **changes})


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_the_list_is_asked_in_order_each_with_its_own_key_and_model() -> None:
    async with ScriptedServer([error(401)]) as first, ScriptedServer([completion("{}")]) as second:
        chosen = settings(
            {"provider": "openai", "model": "m-1", "base_url": first.url, "api_key_env": "KEY_ONE"},
            {"provider": "openai", "model": "m-2", "base_url": second.url, "api_key_env": "KEY_TWO"},
        )
        meter = InMemoryMeter()
        model = build_chat_model(chosen, environ={"KEY_ONE": "one", "KEY_TWO": "two"}, meter=meter)
        assert model is not None
        assert model.name == "openai:m-1 → openai:m-2"
        answer = await model.complete(REQUEST)
    assert answer.model == "openai:m-2"
    assert first.requests[0].headers["authorization"] == "Bearer one"
    assert second.requests[0].headers["authorization"] == "Bearer two"
    assert [call.outcome for call in meter.calls] == ["unavailable", "answered"]


async def test_a_key_that_is_not_set_is_named_and_nothing_is_sent() -> None:
    model = build_chat_model(settings({"provider": "openai", "model": "m"}), environ={}, meter=InMemoryMeter())
    assert model is not None
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set"):
        await model.complete(REQUEST)


async def test_a_child_of_claude_cli_never_calls_claude_again() -> None:
    environ = {"SWARM_MEMORY_CHILD": "1", "PATH": ""}
    model = build_chat_model(settings({"provider": "claude_cli"}), environ=environ, meter=InMemoryMeter())
    assert model is not None
    with pytest.raises(ModelUnavailable, match="itself started by a claude_cli call"):
        await model.complete(REQUEST)


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "openai"},
        {"provider": "anthropic"},
        {"provider": "openai", "model": "m", "base_url": "ftp://example.org"},
        {"provider": "openai", "model": "m", "base_url": "https://user:hunter2secret@example.org/v1"},
        {"provider": "openai", "model": "m", "api_key_env": "sk-hunter2secret"},
        {"provider": "openai", "model": "m", "api_key_env": "gsk_hunter2secret"},
        {"provider": "openai", "model": "m", "api_key": "hunter2secret"},
    ],
)
def test_settings_that_cannot_work_or_hold_a_secret_are_refused_without_showing_it(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as raised:
        settings(wrong)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("base_url", [None, "https://api.anthropic.com", "https://api.anthropic.com/v1/"])
def test_anthropics_own_endpoint_is_asked_for_chat_completions(base_url: str | None) -> None:
    (provider,) = settings({"provider": "anthropic", "model": "m", "base_url": base_url}).providers
    assert (provider.url, provider.key_variable) == ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
    assert provider.name == "anthropic:m"


def test_another_endpoint_for_messages_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValidationError, match="provider `openai` with its base_url and api_key_env"):
        settings({"provider": "anthropic", "model": "m", "base_url": "http://127.0.0.1:8080"})
