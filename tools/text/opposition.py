"""Whether two instructions are opposites, by their words alone.

What the rules recognize: two instructions with nearly the same words, of which one is negated ("do", "do not", "avoid",
"never"), or has the antonym of a word in the other, or advises what the other puts after "rather than". What they miss:
opposites in other words, the order of two things (except before and after), numbers, languages other than English, and
code, which is skipped (what is indented by four, or fenced, as in Markdown). They find no opposition where the
conditions differ ("if it is a GET …"), where there is an exception ("unless"), or where two things are reversed.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.tokens import tokenize

NEGATED, TURNED = 0.95, 0.85
"""Probability that two instructions of exactly the same words are opposites: if one is negated, or has an antonym."""

CONTRADICTS = 0.6
"""The probability from which two memories count as contradicting each other."""

MIN_SHARED = 0.6
"""The share of the words of both, without negation and antonyms, that must be the same (Jaccard)."""

_MIN_WORDS = 2
_MIN_COMMON = 3
"""Two words in common may be an accident, unless they are all there is."""

_MAX_CLAUSES = 40
CACHED_TEXTS = 4_000  # some 12 MB of clauses

_NEGATION = lazy(
    r"\b(?:do(?:es)?\s+not|don['\u2019]?t|doesn['\u2019]?t|must\s+not|mustn['\u2019]?t|should\s+not|shouldn['\u2019]?t"
    r"|cannot|can\s+not|can['\u2019]?t|need\s+not|never|not|no\s+longer|avoid(?:s|ing)?|refrain(?:\s+from)?|skip(?:ping)?"
    r"|forbidden\s+to|stop\s+(?=\w+ing)|without\s+(?=\w+ing)|rather\s+than|instead\s+of)\b",
    re.IGNORECASE,
)
_CONTRAST = lazy(r"\b(?:rather\s+than|instead\s+of)\b|(?:,|\band)\s+not\b(?!\s+only\b)", re.IGNORECASE)
_CONDITION = lazy(r"\b(?:if|when|whenever|while|where|unless|except|until|in\s+case|for)\b[^,;:]*", re.IGNORECASE)
_PURPOSE = lazy(
    r"\b(?:to|and|thereby|thus)\s+(?:avoid|prevent)(?:s|ing)?\b[^,;:]*|\b(?:avoid|prevent)ing\b[^,;:]*$"
    r"|\b(?:so\s+that|because|since|otherwise|or\s+else)\b[^;:]*",
    re.IGNORECASE,
)
"""The purpose of an instruction, or its reason: "to avoid errors" forbids nothing."""
_ORDER = lazy(r"\b(?:before|after)\b(.*)", re.IGNORECASE)
_EXCEPTION = lazy(r"\b(?:unless|except)\b", re.IGNORECASE)
_CLAUSE_END = lazy(r"[\n;]+|(?<=[.!?])\s+|,?\s+(?:but|and\s+then|then)\s+", re.IGNORECASE)
_CODE = lazy(r"^```.*?(?:^```|\Z)|^(?: {4}|\t)(?!\s*(?:\d{1,2}\s*[.)]|[-*•])\s)[^\n]*", re.MULTILINE | re.DOTALL)
_NUMBERING = lazy(r"^\s*(?:\d{1,2}\s*[.)]|[-*•])\s*")
LIGHT = frozenset({
    "abl", "alway", "avoid", "best", "better", "care", "consid", "ensur", "execut", "good", "make", "need", "never",
    "not", "perform", "practic", "refrain", "rememb", "run", "skip", "sure", "take", "tri", "use",
})  # fmt: skip
"""Stems of words that say that something is to be done, not what; stemming them at run time takes a hook too long."""

_SEQUENCE = "first/last"
"""It qualifies an instruction and is not its subject: "do it first" and "do not do it" are opposites all the same."""


class Clause(NamedTuple):
    """One instruction, taken apart."""

    words: frozenset[str]
    """Stems of what it is about, antonyms and light words left out."""
    turns: Mapping[str, str]
    """The side of each antonym in it, by axis ("enable/disable"); an axis with both sides in it is left out."""
    negated: bool
    when: frozenset[str]
    """Stems of its condition, and of what follows "before" or "after"."""
    refused: frozenset[str]
    """Stems of what follows "rather than", "instead of" or ", not", without those of `words`."""


def opposition(first: str, second: str) -> float:
    """Return the probability 0…1 that two texts have instructions that contradict each other; 0 where no rule says so.

    It is that of the surest pair of instructions: `NEGATED` or `TURNED`, times the share of words in common.
    """
    found, others = 0.0, clauses(second)
    for one in clauses(first):
        for other in others:
            may_differ = one.negated != other.negated or (one.turns and other.turns)
            if one.refused or (may_differ and not one.words.isdisjoint(other.words)):  # most have nothing in common
                found = max(found, _between(one, other))
    return found


def has_antonyms(title: str, other: str) -> bool:
    """Whether two titles are on opposite sides of an antonym, whatever else they say."""
    mine, others = ({side for stem in tokenize(each) for side in _sides_of(stem)} for each in (title, other))
    pairs = ((one, two) for one in mine for two in others if one[0] == two[0] and one[1] != two[1])
    return any(two not in mine and one not in others for one, two in pairs)


def is_negated(title: str) -> bool:
    """Whether a title advises against something: it has an odd number of negations."""
    contrast = _CONTRAST.search(title)
    return len(_NEGATION.findall(title[: contrast.start()] if contrast else title)) % 2 == 1


def _sides_of(stem: str) -> Sequence[tuple[str, str]]:
    """Return (axis, side) of each pair of antonyms that a stem belongs to: ("enable/disable", "disable")."""
    return _antonyms().get(stem, ())


@cache
def _antonyms() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for pair in (Path(__file__).parent / "data" / "antonyms.txt").read_text(encoding="utf-8").splitlines():
        for word in pair.split():
            for stem in tokenize(word) or (word,):
                found.setdefault(stem, []).append((pair.replace(" ", "/"), word))
    return found


@lru_cache(CACHED_TEXTS)
def clauses(text: str) -> tuple[Clause, ...]:
    """Return the instructions of a text that say enough to be compared; the first ones if there are too many."""
    found: list[Clause] = []
    for part in _CLAUSE_END.split(_CODE.sub("", text)):
        sentence, *refused = _CONTRAST.split(_NUMBERING.sub("", part), maxsplit=1)
        conditions = _CONDITION.findall(sentence)
        condition = " ".join(conditions)
        if _EXCEPTION.search(condition):
            continue
        advice = _PURPOSE.sub(" ", _CONDITION.sub(" ", sentence) if conditions else sentence)
        affirmed, negations = _NEGATION.subn(" ", advice)
        stems = [*tokenize(affirmed)]
        if re.search(r"\b(?:turn|switch)", advice.lower()):  # "on" is a stop word of the index
            stems += re.findall(r"\b(?:on|off)\b", advice.lower())
        sides = {side for stem in stems for side in _sides_of(stem)}
        axes = [axis for axis, _ in sides]
        turns = {axis: side for axis, side in sides if axes.count(axis) == 1}
        words = frozenset(stem for stem in stems if not _sides_of(stem) and stem not in LIGHT)
        if len(words) + bool(sides) < _MIN_WORDS:  # "search for callers": what looks like a condition is the object
            words |= frozenset(tokenize(condition)) - LIGHT
        if len(words) + bool(sides) >= _MIN_WORDS:
            order = _ORDER.search(advice)
            clause = Clause(
                words=words,
                turns=turns,
                negated=negations % 2 == 1,
                when=frozenset(tokenize(f"{condition} {order[1] if order else ''}")),
                refused=frozenset(tokenize("".join(refused))) - words - LIGHT,
            )
            found.append(clause)
    return tuple(found[:_MAX_CLAUSES])


def _between(one: Clause, other: Clause) -> float:
    if one.refused & other.words and other.refused & one.words and one.negated == other.negated:
        share = _share(one.words | one.refused, other.words | other.refused)
        return share * NEGATED if share >= MIN_SHARED else 0.0
    if one.words.isdisjoint(other.words) or (one.when != other.when and _share(one.when, other.when) < MIN_SHARED):
        return 0.0
    both = [axis for axis in one.turns if axis in other.turns]
    turned = [axis for axis in both if one.turns[axis] != other.turns[axis]]
    if len(turned) > 1 or (len(turned) == 1) == (one.negated != other.negated):
        return 0.0
    if not turned and any((one.turns.keys() ^ other.turns.keys()) - {_SEQUENCE}):
        return 0.0
    share, common = _share(one.words, other.words), len(one.words & other.words)
    least = _MIN_COMMON if share < 1 else _MIN_WORDS - bool(one.turns and other.turns)
    if share < MIN_SHARED or common < least:
        return 0.0
    return share * (TURNED if turned else NEGATED)


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard index of two sets: 1 for the same, 0 for nothing in common or an empty one."""
    return len(one & other) / len(one | other) if one and other else 0.0
