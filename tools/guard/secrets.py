"""Secrets in a text: those in the formats of vendors, and those that what stands around them gives away."""

import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, Table, any_in, compiled, table
from swarm_memory.tools.guard.values import (
    is_call,
    is_key,
    is_mixed,
    is_of_three_kinds,
    is_password,
    is_password_in_sentence,
    is_phrase,
    is_random,
    is_reference,
)
from swarm_memory.tools.text.cleaning import lazy

_ESCAPE = lazy(r"(?:\x1b|\\(?:x1[bB]|u001[bB]|033|e))\[[0-9;?]{0,20}[A-Za-z]|\\[nrt]")
_MARK = lazy(r"\[(?:secret:[a-z0-9-]{1,40}|email|card|iban|phone|ssn)\]")


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets, those of known vendors first, then those that their surroundings give away.

    Spans may overlap. Linear in the length of the text.
    """
    rules = table(SECRETS)
    yield from _private_keys(text)
    # What ends a word where it is shown ends it here: colours of a terminal, line breaks written as \n.
    if "\\" in text or "\x1b" in text:
        text = _ESCAPE.sub(lambda match: "\n".ljust(len(match[0])), text)
    marks = [match.span() for match in _MARK.finditer(text)] if "[" in text else []
    lower = _lowered(text)
    found = chain(
        _vendors(rules, text),
        _given(rules, "context.headers", text, lower),
        _given(rules, "context.addresses", text, lower),
        _assignments(rules, text, lower),
        _given(rules, "context.commands", text, lower),
        _given(rules, "context.documents", text, lower),
    )
    for span in found:
        place = bisect_right(marks, (span.start, len(text)))
        if not (place and marks[place - 1][1] > span.start) and not (place < len(marks) and marks[place][0] < span.end):
            yield span


_LONG_WORD = lazy(r"\S{16,}")
_LONG_ENOUGH = lazy(r"[!-~]{14}")
"""No vendor's format is shorter, or of other characters."""


def _vendors(rules: Table, text: str) -> Iterator[Span]:
    """Yield what has a vendor's format; it is searched for in the long words alone, for no secret is short."""
    words = Excerpt(text, (match.span() for match in _LONG_WORD.finditer(text)))
    if not _LONG_ENOUGH.search(words.text):
        return
    for rule in rules.sections["vendors"]:
        if not any_in(words.text, rule.hints):
            continue
        for match in _found(rule, words.text) if rule.prefix else compiled(rule).finditer(words.text):
            group = 1 if match.re.groups else 0
            start, end = words.span(match.span(group))
            if not is_mixed(match[group]) or (
                rule.section == "vendors.unknown" and not _is_unknown_key(text, start, match[group], rules)
            ):
                continue
            yield Span(start, end, f"[secret:{rule.kind}]", rule.name)


_NAME_AND_SIGN = lazy(r"([\w.-]{1,60})\\?[\"'`]?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"'`]?$")


def _is_unknown_key(text: str, start: int, value: str, rules: Table) -> bool:
    """Whether random characters are kept secret: not where a name says that they are an id, a hash or public."""
    named = _NAME_AND_SIGN.search(text[max(0, start - 80) : start])
    words = [word.lower() for word in _WORD_OF_NAME.findall(named[1])] if named else []
    is_shown = words and (words[-1] in rules.words["attributes"] or not rules.words["public_kinds"].isdisjoint(words))
    return is_random(value) and not is_shown


def _found(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with a literal: looking for that is many times faster."""
    prefix, pattern = rule.prefix, compiled(rule)
    at = text.find(prefix)
    while at >= 0:
        match = pattern.match(text, at) or _with_prefix(prefix, text, at)
        if match:
            yield match
        at = text.find(prefix, match.end() if match else at + 1)


_AFTER_PREFIX = lazy(r"[A-Za-z0-9_.=-]{16,400}")


def _with_prefix(prefix: str, text: str, at: int) -> re.Match[str] | None:
    """Return what follows a prefix that nothing else has, where it is random: lengths and alphabets change."""
    if len(prefix) < 4 or prefix[-1] not in "_-." or re.match(r"[\w-]", text[at - 1 : at]):
        return None
    after = _AFTER_PREFIX.match(text, at + len(prefix))
    return after if after and is_random(after[0].rstrip(".")) else None


def _lowered(text: str) -> str:
    """Return the text in lower case with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(each.lower() if each.isascii() else each for each in text)


_PEM_BEGIN = lazy(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = lazy(r"-----END [A-Z0-9 ]{1,60}-----")
_PEM_BODY = lazy(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*")
_MAX_PEM_CHARS = 16_000
"""A private RSA key of 16,384 bits has 13,000."""


def _private_keys(text: str) -> Iterator[Span]:
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


_REACH = 500
"""What a row of these has to say is in a line, and not further from its hint."""
_WITH_MIXED = ("context.headers", "context.documents")


def _given(rules: Table, section: str, text: str, lower: str) -> Iterator[Span]:
    """Yield the values in headers, addresses and on command lines."""
    placeholders, is_in_line = rules.words["placeholders"], section != "context.documents"
    for rule in rules.sections[section]:
        if any_in(lower, rule.hints):
            lines = Excerpt(lower, lines_with(lower, rule.hints, _REACH) if is_in_line else [(0, len(lower))])
            for match in compiled(rule).finditer(lines.text):
                start, end = lines.span(match.span(1))
                value = text[start:end]
                is_value = is_mixed(value) if section in _WITH_MIXED else is_password(value, placeholders, loud=True)
                if is_value and not is_reference(value):
                    yield Span(start, end, f"[secret:{rule.kind}]", rule.name)


class _Name(NamedTuple):
    """A name that holds a word for a secret, as far as it reaches."""

    before: str
    """What is in it before that word."""
    word: str
    after: str
    start: int
    end: int
    is_parameter: bool
    """Whether it is in the query of an address: `?key=`, `&userpass=`."""


_OF_A_NAME = string.ascii_letters + string.digits + "_.$@-"
_AFTER = lazy(r"[\w-]{0,40}(?:\.[A-Za-z_][\w-]{0,40})?")
_WORD_OF_NAME = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_GIVEN = lazy(
    r"""(?P<closed>\\?["'`])?[\])]{0,2}(?:\[\])?(?:(?P<tag>>)\s{0,40}
    |["' \t,]{0,3}\s{0,40}["']?value["']?[ \t]{0,3}[:=][ \t]{0,3}
    |(?:[ \t]{0,3}:[ \t]?[A-Za-z][\w.\[\]|?]{0,30}(?=[ \t]{0,3}=)|[ \t]{1,3}\*?(?:string|str)(?=[ \t]{0,3}=))?
     [ \t]{0,20}(?P<sign>:{1,3}=|[?+.|!]{0,2}={1,3}>?|->|:)
    |[ \t]{0,3}(?P<weak>[,(])|(?P<apart>[ \t]{1,20}-{1,6}(?=[ \t])|[ \t]{0,3}:?\r?\n(?=[\w+/=.-]{20,200}(?:\s|$))
     |[ \t](?:for|of|in)[ \t][^\n:=]{1,40}?(?<!\s):)
    |(?P<said>(?:[ \t](?:for|of|in)[ \t][^\n:=]{1,40}?)?[ \t]{1,8}(?:is|was|to|has[ ]been)[ \t]{1,3}(?:now[ \t]{1,3})?
     (?:(?:re)?set[ \t]to[ \t]|changed[ \t]to[ \t])?)
    |(?P<space>[ \t]{1,8}))
    [ \t]{0,20}(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}|[@(\[{][ \t]?(?=\\?["'`]))?
    (?:[rbfuL]{0,2}(?P<quote>\\?["'`]))?""",
    re.VERBOSE,
)
_BARE = lazy(r"[^\s\"'`,;&<>|(){}\[\]\\]{4,4000}")
_SAID = lazy(r"(?:[^\s\"'`,;&<>|(){}\[\]\\]|[,;&|](?=\w)){4,4000}")
_WIDE = lazy(r"[^\s\"'`]{8,200}")
_QUOTED = {quote: lazy(rf"[^\n{quote}]{{4,4000}}") for quote in "\"'`"}
_LONG_VALUE = 100


def _assignments(rules: Table, text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are given to names such as `password`, `api_key`, `client_secret`."""
    for rule in rules.sections["names"]:
        if rule.hints and not any_in(lower, rule.hints):
            continue
        is_for_password = rule.section == "names.password"
        position = 0
        for match in compiled(rule).finditer(lower):
            name = _name_at(text, match) if match.start() >= position else None
            if name is None or not (sureness := _sureness(name, rules, is_for_password=is_for_password)):
                continue
            given = _GIVEN.match(text, name.end)
            if given is None:
                continue
            start, end = _value_after(text, given)
            # A long value is looked at once, whatever names are in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            if _is_given(text, name, given, (start, end), rules, sureness):
                mark = "[secret:password]" if is_for_password else "[secret:assigned]"
                yield Span(start, end, mark, rule.name)


def _name_at(text: str, match: re.Match[str]) -> _Name | None:
    """Return the whole of the name; None where the word is the beginning of another one, as in `tokenizer`."""
    before = text[max(0, match.start() - 60) : match.start()]
    stem = before[len(before.rstrip(_OF_A_NAME)) :]
    if match[0] == "key" and before.endswith(" "):
        word = before[:-1]
        stem = word[len(word.rstrip(string.ascii_letters)) :] + " "
    after = _AFTER.match(text, match.end())
    tail = after[0].rstrip("-.") if after else ""
    end = match.end() + len(tail)
    if tail[:1] in ("s", "S") and not tail[1:2].isalpha():
        tail = tail[1:]
    last = text[match.end() - 1]
    goes_on = tail[:1].islower() if last.islower() else tail[:1].isalpha() and last.isascii()
    first = match.start() - len(stem)
    is_parameter = first > 0 and text[first - 1] in "?&"
    return None if goes_on else _Name(stem, match[0], tail, match.start(), end, is_parameter)


_SURE, _LIKELY, _PASSWORD = 3, 1, 2
"""What a name is of: a secret whatever its value looks like, perhaps one, a password."""


def _sureness(name: _Name, rules: Table, *, is_for_password: bool) -> int:
    """Return how sure it is that the name is one of a secret; 0: it is not."""
    words = rules.words
    before = [word.lower() for word in _WORD_OF_NAME.findall(name.before)]
    after = [word.lower() for word in _WORD_OF_NAME.findall(name.after)]
    if (after and after[-1] in words["attributes"]) or not words["public_kinds"].isdisjoint(before):
        return 0
    if is_for_password:
        return _PASSWORD if len(name.word) > 4 or not name.before[-1:].isalpha() or name.is_parameter else 0
    if name.word == "key":
        if not before:
            return _SURE if name.is_parameter else 0
        kind, is_apart = before[-1], name.before.endswith(" ")
        is_sure = kind.endswith(tuple(words["kinds_of_key"])) or name.before.isupper()
        return _SURE if is_sure else 0 if is_apart else _LIKELY
    if name.word == "api":
        return 0 if after or not before else _LIKELY
    if name.word in ("auth", "sig", "pat", "signature"):
        return 0 if name.before[-1:].isalpha() and name.before[-1:].islower() else _SURE
    return _SURE


def _value_after(text: str, given: re.Match[str]) -> tuple[int, int]:
    """Return where the value starts and ends."""
    start = given.end()
    quote = given["quote"]
    if quote:
        value = _QUOTED[quote[-1]].match(text, start)
        end = value.end() if value else start
        if value and text[end : end + 1] == quote[-1]:
            return start, end - (1 if quote[0] == "\\" and text[end - 1] == "\\" else 0)
    value = (_SAID if given["said"] else _BARE).match(text, start)
    if value is None:
        wide = None if given["tag"] else _WIDE.match(text, start)
        is_value = wide is not None and not is_call(wide[0]) and is_random(wide[0])
        return (start, wide.end()) if wide and is_value else (start, start)
    return start, start + len(value[0].rstrip(".:"))


_NAME_ONLY = lazy(r"[ \t]{0,8}(?:export |set |env )?[\w.-]{0,60}$")


def _is_given(
    text: str, name: _Name, given: re.Match[str], value: tuple[int, int], rules: Table, sureness: int
) -> bool:
    """Whether a value of a name is a secret, by how it is given to it and by what it looks like."""
    start, end = value
    shown, placeholders = text[start:end], rules.words["placeholders"]
    quoted = given["quote"] is not None
    flag = name.before.startswith("--")
    if (given["space"] is not None and not flag) or given["apart"] or given["said"]:
        return False if name.after or given["closed"] else _is_in_sentence(name, given, shown, placeholders, sureness)
    if given["weak"] is not None and not given["closed"] and given["weak"] == ",":
        return sureness == _SURE and not name.after and is_key(shown, placeholders, sure=True, loud=False)
    if given["weak"] is not None and (name.after or name.word == "pass"):
        return False
    if not quoted and (text[end : end + 1] in ("(", "[") or is_call(shown)):
        return False
    loud = given["weak"] is None and (quoted or _is_loud(text, name, given, end) or flag)
    if sureness == _PASSWORD and (" " in shown or "\t" in shown):
        return (
            given["weak"] is None
            and _may_be_of_words(name)
            and is_phrase(shown, rules.words, sure=name.word == "passphrase")
        )
    if sureness == _PASSWORD:
        return is_password(shown, placeholders, loud=loud and given["tag"] is None)
    return is_key(shown, placeholders, sure=sureness == _SURE, loud=loud)


def _may_be_of_words(name: _Name) -> bool:
    """Whether a name is of a password, not of a text on it, as `passwordHelp`, nor of a pass over something."""
    is_short = len(name.word) < 5
    return not _WORD_OF_NAME.search(name.after) and (not is_short or name.before.isupper())


def _is_in_sentence(name: _Name, given: re.Match[str], shown: str, placeholders: frozenset[str], sureness: int) -> bool:
    """Whether the word that follows in a sentence is a secret."""
    if sureness != _PASSWORD:
        return sureness == _SURE and len(shown) >= 12 and is_key(shown, placeholders, sure=True, loud=False)
    if given["quote"] is not None and given["said"] is not None:
        return is_password(shown, placeholders, loud=True)
    is_short = name.word in ("pass", "pw", "pwd")
    return is_password_in_sentence(shown.rstrip("!?)"), placeholders) and (not is_short or is_of_three_kinds(shown))


def _is_loud(text: str, name: _Name, given: re.Match[str], end: int) -> bool:
    """Whether an assignment outside quotes gives a value, not a variable: `PASSWORD=x`, `?password=x`, a line."""
    stem = name.start - len(name.before)
    shouted = text[name.start : name.start + 4].isupper() and name.before.upper() == name.before
    if shouted or text[max(0, stem - 1) : stem] in ("?", "&", ";"):
        return True
    line_start = text.rfind("\n", max(0, name.start - 80), name.start) + 1
    before = text[line_start : name.start] if line_start or name.start < 80 else "("
    is_alone = text[end : end + 2].strip(" \r")[:1] in ("", "\n")
    is_attribute = name.after or name.before.startswith(("self.", "this."))
    return "=" in (given["sign"] or "") and is_alone and not is_attribute and _NAME_ONLY.match(before) is not None


class Excerpt:
    """Disjoint parts of a text, in order, with line breaks between them."""

    def __init__(self, text: str, parts: Iterable[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for start, end in parts:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self.text = "\n".join(text[start:end] for start, end in merged)
        self._starts: list[int] = []
        self._shifts: list[int] = []
        length = 0
        for start, end in merged:
            self._starts.append(length)
            self._shifts.append(start - length)
            length += end - start + 1

    def span(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return where in the text a range of the excerpt stands that lies within one part of it."""
        shift = self._shifts[bisect_right(self._starts, span[0]) - 1]
        return span[0] + shift, span[1] + shift


def lines_with(text: str, hints: Iterable[str], reach: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the lines in which a hint stands, in order; with `reach`, at most so much on both sides of it."""
    whole, done = reach is None, 0
    places: list[int] = []
    for hint in hints:
        at = text.find(hint)
        while at >= 0:
            places.append(at)
            at = text.find(hint, at + len(hint))
    for at in sorted(places):
        if whole and at < done:
            continue
        start, end = (0, len(text)) if reach is None else (max(0, at - reach), min(len(text), at + reach))
        line_end = text.find("\n", at, end)
        done = end if line_end < 0 else line_end
        yield text.rfind("\n", start, at) + 1 or start, done
