"""What embedders that ask a neural model share: prefixes, names, and what texts and vectors must satisfy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from swarm_memory.schema.errors import InputError, ModelAnswerInvalid

if TYPE_CHECKING:
    from swarm_memory.schema.settings import EmbeddingSettings
    from swarm_memory.tools.ports.models import Vector

MAX_MODEL_CHARS = 24_000
"""Characters of one text that are sent to a model; about 8,000 tokens of English."""


class NeuralEmbedder(ABC):
    """A model that is given queries and documents behind prefixes of their own."""

    quantization: Literal["float32"] = "float32"
    fusion_weight = 0.5
    min_cosine = 0.25
    duplicate_cosine = 0.87

    def __init__(self, settings: EmbeddingSettings, model: str) -> None:
        self._settings = settings
        self._model_name = model

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Length of the vectors."""

    @property
    def name(self) -> str:
        """The model, its dimensions and, where prefixes are set, a checksum of them."""
        prefixes = f"{self._settings.query_prefix}\0{self._settings.document_prefix}"
        suffix = "" if prefixes == "\0" else f"-{crc32(prefixes.encode()):08x}"
        return f"{self._settings.provider}-{self._model_name}-{self.dimensions}{suffix}"

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of ``text``.

        Raises `InputError` for a blank text, `ConfigError` when something is missing, `ModelError` and its kinds.
        """
        return (await self.embed_queries([text]))[0]

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_query`."""
        prefix = self._settings.query_prefix
        return await self._embed([_model_text(prefix, text, "The text") for text in texts], are_queries=True)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_query`, naming the text: then none is returned."""
        prefix = self._settings.document_prefix
        prepared = [_model_text(prefix, text, f"Text {at}") for at, text in enumerate(texts)]
        return await self._embed(prepared, are_queries=False)

    @abstractmethod
    async def _embed(self, texts: list[str], *, are_queries: bool) -> list[Vector]:
        """Return the vectors of texts as the model gets them."""

    def _unit(self, values: Iterable[object] | None) -> Vector:
        """Return ``values`` scaled to length 1.

        Raises `ModelAnswerInvalid` for NaN, infinity, zero or another length.
        """
        numbers = [float(value) for value in values or () if isinstance(value, int | float)]
        length = math.hypot(*numbers)
        if len(numbers) != self.dimensions or not math.isfinite(length) or length == 0.0:
            raise ModelAnswerInvalid(
                f"{self._model_name} answered with a vector of {len(numbers)} numbers and length {length:g}, where "
                f"{self.dimensions} and a finite one were expected: set embedding.dimensions to the model's own."
            )
        return array("f", [number / length for number in numbers])


def _model_text(prefix: str, text: str, what: str) -> str:
    """Return ``prefix`` and ``text``, cut to `MAX_MODEL_CHARS`, without lone surrogates."""
    valid = text[:MAX_MODEL_CHARS].encode("utf-8", "replace").decode("utf-8")
    if not any(character.isprintable() and not character.isspace() for character in valid):
        raise InputError(f"{what} holds nothing to embed: give it at least one word.")
    return prefix + valid
