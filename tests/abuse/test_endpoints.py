"""Model endpoints that hang, drip, refuse or send garbage: learning ends in time, and stores nothing incomplete."""

import importlib
import json
import math
import os
import random
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked import CLI, run
from loopback import JSON, Asked, Loopback, Reply
from patience import FULL, is_in_time
from scripted_server import HANG, NOTHING, ScriptedServer, Turn, completion, envelope, error, in_json, page

from swarm_memory.schema.settings import ChatProviderSettings, ChatSettings, EmbeddingSettings
from swarm_memory.server.chat import chain
from swarm_memory.server.embedding.endpoint import MAX_FAILURES
from tests.abuse.banks import Abused, abused

pytestmark = [pytest.mark.fault, pytest.mark.allow_hosts(["127.0.0.1"])]

KEY = "sk-proj-Zx81kfQ0aLw2mNbV7cXyPq93"
DEADLINE_S = 1.0 if FULL else 0.5
SLACK_S = 0.5


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only a moment for an embedder; import the client in advance, which takes half a second."""
    importlib.import_module("openai")
    monkeypatch.setattr("swarm_memory.server.embedding.endpoint.TIMEOUT_S", DEADLINE_S)
    monkeypatch.setenv("TEST_KEY", KEY)


CHAT: dict[str, Turn] = {
    "hangs": HANG,
    "says nothing": NOTHING,
    "drips": Turn(b'{"choices": []}' * 500, pause_s=0.05),
    "429, wait 1 s": error(429, retry_after="1"),
    "429, wait an hour": error(429, retry_after="3600"),
    "429, a date": error(429, retry_after="Wed, 21 Oct 2037 07:28:00 GMT"),
    "500": error(500),
    "503": error(503),
    "401 with the key": error(401, f"bad key {KEY}"),
    "a page": page(),
    "cut off": Turn(completion('{"label": "Success"}').body, headers=JSON, sent_share=0.5),
    "10 MB": Turn(b" " * 1_000_000, repeats=10, headers=JSON),
    "50 MB": Turn(b" " * 1_000_000, repeats=50, headers=JSON),
    "no choices": envelope(choices=[]),
    "choices of another kind": envelope(choices="none", usage=5),
    "a refusal": completion(None, refusal="I cannot do that."),
    "filtered": completion("", finish_reason="content_filter"),
    "too long": completion('{"label": "Succ', finish_reason="length"),
    "not JSON": completion("The task was met, I am sure."),
    "other types": completion('{"label": 5, "confidence": "high", "items": {"a": 1}}'),
    "NaN": completion('{"label": "Success", "confidence": NaN}'),
    "in a fence": completion('Surely:\n```json\n{"label": "Undecided", "confidence": 0.4, "reasons": []}\n```'),
    "keys that nobody asked for": completion(
        '{"label": "Undecided", "confidence": 0.4, "reasons": [], "shell": "rm -rf /", "items": [{"a": 1}]}'
    ),
    "nested deeply": completion("[" * 50_000),
}

STEPS = [{"role": "assistant", "content": "I looked at it."}, {"role": "user", "content": "Thanks."}]
GOOD = '"is_error":false'


async def look(server: Abused, task: str, steps: list[dict[str, str]] = STEPS) -> str:
    """Learn from a task in which rules find no proof, so that a model is called."""
    answer = await server.call("learn_from_trajectory", {"task": task, "steps": steps, "task_id": task})
    assert GOOD in answer
    return answer


@pytest.mark.parametrize("name", CHAT)
async def test_a_bad_chat_model_costs_its_answer_and_nothing_else(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for operation in ("judge.judge", "distill.model"):
        monkeypatch.setattr(f"swarm_memory.tools.{operation}._TIMEOUT_S", DEADLINE_S)
    async with ScriptedServer([CHAT[name]] * 9) as endpoint:
        async with abused(tmp_path, changed={"chat": _chat(endpoint.url)}) as server:
            began = time.monotonic()
            answer = await look(server, "Look at the shop")
            took = time.monotonic() - began
            listed = json.loads(await server.call("manage_memories", {"action": "list"}))["structured_content"]
        asked = len(endpoint.requests)
    assert listed["memories"] == []
    assert KEY not in answer + caplog.text
    assert "rm -rf" not in answer
    assert server.tally.internal == []
    assert asked >= 1 or not FULL, "on a busy machine the deadline may pass before the request is sent"
    assert is_in_time(took, DEADLINE_S + SLACK_S)


def _vectors(*values: list[float], indexes: list[int] | None = None) -> Turn:
    data = [{"index": at, "embedding": value} for at, value in zip(indexes or range(9), values, strict=False)]
    return in_json({"object": "list", "model": "m", "data": data})


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
    "10 MB": Turn(b" " * 1_000_000, repeats=10, headers=JSON),
}


@pytest.mark.parametrize("name", EMBEDDING)
async def test_a_bad_embedder_costs_the_vector_and_nothing_else(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer([EMBEDDING[name]] * 40) as endpoint:
        embedding = _embedding(f"{endpoint.url}/v1", dimensions=8, api_key=KEY)
        async with abused(tmp_path, changed={"embedding": embedding}) as server:
            began = time.monotonic()
            stored = await _teach(server, "winch", "t")
            between = time.monotonic()
            found = await server.call("retrieve_memories", {"query": "use the winch tool"})
            took = max(time.monotonic() - between, between - began)
            left = await _not_embedded(server)
    assert "Use the winch tool" in found
    assert KEY not in stored + found + caplog.text
    assert server.tally.internal == []
    assert left == 1
    assert is_in_time(took, DEADLINE_S + SLACK_S)


async def test_a_chat_model_that_is_gone_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.chat.chain.RETRIES", 0)
    async with ScriptedServer([error(503)] * 99) as endpoint:
        async with abused(tmp_path, changed={"chat": _chat(endpoint.url)}) as server:
            for number in range(6):
                await look(server, f"Look at shop {number}")
        asked = len(endpoint.requests)
    assert asked == chain.MAX_FAILURES


async def test_no_more_tokens_than_a_day_has_are_spent_by_all_processes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"role": "assistant", "content": '{"label": "Undecided", "confidence": 0.4, "reasons": ["s1: no"]}'}
    budget, each, tasks, statuses = 20_000, 2_900, 0, list[str]()
    usage = {"prompt_tokens": each - 100, "completion_tokens": 100, "total_tokens": each}
    answer = envelope(choices=[{"index": 0, "finish_reason": "stop", "message": message}], usage=usage)
    steps = [{"role": "assistant", "content": "I looked at it again. " * 300}]
    async with ScriptedServer([answer] * 999) as endpoint:
        chat = _chat(endpoint.url, daily_token_budget=budget)
        for process in range(2):
            async with abused(tmp_path, changed={"chat": chat}) as server:
                for number in range(6):
                    await look(server, f"Look at {process} {number}", steps)
                    tasks += 1
                statuses.append(await server.call("memory_status", {}))
        asked = len(endpoint.requests)
    spent = asked * each
    assert budget / 2 < spent <= budget
    assert asked < tasks
    assert all(str(budget) in status.replace(",", "") for status in statuses)


def _chat(url: str, **more: Any) -> ChatSettings:
    provider = ChatProviderSettings(provider="openai", model="m", base_url=f"{url}/v1", api_key_env="TEST_KEY")
    return ChatSettings.model_validate({"providers": [provider], **more})


async def test_an_endpoint_that_echoes_its_key_shows_it_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr("swarm_memory.server.chat.chain.RETRIES", 0)
    answers = list[str]()
    statuses = (400, 401, 403, 404, 422, 429, 500, 503) if FULL else (401, 429)
    for status in statuses:
        echo = error(status, f"Incorrect API key provided: {KEY} (Bearer {KEY})")
        folder = tmp_path / str(status)
        folder.mkdir()
        async with ScriptedServer([echo] * 99) as endpoint:
            embedding = _embedding(f"{endpoint.url}/v1", api_key=KEY)
            changed = {"chat": _chat(endpoint.url), "embedding": embedding}
            async with abused(folder, changed=changed) as server:
                answers += [
                    await look(server, "Look"),
                    await _teach(server, "orders", "t2"),
                    await server.call("memory_status", {}),
                    await server.call("retrieve_memories", {"query": "orders"}),
                ]
    files = [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()]  # noqa: ASYNC240 - nothing else runs
    assert len(answers) == 4 * len(statuses)
    assert not any(KEY in text for text in (*answers, caplog.text))
    assert not any(KEY.encode() in content for content in files)


DIMENSIONS = 64


class EmbeddingServer(Loopback):
    """An endpoint that counts what it embeds, and can die and come back.

    It embeds a text as the sum of its words' directions, so that texts with words in common are near.
    """

    def __init__(self) -> None:
        self.listen()
        self.embedded: Counter[str] = Counter()
        """How many times each text was embedded."""
        self.asked = 0
        self.answers_left: int | None = None
        """How many answers are left. None: any number; 0: the endpoint is dead."""
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.host}/v1"

    def reply(self, asked: Asked) -> Reply:
        answer = self.embed(json.loads(asked.body))
        body = answer or {"error": {"message": "down"}}
        return Reply(503 if answer is None else 200, json.dumps(body).encode())

    def embed(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request; None if there is none."""
        texts: list[str] = asked["input"]
        with self._lock:
            self.asked += 1
            if self.answers_left == 0:
                return None
            self.answers_left = self.answers_left and self.answers_left - 1
            self.embedded.update(texts)
        data = [{"index": at, "embedding": _vector(asked["model"], text)} for at, text in enumerate(texts)]
        return {"object": "list", "model": asked["model"], "data": data, "usage": {"prompt_tokens": 1}}


def _vector(model: str, text: str) -> list[float]:
    total = [0.0] * DIMENSIONS
    for word in text.lower().split():
        chance = random.Random(f"{model} {word}")
        total = [value + chance.gauss(0, 1) for value in total]
    length = math.hypot(*total) or 1.0
    return [value / length for value in total]


def _embedding(url: str, **more: Any) -> EmbeddingSettings:
    given = {"provider": "openai", "model": "first", "dimensions": DIMENSIONS, "base_url": url}
    return EmbeddingSettings.model_validate(given | more)


async def _teach(server: Abused, name: str, task_id: str) -> str:
    items = [{"title": f"Use the {name} tool", "content": f"1. Open {name}\n2. Look at what {name} says"}]
    own = {"task_id": task_id, "task": f"Mend {name}", "steps": STEPS, "verdict": "Success", "items": items}
    answer = await server.call("distill_memories", own)
    assert GOOD in answer
    return answer


async def _not_embedded(server: Abused) -> int:
    """Return how many memories have no vector."""
    answered: Any = await server.client.call_tool("memory_status", {})
    return answered.structured_content["not_embedded"]


async def _reembedded(folder: Path, endpoint: EmbeddingServer) -> dict[str, Any]:
    """Run `swarm-memory reembed`; return its output, or the error."""
    given = {"base_url": endpoint.url, "provider": "openai", "model": "first", "dimensions": DIMENSIONS}
    environment = {f"SWARM_MEMORY_EMBEDDING__{name.upper()}": str(value) for name, value in given.items()}
    command = partial(
        run, [*CLI, "bank", "reembed", "--json"], cwd=folder, env={**os.environ, **environment}, text=True
    )
    done = await anyio.to_thread.run_sync(command)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


@pytest.mark.parametrize("by_itself", [False, True])
async def test_while_the_embedder_is_dead_all_goes_on_by_words_and_the_rest_is_embedded_later_once_each(
    tmp_path: Path, by_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_itself:
        monkeypatch.setattr("swarm_memory.server.embedding.endpoint.REST_S", 0.0)
    names = [_made_name(number) for number in range(300 if FULL else 12 if by_itself else 33)]
    with EmbeddingServer() as endpoint:
        settings = {"embedding": _embedding(endpoint.url)}
        endpoint.answers_left = 0
        async with abused(tmp_path, changed=settings) as server:
            for name in names:
                await _teach(server, name, f"t {name}")
            dead = None if by_itself else await _recall(server, names)  # without a rest, each question waits
            waiting, asked = await _not_embedded(server), endpoint.asked
            if by_itself:
                endpoint.answers_left = None
                await _teach(server, "winch", "alive")
                while await _not_embedded(server) and await _waits(server, "embed"):
                    await anyio.lowlevel.checkpoint()
        if not by_itself:
            endpoint.answers_left = 1
            broken = await _reembedded(tmp_path, endpoint)
            assert "failed" in broken
            assert asked <= 3 * MAX_FAILURES * 3
            endpoint.answers_left = None
            for _ in range(2):
                await _reembedded(tmp_path, endpoint)
        documents = {text: count for text, count in endpoint.embedded.items() if "\n" in text}
        endpoint.answers_left = 0
        async with abused(tmp_path, changed=settings) as again:
            left, words = await _not_embedded(again), None if by_itself else await _recall(again, names)
    assert server.tally.internal == again.tally.internal == []
    assert (waiting, len(documents), left) == (len(names), len(names) + by_itself, 0)
    assert max(documents.values()) == 1
    assert dead == words


async def _waits(server: Abused, kind: str) -> bool:
    """Return whether a job of a kind is queued or running. If the job failed, fail with its error."""
    jobs = json.loads(await server.call("job", {"action": "list"}))["structured_content"]["jobs"]
    (job,) = [each for each in jobs if each["kind"] == kind]
    assert job["status"] != "failed", job
    return job["status"] != "completed"


async def _recall(server: Abused, names: list[str]) -> float:
    """Return the share of the memories that a question about them finds."""
    sample = random.Random(3).sample(names, min(len(names), 50 if FULL else 9))
    found = [await server.call("retrieve_memories", {"query": f"how do I look at {name}", "k": 5}) for name in sample]
    return sum(f"Use the {name} tool" in answer for name, answer in zip(sample, found, strict=True)) / len(sample)


def _made_name(number: int) -> str:
    chance = random.Random(number)
    return "".join(chance.choice("bdfgklmnprst") + chance.choice("aeiou") for _ in range(4))
