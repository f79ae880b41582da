"""The embedder that ships: a word's row of a memory-mapped table of 8-bit rows, weighted and summed.

Layout of the table's file, little-endian: the 8-byte magic, then three uint32 (dimensions, rows, bytes of vocabulary),
one uint16 weight for each row, the rows (a value v is kept as the byte v + 128), the vocabulary's words in UTF-8
divided by line feeds. Rows past the vocabulary are buckets for unknown words. A row's vector is its weight times its
values.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import struct
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector

SHIPPED_TABLE = Path(__file__).parent / "data" / "static-minilm-256-v1.bin"
MAGIC = b"SWMTAB01"
BIAS = 128
MAX_WEIGHT = 16_383
"""1,024 tokens of this weight and of the largest byte still fit the 32-bit lanes of the sum."""

HEADER = struct.Struct("<8sIII")
_NUMPY_FROM_TEXTS = 32
_THREAD_FROM_TEXTS = 8
_TEXTS_AT_ONCE = 256
_LANE_BYTES = 4
_CANCELLED = "The text's words cancel each other out: give it other words."


class StaticEmbedder:
    """Embeds in about 0.1 ms a prompt, offline.

    Both ways of summing, with long integers and with numpy, are exact in integers: they give the same vector.

    The first 1,024 tokens within the first 32,768 characters count. A text without one letter, digit, mark or symbol
    raises `InputError`; any other, in whatever script, gets a finite vector of unit length.
    """

    quantization: Literal["int8"] = "int8"
    fusion_weight = 0.45
    duplicate_cosine = 0.80
    """With the words that both must share: docs/CONSOLIDATION.md has precision and recall."""
    min_cosine = 0.365
    """Of queries that fit 88 of 100 get something, of those about another subject 10: docs/BENCHMARKS.md."""

    def __init__(self, table: Path = SHIPPED_TABLE) -> None:
        """Remember where the table is; it is opened when the first text is embedded."""
        self._path = table

    @property
    def name(self) -> str:
        return self._path.stem

    @property
    def dimensions(self) -> int:
        return self._table.dimensions

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of ``text``. Raises `InputError` for a blank text, `ConfigError` for a damaged table."""
        return self.embed(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_query`, naming the text."""
        return self.embed_many(texts)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_query`, naming the text."""
        if len(texts) < _THREAD_FROM_TEXTS:
            return self.embed_many(texts)
        import anyio.to_thread

        return await anyio.to_thread.run_sync(self.embed_many, texts)

    def embed(self, text: str) -> Vector:
        """Return the vector of one text, without an event loop; raises as `embed_query`."""
        return self._alone(_counts(self._tokenizer.rows(text), "The text"))

    def embed_many(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts``; long lists go through numpy where it is installed."""
        counts = [_counts(self._tokenizer.rows(text), f"Text {at}") for at, text in enumerate(texts)]
        if len(texts) >= _NUMPY_FROM_TEXTS:
            with contextlib.suppress(ImportError):
                return self._with_numpy(counts)
        return [self._alone(count) for count in counts]

    def verify(self) -> None:
        """Check the whole table against its checksum. Raises `ConfigError` when it is damaged."""
        self._table.verify()

    @cached_property
    def _table(self) -> Table:
        return _shipped() if self._path == SHIPPED_TABLE else Table(self._path)

    @property
    def _tokenizer(self) -> WordPiece:
        return self._table.tokenizer

    def _alone(self, counts: Mapping[int, int]) -> Vector:
        """Sum weighted rows as one long integer whose 32-bit lanes are the dimensions: no loop over them."""
        table = self._table
        dimensions = table.dimensions
        lanes = bytearray(dimensions * _LANE_BYTES)
        total = weight_sum = 0
        for row, count in counts.items():
            start = table.rows_at + row * dimensions
            lanes[::_LANE_BYTES] = table.data[start : start + dimensions]
            weight = table.weights[row] * count
            total += weight * int.from_bytes(lanes, "little")
            weight_sum += weight
        sums = struct.unpack(f"<{dimensions}I", total.to_bytes(len(lanes), "little"))
        bias = BIAS * weight_sum
        return _unit([value - bias for value in sums])

    def _with_numpy(self, counts: Sequence[Mapping[int, int]]) -> list[Vector]:
        """Sum the texts' rows in 32-bit integers, some texts at once. Raises `ImportError` without numpy."""
        import numpy as np

        table = self._table
        rows = np.frombuffer(table.data, np.uint8, table.rows * table.dimensions, table.rows_at)
        values = rows.reshape(table.rows, table.dimensions)
        weights = np.array(table.weights, np.int32)
        vectors: list[Vector] = []
        for start in range(0, len(counts), _TEXTS_AT_ONCE):
            batch = counts[start : start + _TEXTS_AT_ONCE]
            used = np.array([row for count in batch for row in count])
            times = np.array([n for count in batch for n in count.values()], np.int32)
            starts = np.cumsum([0, *map(len, batch[:-1])])
            weighted = (values[used].astype(np.int32) - BIAS) * (weights[used] * times)[:, None]
            sums = np.add.reduceat(weighted, starts, dtype=np.int32).astype(np.float64)
            lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
            if not lengths.all():
                raise InputError(_CANCELLED)
            vectors += (array("f", row.tobytes()) for row in (sums / lengths).astype(np.float32))
        return vectors


def _counts(rows: Sequence[int], what: str) -> Mapping[int, int]:
    if not rows:
        raise InputError(f"{what} holds nothing to embed: give it at least one word.")
    return Counter(rows)


def _unit(values: Sequence[int]) -> Vector:
    length = math.hypot(*values)
    if length == 0.0:
        raise InputError(_CANCELLED)
    return array("f", [value / length for value in values])


class Table:
    """An open table; ``data`` is the map itself and ``rows_at`` the offset of row 0 in it."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises `ConfigError` when it is missing, cut short, or not a table."""
        self.path = path
        self.data = _map(path)
        self.dimensions, self.rows, vocabulary_bytes = _header(path, self.data)
        self.weights = _weights(self.data, self.rows)
        self.rows_at = HEADER.size + 2 * self.rows
        self._vocabulary_at = self.rows_at + self.rows * self.dimensions
        if len(self.data) != self._vocabulary_at + vocabulary_bytes:
            raise _damaged(path, f"it has {len(self.data)} bytes where its header asks for another length")

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The words and their rows."""
        try:
            words = self.data[self._vocabulary_at :].decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise _damaged(self.path, "its vocabulary is not UTF-8") from error
        if len(words) >= self.rows:
            raise _damaged(self.path, f"it has {len(words)} words for {self.rows} rows")
        return dict(zip(words, range(len(words)), strict=True))

    @cached_property
    def tokenizer(self) -> WordPiece:
        """What finds the rows of a text."""
        return WordPiece(self.vocabulary, range(len(self.vocabulary), self.rows))

    def verify(self) -> None:
        """Compare the whole file with the SHA-256 beside it (about 10 ms). Raises `ConfigError` when they differ."""
        verify(self.path, self.data)


@cache
def _shipped() -> Table:
    """Return the table that ships, which all embedders of a process share."""
    return Table(SHIPPED_TABLE)


def verify(path: Path, data: mmap.mmap | None = None) -> None:
    """Compare a shipped file with the SHA-256 beside it. Raises `ConfigError` when they differ, or one is missing."""
    import hashlib

    checksum = path.with_suffix(".sha256")
    try:
        expected = checksum.read_text("ascii").split()[0]
        found = hashlib.sha256(path.read_bytes() if data is None else data).hexdigest()
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise ConfigError(f"{path} cannot be compared with {checksum}: reinstall swarm-memory.") from error
    if found != expected:
        raise _damaged(path, f"its SHA-256 is not the one in {checksum.name}")


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _header(path: Path, data: mmap.mmap) -> tuple[int, int, int]:
    if len(data) < HEADER.size:
        raise _damaged(path, "it is shorter than its header")
    magic, dimensions, rows, vocabulary_bytes = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _damaged(path, "it does not begin as a table does")
    return dimensions, rows, vocabulary_bytes


def _weights(data: mmap.mmap, rows: int) -> Sequence[int]:
    return struct.unpack_from(f"<{rows}H", data, HEADER.size) if len(data) >= HEADER.size + 2 * rows else ()


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"The embedder's table {path} cannot be used ({reason}): reinstall swarm-memory.")
