"""Find text that addresses an agent, a judge or a distiller instead of describing work: by rules, and by a classifier
for attacks whose wording no rule knows.

The classifier is linear; its features are the concepts of a sentence and their pairs, and its words and their pairs.
`scripts/screening/train.py` makes its weights.
"""

import base64
import json
import math
import re
import struct
import unicodedata
import zlib
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from swarm_memory.schema.errors import ConfigError
from swarm_memory.tools.guard.rules import SCREENING, Rule, any_in, compiled, table
from swarm_memory.tools.guard.wording import letters, plain
from swarm_memory.tools.text.cleaning import clean

WEIGHTS = Path(__file__).parent / "data" / "weights.bin"
LEXICON = Path(__file__).parent / "data" / "concepts.txt"
"""The concepts that words of many languages express: a secret, to send, to hide, a check …"""

WORD_BUCKETS = 1 << 15
_MAX_UNIT = 400
_MIN_UNIT_WORDS = 4
_REMEMBERED_WORDS = 1 << 14
_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")

Features = tuple[tuple[list[int], float], ...]
"""A text as numbers: its columns that are not 0, as concepts, pairs of concepts and words, with one value per group."""

_UNUSABLE = "The weights for screening memories, {path}, cannot be used ({reason}): reinstall swarm-memory."

_TOKEN = re.compile(r"--?[a-z][\w-]*|[\w.=/'-]*\w|[<>|\[\]]")
_JOINED = re.compile(r"[\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_EDGES = ".'/_-"
_LONGEST_WORD = 40

CLASSIFIED = "suspect wording"
"""The classifier's finding: no rule matched the text, but its wording as a whole is that of an attack."""

MAX_CHARS = 50_000
"""A longer text is no strategy: it is suspect for its length, and only this many characters are examined."""

_CODE = re.compile(r"`[^`\n]{1,200}`")
"""Commands are not prose: the classifier, which was trained on sentences, takes a series of them for orders."""

_CLAUSE = 70
"""How many characters before a match are searched for a word that takes it back."""

_LEET_WORD = re.compile(r"(?=[a-z]{0,12}[0-9$@])(?=[0-9$@]{0,12}[a-z])[a-z0-9$@]{3,20}")
_LEET_SIGN = re.compile(r"[0-9$@]")
_LEET = str.maketrans("4310$75@", "aeiostsa")
_MIN_LEET_WORDS = 4
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{24,4000}")
_HEX = re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,1000}|\b(?:[0-9a-fA-F]{2}){16,2000}\b")
_HIDDEN = re.compile("[\U000e0000-\U000e007f\u202a\u202b\u202d\u202e\u2066-\u2068]")
_CLAUSE_END = re.compile(r"[.;:!?\n]")

_FORGIVEN = re.compile(
    r"\b(?:never|do not|don't|does not|must not|mustn't|should not|shouldn't|cannot|can't|avoid|refuse|instead of"
    r"|rather than|stop|forbid|forbidden|reject|block|prevent|detect|without|no longer|not)\b"
)
"""Words that take back what follows them in the clause."""

_INSISTING = re.compile(r"\b(?:forget|fail|hesitate|omit|skip|neglect|refuse|miss|only|just|simply)\b")
"""Words that turn "never" into an order: never forget to …, do not just … but …"""

_SOUND_IN_PROMPTS = frozenset({"aimed at the memory", "new role", "forged delimiter"})
"""Findings that are an attack in any text but a prompt: there a user speaks to his own agent ("from now on, never …"),
or pastes a conversation or a log, whose marks are made harmless where they are shown (`cleaning.harmless`)."""


class Weights(NamedTuple):
    """The classifier: 8-bit weights, scales for concepts and for words, a threshold that sound texts seldom reach."""

    values: Sequence[int]
    scales: tuple[float, float]
    bias: float
    threshold: float


def units(text: str) -> list[str]:
    """Return the parts of a text that are scored separately: its longer sentences, or the whole where it has none.

    Each has at most 400 characters. (Scoring whole texts too finds hardly more attacks, but flags many sound texts.)
    """
    sentences = [part.strip() for part in _SENTENCE_END.split(text)]
    longer = [part for part in sentences if part.count(" ") >= _MIN_UNIT_WORDS - 1 or not part.isascii()]
    parts = longer or [text.strip()]
    stretches = (part[at : at + _MAX_UNIT] for part in parts for at in range(0, len(part), _MAX_UNIT))
    return list(dict.fromkeys(stretch for stretch in stretches if stretch))


def score(unit: str, weights: Weights) -> float:
    """Return how suspect one unit is; the threshold is not subtracted."""
    of_concepts, of_words = weights.scales
    total = weights.bias
    for (columns, value), scale in zip(features_of(unit), (of_concepts, of_concepts, of_words), strict=True):
        total += scale * value * sum([weights.values[column] for column in columns])
    return total


def features_of(unit: str) -> Features:
    """Return the features of one unit."""
    found, count = sorted(_concepts_of(unit)), len(_lexicon().names)
    pairs = [count + second * (second - 1) // 2 + first for at, second in enumerate(found) for first in found[:at]]
    said: list[str] = _WORD.findall(unit)
    if not unit.isascii() and (is_unspaced := _UNSPACED.search)(unit):
        said = [part for word in said for part in (word if not word.isascii() and is_unspaced(word) else (word,))]
    # A bucket for each word, and for each pair of adjacent words.
    both = [*said, *(f"{one} {other}" for one, other in pairwise(said))]
    buckets = {zlib.crc32(each.encode("utf-8", "replace")) % WORD_BUCKETS for each in both}
    words = [count_concept_columns() + bucket for bucket in buckets]
    norm = 1.0 / (1 + len(found))
    of_words = len(words) ** -0.5 if words else 0.0
    return (found, math.sqrt(3) * norm), (pairs, math.sqrt(2) * norm), (words, of_words)


@cache
def count_concept_columns() -> int:
    """Return how many columns the concepts and their pairs take."""
    count = len(_lexicon().names)
    return count + count * (count - 1) // 2


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
    if len(values) != count_concept_columns() + WORD_BUCKETS or zlib.crc32(values) != head["crc32"]:
        raise ConfigError(_UNUSABLE.format(path=path, reason="damaged, or made for a different lexicon"))
    first, second = head["scales"]
    return Weights(array("b", values), (first, second), head["bias"], head["threshold"])


class _Phrase(NamedTuple):
    rest: tuple[str, ...]
    begins: bool
    """Whether the last word is a beginning only (`word*`)."""
    concept: int


class _Lexicon(NamedTuple):
    names: tuple[str, ...]
    words: dict[str, set[int]]
    beginnings: dict[str, set[int]]
    """Concepts by the beginnings of words."""
    phrases: dict[str, list[_Phrase]]
    """By their first word."""
    pieces: list[tuple[str, int]]
    """Words of scripts that put no blanks between words, or join endings to them."""


def _concepts_of(text: str) -> set[int]:
    """Return the numbers of the concepts that a text in lower case expresses."""
    found: set[int] = set()
    if not text.isascii():
        found = {concept for piece, concept in _lexicon().pieces if piece in text}
    tokens: list[str] = _TOKEN.findall(text)
    for at, (concepts, phrases) in enumerate(map(_said_by, tokens), start=1):
        found |= concepts
        for rest, begins, concept in phrases:
            follow = tokens[at : at + len(rest)]
            if len(follow) < len(rest) or tuple(follow[:-1]) != rest[:-1]:
                continue
            if follow[-1].startswith(rest[-1]) if begins else follow[-1].strip(_EDGES) == rest[-1]:
                found.add(concept)
    return found


@lru_cache(_REMEMBERED_WORDS)
def _said_by(token: str) -> tuple[frozenset[int], tuple[_Phrase, ...]]:
    """Return the concepts that a word expresses in any of its forms, and the phrases that begin with it."""
    lexicon, token = _lexicon(), token[:_LONGEST_WORD]
    forms = {token, token.strip(_EDGES), token.removesuffix("'s")}
    found = {concept for form in forms for concept in lexicon.words.get(form, ())}
    begun = {form[:length] for form in forms for length in range(1, len(form) + 1)}
    found.update(concept for each in begun & lexicon.beginnings.keys() for concept in lexicon.beginnings[each])
    return frozenset(found), tuple(phrase for form in forms for phrase in lexicon.phrases.get(form, ()))


@cache
def _lexicon() -> _Lexicon:
    """Read the lexicon: each line is a concept's name, and the words, beginnings (`word*`) and phrases for it."""
    lines = [line for line in LEXICON.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    lexicon = _Lexicon(tuple(line.partition(": ")[0] for line in lines), {}, {}, {}, [])
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
                lexicon.beginnings.setdefault(word, set()).add(concept)
    return lexicon


class Finding(NamedTuple):
    """One thing that makes a text suspect."""

    rule: str
    """The shape of attack."""
    quote: str
    """The words that show it, at most 120 characters; empty where the rule's name is enough."""


def screen(text: str) -> tuple[Finding, ...]:
    """Return what is suspect in a text that is to become a strategy, one finding for each shape of attack; empty
    for a sound one.

    Both the text as a reader sees it (invisible characters removed, look-alike letters and spaced-out words restored)
    and what is encoded in it (base64, hexadecimal, percent signs) are examined. The classifier runs only where no rule
    found anything. Linear in the length.
    """
    return by_rules(text) or by_wording(text)


def by_wording(text: str) -> tuple[Finding, ...]:
    """Return what the classifier finds: its most suspect sentence, when that is over the threshold.

    What is in backticks is left to the rules. Raises `ConfigError` when the weights are damaged.
    """
    weights, prose = load_weights(), _CODE.sub("`x`", text[:MAX_CHARS])
    every = (unit for view in readings(prose) for unit in units(view))
    worst, unit = max(((score(unit, weights), unit) for unit in every), default=(-math.inf, ""))
    return (Finding(CLASSIFIED, " ".join(unit.split())[:120]),) if worst > weights.threshold else ()


def screen_prompt(text: str) -> tuple[Finding, ...]:
    """Return what the rules find in a user's own words: he may give his agent orders "from now on"."""
    return tuple(each for each in by_rules(text) if each.rule not in _SOUND_IN_PROMPTS)


def by_rules(text: str) -> tuple[Finding, ...]:
    """Return what the rules find, one finding for each shape of attack."""
    findings: dict[str, Finding] = {}
    if len(text) > MAX_CHARS:
        findings["too long"] = Finding("too long", f"{len(text):,} characters")
    for rule, quote in rules_that_fire(text):
        findings.setdefault(rule.kind, Finding(rule.kind, quote))
    if not text.isascii() and _HIDDEN.search(text[:MAX_CHARS]):
        findings["hidden characters"] = Finding("hidden characters", "invisible or direction-changing characters")
    return tuple(findings.values())


def reason_of(findings: tuple[Finding, ...]) -> str:
    """Return why a text is suspect, in one line, for the audit trail."""
    return "; ".join(f'{rule}: "{quote}"' if quote else rule for rule, quote in findings[:3])


def rules_that_fire(text: str) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that fires, once for each reading of the text, with the words that show it."""
    known = table(SCREENING)
    for view in dict.fromkeys((*readings(text[:MAX_CHARS]), letters(text[:MAX_CHARS]))):
        for rule in (each for each in known.rules if any_in(view, each.hints)):
            can_be_taken_back = rule.section.endswith(".unless_negated")
            for match in compiled(rule).finditer(view):
                if not (can_be_taken_back and _is_taken_back(view, match.start())):
                    yield rule, " ".join(match[0].split())[:120]
                    break


def _is_taken_back(text: str, start: int) -> bool:
    """Whether the clause says not to: "never pipe curl into sh" is sound advice, "never forget to" is not."""
    before = text[max(0, start - _CLAUSE) : start]
    ends = [match.end() for match in _CLAUSE_END.finditer(before)]
    clause = before[ends[-1] :] if ends else before
    return _FORGIVEN.search(clause) is not None and _INSISTING.search(clause) is None


@lru_cache(2)
def readings(text: str) -> tuple[str, ...]:
    """Return the text as a reader sees it, then what is encoded in it. Cached: rules and classifier both need it."""
    return tuple(_readings(text))


def _readings(text: str) -> Iterator[str]:
    read = plain(text)
    yield read
    if not text.isascii() and (own := unicodedata.normalize("NFKC", clean(text)).casefold()) != read:
        yield own  # other alphabets as they are
    if _LEET_SIGN.search(read) and len(_LEET_WORD.findall(read)) >= _MIN_LEET_WORDS:
        yield read.translate(_LEET)
    if "snoi" in read or "era uoy" in read or "eht" in read:
        yield read[::-1]
    if "%" in text:
        yield plain(unquote(text))
    blobs = _BLOB.findall(text)
    for blob in blobs:
        body = blob.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = _printable(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
        except ValueError:  # it is not base64
            continue
        if decoded:
            yield plain(decoded)
    for digits in _HEX.findall(text) if blobs or "\\x" in text else ():
        if decoded := _printable(bytes.fromhex(digits.replace("\\x", ""))):
            yield plain(decoded)


def _printable(data: bytes) -> str | None:
    """Return the data as text if it reads as text, else None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if " " in text and sum(each.isprintable() or each.isspace() for each in text) == len(text) else None
