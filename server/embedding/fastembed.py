"""Neural embeddings on this machine through fastembed and ONNX (the extra ``fastembed``)."""

from __future__ import annotations

import importlib
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from swarm_memory.schema.errors import ConfigError, ModelUnavailable
from swarm_memory.server.embedding.minilm import load_runtime, runtime_errors
from swarm_memory.server.embedding.neural import NeuralEmbedder

if TYPE_CHECKING:
    from swarm_memory.schema.settings import EmbeddingSettings
    from swarm_memory.tools.ports.models import Vector

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_BATCH_TEXTS = 64


class FastEmbedEmbedder(NeuralEmbedder):
    """A model that fastembed knows, loaded when it is first needed; with ``model_dir`` nothing is downloaded."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        super().__init__(settings, settings.model or DEFAULT_MODEL)
        self._loading = threading.Lock()

    @property
    def dimensions(self) -> int:
        """Length of the vectors, known without loading the model. Raises `ConfigError` for one that is not known."""
        return self._known_dimensions

    @cached_property
    def _known_dimensions(self) -> int:
        for model in _library().TextEmbedding.list_supported_models():
            if model["model"].lower() == self._model_name.lower():
                return int(model["dim"])
        raise ConfigError(f"fastembed does not know the model {self._model_name}: set embedding.model to one it knows.")

    async def _embed(self, texts: list[str], *, are_queries: bool) -> list[Vector]:
        """Raise `ConfigError` when the extra or the model is missing, `ModelUnavailable` when it fails."""

        def embed() -> list[Vector]:
            with self._loading:
                model = self._model
            found = model.query_embed(texts) if are_queries else model.embed(texts, _BATCH_TEXTS)
            return [self._unit(vector.tolist()) for vector in found]

        return await anyio.to_thread.run_sync(embed)

    @cached_property
    def _model(self) -> Any:
        library, folder = _library(), self._settings.model_dir
        extra: dict[str, Any] = {}
        if folder:
            extra = {"specific_model_path": str(Path(folder).expanduser().resolve()), "local_files_only": True}
        try:
            return library.TextEmbedding(self._model_name, **extra)
        except (OSError, ValueError, RuntimeError, *runtime_errors()) as error:
            raise ModelUnavailable(
                f"fastembed could not load {self._model_name} ({type(error).__name__}): "
                "put its files into a folder and set embedding.model_dir."
            ) from error


def _library() -> Any:
    try:
        load_runtime()  # fastembed would import it with all that it reports to its makers
        return importlib.import_module("fastembed")
    except ImportError as error:
        raise ConfigError(
            "embedding.provider is fastembed, which is not installed: pip install 'swarm-memory[fastembed]'."
        ) from error
