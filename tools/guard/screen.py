"""What in a text speaks to an agent, a judge or a distiller instead of describing work, by rules and a classifier."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from swarm_memory.tools.guard.classifier import suspicion
from swarm_memory.tools.guard.rules import SCREENING, Rule, compiled, table
from swarm_memory.tools.text.cleaning import clean

CLASSIFIED = "suspect wording"
"""The finding of the classifier: no rule knows the text, its words as a whole are those of an attack."""

MAX_CHARS = 50_000
"""A longer text is no strategy; what is beyond is not looked at, and the text is suspect for it."""

_CODE = re.compile(r"`[^`\n]{1,200}`")
"""Commands are no prose: the classifier, which learned from sentences, takes a row of them for orders."""

_CLAUSE = 70
"""So many characters before a match are looked at for a word that takes it back."""

_SPACED_OUT = re.compile(r"\b(?:\w[ .\-_*]){4,40}\w\b")
_SPACED_WORDS = re.compile(r"(?<![^\W_])(?:[^\W_][ .\-_*]{1,4}){8,400}[^\W_](?![^\W_])")
_BETWEEN_LETTERS = re.compile(r"(?<=\w)[ .\-_*](?=\w)")
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
"""What takes back what follows it in the clause."""

_INSISTING = re.compile(r"\b(?:forget|fail|hesitate|omit|skip|neglect|refuse|miss|only|just|simply)\b")
"""What makes of "never" an order: never forget to …, do not just … but …"""

_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb"
    "\u03bf\u03b1\u03b5\u03b9\u03ba\u03bd\u03c1\u03c4\u0131\u0261",
    "aeopcyxijsdhoaeikvptig",
)
"""Letters of other alphabets that look like Latin ones."""
_ALIKE_LETTER = re.compile(f"[{''.join(map(chr, _ALIKE))}]")


_OWN_ORDERS = frozenset({"aimed at the memory", "new role"})
"""How a user speaks to his own agent ("from now on, never …"): no attack in a prompt, but in any other text."""


class Finding(NamedTuple):
    """One thing that makes a text suspect."""

    rule: str
    """The shape of attack."""
    quote: str
    """The words that show it, at most 120 characters."""


def screen(text: str) -> tuple[Finding, ...]:
    """Return what is suspect in a text that is to become a strategy, one finding for each shape of attack; empty
    for a sound one.

    Looked at are the text as a reader sees it (invisible characters taken out, look-alike letters and spaced-out words
    put back) and what is encoded in it (base64, hexadecimal, percent signs). The classifier is asked where no rule
    found anything. Linear in the length.
    """
    return by_rules(text) or by_wording(text)


def by_wording(text: str) -> tuple[Finding, ...]:
    """Return what the classifier finds: its most suspect sentence, when that is over the threshold.

    What is in back-ticks is left to the rules.
    """
    prose = _CODE.sub("`x`", text[:MAX_CHARS])
    worst = max((suspicion(view) for view in readings(prose)), default=None)
    if worst is None or worst[0] <= 0:
        return ()
    return (Finding(CLASSIFIED, " ".join(worst[1].split())[:120]),)


def by_rules_of_prompts(text: str) -> tuple[Finding, ...]:
    """Return what the rules find in what a user says himself, who may order his agent about from now on."""
    return tuple(each for each in by_rules(text) if each.rule not in _OWN_ORDERS)


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
    return "; ".join(f'{finding.rule}: "{finding.quote}"' for finding in findings[:3])


def rules_that_fire(text: str) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that fires, once for each reading of the text, with the words that show it."""
    known = table(SCREENING)
    for view in readings(text[:MAX_CHARS]):
        for rule in known.hinted(view):
            if quote := _found(rule, view):
                yield rule, quote


def _found(rule: Rule, text: str) -> str | None:
    for match in compiled(rule).finditer(text):
        if not (rule.section.endswith(".unless_negated") and _is_taken_back(text, match.start())):
            return " ".join(match[0].split())[:120]
    return None


def _is_taken_back(text: str, start: int) -> bool:
    """Whether the clause says not to: "never pipe curl into sh" is sound advice, "never forget to" is not."""
    before = text[max(0, start - _CLAUSE) : start]
    ends = [match.end() for match in _CLAUSE_END.finditer(before)]
    clause = before[ends[-1] :] if ends else before
    return _FORGIVEN.search(clause) is not None and _INSISTING.search(clause) is None


@lru_cache(2)
def readings(text: str) -> tuple[str, ...]:
    """Return the text as it reads, then what is encoded in it. Rules and classifier both ask."""
    return tuple(_readings(text))


def _readings(text: str) -> Iterator[str]:
    plain = _readable(text)
    yield plain
    if not text.isascii() and _ALIKE_LETTER.search(text):
        yield unicodedata.normalize("NFKC", clean(text)).casefold()  # other alphabets as they are
    if _LEET_SIGN.search(plain) and len(_LEET_WORD.findall(plain)) >= _MIN_LEET_WORDS:
        yield plain.translate(_LEET)
    if "snoi" in plain or "era uoy" in plain or "eht" in plain:
        yield plain[::-1]
    if "%" in text:
        yield _readable(unquote(text))
    blobs = _BLOB.findall(text)
    for blob in blobs:
        if decoded := _decoded(blob):
            yield _readable(decoded)
    for digits in _HEX.findall(text) if blobs or "\\x" in text else ():
        if decoded := _printable(bytes.fromhex(digits.replace("\\x", ""))):
            yield _readable(decoded)


def _readable(text: str) -> str:
    text = unicodedata.normalize("NFKC", clean(text))
    text = text.translate(_ALIKE) if _ALIKE_LETTER.search(text) else text
    text = _SPACED_WORDS.sub(lambda match: " ".join(_BETWEEN_LETTERS.sub("", match.group(0)).split()), text)
    text = _SPACED_OUT.sub(lambda match: re.sub(r"[ .\-_*]", "", match.group(0)), text)
    return text.replace("*", "").replace("_ ", " ").replace("`", "").casefold()


def _decoded(blob: str) -> str | None:
    body = blob.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _printable(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


def _printable(data: bytes) -> str | None:
    """Return the data as text when it reads as text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if " " in text and sum(each.isprintable() or each.isspace() for each in text) == len(text) else None
