"""A cross-encoder behind an HTTP `/rerank` endpoint; it knows no store, no settings file and no environment.

Two formats are supported: that of Cohere, Jina, vLLM and llama.cpp ({query, documents} → {results: [{index,
relevance_score}]}), and that of Text Embeddings Inference ({query, texts} → [{index, score}]).
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.tools.ports.models import Ranked, RerankCandidate

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 4_000_000
_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PAUSE_S = 0.25


class _Row(BaseModel):
    index: int = Field(strict=True)
    score: float = Field(validation_alias=AliasChoices("relevance_score", "score"), strict=True, allow_inf_nan=False)


class _Results(BaseModel):
    results: list[_Row]


_ANSWER = TypeAdapter[_Results | list[_Row]](_Results | list[_Row])


class EndpointReranker:
    """Calls a cross-encoder. No error contains the key, nor the endpoint's words, which can echo it."""

    def __init__(self, url: str, model: str | None, api_key: str | None, timeout_s: float) -> None:
        """Connect to nothing yet. `url` may end in `/rerank` or not."""
        self._url = f"{url.rstrip('/').removesuffix('/rerank')}/rerank"
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
        named = {"model": self._model} if self._model else {}
        form: dict[str, Any] = {**named, "query": query, "documents": texts}
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx.AsyncClient(headers=headers, timeout=self._timeout_s, trust_env=False) as client,
            ):
                status, answer = await self._request(client, form)
                if status in (400, 422):  # it may use the other format
                    form = {"query": query, "texts": texts}
                    status, answer = await self._request(client, form)
                if status in _PASSING_STATUSES:
                    await asyncio.sleep(_PAUSE_S)
                    status, answer = await self._request(client, form)
        except TimeoutError:
            raise ModelUnavailable(f"{self.name} gave no answer within {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise ModelUnavailable(f"{self.name} could not be reached ({type(error).__name__})") from None
        if status != 200:
            hint = (
                "set sources.rerank_api_key" if status == 401 else "check sources.rerank_url and sources.rerank_model"
            )
            raise ModelError(f"{self.name} refused the request (HTTP {status}): {hint}")
        return self._ranked(answer, len(texts)), []

    async def _request(self, client: "httpx.AsyncClient", form: dict[str, Any]) -> tuple[int, bytes]:
        raw = bytearray()
        async with client.stream("POST", self._url, json=form) as response:
            async for part in response.aiter_bytes():
                raw += part
                if len(raw) > MAX_ANSWER_BYTES:
                    raise ModelAnswerInvalid(f"{self.name} answered with more than {MAX_ANSWER_BYTES:,} bytes")
        return response.status_code, bytes(raw)

    def _ranked(self, answer: bytes, count: int) -> list[Ranked]:
        try:
            found = _ANSWER.validate_json(answer)
        except ValidationError:
            raise ModelAnswerInvalid(f"{self.name} answered without usable scores") from None
        scores: dict[int, float] = {}
        for row in found if isinstance(found, list) else found.results:
            if 0 <= row.index < count:
                scores.setdefault(row.index, row.score)
        if not scores:
            raise ModelAnswerInvalid(f"{self.name} answered without usable scores: check sources.rerank_url")
        return [Ranked(place, score) for place, score in sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))]
