"""What words of many languages stand for (a secret, to send, to hide, a check …): the lexicon and how a text is read.

It weighs nothing: what the concepts of a text mean together is the classifier's.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

LEXICON = Path(__file__).parent / "data" / "concepts.txt"

_TOKEN = re.compile(r"--?[a-z][\w-]*|[\w.=/'-]*\w|[<>|\[\]]")
_UNSPACED = re.compile(r"[\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
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
    beginnings: dict[str, set[int]]
    phrases: dict[str, list[_Phrase]]
    pieces: tuple[tuple[str, int], ...]
    """Of scripts that put no blanks between words, or join endings to them."""


def concept_names() -> tuple[str, ...]:
    """Return the concepts in the order of their numbers."""
    return _lexicon().names


def concepts_of(text: str) -> set[int]:
    """Return the numbers of the concepts that a text in lower case speaks of."""
    lexicon = _lexicon()
    tokens: list[str] = _TOKEN.findall(text)
    found = {concept for piece, concept in lexicon.pieces if piece in text} if not text.isascii() else set[int]()
    for at, token in enumerate(tokens):
        for form in _forms(token):
            found |= lexicon.words.get(form, set())
            for end in range(2, len(form) + 1):
                found |= lexicon.beginnings.get(form[:end], set())
            found.update(
                phrase.concept
                for phrase in lexicon.phrases.get(form, ())
                if _follows(phrase, tokens[at + 1 : at + 1 + len(phrase.rest)])
            )
    return found


def _forms(token: str) -> set[str]:
    token = token[:_LONGEST_WORD]
    return {token, token.strip(_EDGES), token.removesuffix("'s")}


def _follows(phrase: _Phrase, tokens: Sequence[str]) -> bool:
    if len(tokens) < len(phrase.rest) or tuple(tokens[:-1]) != phrase.rest[:-1]:
        return False
    last = phrase.rest[-1]
    return tokens[-1].startswith(last) if phrase.begins else tokens[-1].strip(_EDGES) == last


@cache
def _lexicon() -> _Lexicon:
    lexicon = _Lexicon((), {}, {}, {}, ())
    names: list[str] = []
    pieces: list[tuple[str, int]] = []
    for name, entries in _lines():
        concept = len(names)
        names.append(name)
        for entry in entries:
            word = entry.rstrip("*")
            first, *rest = word.split()
            if _UNSPACED.search(word):
                pieces.append((word, concept))
            elif rest:
                lexicon.phrases.setdefault(first, []).append(_Phrase(tuple(rest), entry != word, concept))
            else:
                kind = lexicon.words if entry == word else lexicon.beginnings
                kind.setdefault(word, set()).add(concept)
    return lexicon._replace(names=tuple(names), pieces=tuple(pieces))


def _lines() -> Iterator[tuple[str, list[str]]]:
    for line in LEXICON.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, entries = line.partition(": ")
            yield name, [entry for entry in (part.strip() for part in entries.split(", ")) if entry]
