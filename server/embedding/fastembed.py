"""Neural embeddings on this machine through fastembed and ONNX (the extra ``fastembed``)."""

from __future__ import annotations

import importlib
import json
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from swarm_memory.schema.errors import ConfigError, ModelUnavailable
from swarm_memory.server.embedding.minilm import load_runtime, runtime_errors
from swarm_memory.server.embedding.neural import NeuralEmbedder

if TYPE_CHECKING:
    from swarm_memory.schema.settings import EmbeddingSettings
    from swarm_memory.tools.ports.models import Vector

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
_BATCH_TEXTS = 64


class FastEmbedEmbedder(NeuralEmbedder):
    """Loads its model when it is first needed: with ``model_dir`` from that folder, and then nothing is downloaded.

    A model that fastembed does not know is described by its folder: ``config.json`` (hidden_size),
    ``1_Pooling/config.json`` (mean where absent) and the ONNX file.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        super().__init__(settings, settings.model or DEFAULT_MODEL)
        self._loading = threading.Lock()

    @property
    def dimensions(self) -> int:
        """Length of the vectors, known without loading the model. Raises `ConfigError` where it cannot be known."""
        return self._known_dimensions

    @cached_property
    def _known_dimensions(self) -> int:
        known = self._known(_library())
        return _hidden_size(self._folder()) if known is None else int(known["dim"])

    async def _embed(self, texts: list[str], *, are_queries: bool) -> list[Vector]:
        """Raise `ConfigError` when the extra or the model's files are missing, `ModelUnavailable` when it fails."""

        def embed() -> list[Vector]:
            with self._loading:
                model = self._model
            found = model.query_embed(texts) if are_queries else model.embed(texts, _BATCH_TEXTS)
            return [self._unit(vector.tolist()) for vector in found]

        return await anyio.to_thread.run_sync(embed)

    @cached_property
    def _model(self) -> Any:
        library = _library()
        extra: dict[str, Any] = {}
        if self._settings.model_dir:
            self._register(library)
            extra = {"specific_model_path": str(self._folder()), "local_files_only": True}
        try:
            return library.TextEmbedding(self._model_name, **extra)
        except (OSError, ValueError, RuntimeError, *runtime_errors()) as error:
            raise ModelUnavailable(
                f"fastembed could not load {self._model_name} ({type(error).__name__}): "
                "put its files into a folder and set embedding.model_dir."
            ) from error

    def _register(self, library: Any) -> None:
        """Describe the folder's model to fastembed, unless it knows one of this name."""
        if self._known(library) is not None:
            return
        folder = self._folder()
        description = importlib.import_module("fastembed.common.model_description")
        library.TextEmbedding.add_custom_model(
            model=self._model_name,
            pooling=description.PoolingType.CLS if _pools_first_token(folder) else description.PoolingType.MEAN,
            normalization=True,
            sources=description.ModelSource(url=folder.as_uri()),
            dim=_hidden_size(folder),
            model_file=_model_file(folder),
        )

    def _known(self, library: Any) -> dict[str, Any] | None:
        """Return what fastembed knows of the model; None when it does not know it."""
        models = library.TextEmbedding.list_supported_models()
        return next((each for each in models if each["model"].lower() == self._model_name.lower()), None)

    def _folder(self) -> Path:
        if not self._settings.model_dir:
            raise ConfigError(
                f"fastembed does not know the model {self._model_name}: set embedding.model to one it knows, "
                "or embedding.model_dir to a folder with its ONNX file."
            )
        return Path(self._settings.model_dir).expanduser().resolve()


def _library() -> Any:
    try:
        load_runtime()  # fastembed would import it with all that it reports to its makers
        return importlib.import_module("fastembed")
    except ImportError as error:
        raise ConfigError(
            "embedding.provider is fastembed, which is not installed: pip install 'swarm-memory[fastembed]'."
        ) from error


def _model_file(folder: Path) -> str:
    for name in _MODEL_FILES:
        if (folder / name).is_file():
            return name
    raise ConfigError(
        f"embedding.model_dir {folder} holds none of {', '.join(_MODEL_FILES)}: export the model to ONNX."
    )


def _hidden_size(folder: Path) -> int:
    size = _json(folder / "config.json").get("hidden_size")
    if not isinstance(size, int) or size < 1:
        raise ConfigError(f"{folder / 'config.json'} has no hidden_size: give it the length of the model's vectors.")
    return size


def _pools_first_token(folder: Path) -> bool:
    pooling = folder / "1_Pooling" / "config.json"
    return pooling.is_file() and bool(_json(pooling).get("pooling_mode_cls_token"))


def _json(path: Path) -> dict[str, object]:
    try:
        content: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as JSON ({type(error).__name__}).") from error
    return cast("dict[str, object]", content) if isinstance(content, dict) else {}
