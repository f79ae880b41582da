"""What every embedder's texts and vectors must satisfy; it knows no endpoint and no model."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import InputError, ModelAnswerInvalid

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

MAX_MODEL_CHARS = 24_000
"""Characters of one text that are sent to a model; about 8,000 tokens of English."""


def model_text(prefix: str, text: str, what: str) -> str:
    """Return ``prefix`` and ``text``, cut to `MAX_MODEL_CHARS`, without lone surrogates.

    Raises `InputError`, which calls the text ``what``, for one without any printable character.
    """
    valid = text[:MAX_MODEL_CHARS].encode("utf-8", "replace").decode("utf-8")
    if not any(character.isprintable() and not character.isspace() for character in valid):
        raise InputError(f"{what} holds nothing to embed: give it at least one word.")
    return prefix + valid


def unit_vector(values: Iterable[object], dimensions: int, model: str) -> Vector:
    """Return ``values`` scaled to length 1. Raises `ModelAnswerInvalid` for NaN, infinity, zero or another length."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) != dimensions:
        raise ModelAnswerInvalid(
            f"{model} answered with a vector of {len(numbers)} numbers, not {dimensions}: "
            "set embedding.dimensions to the model's own."
        )
    length = math.hypot(*numbers)
    if not math.isfinite(length) or length == 0.0:
        raise ModelAnswerInvalid(f"{model} answered with a vector that is zero or not finite; it was not used.")
    return array("f", [number / length for number in numbers])
