"""Neural embeddings on this machine through fastembed and ONNX (the extra ``fastembed``)."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio.to_thread

from swarm_memory.schema.errors import ConfigError, ModelUnavailable
from swarm_memory.server.embedding.neural import NeuralEmbedder

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
_BATCH_TEXTS = 64


class _Array(Protocol):
    def tolist(self) -> list[float]: ...


class _Model(Protocol):
    def embed(self, documents: Iterable[str], batch_size: int) -> Iterable[_Array]: ...

    def query_embed(self, query: str) -> Iterable[_Array]: ...


@dataclass(frozen=True, slots=True)
class FastEmbedOptions:
    """Which model; with ``model_dir`` it is read from that folder and nothing is downloaded."""

    model: str = DEFAULT_MODEL
    model_dir: Path | None = None
    query_prefix: str = ""
    document_prefix: str = ""


class FastEmbedEmbedder(NeuralEmbedder):
    """Loads its model when it is first needed. A model that fastembed does not know is described by its own folder:
    ``config.json`` (hidden_size), ``1_Pooling/config.json`` (mean where absent) and the ONNX file."""

    def __init__(self, options: FastEmbedOptions) -> None:
        super().__init__("fastembed", options.model, options.query_prefix, options.document_prefix)
        self._options = options
        self._loading = threading.Lock()

    @property
    def dimensions(self) -> int:
        """Length of the vectors, known without loading the model. Raises `ConfigError` where it cannot be known."""
        return self._known_dimensions

    @cached_property
    def _known_dimensions(self) -> int:
        known = {
            model["model"].lower(): int(model["dim"]) for model in _library().TextEmbedding.list_supported_models()
        }
        dimensions = known.get(self._options.model.lower())
        return dimensions if dimensions is not None else _hidden_size(self._folder())

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of ``text``.

        Raises `InputError` for a blank text, `ConfigError` when the extra or the model's files are missing,
        `ModelUnavailable` when the model cannot be loaded, `ModelAnswerInvalid` when it gives an unusable vector.
        """
        prepared = self._query(text)
        vectors = await anyio.to_thread.run_sync(lambda: self._units(self._model.query_embed(prepared)))
        return vectors[0]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_query`."""
        prepared = self._documents(texts)
        return await anyio.to_thread.run_sync(lambda: self._units(self._model.embed(prepared, _BATCH_TEXTS)))

    def _units(self, vectors: Iterable[_Array]) -> list[Vector]:
        return [self._unit(vector.tolist()) for vector in vectors]

    @property
    def _model(self) -> _Model:
        with self._loading:
            return self._loaded

    @cached_property
    def _loaded(self) -> _Model:
        library = _library()
        options = self._options
        extra: dict[str, Any] = {}
        if options.model_dir is not None:
            self._register(library)
            extra = {"specific_model_path": str(self._folder()), "local_files_only": True}
        try:
            return library.TextEmbedding(options.model, **extra)
        except (OSError, ValueError, RuntimeError, *_runtime_errors()) as error:
            raise ModelUnavailable(
                f"fastembed could not load {options.model} ({type(error).__name__}): "
                "put its files into a folder and set embedding.model_dir."
            ) from error

    def _register(self, library: Any) -> None:
        """Describe the folder's model to fastembed, unless it knows one of this name."""
        model, folder = self._options.model, self._folder()
        if model.lower() in {known["model"].lower() for known in library.TextEmbedding.list_supported_models()}:
            return
        description = importlib.import_module("fastembed.common.model_description")
        library.TextEmbedding.add_custom_model(
            model=model,
            pooling=description.PoolingType.CLS if _pools_first_token(folder) else description.PoolingType.MEAN,
            normalization=True,
            sources=description.ModelSource(url=folder.as_uri()),
            dim=_hidden_size(folder),
            model_file=_model_file(folder),
        )

    def _folder(self) -> Path:
        folder = self._options.model_dir
        if folder is None:
            raise ConfigError(
                f"fastembed does not know the model {self._options.model}: set embedding.model to one it knows, "
                "or embedding.model_dir to a folder with its ONNX file."
            )
        return folder.expanduser().resolve()


def _library() -> Any:
    try:
        return importlib.import_module("fastembed")
    except ImportError as error:
        raise ConfigError(
            "embedding.provider is fastembed, which is not installed: pip install 'swarm-memory[fastembed]'."
        ) from error


def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return onnxruntime's exceptions, which have no base of their own."""
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))


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
