"""The embedder that calls an endpoint with OpenAI's ``/embeddings`` API."""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from swarm_memory.schema.errors import ConfigError, InputError, ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.server.chat.openai import BodyTooLarge, open_client
from swarm_memory.server.embedding.static import labels_for_errors
from swarm_memory.tools.retrieve.embed import BATCH

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CreateEmbeddingResponse

    from swarm_memory.schema.settings import EmbeddingSettings
    from swarm_memory.tools.ports.models import Vector

MAX_MODEL_CHARS = 24_000
"""Characters of one text that are sent to a model; about 8,000 tokens of English."""

NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
TIMEOUT_S = 20.0
"""Seconds for a request with its retries."""

MAX_FAILURES = 3
REST_S = 60.0
"""After this many failures in a row the endpoint is not called for this long: each caller would wait until it fails."""


class OpenAIEmbedder:
    """Embeds in batches of 32 texts; only the first 24,000 characters of a text count.

    The package retries a request, all within `TIMEOUT_S`; after `MAX_FAILURES` in a row the endpoint is paused. An
    answer needs one finite, nonzero vector of the right dimensions for each text. The key never appears in an error.
    """

    quantization: Literal["float32"] = "float32"
    light = None
    fusion_weight = 0.5
    min_cosine = 0.25
    duplicate_cosine = 0.87

    def __init__(self, settings: EmbeddingSettings, api_key: str | None) -> None:
        """Connect to nothing yet. Raises `ConfigError` without a model, or without its dimensions."""
        if settings.model is None:
            raise ConfigError("embedding.provider is openai: set embedding.model too, e.g. to text-embedding-3-small")
        self._settings = settings
        self._model_name = settings.model
        self._api_key = api_key
        self._failures = 0
        self._rests_until = 0.0
        dimensions = settings.dimensions or NATIVE_DIMENSIONS.get(settings.model)
        if dimensions is None:
            raise ConfigError(f"Set embedding.dimensions to the length of {settings.model}'s vectors.")
        self.dimensions = dimensions
        prefixes = f"{settings.query_prefix}\0{settings.document_prefix}"
        suffix = "" if prefixes == "\0" else f"-{crc32(prefixes.encode()):08x}"
        self.name = f"{settings.provider}-{settings.model}-{dimensions}{suffix}"

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order.

        Raises an `InputError` that names a blank text, `ModelError` and its kinds; no vector is returned then.
        """
        return await self._embed(self._settings.query_prefix, texts)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_queries`."""
        return await self._embed(self._settings.document_prefix, texts)

    async def aclose(self) -> None:
        """Close the connections, if any was made."""
        if "_client" in self.__dict__:
            await self._client.close()

    @cached_property
    def _client(self) -> AsyncOpenAI:
        return open_client(self._settings.base_url, self._api_key)

    async def _embed(self, prefix: str, texts: Sequence[str]) -> list[Vector]:
        prepared = [_model_text(prefix, text, name) for text, name in zip(texts, labels_for_errors(texts), strict=True)]
        starts = range(0, len(prepared), BATCH)
        return [vector for at in starts for vector in await self._embed_batch(prepared[at : at + BATCH])]

    async def _embed_batch(self, texts: list[str]) -> list[Vector]:
        import openai

        left_s = self._rests_until - time.monotonic()
        if left_s > 0:
            raise ModelUnavailable(f"{self._model_name} is paused for {left_s:.0f} s after {self._failures} failures.")
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
            return ModelUnavailable(f"{self._model_name} gave no embeddings within {TIMEOUT_S:g} s: try again later.")
        if isinstance(error, openai.APIConnectionError):
            return ModelUnavailable(f"{self._model_name} is unreachable ({type(error).__name__}): try again later.")
        if isinstance(error, BodyTooLarge):
            return ModelAnswerInvalid(f"{self._model_name} answers with too much, or compressed, which was declined.")
        if not isinstance(error, openai.APIStatusError):
            return ModelAnswerInvalid(
                f"{self._model_name} did not return embeddings ({type(error).__name__}): check embedding.base_url."
            )
        status = error.status_code
        if status in (408, 409, 429) or status >= 500:
            return ModelUnavailable(f"{self._model_name} kept failing (HTTP {status}): try again later.")
        advice = {401: "set embedding.api_key", 404: "check embedding.base_url and embedding.model"}
        redirects = "it redirects: correct embedding.base_url" if status < 400 else None
        hint = redirects or advice.get(status, "check embedding.model, its key, and that no text is too long for it")
        return ModelError(f"{self._model_name} refused the request (HTTP {status}): {hint}.")

    def _vectors(self, answer: CreateEmbeddingResponse, count: int) -> list[Vector]:
        try:
            by_index = {item.index: item.embedding for item in answer.data}
        except (AttributeError, TypeError):
            by_index = {}
        if len(by_index) != count or by_index.keys() != set(range(count)) or len(answer.data) != count:
            raise ModelAnswerInvalid(
                f"{self._model_name} did not return one vector for each of {count} texts: check embedding.base_url."
            )
        return [self._unit(by_index[at]) for at in range(count)]

    def _unit(self, values: Iterable[object] | None) -> Vector:
        """Return `values` scaled to length 1."""
        numbers = [float(value) for value in values or () if isinstance(value, int | float)]
        length = math.hypot(*numbers)
        if len(numbers) != self.dimensions or not math.isfinite(length) or length == 0.0:
            raise ModelAnswerInvalid(
                f"{self._model_name} returned a vector of {len(numbers)} numbers and length {length:g}, but "
                f"{self.dimensions} numbers and a finite length were expected: set embedding.dimensions to the model's."
            )
        return array("f", [number / length for number in numbers])


def _model_text(prefix: str, text: str, what: str) -> str:
    """Return ``prefix`` and ``text``, cut to `MAX_MODEL_CHARS`, without lone surrogates."""
    valid = text[:MAX_MODEL_CHARS].encode("utf-8", "replace").decode("utf-8")
    if not any(character.isprintable() and not character.isspace() for character in valid):
        raise InputError(f"{what} contains nothing to embed: give it at least one word.")
    return prefix + valid
