"""The chat model for the Messages API, with the real client over real sockets: good answers, bad ones and none."""

from typing import Any

import pytest
from chat_bench import SCHEMA, Bench, request
from scripted_server import NOTHING, ScriptedServer, Turn, in_json, page

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelTooSlow, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.anthropic import AnthropicChatModel

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

KEY = "sk-ant-api03-Zx81kfQ0aLw2mNbV7cXy"
REQUEST = request(max_tokens=4000)


def said(text: str, stop_reason: str = "end_turn", **usage: Any) -> Turn:
    """Return a message with thoughts before its text, 11 input tokens (4 of them from the cache) and 7 of answer."""
    counts = {"input_tokens": 7, "cache_read_input_tokens": 4, "cache_creation_input_tokens": None, "output_tokens": 7}
    blocks = [{"type": "thinking", "thinking": "{}", "signature": "x"}, {"type": "text", "text": text}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": blocks}
    return in_json({**head, "stop_reason": stop_reason, "stop_sequence": None, "usage": counts | usage})


def error(status: int, kind: str = "invalid_request_error", message: str = "no", **headers: str) -> Turn:
    return in_json({"type": "error", "error": {"type": kind, "message": message}}, status=status, **headers)


GOOD = said('{"label": "Success"}')


def bench(server: ScriptedServer, **settings: object) -> Bench:
    return Bench(AnthropicChatModel, KEY, server, provider="anthropic", **settings)


async def test_an_answer_comes_back_checked_with_usage_cost_and_name() -> None:
    async with ScriptedServer([GOOD]) as server:
        answer = await bench(server, price_in=1.0, price_out=2.0).model.complete(REQUEST)
    assert (answer.data, answer.model) == ({"label": "Success"}, "anthropic:m-1")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.tries) == (11, 7, 1)
    assert answer.usage.cost_usd == pytest.approx(25e-6)


async def test_the_request_says_what_was_asked_and_carries_the_key_of_the_settings_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-token")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with ScriptedServer([GOOD]) as server:
        await bench(server).model.complete(REQUEST.model_copy(update={"temperature": 0.3, "seed": 7}))
    (sent,) = server.requests
    assert sent.path == "/v1/messages"
    assert KEY in str(sent.headers)
    assert "another" not in str(sent.headers)
    assert (sent.body["model"], sent.body["max_tokens"]) == ("m-1", 4000)
    assert sent.body["system"].startswith("You judge.")
    assert sent.body["messages"] == [{"role": "user", "content": "The trajectory."}]
    assert sent.body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert not {"temperature", "seed", "stream"} & set(sent.body)
    assert KEY not in str(sent.body)


async def test_a_model_without_json_schema_or_effort_is_asked_in_words_and_that_is_remembered() -> None:
    script = [
        error(400, message="output_config.effort: this model does not take it"),
        error(400, message="output_config.format: not supported"),
        GOOD,
        GOOD,
    ]
    async with ScriptedServer(script) as server:
        model = bench(server, effort="low").model
        await model.complete(REQUEST)
        await model.complete(REQUEST)
    form = {"type": "json_schema", "schema": SCHEMA}
    assert [sent.body.get("output_config") for sent in server.requests] == [
        {"format": form, "effort": "low"}, {"format": form}, None, None
    ]  # fmt: skip
    assert '"label"' in server.requests[2].body["system"]


async def test_an_answer_that_does_not_fit_is_repaired_once_with_the_reason() -> None:
    async with ScriptedServer([said('{"label": "Maybe"}'), GOOD]) as server:
        answer = await bench(server).model.complete(REQUEST)
    assert (answer.data, answer.usage.tries) == ({"label": "Success"}, 2)
    roles = [(message["role"], message["content"]) for message in server.requests[1].body["messages"][1:]]
    assert roles[0] == ("assistant", '{"label": "Maybe"}')
    assert roles[1][0] == "user"
    assert "`label`" in roles[1][1]


async def test_an_answer_that_was_cut_gets_more_room() -> None:
    async with ScriptedServer([said("", "max_tokens"), GOOD]) as server:
        await bench(server).model.complete(REQUEST)
    assert [sent.body["max_tokens"] for sent in server.requests] == [4000, 16000]


async def test_a_refusal_is_invalid_at_once() -> None:
    async with ScriptedServer([said("I cannot", "refusal"), GOOD]) as server:
        with pytest.raises(ModelAnswerInvalid, match="refused"):
            await bench(server).model.complete(REQUEST)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "turn",
    [
        error(400, message="prompt is too long: 208310 tokens > 200000 maximum"),
        error(400, message="input length and `max_tokens` exceed context limit: 199000 + 4000 > 200000"),
        error(413, "request_too_large"),
        said('{"label"', "model_context_window_exceeded"),
    ],
)
async def test_a_context_window_that_is_too_small_is_told_at_once(turn: Turn) -> None:
    async with ScriptedServer([turn, GOOD]) as server:
        with pytest.raises(ModelWindowTooSmall):
            await bench(server).model.complete(REQUEST.model_copy(update={"can_shorten": True}))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "fault", [error(529, "overloaded_error"), error(429, "rate_limit_error", Retry_After="0.4"), error(500), NOTHING]
)
async def test_a_passing_fault_is_tried_again(fault: Turn) -> None:
    async with ScriptedServer([fault, fault, GOOD]) as server:
        tried = bench(server)
        answer = await tried.model.complete(REQUEST)
    assert (answer.data, answer.usage.tries, len(tried.pauses)) == ({"label": "Success"}, 3, 2)


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (error(401, "authentication_error", f"invalid x-api-key {KEY}"), "HTTP 401"),
        (error(400, message="Your credit balance is too low"), "credit balance"),
        (error(404, "not_found_error", "model: m-1"), "check model"),
        (Turn(b"", 307, {"location": "http://127.0.0.1:1/v1"}), "redirects"),
        (page(), "check base_url"),
        (in_json({"hello": 1}), "no message"),
        (Turn(b" " * 1_000_000, repeats=50), "bytes"),
    ],
)
async def test_a_lasting_fault_ends_the_call_says_what_to_change_and_shows_no_key(turn: Turn, reason: str) -> None:
    # A 400 and a 404 may be about the form of the answer: it is lowered once.
    async with ScriptedServer([turn, turn, GOOD]) as server:
        tried = bench(server)
        with pytest.raises(ModelUnavailable, match=reason) as raised:
            await tried.model.complete(REQUEST)
    assert KEY not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert tried.pauses == []


async def test_what_never_ends_is_ended_at_the_deadline() -> None:
    async with ScriptedServer([GOOD, Turn(GOOD.body, 200, GOOD.headers, pause_s=0.05)]) as server:
        model = bench(server).model
        await model.complete(REQUEST)  # the first import of the client takes longer than the deadline
        with pytest.raises(ModelTooSlow, match=r"0\.3 s"):
            await model.complete(REQUEST.model_copy(update={"timeout_s": 0.3}))


def test_its_own_url_and_key_need_no_setting_and_the_key_goes_to_no_other_address() -> None:
    own = ChatProviderSettings(provider="anthropic", model="m")
    assert (own.url, own.key_variable) == ("https://api.anthropic.com", "ANTHROPIC_API_KEY")
    other = ChatProviderSettings(provider="anthropic", model="m", base_url="http://127.0.0.1:8080")
    assert other.key_variable is None
