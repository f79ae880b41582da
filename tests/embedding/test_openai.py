"""The OpenAI-compatible embedder, against a real HTTP server on the loopback."""

import json
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from loopback import JSON, Asked, Loopback, Reply

from swarm_memory.schema.errors import ConfigError, InputError, ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.schema.settings import EmbeddingSettings
from swarm_memory.server.embedding.endpoint import OpenAIEmbedder
from swarm_memory.tools.ports.models import Embedder

pytestmark = pytest.mark.enable_socket
KEY = "sk-very-secret-0123456789"

Answer = Callable[[dict[str, Any]], Reply]


def vectors(request: dict[str, Any]) -> Reply:
    """Answer text i with (length of the text, 1, 2), in reversed order."""
    data = [{"index": at, "embedding": [len(text), 1, 2]} for at, text in enumerate(request["input"])]
    return Reply(200, json.dumps({"object": "list", "model": "m", "data": data[::-1]}).encode())


def failing(status: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(status, json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(), {**JSON, **named})


class Endpoint(Loopback):
    """Answers each request with the next of its answers, and then repeats the last one; records the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [vectors]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.release = threading.Event()
        self.listen()

    def reply(self, asked: Asked) -> Reply:
        self.requests.append(json.loads(asked.body))
        self.keys.append(asked.headers["authorization"])
        return self.answers[min(len(self.requests), len(self.answers)) - 1](self.requests[-1])

    @property
    def url(self) -> str:
        return f"{self.host}/v1"

    def hang(self, _: dict[str, Any]) -> Reply:
        self.release.wait(4)
        return Reply(500, b"{}")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as served:
        yield served
        served.release.set()


Make = Callable[..., OpenAIEmbedder]


@pytest.fixture
async def embedder(endpoint: Endpoint) -> AsyncIterator[Make]:
    """Return a function that makes an embedder of the endpoint; the embedder is closed at the end."""
    async with AsyncExitStack() as opened:

        def made(**options: Any) -> OpenAIEmbedder:
            given = settings_of(**{"model": "small", "base_url": endpoint.url, "dimensions": 3, **options})
            client = OpenAIEmbedder(given, KEY)
            opened.push_async_callback(client.aclose)
            return client

        yield made


def settings_of(**given: Any) -> EmbeddingSettings:
    """Return settings with vectors that are shorter than a user may set."""
    return EmbeddingSettings(provider="openai").model_copy(update=given)


async def error_of(embedder: OpenAIEmbedder, kind: type[Exception]) -> str:
    with pytest.raises(kind) as raised:
        await embedder.embed_queries(["text"])
    assert KEY not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return str(raised.value)


async def test_vectors_come_back_in_the_order_of_the_texts_with_length_one(endpoint: Endpoint, embedder: Make) -> None:
    first, second = await embedder().embed_documents(["a", "bbbb"])
    assert list(first) == pytest.approx([1 / math.sqrt(6), 1 / math.sqrt(6), 2 / math.sqrt(6)], abs=1e-6)
    assert list(second) == pytest.approx([4 / math.sqrt(21), 1 / math.sqrt(21), 2 / math.sqrt(21)], abs=1e-6)
    assert endpoint.keys == [f"Bearer {KEY}"]


async def test_prefixes_are_put_before_queries_and_documents(endpoint: Endpoint, embedder: Make) -> None:
    client = embedder(query_prefix="query: ", document_prefix="passage: ")
    await client.embed_queries(["x"])
    await client.embed_documents(["y"])
    assert [request["input"] for request in endpoint.requests] == [["query: x"], ["passage: y"]]


async def test_many_texts_go_in_batches_each_cut_to_what_a_model_reads(endpoint: Endpoint, embedder: Make) -> None:
    assert len(await embedder().embed_documents(["x\ud800" + "y" * 100_000] * 40)) == 40
    assert [len(request["input"]) for request in endpoint.requests] == [32, 8]
    assert endpoint.requests[0]["input"][0] == "x?".ljust(24_000, "y"), "a lone surrogate is replaced"


async def test_a_blank_text_is_refused_before_anything_is_sent(endpoint: Endpoint, embedder: Make) -> None:
    with pytest.raises(InputError, match="at least one word"):
        await embedder().embed_documents([" "])
    assert endpoint.requests == []


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(endpoint: Endpoint, embedder: Make, status: int) -> None:
    endpoint.answers = [failing(status, retry_after_ms="10"), vectors]
    assert len((await embedder().embed_queries(["text"]))[0]) == 3
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "embedding.api_key"), (404, "embedding.base_url"), (400, "embedding.model"), (307, "it redirects")],
)
async def test_a_refusal_is_not_tried_again_and_names_the_setting(
    endpoint: Endpoint, embedder: Make, status: int, advice: str
) -> None:
    endpoint.answers = [failing(status, location=f"{endpoint.url}/embeddings")]
    assert advice in await error_of(embedder(), ModelError)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        '{"data": null}',
        "[]",
        '{"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]}',
        '{"data": [{"embedding": [1, 2, 3]}]}',
        '{"data": [{"index": 0, "embedding": null}]}',
        '{"data": ["x"]}',
        pytest.param(f'{{"data": [{{"index": 0, "embedding": [1, 2, 3]}}]{" " * 9_000_000}}}', id="9 MB"),
    ],
)
async def test_an_answer_of_another_shape_is_refused(endpoint: Endpoint, embedder: Make, body: str) -> None:
    endpoint.answers = [lambda _: Reply(200, body.encode())]
    await error_of(embedder(), ModelAnswerInvalid)


async def test_nobody_listening_is_unavailable(endpoint: Endpoint, embedder: Make) -> None:
    asked = embedder(base_url="http://127.0.0.1:9/v1", timeout_s=3.0)
    assert "is unreachable" in await error_of(asked, ModelUnavailable)


async def test_shorter_vectors_are_asked_for_only_where_they_are_known(endpoint: Endpoint, embedder: Make) -> None:
    for model in ("small", "text-embedding-3-small"):
        await embedder(model=model).embed_queries(["x"])
    assert [request.get("dimensions") for request in endpoint.requests] == [None, 3]


def test_dimensions_are_known_for_the_models_of_openai_and_asked_for_otherwise() -> None:
    known: Embedder = OpenAIEmbedder(settings_of(model="text-embedding-3-small"), None)
    assert (known.dimensions, known.quantization) == (1536, "float32")
    with pytest.raises(ConfigError, match=r"embedding\.dimensions"):
        OpenAIEmbedder(settings_of(model="unknown"), None)


def test_the_name_changes_whenever_the_vectors_would() -> None:
    changes: list[Any] = [{}, {"model": "b"}, {"dimensions": 4}, {"query_prefix": "q"}, {"document_prefix": "q"}]
    names = [OpenAIEmbedder(settings_of(**{"model": "a", "dimensions": 3, **each}), None).name for each in changes]
    assert len(set(names)) == len(names)
    assert names[0] == "openai-a-3"
