"""The file of a static embedder: a memory-mapped table of 8-bit rows and the vocabulary; it knows no tokenizer.

Layout, little-endian: the 8-byte magic, then three uint32 (dimensions, rows, bytes of vocabulary), one uint16 weight
for each row, the rows (a value v is kept as the byte v + 128), the vocabulary's words in UTF-8 divided by line feeds.
Rows past the vocabulary are buckets for unknown words. A row's vector is its weight times its values.
"""

import mmap
import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from swarm_memory.schema.errors import ConfigError

MAGIC = b"SWMTAB01"
BIAS = 128
MAX_WEIGHT = 16_383
"""1,024 tokens of this weight and of the largest byte still fit the 32-bit lanes of `static`."""

_HEADER = struct.Struct("<8sIII")


class Table:
    """An open table; ``data`` is the map itself and ``rows_at`` the offset of row 0 in it."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises `ConfigError` when it is missing, cut short, or not a table."""
        self.path = path
        self.data = _map(path)
        self.dimensions, self.rows, vocabulary_bytes = _header(path, self.data)
        self.weights = _weights(self.data, self.rows)
        self.rows_at = _HEADER.size + 2 * self.rows
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

    @property
    def buckets(self) -> int:
        return self.rows - len(self.vocabulary)

    def verify(self) -> None:
        """Compare the whole file with the SHA-256 beside it (about 10 ms). Raises `ConfigError` when they differ."""
        import hashlib

        checksum = self.path.with_suffix(".sha256")
        try:
            expected = checksum.read_text("ascii").split()[0]
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise ConfigError(f"{checksum} cannot be read: reinstall swarm-memory.") from error
        if hashlib.sha256(self.data).hexdigest() != expected:
            raise _damaged(self.path, f"its SHA-256 is not the one in {checksum.name}")


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _header(path: Path, data: mmap.mmap) -> tuple[int, int, int]:
    if len(data) < _HEADER.size:
        raise _damaged(path, "it is shorter than its header")
    magic, dimensions, rows, vocabulary_bytes = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _damaged(path, "it does not begin as a table does")
    return dimensions, rows, vocabulary_bytes


def _weights(data: mmap.mmap, rows: int) -> Sequence[int]:
    return struct.unpack_from(f"<{rows}H", data, _HEADER.size) if len(data) >= _HEADER.size + 2 * rows else ()


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"The embedder's table {path} cannot be used ({reason}): reinstall swarm-memory.")


def write_table(path: Path, weights: Sequence[int], rows: bytes, vocabulary: Sequence[str]) -> None:
    """Write a table and, beside it, its SHA-256 in the form `sha256sum -c` reads.

    ``weights`` are 0…`MAX_WEIGHT`, one for each row; ``rows`` are the biased bytes, row after row.
    """
    import hashlib

    words = "\n".join(vocabulary).encode("utf-8")
    header = _HEADER.pack(MAGIC, len(rows) // len(weights), len(weights), len(words))
    content = header + struct.pack(f"<{len(weights)}H", *weights) + rows + words
    path.write_bytes(content)
    path.with_suffix(".sha256").write_text(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n", "ascii")
