"""Model endpoints that hang, drip, refuse or send garbage: learning ends in its time, and stores nothing half."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from banks import abused

from swarm_memory.schema.chat_settings import ChatProviderSettings, ChatSettings
from swarm_memory.schema.settings import EmbeddingSettings
from swarm_memory.server.chat.scripted_server import (
    HANG,
    NOTHING,
    ScriptedServer,
    Turn,
    completion,
    envelope,
    error,
    in_json,
    page,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60), pytest.mark.fault, pytest.mark.allow_hosts(["127.0.0.1"])]

KEY = "sk-proj-Zx81kfQ0aLw2mNbV7cXyPq93"
TIME_LIMIT_S = 6.0
Record = Callable[[str, str], None]

CHAT: dict[str, list[Turn]] = {
    "hangs": [HANG] * 9,
    "says nothing": [NOTHING] * 9,
    "drips": [Turn(b'{"choices": []}' * 500, pause_s=0.05)] * 9,
    "429, wait 1 s": [error(429, retry_after="1")] * 9,
    "429, wait an hour": [error(429, retry_after="3600")] * 9,
    "429, a date": [error(429, retry_after="Wed, 21 Oct 2037 07:28:00 GMT")] * 9,
    "500": [error(500)] * 9,
    "503": [error(503)] * 9,
    "401 with the key": [error(401, f"bad key {KEY}")] * 9,
    "a page": [page()] * 9,
    "cut off": [
        Turn(completion('{"label": "Success"}').body, headers={"content-type": "application/json"}, sent_share=0.5)
    ]
    * 9,
    "10 MB": [Turn(b" " * 1_000_000, repeats=10, headers={"content-type": "application/json"})] * 9,
    "no choices": [envelope(choices=[])] * 9,
    "choices of another kind": [envelope(choices="none", usage=5)] * 9,
    "a refusal": [completion(None, refusal="I cannot do that.")] * 9,
    "filtered": [completion("", finish_reason="content_filter")] * 9,
    "too long": [completion('{"label": "Succ', finish_reason="length")] * 9,
    "not JSON": [completion("The task was met, I am sure.")] * 9,
    "other types": [completion('{"label": 5, "confidence": "high", "items": {"a": 1}}')] * 9,
    "NaN": [completion('{"label": "Success", "confidence": NaN}')] * 9,
    "nested deeply": [completion("[" * 50_000)] * 9,
}


STEPS = [
    {"role": "assistant", "content": "I looked at it."},
    {"role": "user", "content": "Thanks."},
]


@pytest.mark.parametrize("name", CHAT)
async def test_a_bad_chat_model_costs_its_answer_and_nothing_else(
    tmp_path: Path, name: str, record: Record, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    for operation in ("model_judge", "model_distill"):
        monkeypatch.setattr(f"swarm_memory.tools.{operation}._TIMEOUT_S", 1.0)
    async with ScriptedServer(CHAT[name]) as endpoint:
        provider = ChatProviderSettings(
            provider="openai", model="m", base_url=f"{endpoint.url}/v1", api_key_env="TEST_KEY"
        )
        chat = ChatSettings.model_validate({"providers": [provider]})
        async with abused(tmp_path, changed={"chat": chat}) as server:
            began = time.monotonic()
            answer = await server.call(
                "learn_from_trajectory", {"task": "Look at the shop", "steps": STEPS, "task_id": "t"}
            )
            took = time.monotonic() - began
            listed = json.loads(await server.call("manage_memories", {"action": "list"}))["structured_content"]
        asked = len(endpoint.requests)
    assert '"is_error":false' in answer
    assert listed["memories"] == []
    assert KEY not in answer + caplog.text
    assert server.tally.internal == []
    assert asked >= 1
    assert took < TIME_LIMIT_S
    record("E1-E3", f"chat model, {name}: a defined answer after {took:.1f} s, {asked} requests, stored 0")


def _vectors(*values: list[float], indexes: list[int] | None = None) -> Turn:
    data = [{"index": (indexes or list(range(9)))[place], "embedding": value} for place, value in enumerate(values)]
    body = json.dumps({"object": "list", "model": "m", "data": data}, allow_nan=True)
    return Turn(body.encode(), 200, {"content-type": "application/json"})


EMBEDDING: dict[str, Turn] = {
    "hangs": HANG,
    "says nothing": NOTHING,
    "500": error(500),
    "429, wait an hour": error(429, retry_after="3600"),
    "401 with the key": error(401, f"bad key {KEY}"),
    "a page": page(),
    "none": _vectors(),
    "more": _vectors([1.0] * 8, [1.0] * 8),
    "an index of another": _vectors([1.0] * 8, indexes=[5]),
    "NaN": _vectors([math.nan] * 8),
    "infinite": _vectors([math.inf] * 8),
    "zero": _vectors([0.0] * 8),
    "fewer dimensions": _vectors([1.0] * 7),
    "more dimensions": _vectors([1.0] * 9),
    "texts": in_json({"data": [{"index": 0, "embedding": ["1"] * 8}]}),
    "10 MB": Turn(b" " * 1_000_000, repeats=10, headers={"content-type": "application/json"}),
}


@pytest.mark.parametrize("name", EMBEDDING)
async def test_a_bad_embedder_costs_the_vector_and_nothing_else(
    tmp_path: Path, name: str, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer([EMBEDDING[name]] * 40) as endpoint:
        told = {"provider": "openai", "model": "m", "dimensions": 8, "base_url": f"{endpoint.url}/v1"}
        embedding = EmbeddingSettings.model_validate({**told, "api_key": KEY, "timeout_s": 1.0})
        async with abused(tmp_path, changed={"embedding": embedding}) as server:
            item = {"title": "Migrate before testing", "description": "When a table is missing.", "content": "Run it."}
            own = {"task_id": "t", "task": "Fix it", "steps": STEPS, "verdict": "Success", "items": [item]}
            began = time.monotonic()
            stored = await server.call("distill_memories", own)
            found = await server.call("retrieve_memories", {"query": "migrate before testing: missing table"})
            took = time.monotonic() - began
            counted = await server.client.read_resource("memory://statistics")
    assert '"is_error":false' in stored
    assert "Migrate before testing" in found
    assert KEY not in stored + found + caplog.text
    assert server.tally.internal == []
    counts = json.loads(getattr(counted.contents[0], "text", "{}"))
    assert (counts["embedded"], counts["not_embedded"]) == ({}, 1)
    assert took < TIME_LIMIT_S
    record("E4, E5", f"embedder, {name}: stored and found by words after {took:.1f} s, bad vectors stored 0")
