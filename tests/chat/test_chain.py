"""The chain of chat models, its limits and the scripted model: which models are called, when, and which are skipped."""

import asyncio

import pytest
from clock import Watch
from pydantic import JsonValue
from scripted_chat import InMemoryMeter, ScriptedAnswer, ScriptedChatModel, chain_of

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest, ChatUsage

SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ANSWER: dict[str, JsonValue] = {"a": 1}
REQUEST = ChatRequest(
    purpose="judge", system="s" * 40, user="u" * 40, answer_schema=SCHEMA, max_tokens=80, timeout_s=30
)
"""100 tokens at most: 80 characters and 80 tokens of answer."""
DOWN = ModelUnavailable("it is down")


class SlowModel:
    """Answers once `go` is set, and counts the concurrent calls."""

    name, is_local = "slow:test", True

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.entered = asyncio.Semaphore(0)
        self.inside = self.most = 0

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.inside += 1
        self.entered.release()
        self.most = max(self.most, self.inside)
        try:
            await self.go.wait()
        finally:
            self.inside -= 1
        return ChatAnswer(data=ANSWER, model=self.name, usage=ChatUsage(), latency_ms=0)


def scripted(name: str, *answers: ScriptedAnswer) -> ScriptedChatModel:
    return ScriptedChatModel(answers, name=name)


async def test_the_first_model_answers_and_the_next_one_where_it_is_unavailable_refuses_or_cannot_be_read() -> None:
    first, second = scripted("a", ANSWER), scripted("b", {"a": 2})
    answer = await chain_of(first, second).complete(REQUEST)
    assert (answer.data, answer.model) == (ANSWER, "a")
    assert second.requests == []
    for fault in (DOWN, ModelAnswerInvalid("a refused"), "prose"):
        chain = chain_of(scripted("a", fault), scripted("b", ANSWER))
        answer = await chain.complete(REQUEST)
        assert (answer.data, answer.model, chain.name) == (ANSWER, "b", "a → b")


@pytest.mark.parametrize("kind", [ModelAnswerInvalid, ModelUnavailable])
async def test_when_none_is_there_every_reason_is_named_and_a_bad_answer_counts_more(kind: type[ModelError]) -> None:
    with pytest.raises(kind, match="a is bad b is down"):
        await chain_of(scripted("a", kind("a is bad")), scripted("b", ModelUnavailable("b is down"))).complete(REQUEST)


async def test_a_request_that_can_be_shortened_comes_back_and_another_goes_to_the_next() -> None:
    small = ModelWindowTooSmall("a is too small")
    first, second = scripted("a", small, small, ANSWER), scripted("b", ANSWER)
    chain = chain_of(first, second)
    with pytest.raises(ModelWindowTooSmall):
        await chain.complete(REQUEST.model_copy(update={"can_shorten": True}))
    assert second.requests == []
    assert (await chain.complete(REQUEST)).model == "b"
    assert (await chain.complete(REQUEST)).model == "a"


async def test_a_model_that_keeps_failing_is_passed_over_and_tried_again_after_the_cool_down() -> None:
    clock = Watch()
    first, second = scripted("a", *[DOWN] * 4, ANSWER, ANSWER), scripted("b", *[ANSWER] * 9)
    chain = chain_of(first, second, monotonic=clock)
    for _ in range(5):
        assert (await chain.complete(REQUEST)).model == "b"
    assert len(first.requests) == 3
    clock.at += 61
    assert (await chain.complete(REQUEST)).model == "b"
    assert (await chain.complete(REQUEST)).model == "b"
    assert len(first.requests) == 4
    clock.at += 61
    assert [(await chain.complete(REQUEST)).model for _ in range(2)] == ["a", "a"]
    alone = chain_of(scripted("a", *[DOWN] * 3), monotonic=clock)
    for said in (*["it is down"] * 3, "is paused for 60 s"):
        with pytest.raises(ModelUnavailable, match=said):
            await alone.complete(REQUEST)


async def test_a_cancelled_call_does_not_count_as_a_failure() -> None:
    slow = SlowModel()
    chain = chain_of(slow)
    for _ in range(3):
        call = asyncio.create_task(chain.complete(REQUEST))
        await slow.entered.acquire()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    slow.go.set()
    assert (await chain.complete(REQUEST)).data == ANSWER


async def test_a_model_that_is_not_the_last_leaves_time_for_the_next() -> None:
    first, second = scripted("a", DOWN), scripted("b", ANSWER)
    await chain_of(first, second, timeout_s=100, monotonic=Watch()).complete(REQUEST)
    assert (first.requests[0].timeout_s, second.requests[0].timeout_s) == (20, 30)


async def test_a_spent_budget_sends_nothing_and_names_the_setting() -> None:
    meter = InMemoryMeter()
    inner = ScriptedChatModel(['{"a": 1}'.ljust(80)] * 9, meter=meter)
    model = chain_of(inner, meter=meter, daily_token_budget=150)
    await model.complete(REQUEST)
    assert await meter.used_today() == 40
    await model.complete(REQUEST)
    with pytest.raises(ModelUnavailable, match=r"80 of 150.*chat\.daily_token_budget"):
        await model.complete(REQUEST)
    assert len(inner.requests) == 2


async def test_calls_under_way_count_against_the_budget() -> None:
    slow = SlowModel()
    model = chain_of(slow, daily_token_budget=250)
    calls = [asyncio.create_task(model.complete(REQUEST)) for _ in range(4)]
    await slow.entered.acquire()
    await slow.entered.acquire()
    slow.go.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, ModelUnavailable) for result in results) == 2
