"""Embeddings from any endpoint that speaks OpenAI's ``/embeddings``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import ConfigError, ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.server.embedding.neural import NeuralEmbedder

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CreateEmbeddingResponse

    from swarm_memory.schema.settings import EmbeddingSettings
    from swarm_memory.tools.ports.models import Vector

NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
MAX_BATCH_TEXTS = 256
MAX_BATCH_CHARS = 200_000
TIMEOUT_S = 20.0
"""Of a request with its retries."""

MAX_FAILURES = 3
REST_S = 60.0
"""So many failures in a row and the endpoint is not asked for so long: each caller would wait its whole time."""


class OpenAIEmbedder(NeuralEmbedder):
    """Embeds in batches of at most 256 texts and 200,000 characters; a text counts to its 24,000th character.

    The package tries a request again, all within `TIMEOUT_S`; after `MAX_FAILURES` in a row the endpoint rests. An
    answer is used only when it has one finite vector that is not zero, of the right dimensions, for each text. The key
    never stands in an error.
    """

    def __init__(self, settings: EmbeddingSettings, api_key: str | None) -> None:
        """Connect to nothing yet. Raises `ConfigError` without a model, or without its dimensions."""
        if settings.model is None:
            raise ConfigError("embedding.provider is openai: set embedding.model too, such as text-embedding-3-small")
        super().__init__(settings, settings.model)
        self._api_key = api_key
        self._failures = 0
        self._rests_until = 0.0
        dimensions = settings.dimensions or NATIVE_DIMENSIONS.get(settings.model)
        if dimensions is None:
            raise ConfigError(f"Set embedding.dimensions to the length of {settings.model}'s vectors.")
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def aclose(self) -> None:
        """Close the connections, if any was made."""
        if "_client" in self.__dict__:
            await self._client.close()

    @cached_property
    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        return AsyncOpenAI(api_key=self._api_key or "none", base_url=self._settings.base_url)

    async def _embed(self, texts: list[str], *, are_queries: bool) -> list[Vector]:
        del are_queries
        return [vector for batch in _batches(texts) for vector in await self._embed_batch(batch)]

    async def _embed_batch(self, texts: list[str]) -> list[Vector]:
        import openai

        left_s = self._rests_until - time.monotonic()
        if left_s > 0:
            raise ModelUnavailable(f"{self._model_name} rests for {left_s:.0f} s after {self._failures} failures.")
        # Only OpenAI's third generation is known to shorten its vectors; others refuse the field.
        shortened = self.dimensions != NATIVE_DIMENSIONS.get(self._model_name)
        can_shorten = shortened and self._model_name.startswith("text-embedding-3")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._client.embeddings.create(
                    input=texts,
                    model=self._model_name,
                    encoding_format="float",
                    dimensions=self.dimensions if can_shorten else openai.omit,
                )
        except (TimeoutError, openai.APIError, ValueError, RecursionError) as error:
            problem = self._problem(error)
            self._failures += isinstance(problem, ModelUnavailable)
            if isinstance(problem, ModelUnavailable) and self._failures >= MAX_FAILURES:
                self._rests_until = time.monotonic() + REST_S
            raise problem from None
        self._failures = 0
        return self._vectors(answer, len(texts))

    def _problem(self, error: Exception) -> ModelError:
        """Return what went wrong, never in the endpoint's words: they can echo the key."""
        import openai

        if isinstance(error, TimeoutError):
            return ModelUnavailable(f"{self._model_name} gave no embeddings within {TIMEOUT_S:g} s: try later.")
        if isinstance(error, openai.APIConnectionError):
            return ModelUnavailable(f"{self._model_name} was not reached ({type(error).__name__}): try later.")
        if not isinstance(error, openai.APIStatusError):
            return ModelAnswerInvalid(
                f"{self._model_name} answered with something that is not embeddings "
                f"({type(error).__name__}): check embedding.base_url."
            )
        status = error.status_code
        if status in (408, 409, 429) or status >= 500:
            return ModelUnavailable(f"{self._model_name} failed again and again (HTTP {status}): try later.")
        advice = {401: "set embedding.api_key", 404: "check embedding.base_url and embedding.model"}
        hint = advice.get(status, "check embedding.model, its key, and that the texts fit it")
        return ModelError(f"{self._model_name} refused the request (HTTP {status}): {hint}.")

    def _vectors(self, answer: CreateEmbeddingResponse, count: int) -> list[Vector]:
        try:
            by_index = {item.index: item.embedding for item in answer.data}
        except (AttributeError, TypeError):
            by_index = {}
        if len(by_index) != count or by_index.keys() != set(range(count)) or len(answer.data) != count:
            raise ModelAnswerInvalid(
                f"{self._model_name} answered without one vector for each of {count} texts: check embedding.base_url."
            )
        return [self._unit(by_index[at]) for at in range(count)]


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == MAX_BATCH_TEXTS or chars + len(text) > MAX_BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch
