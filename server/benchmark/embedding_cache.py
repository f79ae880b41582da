"""Vectors of texts that were embedded before, kept in a file by the text's hash, so that a sweep costs minutes."""

import hashlib
from array import array
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError, ModelError
from swarm_memory.tools.ports.models import Accompanied, Embedder

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

T = TypeVar("T")

_KEY_BYTES = 32
_BATCH = 256
"""Texts that are embedded, and written, at once: an interrupted run keeps what it paid for."""


class CachedEmbedder:
    """An embedder that asks another one only for what it was not asked before.

    The file is of one space: its name is the hash of the embedder's. It holds hashes and vectors and no text. A file
    whose end is damaged is read up to there. Where the embedder fails it raises `ConfigError`: the product would go on
    with keywords, and a measurement of that would pass for one of the embedder.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder, self._folder = embedder, folder
        self.name, self.dimensions = embedder.name, embedder.dimensions
        self.quantization: Literal["int8", "float32"] = embedder.quantization
        self.fusion_weight, self.min_cosine = embedder.fusion_weight, embedder.min_cosine
        self.duplicate_cosine = embedder.duplicate_cosine
        if isinstance(embedder, Accompanied):
            self.light = embedder.light
        self._vectors: dict[bytes, Vector] | None = None
        self.answered = 0
        """Queries that were answered from the file: they took no time of the embedder's."""

    async def embed_query(self, text: str) -> "Vector":
        """Embed one query. Raises `ConfigError`, and as the embedder does for a text that it refuses."""
        return (await self.embed_queries([text]))[0]

    async def embed_queries(self, texts: Sequence[str]) -> "list[Vector]":
        """Embed queries, in order. Raises as `embed_query` does."""
        vectors, missing = await self._through("query", texts, self._embedder.embed_queries)
        self.answered += missing == 0
        return vectors

    async def embed_documents(self, texts: Sequence[str]) -> "list[Vector]":
        """Embed texts, in order. Raises as `embed_query` does."""
        return (await self._through("document", texts, self._embedder.embed_documents))[0]

    async def _through(
        self, kind: str, texts: Sequence[str], embed: "Callable[[Sequence[str]], Coroutine[Any, Any, list[Vector]]]"
    ) -> "tuple[list[Vector], int]":
        """Return the vectors of texts, and how many the file did not have."""
        keys, known = [_key(kind, text) for text in texts], self._known()
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        names = list(missing)
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            vectors = await self._asked(embed([missing[key] for key in batch]))
            self._keep(dict(zip(batch, vectors, strict=True)))
        return [known[key] for key in keys], len(names)

    async def _asked(self, answer: Coroutine[Any, Any, T]) -> T:
        try:
            return await answer
        except ModelError as error:
            raise ConfigError(f"nothing can be measured of the embedder {self.name}, which failed: {error}") from error

    @property
    def _path(self) -> Path:
        return self._folder / f"{digest([self.name, self.dimensions])[:24]}.vectors"

    @property
    def _row_bytes(self) -> int:
        return _KEY_BYTES + 4 * self.dimensions

    def _known(self) -> "dict[bytes, Vector]":
        if self._vectors is None:
            self._vectors = {}
            data = self._path.read_bytes() if self._path.is_file() else b""
            for at in range(0, len(data) - self._row_bytes + 1, self._row_bytes):
                row = data[at : at + self._row_bytes]
                self._vectors[row[:_KEY_BYTES]] = array("f", row[_KEY_BYTES:])
        return self._vectors

    def _keep(self, vectors: "dict[bytes, Vector]") -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        whole = self._path.stat().st_size // self._row_bytes * self._row_bytes if self._path.is_file() else 0
        with self._path.open("r+b" if whole else "wb") as file:
            file.seek(whole)
            file.truncate()
            file.write(b"".join(key + array("f", vector).tobytes() for key, vector in vectors.items()))
        self._known().update(vectors)


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).digest()
