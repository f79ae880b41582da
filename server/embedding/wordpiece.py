"""Splits text into the row numbers of an uncased BERT vocabulary."""

import unicodedata
import zlib
from collections.abc import Mapping
from functools import lru_cache

MAX_CHARS = 32_768
MAX_TOKENS = 1_024
_MAX_WORD_CHARS = 100
_CACHED_WORDS = 32_768
_CJK_RANGES = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class _CharacterMap(dict[int, str | None]):
    """What BERT's cleaning makes of a code point: nothing, a blank, its small letter, or itself between blanks."""

    def __missing__(self, code: int) -> str | None:
        self[code] = cleaned = _clean(code)
        return cleaned


def _clean(code: int) -> str | None:
    character = chr(code)
    category = unicodedata.category(character)
    if character in "\t\n\r" or category.startswith("Z"):
        return " "
    if category.startswith("C") or category == "Mn" or code == 0xFFFD:
        return None
    ascii_symbol = code < 0x80 and not character.isalnum()
    if ascii_symbol or category.startswith("P") or any(low <= code <= high for low, high in _CJK_RANGES):
        return f" {character} "
    return character.lower()  # one by one, so that a capital sigma becomes the same wherever it stands


class WordPiece:
    """BERT's uncased tokenizer: lower case, no accents, punctuation and CJK split off, longest match first.

    A word the vocabulary cannot spell (an emoji, most Han characters, a word over 100 characters) falls by its CRC-32
    into one of the ``unknown`` rows: where there are many, equal unknown words still match each other.
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
