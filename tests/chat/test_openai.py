"""The chat model for chat completions, with the real client over real sockets: good answers, bad ones and none."""

import re
from collections.abc import Sequence

import anyio
import pytest
from patience import HANG_S
from scripted_chat import InMemoryMeter
from scripted_server import NOTHING, ScriptedServer, Turn, completion, envelope, error, in_json, page

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.openai import OpenAIChatModel
from swarm_memory.tools.ports.models import ChatRequest
from tests.chat.chat_bench import SCHEMA, Bench, request

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

KEY = "sk-proj-Zx81kfQ0aLw2mNbV7cXy"
GIVEN = '{"label": "Success"}'
GOOD = completion(GIVEN)


def bench(server: ScriptedServer, retries: int = 2, **settings: object) -> Bench:
    return Bench(KEY, server, retries=retries, **settings)


async def failure_of(
    script: Sequence[Turn], asked: ChatRequest | None = None, retries: int = 2
) -> tuple[ModelError, int]:
    """Return the error that a script leads to, and the number of requests."""
    async with ScriptedServer(script) as server:
        with anyio.fail_after(HANG_S), pytest.raises(ModelError) as raised:
            await bench(server, retries).model.complete(asked or request())
        return raised.value, len(server.requests)


async def test_an_answer_comes_back_checked_with_usage_cost_and_name() -> None:
    async with ScriptedServer([GOOD]) as server:
        tried = bench(server, price_in=1.0, price_out=2.0)
        answer = await tried.model.complete(request())
    assert answer.data == {"label": "Success"}
    assert answer.model == "openai:m-1"
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.tries) == (11, 7, 1)
    assert answer.usage.cost_usd == pytest.approx(25e-6)
    assert [(call.purpose, call.model, call.outcome) for call in tried.meter.calls] == [
        ("judge", "openai:m-1", "answered")
    ]


async def test_the_request_says_what_was_asked_and_carries_the_key_in_its_header_only() -> None:
    async with ScriptedServer([GOOD]) as server:
        await bench(server).model.complete(request(seed=7, max_tokens=99))
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert [sent.body[name] for name in ("model", "seed", "temperature", "max_tokens")] == ["m-1", 7, 0.0, 99]
    assert sent.body["response_format"]["json_schema"] == {"name": "judge", "schema": SCHEMA, "strict": True}
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user"]
    assert sent.body["messages"][1]["content"] == "The trajectory."
    assert KEY not in str(sent.body)


async def test_an_endpoint_without_json_schema_is_asked_for_json_in_words_and_that_is_remembered() -> None:
    async with ScriptedServer([error(400, "response_format is not supported"), GOOD, GOOD]) as server:
        model = bench(server).model
        first = await model.complete(request())
        await model.complete(request())
    forms = [sent.body.get("response_format", {}).get("type", "text") for sent in server.requests]
    assert forms == ["json_schema", "text", "text"]
    assert first.usage.tries == 2
    assert '"label"' in server.requests[1].body["messages"][0]["content"]


async def test_what_was_left_out_in_vain_is_sent_again_the_next_time() -> None:
    refused = error(400, "something else is wrong")
    async with ScriptedServer([refused, refused, GOOD]) as server:
        model = bench(server).model
        with pytest.raises(ModelUnavailable, match="something else"):
            await model.complete(request())
        await model.complete(request())
    assert server.requests[2].body["response_format"]["type"] == "json_schema"


TOO_LONG = {
    "vLLM": error(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    "OpenAI": error(400, "Please reduce the length of the messages.", code="context_length_exceeded"),
    "llama.cpp": error(400, "the request exceeds the available context size, try increasing it"),
    "413": error(413, "no"),
    "a minute's tokens": error(429, "Request too large for m-1: tokens per minute limit 6000, requested 9000"),
}


@pytest.mark.parametrize("said", TOO_LONG.values(), ids=TOO_LONG.keys())
async def test_a_context_window_that_is_too_small_is_reported_at_once(said: Turn) -> None:
    problem, tries = await failure_of([said, GOOD], request(can_shorten=True), retries=0)
    assert isinstance(problem, ModelWindowTooSmall)
    assert tries == 1


async def test_an_answer_that_was_cut_gets_more_room_and_is_not_asked_to_be_briefer() -> None:
    thoughts = completion("<think>Let me see", finish_reason="length")
    async with ScriptedServer([thoughts, completion('<think>x</think>{"label": "success"}')]) as server:
        answer = await bench(server).model.complete(request(max_tokens=4000))
    assert answer.data == {"label": "Success"}
    assert [sent.body["max_tokens"] for sent in server.requests] == [4000, 16000]
    assert len(server.requests[1].body["messages"]) == 2


async def test_an_answer_that_is_cut_with_all_room_is_invalid_and_says_so() -> None:
    cut = completion('{"label": "Succ', finish_reason="length")
    problem, tries = await failure_of([cut] * 5, request(max_tokens=1000))
    assert isinstance(problem, ModelAnswerInvalid)
    assert "cut off at 16,000 tokens" in str(problem)
    assert tries == 2


async def test_a_whole_answer_counts_though_the_model_went_on_behind_it_until_it_was_cut() -> None:
    rambling = completion('{"label": "Success"}\n\nNote: the' + " the" * 50, finish_reason="length")
    async with ScriptedServer([rambling]) as server:
        assert (await bench(server).model.complete(request())).data == {"label": "Success"}


async def test_effort_is_sent_where_it_is_set_and_left_out_where_it_is_not_taken() -> None:
    refused = error(400, "Unrecognized request argument supplied: reasoning_effort")
    async with ScriptedServer([refused, GOOD, GOOD]) as server:
        model = bench(server, effort="low").model
        await model.complete(request())
        await model.complete(request())
    assert [sent.body.get("reasoning_effort") for sent in server.requests] == ["low", None, None]


async def test_parameters_that_an_endpoint_does_not_take_are_changed_or_left_out() -> None:
    script = [
        error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        error(400, "Unsupported value: 'temperature' does not support 0.0"),
        error(422, "seed: extra fields not permitted"),
        GOOD,
    ]
    async with ScriptedServer(script) as server:
        await bench(server).model.complete(request(seed=1))
    sent = server.requests[3].body
    assert sent["max_completion_tokens"] == 2000
    assert not {"max_tokens", "temperature", "seed"} & set(sent)
    assert sent["response_format"]["type"] == "json_schema"


UNUSABLE = {
    "prose": (completion("I think it went well."), "no usable answer"),
    "no text": (completion(None), "is empty"),
    "a refusal": (completion(None, refusal="I cannot"), "refused"),
    "filtered": (completion("x", finish_reason="content_filter"), "refused"),
}


@pytest.mark.parametrize(("bad", "said"), UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_an_answer_that_cannot_be_used_is_invalid_at_once_and_its_tokens_count(bad: Turn, said: str) -> None:
    async with ScriptedServer([bad, GOOD]) as server:
        tried = bench(server)
        with pytest.raises(ModelAnswerInvalid, match=said):
            await tried.model.complete(request())
    assert len(server.requests) == 1
    assert [(call.outcome, call.usage.tries) for call in tried.meter.calls] == [("invalid", 1)]
    assert await tried.meter.used_today() > 0


RETRIED = {
    "429": error(429, "slow down"),
    "429 with a pause": error(429, "slow down", Retry_After="0.4"),
    "500": error(500),
    "503 as a page": page("<html>busy", 503),
    "a closed connection": NOTHING,
    "half an answer": Turn(GOOD.body, 200, GOOD.headers, sent_share=0.5),
}


@pytest.mark.parametrize("fault", RETRIED.values(), ids=RETRIED.keys())
async def test_a_passing_fault_is_tried_again(fault: Turn) -> None:
    async with ScriptedServer([fault, GOOD]) as server:
        answer = await bench(server, retries=1).model.complete(request())
    assert answer.data == {"label": "Success"}
    assert answer.usage.tries == 2


FINAL = {
    "Retry-After: 3600": ([error(429, "busy", Retry_After="3600")], "HTTP 429: .*busy"),
    "Retry-After a date far off": ([error(503, Retry_After="Wed, 21 Oct 2099 07:28:00 GMT")], "HTTP 503"),
    "401": ([error(401, f"Incorrect API key provided: {KEY}")], "HTTP 401"),
    "404": ([error(404), error(404)], "check model"),
    "a redirect": ([Turn(b"", 307, {"location": "http://127.0.0.1:1/v1"})], "redirects"),
    "a web page": ([page()], "check base_url"),
    "garbage": ([Turn(b"\xff\xfe{]", 200, {"content-type": "application/json"})], "no chat completion"),
    "an error in a 200": ([in_json({"error": {"code": 502, "message": "upstream"}})], "no chat completion"),
    "another JSON": ([in_json({"hello": 1})], "no chat completion"),
    "choices of a wrong type": ([envelope(choices="x")], "no chat completion"),
    "a message of a wrong type": ([envelope(choices=[{"message": "x"}])], "no chat completion"),
    "content of a wrong type": ([envelope(choices=[{"message": {"content": [1]}}])], "no chat completion"),
    "50 MB of an error": ([Turn(b" " * 1_000_000, 500, repeats=50)], "too large"),
    "a compressed body": ([Turn(b"x", headers={"content-encoding": "gzip"})], "compressed"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "said"), FINAL.values(), ids=FINAL.keys())
async def test_a_lasting_fault_ends_the_call_at_once_and_says_what_to_change(script: list[Turn], said: str) -> None:
    problem, tries = await failure_of([*script, GOOD])
    assert isinstance(problem, ModelUnavailable)
    assert re.search(said, str(problem))
    assert tries == len(script)


async def test_nobody_listening_is_unavailable() -> None:
    async with ScriptedServer([]) as server:
        tried = bench(server, retries=0)
    with pytest.raises(ModelUnavailable, match="could not be reached"):
        await tried.model.complete(request())


async def test_an_endpoint_that_gives_no_usage_is_estimated() -> None:
    async with ScriptedServer([envelope(choices=[{"message": {"content": GIVEN.ljust(400)}}], usage="?")]) as server:
        answer = await bench(server).model.complete(request(user="y" * 790))
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (200, 100)


@pytest.mark.parametrize(
    ("url", "price", "is_local"),
    [
        ("http://127.0.0.1:11434/v1", None, True),
        ("http://localhost:1234/v1", None, True),
        ("http://[::1]:80/v1", 0.0, True),
        ("http://127.0.0.1:4000/v1", 2.0, False),
        ("https://api.openai.com/v1", None, False),
    ],
)
def test_a_model_on_this_machine_that_costs_nothing_is_local(url: str, price: float | None, is_local: bool) -> None:
    settings = ChatProviderSettings(provider="openai", model="m", base_url=url, price_out=price)
    assert OpenAIChatModel(settings, None, InMemoryMeter()).is_local is is_local
