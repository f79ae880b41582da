"""Text as the keyword leg and the budgets see it: tokens for index and query, an estimate of a model's tokens, and
what a text names exactly: what is in backticks, files, identifiers, scripts and packages.

A change in what `tokenize` returns requires the keyword index to be rebuilt.
"""

import importlib
import importlib.util
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from operator import add
from types import ModuleType
from typing import Any

MAX_TOKEN_CHARS = 40
"""A longer token (a hash, base64) is cut to this length on both sides, so that it still matches itself."""

_CACHED_WORDS = 1 << 16
_CACHED_WORD_CHARS = 64
_MAX_IDENTIFIER_CHARS = 128

STOP_WORDS = frozenset(
    """
    a about above again all also am an and any are as at be because been being below between both but by can could did
    do does doing done down during each either few for from further had has have having he her here hers herself him
    himself his how i if in into is it its itself just let like may me might much must my myself neither nor now of on
    once only onto or other our ours ourselves out over own per please shall she should so some such than that the
    their theirs them themselves then there these they this those through thus to too under up upon us very via want
    was we were what whatever when where whether which while who whom whose why will with within would yet you your
    yours yourself yourselves don doesn didn isn aren wasn weren hasn haven hadn won wouldn shouldn couldn mustn cannot
    ain
    """.split()  # noqa: SIM905 - a paragraph of words reads better than a list of strings
)
"""Words that are in every text. They are left out of the index and of queries. Words that reverse a strategy (not,
without, before, after, until) stay in."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019](?:s|t|d|m|ll|re|ve)\b)?", re.IGNORECASE)
_CASE_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z](?!s\b)[a-z])")
"""Where camelCase changes words: getV2Items, HTTPServer, but not URLs, Python3 or 3D."""

# Chinese, Japanese and Korean, and the scripts of South East Asia that put no space between words.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
# Compiled only where they are needed: that takes a hook 6 ms, and hardly any hook needs them.
_SCRIPT_RUN = rf"([{_UNSPACED}]+)|[^{_UNSPACED}]+"
_AS_WRITTEN = rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['\u2019-][^\W_{_UNSPACED}]+)*"
_VOICED = {0x3099, 0x309A}
"""The two marks that turn a kana into another one: they are kept and composed, all other marks are dropped."""

_MODEL_PIECE = re.compile(
    r"[A-Za-z]{1,7}|[0-9]{1,3}|\n[ \t\n]*|[!-/:-@\[-`{-~]{1,2}|[ \t]{2,16}|[\u00c0-\u052f\u0590-\u06ff]{1,2}|[^\s!-~]"
)
_ASTRAL = re.compile(r"[\U00010000-\U0010ffff]")

_SPAN = re.compile(r"`([^`\n]{2,300})`")
_PATH = re.compile(r"(?<![\w@/.:~$%*-])(?=~|[\w@+-]*[./])((?:(?:~|\.{0,2})/)?(?:[\w.@+-]+/)*[\w.@+-]+/?)(?![\w/*])")
"""Looks ahead for a dot or a slash: most words have none."""
_IS_PATH = re.compile(r"(?=.*[A-Za-z])(?!\w\.\w$)(?:.*/.*|[\w.@+-]*[A-Za-z_][\w@+-]*\.[A-Za-z]\w{0,7}|\.[a-z][\w.-]+)")
_MAX_PATH = 200
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w*_\w+\b|\b[a-z][a-z0-9]+[A-Z]\w*\b|(?<!\S)--[a-z][\w-]+")
SCRIPT = re.compile(r"\b(?:(?:npm|pnpm|yarn|bun) run|make|just|task|poe) [A-Za-z][\w:-]*(?:\.[\w:-]+)*")
_PACKAGE = re.compile(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?")


class _WithoutMarks(dict[int, int | None]):
    """Maps a code point to itself, or to nothing when it is a combining mark."""

    def __missing__(self, code: int) -> int | None:
        is_mark = unicodedata.category(chr(code)).startswith("M") and code not in _VOICED
        self[code] = kept = None if is_mark else code
        return kept


_WITHOUT_MARKS = _WithoutMarks()


def tokenize(text: str) -> tuple[str, ...]:
    """Return all tokens of `text` in order, repeats included; index and query use this one function.

    Compatibility forms and accents are folded, identifiers split at case and underscore, stop words left out, words
    lower-cased and stemmed (Snowball English); Chinese, Japanese, Korean and other scripts without spaces become pieces
    of two characters. A token has only letters and digits, at most 40. Linear in the length.
    """
    if not text.isascii():  # as NFKC, without marks; they go first, because sorting a long run of them is quadratic
        decomposed = unicodedata.normalize("NFKD", text.translate(_WITHOUT_MARKS))
        text = unicodedata.normalize("NFC", decomposed.translate(_WITHOUT_MARKS))
    tokens: list[str] = []
    for word in _WORD.findall(text):
        tokens += _cached_tokens(word) if len(word) <= _CACHED_WORD_CHARS else _word_tokens(word)
    return tuple(tokens)


def words_as_written(text: str) -> list[str]:
    """Return the words of `text` in order and in lower case, stop words too; each character of scripts without spaces.

    It is used to count the words of a text, and to see how it begins, in any script.
    """
    return re.findall(_AS_WRITTEN, text.lower())


def query_tokens(text: str) -> tuple[str, ...]:
    """Return the distinct tokens of `text` in the order of their first use."""
    return tuple(dict.fromkeys(tokenize(text)))


def count_tokens(text: str) -> int:
    """Estimate how many tokens a language model makes of `text`, rather too many than too few.

    A word counts 1 for each 7 letters, digits 1 for each 3, punctuation 1 for each 2 characters, an indented line 1,
    a character of other scripts 1, an emoji 3. Linear in the length.
    """
    pieces = len(_MODEL_PIECE.findall(text))
    return pieces if text.isascii() else pieces + 2 * len(_ASTRAL.findall(text))


def _word_tokens(word: str) -> tuple[str, ...]:
    word = word.partition("'")[0].partition("\u2019")[0]
    tokens: list[str] = []
    if word.isascii():  # the parts of an identifier, and the whole of it too: GitHub is also written github
        parts = [] if word.islower() or len(word) > _MAX_IDENTIFIER_CHARS else _CASE_BOUNDARY.split(word)
        for part in (word, *(parts if len(parts) > 1 else ())):
            tokens += _term(part)
        return tuple(tokens)
    for run in re.finditer(_SCRIPT_RUN, word):
        if (unspaced := run.group(1)) is None:
            tokens += _term(run.group())
        else:
            tokens += map(add, unspaced, unspaced[1:]) if len(unspaced) > 1 else unspaced
    return tuple(tokens)


_cached_tokens = lru_cache(_CACHED_WORDS)(_word_tokens)


def _term(word: str) -> Iterator[str]:
    lowered = word.lower()
    if lowered in STOP_WORDS:
        return
    term = lowered[:MAX_TOKEN_CHARS]
    if term.isascii() and term.isalpha():
        term = str(_english_stemmer()().stemWord(term))
    if not term.isalnum():
        term = "".join(filter(str.isalnum, term))
    if term:
        yield term


@cache
def _english_stemmer() -> Callable[[], Any]:
    """Return the class of the English stemmer; every use makes an instance, because an instance is not thread-safe."""
    spec = importlib.util.find_spec("snowballstemmer")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("snowballstemmer is not installed", name="snowballstemmer")
    # Importing the real one takes 150 ms (35 languages) and uses PyStemmer if present: no index may depend on that.
    package = ModuleType("swarm_memory_snowball")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[package.__name__] = package
    return importlib.import_module(f"{package.__name__}.english_stemmer").EnglishStemmer


def code_spans(text: str) -> list[str]:
    """Return what is between backticks, each text once."""
    return list(dict.fromkeys(span.strip() for span in _SPAN.findall(text)))


def is_path(text: str) -> bool:
    """Whether a word looks like the path of a file or a folder: it has a slash or an extension ("e.g" does not)."""
    return _IS_PATH.fullmatch(text) is not None


def paths_in(text: str) -> Iterator[str]:
    """Yield what looks like a path, as it is written but without a leading `./`; nothing from within a URL."""
    found = (path.removeprefix("./").rstrip(".") for path in _PATH.findall(text))
    yield from (path for path in found if len(path) <= _MAX_PATH and is_path(path))


def packages_in(text: str) -> Iterator[str]:
    """Yield what may be a package's name, within backticks only: words of prose are names of packages too."""
    for name in _PACKAGE.findall("\n".join(code_spans(text))):
        yield from (name.rstrip("."), name.split(".")[0])


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, in lower case: what is in backticks, and the files and identifiers anywhere.

    "and/or" is not one: a path without an extension must have at least two slashes.
    """
    paths = (path for path in paths_in(text) if "/" in path or "@" not in path)
    files = (path for path in paths if "." in path.rpartition("/")[2].strip(".") or path.count("/") > 1)
    return frozenset(name.lower() for name in (*code_spans(text), *files, *_IDENTIFIER.findall(text)) if name)


def shares_a_name(text: str, other: str) -> bool:
    """Whether one of two texts contains a name that is in the other."""
    one, two = text.lower(), other.lower()
    return any(name in two for name in names_in(text)) or any(name in one for name in names_in(other))
