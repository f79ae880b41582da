"""What a text says to its reader, whatever markup, entities or look-alikes disguise it; whether it copies tools'
results; and which part of it says when it matters.
"""

import html
import importlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from swarm_memory.tools.text.cleaning import clean, lazy
from swarm_memory.tools.text.intent import CONDITION, blank_quotations
from swarm_memory.tools.text.tokens import words_as_written

COPIED_WORDS = 12
"""This many words in a row from tools' results are a copy: what a tool wrote never becomes advice by itself."""

COPIED = f"copies {COPIED_WORDS} words in a row out of a tool's result"

_RUN = COPIED_WORDS // 2
"""A copy may combine two results: each half of it is searched for separately."""

_SPACED_OUT = re.compile(r"\b(?:\w[ .\-_*]){4,40}\w\b")
_SPACED_WORDS = re.compile(r"(?<![^\W_])(?:[^\W_][ .\-_*]{1,4}){8,400}[^\W_](?![^\W_])")
_BETWEEN_LETTERS = re.compile(r"(?<=\w)[ .\-_*](?=\w)")
_MARKS = lazy(r"[*`]|~~|</?(?:b|i|em|strong|u|s|span|font|mark|wbr)(?:\s[^<>]{0,200})?/?>", re.I)
"""Markup that sets letters off in Markdown and HTML and that no reader of the page sees."""

_UNSEEN = lazy(r"(?is)<!--.{,400}?-->|</?[a-z][^<>]{,200}>|!?\[(?:\^[^][]*|([^][]*))\](?:[([][^][()]{,400}[])])?|\\")
_WRAPPED = lazy(r"(?<![.;:!?\n])\n(?![^\S\n]{0,40}(?:\n|(?:[-+*\u2022]|\d{1,3}[.)]) (?:\S{1,99} {1,9}){3}\S))")
"""A line break that ends neither a sentence nor a paragraph, and begins no item of four words or more."""
_ITEM = lazy(r"(?<!\S)(?:[-+*\u2022]|\d{1,3}[.)])\s+")

_DOING = lazy(r"\w{3,}ing\b")
"""A word for what one is doing: "Changing how …"."""
_CLAUSE_END = re.compile(
    r"(?:(?<!Error)(?<!Exception):|[,;!?]|(?<!\.\w)\.)(?=\s|$)|\s[\u2013\u2014-]+\s|[\u3002\uff01\uff0c\uff1a\uff1b\uff1f]"
)
"""An error's name and its message stay in one clause."""

_GOES_ON = lazy(r"(?i)(?:or|such|like|e\.g|i\.e|especially|particularly|oder|etwa|besonders)\b|或|例如|尤其|特别")
"""The beginning of an addition to the clause before it."""
_BRACKETED = lazy(r"\([^()]*\)")


def plain(text: str) -> str:
    """Return a text as a reader sees it: `unmasked`, in lower case, without markup, spaced-out words joined. Linear."""
    text = _SPACED_WORDS.sub(lambda match: " ".join(_BETWEEN_LETTERS.sub("", match.group(0)).split()), unmasked(text))
    text = _SPACED_OUT.sub(lambda match: re.sub(r"[ .\-_*]", "", match.group(0)), text)
    return _MARKS.sub("", text).replace("_ ", " ").casefold()


def letters(text: str) -> str:
    """Return `plain` text without tags, comments, links' addresses, escapes, marks of lists and wrapped lines."""
    return plain(_ITEM.sub("", _WRAPPED.sub(" ", _UNSEEN.sub(r"\1", unmasked(text)))))


def unmasked(text: str) -> str:
    """Return a text with entities decoded, no invisible characters or accents, and Latin letters for look-alikes."""
    for _ in range(3 if "&" in text else 0):
        text = html.unescape(text)  # an entity may be written as entities: `&amp;#105;`
    text = unicodedata.normalize("NFKD", clean(text))
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_lookalikes()))


class _Seen(dict[int, str]):
    """Letters by code point as a reader sees them; a sign that no table has is read by its Unicode name."""

    def __missing__(self, code: int) -> str:
        sign, name = chr(code), unicodedata.name(chr(code), "")
        goes = unicodedata.category(sign) in ("Mn", "Me", "Cf") or name.endswith(" FILLER")
        latin = re.fullmatch(r"(?:.* )?(?:LATIN|SYMBOL) .*(?:LETTER|SMALL CAPITAL) ([A-Z])", name)
        return self.setdefault(code, "" if goes else latin[1].lower() if latin and not sign.isascii() else sign)


@cache
def _lookalikes() -> _Seen:
    """Return the Latin letters that signs look like (Unicode's confusables, UTS 39) or are named after; marks go."""
    known: Any = importlib.import_module("confusable_homoglyphs.confusables")  # it reads 900 KB
    pairs = ((sign, like["c"]) for sign, every in known.confusables_data.items() for like in every)
    found: dict[str, str] = {a: b for a, b in pairs if len(a + b) == 2 and a.isalpha() and a > "\x7f" >= b}
    # The table maps some small letters elsewhere: they look like what their capitals look like.
    found = {sign.lower(): like.lower() for sign, like in found.items() if len(sign.lower()) == 1} | found
    # What looks like a small L may be a capital i: then its small letter decides, which reads as an i.
    return _Seen({ord(sign): found.get(sign.lower(), like) if like == "l" else like for sign, like in found.items()})


class AgentContext(NamedTuple):
    """What an agent had read when it wrote, each in letters alone, with a blank between texts."""

    results: str = ""
    """The results of its tools, joined: a text may combine parts of several."""
    prompts: str = ""
    """What the user said: words that are here too are no copy."""

    @classmethod
    def of(cls, results: Iterable[str], prompts: Iterable[str] = ()) -> "AgentContext":
        return cls(*(" ".join("".join(own) for text in texts for own in _words(text)) for texts in (results, prompts)))


NOTHING_READ = AgentContext()


def copies_results(text: str, read: AgentContext) -> bool:
    """Whether a text has `COPIED_WORDS` words in a row that come from one or two results and from no prompt.

    Only letters are compared. Linear in the length of what was read for each word of the text.
    """
    is_read = cache(read.results.__contains__)

    def is_copied(words: list[str], at: int) -> bool:
        # Any six words contain three whose place is a multiple of three: these are searched for first, and once.
        third, run = at + -at % 3, "".join(words[at : at + _RUN])
        return is_read("".join(words[third : third + 3])) and is_read(run) and run not in read.prompts

    own = [(words, at) for words in _words(text) for at in range(len(words) - COPIED_WORDS + 1)] if read.results else []
    return any(is_copied(words, at) and is_copied(words, at + _RUN) for words, at in own)


def _words(text: str) -> Iterator[list[str]]:
    """Yield a text's words in letters alone: with what may be a disguise, or copied, and without it."""
    text = unmasked(text).casefold()
    for seen in dict.fromkeys((text, _UNSEEN.sub(r"\1", text))):
        words = " ".join("".join(filter(str.isalpha, word)) for word in words_as_written(seen))
        # Single letters in a row are one word, and what is written together is many, of five letters.
        yield re.findall(r"\w{1,20}(?!\w)|\w{5}", re.sub(r"(?<=\b[a-z]) +(?=[a-z]\b)", "", words))


def moment_of(text: str) -> str:
    """Return the part of a text that says when ("Before `make deploy`", "Adding a table"), not what to do then.

    That is its first clause, in any language, with those that continue it: "…, or in a fresh checkout".
    """
    text = " ".join(text.split())
    said = _BRACKETED.sub(lambda found: "_" * len(found[0]), blank_quotations(text))
    for end in _CLAUSE_END.finditer(said):
        after = said[end.end() :].lstrip()
        if after and not any(each.match(after) for each in (_GOES_ON, _DOING, CONDITION)):
            return text[: end.start()].strip(" .,;:")
    return text.strip(" ,;:")
