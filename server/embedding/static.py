"""The light embedder: it sums the weighted rows of a text's words in a memory-mapped table of 8-bit rows.

Layout of the table's file, little-endian: the 8-byte magic, then three uint32 (dimensions, rows, bytes of vocabulary),
one uint16 weight for each row, the rows (a value v is stored as the byte v + 128), the vocabulary's words in UTF-8
separated by line feeds. Rows past the vocabulary hold unknown words. A vector is its weight times its values.

`WordPiece` splits text into the row numbers of an uncased BERT vocabulary.
"""

from __future__ import annotations

import mmap
import re
import struct
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy

from swarm_memory.schema.errors import ConfigError, InputError

if TYPE_CHECKING:
    from swarm_memory.tools.ports.models import Vector


MAX_CHARS = 32_768
MAX_TOKENS = 1_024
_MAX_WORD_CHARS = 100
_CACHED_WORDS = 32_768
_CJK = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)


class _CharacterMap(dict[int, str | None]):
    """What BERT's cleaning makes of a code point: nothing, a space, its lower case, or itself between spaces."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        category = unicodedata.category(character)
        is_symbol = category.startswith("P") or (code < 0x80 and not character.isalnum())
        cleaned: str | None = character.lower()  # alone, so that a capital sigma is the same everywhere
        if character in "\t\n\r" or category.startswith("Z"):
            cleaned = " "
        elif category.startswith("C") or category == "Mn" or code == 0xFFFD:
            cleaned = None
        elif is_symbol or _CJK.match(character):
            cleaned = f" {character} "
        self[code] = cleaned
        return cleaned


class WordPiece:
    """BERT's uncased tokenizer: lower case, no accents, punctuation and CJK split off, longest match first.

    A word the vocabulary cannot spell (an emoji, most Han characters, a word over 100 characters) gets one of the
    ``unknown`` rows by its CRC-32: if there are many rows, equal unknown words still match each other.
    """

    def __init__(self, vocabulary: Mapping[str, int], unknown: range) -> None:
        self._vocabulary = vocabulary
        self._unknown_rows = unknown
        self._characters = _CharacterMap()
        self._cached_pieces = lru_cache(_CACHED_WORDS)(self._pieces)

    def rows(self, text: str, most: int = MAX_TOKENS) -> list[int]:
        """Return the rows of the first ``most`` tokens within the first 32,768 characters; none for a blank text."""
        plain = unicodedata.normalize("NFD", text[:MAX_CHARS]).translate(self._characters)
        rows: list[int] = []
        for word in plain.split():
            rows += self._cached_pieces(word) if len(word) <= _MAX_WORD_CHARS else self._unknown(word)
            if len(rows) >= most:
                break
        return rows[:most]

    def _pieces(self, word: str) -> tuple[int, ...]:
        vocabulary = self._vocabulary
        whole = vocabulary.get(word)
        if whole is not None:
            return (whole,)
        pieces: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            end = len(word)
            while end > start and prefix + word[start:end] not in vocabulary:
                end -= 1
            if end == start:
                return self._unknown(word)
            pieces.append(vocabulary[prefix + word[start:end]])
            start, prefix = end, "##"
        return tuple(pieces)

    def _unknown(self, word: str) -> tuple[int, ...]:
        unknown = self._unknown_rows
        return (unknown[zlib.crc32(word.encode("utf-8", "replace")) % len(unknown)],)


SHIPPED_TABLE = Path(__file__).parent / "data" / "static-minilm-256-v1.bin"
MAGIC = b"SWMTAB01"
BIAS = 128
MAX_WEIGHT = 16_383
"""The sum of 1,024 tokens with this weight and the largest byte still fits in 32 bits."""

HEADER = struct.Struct("<8sIII")
_THREAD_FROM_TEXTS = 8
_TEXTS_AT_ONCE = 256


class StaticEmbedder:
    """Embeds a prompt in about 0.1 ms, offline. Sums are exact: a text's vector is the same alone and among others.

    The first 1,024 tokens within the first 32,768 characters count. A text without a single letter, digit, mark or
    symbol raises `InputError`; any other, in whatever script, gets a finite vector of unit length.
    """

    quantization: Literal["int8"] = "int8"
    light: StaticEmbedder | None = None
    fusion_weight = 0.45
    duplicate_cosine = 0.80
    """Besides the words that both must share: docs/CONSOLIDATION.md has precision and recall."""
    min_cosine = 0.365
    """88 of 100 queries that fit get a result, and 10 of 100 about another subject: docs/BENCHMARKS.md."""

    def __init__(self, table: Path = SHIPPED_TABLE) -> None:
        """Remember where the table is; it is opened when the first text is embedded."""
        self._path, self.name = table, table.stem

    @property
    def dimensions(self) -> int:
        return self._table.dimensions

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_many`."""
        return self.embed_many(texts)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts`` in order; raises as `embed_many`."""
        if len(texts) < _THREAD_FROM_TEXTS:
            return self.embed_many(texts)
        import anyio.to_thread

        return await anyio.to_thread.run_sync(self.embed_many, texts)

    def embed(self, text: str) -> Vector:
        """Return the vector of one text, without an event loop; raises as `embed_many`."""
        return self.embed_many([text])[0]

    def embed_many(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of ``texts``, without an event loop.

        Raises an `InputError` that names a blank text, `ConfigError` for a damaged table.
        """
        counts = [self._counts(text, name) for text, name in zip(texts, labels_for_errors(texts), strict=True)]
        starts = range(0, len(counts), _TEXTS_AT_ONCE)
        return [vector for at in starts for vector in self._sums(counts[at : at + _TEXTS_AT_ONCE])]

    def verify(self) -> None:
        """Compare the whole file with the SHA-256 next to it (about 10 ms). Raises `ConfigError` when they differ."""
        verify(self._path)

    @cached_property
    def _table(self) -> Table:
        return _shipped(self._path) if self._path == SHIPPED_TABLE else Table(self._path)

    def _counts(self, text: str, what: str) -> Counter[int]:
        """Return the rows of a text's tokens, and how often each occurs."""
        rows = self._table.tokenizer.rows(text)
        if not rows:
            raise InputError(f"{what} contains nothing to embed: give it at least one word.")
        return Counter(rows)

    def _sums(self, counts: Sequence[Counter[int]]) -> list[Vector]:
        """Return the weighted sum of each text's rows, in 32-bit integers, scaled to length 1."""
        table = self._table
        used = [row for count in counts for row in count]
        times = numpy.array([n for count in counts for n in count.values()], numpy.int32)
        starts = [*accumulate(map(len, counts[:-1]), initial=0)]
        weighted = (table.values[used].astype(numpy.int32) - BIAS) * (table.weights[used] * times)[:, None]
        sums = numpy.add.reduceat(weighted, starts, dtype=numpy.int32).astype(numpy.float64)
        lengths = numpy.sqrt(numpy.square(sums).sum(axis=1, keepdims=True))
        if not lengths.all():
            raise InputError("The text's words cancel each other out: use other words.")
        return [array("f", row.tobytes()) for row in (sums / lengths).astype(numpy.float32)]


class Table:
    """An open table, its file mapped: for each row `values` has its bytes and `weights` its weight.

    `tokenizer` finds the rows of a text.
    """

    def __init__(self, path: Path) -> None:
        """Map the file. Raises `ConfigError` when it is missing, cut short, or not a table."""
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, self.dimensions, self.rows, vocabulary_bytes = HEADER.unpack_from(self._data)
        except (OSError, ValueError, struct.error) as error:
            raise _damaged(path, str(error)) from error
        if magic != MAGIC:
            raise _damaged(path, "it does not begin like a table")
        rows_at = HEADER.size + 2 * self.rows
        vocabulary_at = rows_at + self.rows * self.dimensions
        if len(self._data) != vocabulary_at + vocabulary_bytes:
            raise _damaged(path, f"it has {len(self._data)} bytes, but its header gives another length")
        self.weights: Any = numpy.frombuffer(self._data, "<u2", self.rows, HEADER.size).astype(numpy.int32)
        values = numpy.frombuffer(self._data, numpy.uint8, self.rows * self.dimensions, rows_at)
        self.values: Any = values.reshape(self.rows, self.dimensions)
        try:
            words = self._data[vocabulary_at:].decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise _damaged(path, "its vocabulary is not UTF-8") from error
        if len(words) >= self.rows:
            raise _damaged(path, f"it has {len(words)} words for {self.rows} rows")
        self.vocabulary = dict(zip(words, range(len(words)), strict=True))
        self.tokenizer = WordPiece(self.vocabulary, range(len(words), self.rows))


_shipped = cache(Table)
"""Opens the table that ships, which all embedders of a process share."""


def verify(path: Path) -> None:
    """Compare a shipped file with the SHA-256 next to it. Raises `ConfigError` when they differ, or one is missing."""
    import hashlib

    checksum = path.with_suffix(".sha256")
    try:
        expected = checksum.read_text("ascii").split()[0]
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise ConfigError(f"{path} cannot be compared with {checksum}: reinstall swarm-memory.") from error
    if found != expected:
        raise _damaged(path, f"its SHA-256 is not the one in {checksum.name}")


def labels_for_errors(texts: Sequence[str]) -> list[str]:
    """Return the names that errors use for the texts."""
    return [f"Text {at}" for at in range(len(texts))] if len(texts) > 1 else ["The text"] * len(texts)


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"The embedder's file {path} cannot be used ({reason}): reinstall swarm-memory.")
