"""How suspect the wording of a text is, by weights that were learned: for attacks in words that no rule knows.

A linear classifier over what a sentence speaks of, alone and in pairs, and over its words and their pairs.
`scripts/screening/train.py` makes the weights.
"""

import json
import math
import re
import struct
import zlib
from array import array
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import ConfigError

WEIGHTS = Path(__file__).parent / "data" / "weights.bin"
LEXICON = Path(__file__).parent / "data" / "concepts.txt"
"""What words of many languages stand for: a secret, to send, to hide, a check …"""

WORD_BUCKETS = 1 << 15
_MAX_UNIT = 400
_MIN_UNIT_WORDS = 4
_REMEMBERED_WORDS = 1 << 14
_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")


Features = tuple[tuple[list[int], float], ...]
"""A text as numbers: the columns that are not 0, in three groups of one value each: concepts, pairs of them, words."""


class Weights(NamedTuple):
    """The classifier: 8-bit weights, a scale for each group of columns, the threshold that sound texts seldom reach."""

    values: Sequence[int]
    scales: tuple[float, float]
    bias: float
    threshold: float


def suspicion(text: str) -> tuple[float, str]:
    """Return the highest score of a text's sentences and lines, and the one that has it.

    The text is in lower case and in the form in which a reader sees it. A score above 0 is suspect: the threshold is
    taken off. Linear in the length. Raises `ConfigError` when the weights are damaged.
    """
    weights = load_weights()
    scored = ((score(unit, weights) - weights.threshold, unit) for unit in units(text))
    return max(scored, default=(-math.inf, ""))


def units(text: str) -> list[str]:
    """Return what is scored by itself: a text's longer sentences, or the whole where it has none.

    In stretches of 400 characters. (To score whole texts too finds hardly more attacks, and many sound texts.)
    """
    sentences = [part.strip() for part in _SENTENCE_END.split(text)]
    longer = [part for part in sentences if part.count(" ") >= _MIN_UNIT_WORDS - 1 or not part.isascii()]
    parts = longer or [text.strip()]
    stretches = (part[at : at + _MAX_UNIT] for part in parts for at in range(0, len(part), _MAX_UNIT))
    return list(dict.fromkeys(stretch for stretch in stretches if stretch))


def score(unit: str, weights: Weights) -> float:
    """Return how suspect one unit is, before the threshold is taken off."""
    of_concepts, of_words = weights.scales
    total = weights.bias
    for (columns, value), scale in zip(features_of(unit), (of_concepts, of_concepts, of_words), strict=True):
        total += scale * value * sum([weights.values[column] for column in columns])
    return total


def features_of(unit: str) -> Features:
    """Return the features of one unit."""
    found, count = sorted(concepts_of(unit)), len(concept_names())
    pairs = [count + second * (second - 1) // 2 + first for at, second in enumerate(found) for first in found[:at]]
    words = [concept_columns() + bucket for bucket in _word_buckets(unit)]
    norm = 1.0 / (1 + len(found))
    of_words = len(words) ** -0.5 if words else 0.0
    return (found, math.sqrt(3) * norm), (pairs, math.sqrt(2) * norm), (words, of_words)


@cache
def concept_columns() -> int:
    """Return how many columns the concepts and their pairs take."""
    count = len(concept_names())
    return count + count * (count - 1) // 2


def _word_buckets(unit: str) -> set[int]:
    """Return the buckets of the words and of each two that follow one another: CRC-32 of both with a blank between."""
    words: list[str] = _WORD.findall(unit)
    if not unit.isascii() and (is_unspaced := _UNSPACED.search)(unit):
        words = [part for word in words for part in (word if not word.isascii() and is_unspaced(word) else (word,))]
    both = [*words, *(f"{one} {other}" for one, other in pairwise(words))]
    return {zlib.crc32(each.encode("utf-8", "replace")) % WORD_BUCKETS for each in both}


@cache
def load_weights(path: Path = WEIGHTS) -> Weights:
    """Return the weights of a file. Raises `ConfigError` when they are missing or do not fit the lexicon."""
    try:
        data = path.read_bytes()
        (length,) = struct.unpack_from("<I", data)
        head = json.loads(data[4 : 4 + length])
    except (OSError, struct.error, ValueError) as error:
        raise ConfigError(_UNUSABLE.format(path=path, reason=f"cannot be read: {error}")) from error
    values = data[4 + length :]
    if len(values) != concept_columns() + WORD_BUCKETS or zlib.crc32(values) != head["crc32"]:
        raise ConfigError(_UNUSABLE.format(path=path, reason="damaged, or made for another lexicon"))
    first, second = head["scales"]
    return Weights(array("b", values), (first, second), head["bias"], head["threshold"])


_UNUSABLE = "The weights that screen memories, {path}, cannot be used ({reason}): reinstall swarm-memory."

_TOKEN = re.compile(r"--?[a-z][\w-]*|[\w.=/'-]*\w|[<>|\[\]]")
_JOINED = re.compile(r"[\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_EDGES = ".'/_-"
_LONGEST_WORD = 40


class _Phrase(NamedTuple):
    rest: tuple[str, ...]
    begins: bool
    """Whether the last word need only begin so."""
    concept: int


class _Lexicon(NamedTuple):
    names: tuple[str, ...]
    words: dict[str, set[int]]
    beginnings: list[tuple[str, int]]
    """Of words."""
    phrases: dict[str, list[_Phrase]]
    """By their first word."""
    pieces: list[tuple[str, int]]
    """Of scripts that put no blanks between words, or join endings to them."""


def concept_names() -> tuple[str, ...]:
    """Return the concepts in the order of their numbers."""
    return _lexicon().names


def concepts_of(text: str) -> set[int]:
    """Return the numbers of the concepts that a text in lower case speaks of."""
    found: set[int] = set()
    if not text.isascii():
        found = {concept for piece, concept in _lexicon().pieces if piece in text}
    tokens: list[str] = _TOKEN.findall(text)
    for at, (concepts, phrases) in enumerate(map(_said_by, tokens), start=1):
        found |= concepts
        found.update(each.concept for each in phrases if _follows(each, tokens[at : at + len(each.rest)]))
    return found


@lru_cache(_REMEMBERED_WORDS)
def _said_by(token: str) -> tuple[frozenset[int], tuple[_Phrase, ...]]:
    """Return the concepts that a word says in whatever form, and the phrases that it begins."""
    lexicon, token = _lexicon(), token[:_LONGEST_WORD]
    forms = {token, token.strip(_EDGES), token.removesuffix("'s")}
    found = {concept for form in forms for concept in lexicon.words.get(form, ())}
    found.update(concept for begun, concept in lexicon.beginnings if any(form.startswith(begun) for form in forms))
    return frozenset(found), tuple(phrase for form in forms for phrase in lexicon.phrases.get(form, ()))


def _follows(phrase: _Phrase, tokens: Sequence[str]) -> bool:
    if len(tokens) < len(phrase.rest) or tuple(tokens[:-1]) != phrase.rest[:-1]:
        return False
    last = phrase.rest[-1]
    return tokens[-1].startswith(last) if phrase.begins else tokens[-1].strip(_EDGES) == last


@cache
def _lexicon() -> _Lexicon:
    """Read the file: each line is a concept's name, and the words, beginnings (`word*`) and phrases that say it."""
    lines = [line for line in LEXICON.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    lexicon = _Lexicon(tuple(line.partition(": ")[0] for line in lines), {}, [], {}, [])
    for concept, line in enumerate(lines):
        for entry in filter(None, map(str.strip, line.partition(": ")[2].split(", "))):
            word = entry.rstrip("*")
            first, *rest = word.split()
            if _JOINED.search(word):
                lexicon.pieces.append((word, concept))
            elif rest:
                lexicon.phrases.setdefault(first, []).append(_Phrase(tuple(rest), entry != word, concept))
            elif entry == word:
                lexicon.words.setdefault(word, set()).add(concept)
            else:
                lexicon.beginnings.append((word, concept))
    return lexicon
