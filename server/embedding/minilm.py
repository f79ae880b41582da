"""The embedder for everything that runs longer than a hook: all-MiniLM-L6-v2 in 8 bits, run by onnxruntime.

It maps token ids to unit vectors; its vocabulary is in its metadata. `scripts/embedder/onnx_model.py` makes it.
"""

import importlib
import os
import threading
from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread
import numpy

from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.server.embedding.static import StaticEmbedder, WordPiece, labels_for_errors, verify

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

SHIPPED_MODEL = Path(__file__).parent / "data" / "minilm-384-v1.onnx"
MAX_TOKENS = 256
"""The length that the model was trained for, with the two tokens that mark the ends. A longer query is cut there."""

MAX_WINDOWS = 5
"""The most windows of that length; a longer document's vector is their mean. 5 hold a memory's 4,000 characters."""

_LEAST_TOKENS = 32
"""A last window of fewer tokens says little and is left out."""

_FILLED = 1.25
"""In a batch the longest text is at most this many times as long as the shortest."""

_loading = threading.Lock()


class MiniLMEmbedder:
    """Embeds a prompt of 17 tokens in about 2 ms and one of 180 in 16 ms, on one thread, offline.

    A text's vector is the same alone and in a batch, except for rounding. The first 254 tokens of a query count, and
    the first 1,270 of a document, both within the first 32,768 characters. A blank text raises `InputError`, missing or
    damaged files `ConfigError`, a runtime that does not load `ModelUnavailable`.
    """

    dimensions = 384
    quantization: Literal["int8"] = "int8"
    fusion_weight = 0.58
    """For a query in which neither leg stands out more than usual; chosen on halves of seven sets."""
    duplicate_cosine = 0.85
    """Besides the words that both must share; the lowest at which nothing is merged wrongly: docs/CONSOLIDATION.md."""
    min_cosine = 0.315

    def __init__(self, model: Path = SHIPPED_MODEL) -> None:
        """Remember where the model is; it is loaded, once in a process, when the first text is embedded."""
        self._path, self.name = model, model.stem
        self.light = StaticEmbedder()
        """Its vectors are kept too: a hook that no server answers has no time to load this model."""

    async def embed_queries(self, texts: Sequence[str]) -> "list[Vector]":
        """Return the vectors of ``texts`` in order; an error names the text.

        The first is a whole query and the others are its sentences, as long together: both are embedded in parallel.
        """
        names = labels_for_errors(texts)
        whole = anyio.to_thread.run_sync(self._embed, texts[:1], names[:1], 1)
        if len(texts) < 2:
            return await whole
        import asyncio

        parts = anyio.to_thread.run_sync(self._embed, texts[1:], names[1:], 1)
        return [vector for each in await asyncio.gather(whole, parts) for vector in each]

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector]":
        """Return the vectors of ``texts`` in order; an error names the text."""
        return (
            await anyio.to_thread.run_sync(self._embed, texts, labels_for_errors(texts), MAX_WINDOWS) if texts else []
        )

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text as the model gets them."""
        return self._model.windows(text, "The text", 1)[0]

    def verify(self) -> None:
        """Compare the model's file with the SHA-256 next to it (about 20 ms). Raises `ConfigError` when they differ."""
        verify(self._path)

    def _embed(self, texts: Sequence[str], names: Sequence[str], most_windows: int) -> "list[Vector]":
        """Return the vector of each text: the mean of its windows, scaled to unit length."""
        model = self._model
        windows = [model.windows(text, name, most_windows) for text, name in zip(texts, names, strict=True)]
        rows = [row for each in windows for row in each]
        vectors: dict[int, Vector] = {}
        batch: list[int] = []
        for at in sorted(range(len(rows)), key=lambda at: len(rows[at])):
            size = len(rows[at])
            # Larger batches are no faster, and the padding of shorter texts costs as much as their own tokens.
            if batch and (size * (len(batch) + 1) > MAX_TOKENS or size > _FILLED * len(rows[batch[0]])):
                vectors.update(zip(batch, model.run([rows[each] for each in batch]), strict=True))
                batch = []
            batch.append(at)
        vectors.update(zip(batch, model.run([rows[each] for each in batch]), strict=True))
        ordered = (vectors[at] for at in range(len(rows)))
        means = (numpy.sum([*islice(ordered, len(each))], axis=0, dtype="f8") for each in windows)
        return [array("f", (each / numpy.linalg.norm(each)).tolist()) for each in means]

    @property
    def _model(self) -> "_Model":
        with _loading:
            return _loaded(self._path)


_SILENT = ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")
"""From 1.29 on, onnxruntime reports every process that loads it to its makers, unless one of these is set before."""


class _Model:
    """The loaded model, with its tokenizer."""

    def __init__(self, path: Path) -> None:
        verify(path)
        try:
            os.environ.update(dict.fromkeys(_SILENT, "1"))
            runtime: Any = importlib.import_module("onnxruntime")
            runtime.disable_telemetry_events()  # on Windows the system would collect them
        except ImportError as error:
            raise ModelUnavailable(
                f"onnxruntime cannot be loaded ({error}): install it, or set embedding.provider to static."
            ) from error
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # log nothing: it would go to stderr
        state = vars(importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")).values()
        # These exceptions have no base class of their own.
        self._failures = tuple(each for each in state if isinstance(each, type) and issubclass(each, Exception))
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except self._failures as error:
            raise ModelUnavailable(f"onnxruntime could not load {path} ({type(error).__name__}).") from error
        words = self._session.get_modelmeta().custom_metadata_map["vocabulary"].split("\n")
        rows = {word: at for at, word in enumerate(words)}
        self._first, self._last, self._unknown = rows["[CLS]"], rows["[SEP]"], rows["[UNK]"]
        self._tokenizer = WordPiece(rows, range(self._unknown, self._unknown + 1))
        import ctypes

        with suppress(AttributeError, TypeError):  # only glibc has it; else it keeps what loading took, some 14 MB
            ctypes.CDLL(None).malloc_trim(0)

    def windows(self, text: str, what: str, most: int) -> list[list[int]]:
        """Return the tokens of a text, in at most `most` windows."""
        size = MAX_TOKENS - 2
        rows = self._tokenizer.rows(text, most * size)
        if not rows:
            raise InputError(f"{what} contains nothing to embed: give it at least one word.")
        starts = range(0, max(size, len(rows) - _LEAST_TOKENS + 1), size)
        return [[self._first, *rows[at : at + size], self._last] for at in starts]

    def run(self, rows: Sequence[Sequence[int]]) -> "list[Vector]":
        """Return the vectors of texts, given as tokens, the longest last. Raises `ModelUnavailable`."""
        ids = numpy.zeros((len(rows), len(rows[-1])), numpy.int64)
        mask = numpy.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
            mask[at, : len(row)] = 1
        try:
            (found,) = self._session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})
        except self._failures as error:
            raise ModelUnavailable(f"onnxruntime failed on {len(rows)} texts ({type(error).__name__}).") from error
        return [array("f", vector.tobytes()) for vector in found]


_loaded = lru_cache(_Model)
