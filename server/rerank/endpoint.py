"""A cross-encoder behind an HTTP `/rerank` endpoint; it knows no store, no settings file and no environment.

Two forms are spoken: that of Cohere, Jina, vLLM and llama.cpp ({query, documents} → {results: [{index,
relevance_score}]}), and that of Text Embeddings Inference ({query, texts} → [{index, score}]).
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.tools.ports.models import Ranked, RerankCandidate

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 4_000_000
MAX_ATTEMPTS = 2
_RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PAUSE_S = 0.25


class EndpointReranker:
    """Asks a cross-encoder. The key stands in no error, and neither do the endpoint's words: they can echo it."""

    def __init__(self, url: str, model: str | None, api_key: str | None, timeout_s: float) -> None:
        """Connect to nothing yet. `url` may end in `/rerank` or not."""
        self._url = url.rstrip("/") if url.rstrip("/").endswith("/rerank") else f"{url.rstrip('/')}/rerank"
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        return f"rerank:{self._model or urlsplit(self._url).hostname}"

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return all candidates that have a score, best first. Raises `ModelError` and its kinds."""
        import httpx

        texts = [f"{each.name}\n{each.text}" for each in candidates]
        headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx.AsyncClient(headers=headers, timeout=self._timeout_s, trust_env=False) as client,
            ):
                answer = await self._asked(client, query, texts)
        except TimeoutError:
            raise ModelUnavailable(f"{self.name} gave no answer within {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise ModelUnavailable(f"{self.name} was not reached ({type(error).__name__})") from None
        return self._ranked(answer, len(texts)), []

    async def _asked(self, client: "httpx.AsyncClient", query: str, texts: list[str]) -> Any:
        named = {"model": self._model} if self._model else {}
        status, answer = await self._tried(client, {**named, "query": query, "documents": texts})
        if status in (400, 422):
            status, answer = await self._tried(client, {"query": query, "texts": texts})
        if status != 200:
            advice = {401: "set sources.rerank_api_key", 404: "check sources.rerank_url"}
            hint = advice.get(status, "check sources.rerank_url and sources.rerank_model")
            raise ModelError(f"{self.name} refused the request (HTTP {status}): {hint}")
        return answer

    async def _tried(self, client: "httpx.AsyncClient", body: Mapping[str, Any]) -> tuple[int, Any]:
        for _ in range(MAX_ATTEMPTS - 1):
            status, answer = await self._request(client, body)
            if status not in _RETRIED_STATUSES:
                return status, answer
            await asyncio.sleep(_PAUSE_S)
        return await self._request(client, body)

    async def _request(self, client: "httpx.AsyncClient", body: Mapping[str, Any]) -> tuple[int, Any]:

        async with client.stream("POST", self._url, json=body) as response:
            if response.status_code != 200:
                return response.status_code, None
            raw = bytearray()
            async for part in response.aiter_bytes():
                raw += part
                if len(raw) > MAX_ANSWER_BYTES:
                    raise ModelAnswerInvalid(f"{self.name} answered with more than {MAX_ANSWER_BYTES:,} bytes")
        try:
            return 200, json.loads(raw)
        except (ValueError, RecursionError):
            raise ModelAnswerInvalid(f"{self.name} answered with something that is not JSON") from None

    def _ranked(self, answer: Any, count: int) -> list[Ranked]:
        rows = cast(dict[str, Any], answer).get("results") if isinstance(answer, dict) else answer
        scores: dict[int, float] = {}
        for row in cast(list[Any], rows) if isinstance(rows, list) else []:
            if isinstance(row, dict):
                place, score = _score(cast(dict[str, Any], row))
                if place is not None and score is not None and 0 <= place < count:
                    scores.setdefault(place, score)
        if not scores:
            raise ModelAnswerInvalid(f"{self.name} answered without usable scores: check sources.rerank_url")
        return [Ranked(place, score) for place, score in sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))]


def _score(row: dict[str, Any]) -> tuple[int | None, float | None]:
    place, score = row.get("index"), row.get("relevance_score", row.get("score"))
    whole = place if isinstance(place, int) and not isinstance(place, bool) else None
    if not isinstance(score, int | float) or isinstance(score, bool) or not math.isfinite(score):
        return whole, None
    return whole, float(score)
