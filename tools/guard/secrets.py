"""Secrets in a text: those in the formats of vendors, and those that what stands around them gives away."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, chain

from swarm_memory.tools.guard.assignments import find_assigned, is_shown_to_all
from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.guard.values import is_mixed, is_password, is_random, is_reference
from swarm_memory.tools.text.cleaning import lazy

_ESCAPE = lazy(r"(?:\x1b|\\(?:x1[bB]|u001[bB]|033|e))\[[0-9;?]{0,20}[A-Za-z]|\\[nrt]")
_MARK = lazy(r"\[(?:secret:[a-z0-9-]{1,40}|email|card|iban|phone|ssn)\]")


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets, those of known vendors first, then those that their surroundings give away.

    Spans may overlap; none touches a mark that stands already. Linear in the length of the text.
    """
    yield from _private_keys(text)
    # What ends a word where it is shown ends it here: colours of a terminal, line breaks written as \n.
    if "\\" in text or "\x1b" in text:
        text = _ESCAPE.sub(lambda match: "\n".ljust(len(match[0])), text)
    marks = [match.span() for match in _MARK.finditer(text)] if "[" in text else []
    lower = _lowered(text)
    for span in chain(_vendors(text), _given(text, lower), find_assigned(text, lower)):
        place = bisect_right(marks, (span.start, len(text)))
        if not (place and marks[place - 1][1] > span.start) and not (place < len(marks) and marks[place][0] < span.end):
            yield span


def _lowered(text: str) -> str:
    """Return the text in lower case with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(each.lower() if each.isascii() else each for each in text)


_LONG_WORD = lazy(r"\S{16,}")
_LONG_ENOUGH = lazy(r"[!-~]{14}")
"""No vendor's format is shorter, or of other characters."""


def _vendors(text: str) -> Iterator[Span]:
    """Yield what has a vendor's format; it is searched for in the long words alone, for no secret is short."""
    words = list(_LONG_WORD.finditer(text))
    joined = "\n".join(word[0] for word in words)
    if not _LONG_ENOUGH.search(joined):
        return
    starts = [0, *accumulate(len(word[0]) + 1 for word in words)]
    for rule in table(SECRETS).sections["vendors"]:
        if not any_in(joined, rule.hints):
            continue
        for match in _behind_prefix(rule, joined) if rule.prefix else compiled(rule).finditer(joined):
            group = 1 if match.re.groups else 0
            word = bisect_right(starts, match.start(group)) - 1
            start = words[word].start() + match.start(group) - starts[word]
            is_known = rule.section != "vendors.unknown"
            if is_mixed(match[group]) and (is_known or _is_unknown_key(text, start, match[group])):
                yield Span(start, start + len(match[group]), f"[secret:{rule.kind}]", rule.name)


def _is_unknown_key(text: str, start: int, value: str) -> bool:
    """Whether random characters are kept secret: not where a name says that they are an id, a hash or public."""
    return is_random(value) and not is_shown_to_all(text, start)


_AFTER_PREFIX = lazy(r"[A-Za-z0-9_.=-]{16,400}")


def _behind_prefix(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with a literal: looking for that is many times faster.

    Behind a prefix that nothing else has anything random is one: vendors change lengths and alphabets.
    """
    prefix, pattern = rule.prefix, compiled(rule)
    is_distinct = len(prefix) >= 4 and prefix[-1] in "_-."
    at = text.find(prefix)
    while at >= 0:
        match = pattern.match(text, at)
        if match is None and is_distinct and not re.match(r"[\w-]", text[at - 1 : at]):
            after = _AFTER_PREFIX.match(text, at + len(prefix))
            match = after if after and is_random(after[0].rstrip(".")) else None
        if match:
            yield match
        at = text.find(prefix, match.end() if match else at + 1)


_PEM_BEGIN = lazy(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = lazy(r"-----END [A-Z0-9 ]{1,60}-----")
_PEM_BODY = lazy(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*")
_MAX_PEM_CHARS = 16_000
"""A private RSA key of 16,384 bits has 13,000."""


def _private_keys(text: str) -> Iterator[Span]:
    """Yield private keys with their frame; of one that was cut off what is left of it."""
    if "PRIVATE KEY" not in text:
        return
    ends = [match.end() for match in _PEM_END.finditer(text)]
    position = 0
    while match := _PEM_BEGIN.search(text, position):
        limit = match.end() + _MAX_PEM_CHARS
        place = bisect_left(ends, match.end())
        if place < len(ends) and ends[place] <= limit:
            position = ends[place]
        else:
            body = _PEM_BODY.match(text, match.end(), limit)
            position = body.end() if body else match.end()
        yield Span(match.start(), position, "[secret:private-key]", "private-key")


_WITH_MIXED = ("context.headers", "context.documents")


def _given(text: str, lower: str) -> Iterator[Span]:
    """Yield the values in headers, addresses, documents and on command lines."""
    for rule in table(SECRETS).sections["context"]:
        if not any_in(lower, rule.hints):
            continue
        for match in compiled(rule).finditer(lower):
            value = text[match.start(1) : match.end(1)]
            is_value = is_mixed(value) if rule.section in _WITH_MIXED else is_password(value, loud=True)
            if is_value and not is_reference(value):
                yield Span(*match.span(1), f"[secret:{rule.kind}]", rule.name)
