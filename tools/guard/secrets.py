"""Find secrets in a text: those in vendors' formats, and those assigned to a name (`password: …`, `API_KEY=…`, "the
token is …"). A value counts only if it is a real secret, not words, a variable, code or an example.
"""

import re
import string
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from swarm_memory.tools.guard.rules import MARK, SECRETS, VALUES, Rule, Span, any_in, compiled, table

_LOOKED_AT = 400
"""How many characters of a value are examined to tell what kind of text it is."""

_RANDOM_PIECE = 3.3
"""A value is random if its runs of one kind are shorter than this on average: 1.6 to 2.7 (words: 4 and more)."""
_STRUCTURED_PART = 8
"""The parts of a name with dots or hyphens are at most this long on average; random text has few separators."""
_ASCENDING, _LONG_ROW = 0.6, 16
"""A value this long with more than this share of characters in sequence (`0123456789abcdef`) is not random."""

_LONGEST_PHRASE, _LONG_VALUE, _WITH_BLANKS = 100, 100, 40
_OF_A_NAME = string.ascii_letters + string.digits + "_.$@-"

_WITH_MIXED = ("context.headers", "context.documents")


@cache
def regex(name: str) -> re.Pattern[str]:
    """Return the pattern with this name from `data/values.toml`."""
    return next(compiled(rule) for rule in table(VALUES).rules if rule.name == name)


def is_mixed(secret: str) -> bool:
    """Whether a string is no word: it has a digit or both cases, is 20+ capitals, or ends in 12 equal characters."""
    return regex("mixed").match(secret) is not None


def is_random(value: str) -> bool:
    """Whether a value is random, not words however joined, judged by the mean length of runs of one kind."""
    seen = value[:_LOOKED_AT]
    if regex("uuid").fullmatch(seen) or regex("hex").fullmatch(seen):
        return any(map(str.isdigit, seen)) and len(set(seen)) > 5
    parts = [part for part in regex("separator").split(seen) if part]
    pieces_of = [regex("piece").findall(part) for part in parts]
    pieces = [piece for each in pieces_of for piece in each]
    if not pieces or len(set(seen)) < 6:
        return False
    length = sum(map(len, pieces))
    blended = sum(len(each) > 1 for each in pieces_of)
    is_structured = len(parts) > 2 and length / len(parts) <= _STRUCTURED_PART and blended * 2 <= len(parts)
    return not is_structured and len(pieces) > 2 and length / len(pieces) < _RANDOM_PIECE


def is_call(value: str) -> bool:
    """Whether an unquoted value is code that computes one: `f(x)`, `a["b"]`, `(a, b)`, `a.b`."""
    return value.startswith(("(", "[")) or any(regex(each).match(value) for each in ("arguments", "member"))


def is_password(value: str, *, loud: bool) -> bool:
    """Whether a value assigned to a password is a real one. `loud`: only a literal value can be in its place."""
    if len(value) < 4 or len(set(value)) == 1 or " " in value or "\t" in value or _stands_for_one(value):
        return False
    if loud or value.isdigit():
        return not value.endswith(":") and (loud or len(value) > 5)
    may_be = len(value) >= 6 and re.search(r"\d|[^\w.,:;/()\[\]{}-]", value) and any(map(str.isalpha, value))
    return bool(may_be) and not is_call(value)


_NOT_SAID = ("text_words", "placeholders")


def is_phrase(value: str, *, sure: bool) -> bool:
    """Whether quoted words assigned to a password are one, not text about it. `sure`: the name means a phrase."""
    words, found = table(SECRETS).words, re.findall(r"[^\W\d_]+", value.lower())
    is_text = regex("text").match(value) or any(each in words[of] for of in _NOT_SAID for each in found)
    if not 6 <= len(value) <= _LONGEST_PHRASE or is_text or _stands_for_one(value):
        return False
    has_sign = regex("sign").search(value) or re.search(r"\d", regex("quantity").sub("", value))
    return bool(found) if has_sign else sure and len(found) > 1


def is_said_password(value: str, *, of_three_kinds: bool) -> bool:
    """Whether the word after `password` in a sentence is one: letters with digits or signs, not the name of a thing."""
    last = value.rpartition("/")[2]
    if len(value) < 6 or not any(map(str.isalpha, value)) or not is_password(value, loud=False):
        return False
    if regex("term").match(value) or regex("named-thing").search(last):
        return False
    has_all = re.search(r"\d", last) is not None and last.lower() != last and last.upper() != last
    return has_all or not (of_three_kinds or "/" in value)


def is_key(value: str, *, sure: bool, loud: bool) -> bool:
    """Whether a value assigned to a key, token or secret is a real one. `sure`: the name alone says that it is one."""
    if len(value) < 8 or _stands_for_one(value):
        return False
    if " " in value or "\t" in value:
        return sure and len(value) >= _WITH_BLANKS and is_random(value.replace(" ", ""))
    if value.isdigit() or len(set(value)) == 1:
        return sure and len(value) >= 20 and value[0].isalnum() and value[0] not in "xX0"
    if is_random(value) and len(value) >= (10 if sure else 16):
        return sure or len(value) >= 32 or not (regex("uuid").fullmatch(value) or regex("hex").fullmatch(value))
    if not sure or not any(map(str.isdigit, value)) or value.isdigit() or len(set(value)) < 6:
        return False
    # Code is a variable, an attribute or a call: words without digits in the middle of them.
    seen, digits_within = value[:500], r"[A-Za-z]\d+[A-Za-z]|\d[A-Za-z]*\d"
    is_code = regex("code").match(seen) is not None and not re.search(digits_within, seen)
    return len(value) >= (8 if loud else 15) and (value.isalnum() or (loud and not is_code))


def is_example(value: str) -> bool:
    """Whether a value, even in a vendor's format, is no secret: a variable, a placeholder, a published example."""
    if value in table(SECRETS).words["examples"] or regex("reference").match(value) or regex("stop").search(value):
        return True
    if len(value) < _LONG_ROW:  # a short sequence may be somebody's password
        return False
    ascending = sum(ord(after) - ord(before) == 1 for before, after in pairwise(value[:_LOOKED_AT]))
    return ascending > _ASCENDING * len(value)


def _stands_for_one(value: str) -> bool:
    """Whether a value is a variable, a placeholder, a pattern, a path or an example."""
    words, known = set(re.findall(r"[^\W_]+", value.lower())), table(SECRETS).words
    is_placeholder = not words - known["placeholders"] - known["stop_words"]
    if is_placeholder or is_example(value) or not value.strip("0xX*-_."):
        return True
    if regex("template").search(value) and not (len(value) >= _WITH_BLANKS and is_random(value)):
        return True
    return bool(regex("path").match(value) or regex("example").search(value)) and not is_random(value)


class _Name(NamedTuple):
    """A whole name that contains a word for a secret."""

    before: str
    """The part of the name before that word."""
    word: str
    after: str
    start: int
    """Where the word starts."""
    is_parameter: bool
    """Whether the name is a parameter in the query of a URL: `?key=`, `&userpass=`."""
    is_for_password: bool
    is_sure: bool
    """Whether the name alone marks a secret, whatever its value looks like; `my_key`, `my_api` or a vendor's do not."""


def _find_assigned(text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are assigned to names such as `password`, `api_key`, `client_secret`."""
    for rule in table(SECRETS).sections["names"]:
        if rule.hints and not any_in(lower, rule.hints):
            continue
        position = 0
        for match in compiled(rule).finditer(lower):
            if match.start() < position:
                continue
            after = regex("after").match(text, match.end())
            tail = after[0].rstrip("-.") if after else ""
            given = regex("given").match(text, match.end() + len(tail))
            name = given and _name_at(text, match, tail, rule)
            if name is None or given is None:
                continue
            start, end = _value_after(text, given)
            # A long value is examined only once, whatever names are in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            if _is_given(text, name, given, (start, end)):
                yield Span(start, end, f"[secret:{'password' if name.is_for_password else 'assigned'}]", rule.name)


def has_public_name(text: str, start: int) -> bool:
    """Whether the name before a value says that the value is no secret: an id, a hash, something public."""
    named = regex("name-and-sign").search(text[max(0, start - 80) : start])
    return named is not None and _is_of_another_thing(_words(named[1]), _words(named[1]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in regex("word-of-name").findall(name)]


def _is_of_another_thing(before: list[str], after: list[str]) -> bool:
    """Whether a name is for an attribute of a secret (`token_url`) or for something public (`public_key`)."""
    words = table(SECRETS).words
    return bool(after and after[-1] in words["attributes"]) or not words["public_kinds"].isdisjoint(before)


def _name_at(text: str, match: re.Match[str], tail: str, rule: Rule) -> _Name | None:
    """Return the name with its `tail` after the word; None if the word goes on (`tokenizer`) or names no secret."""
    before, word = text[max(0, match.start() - 60) : match.start()], match[0]
    stem = before[len(before.rstrip(_OF_A_NAME)) :]
    if word == "key" and before.endswith(" "):
        stem = before[len(before[:-1].rstrip(string.ascii_letters)) :]
    if tail[:1] in ("s", "S") and not tail[1:2].isalpha():
        tail = tail[1:]
    last, first = text[match.end() - 1], match.start() - len(stem)
    goes_on = tail[:1].islower() if last.islower() else tail[:1].isalpha() and last.isascii()
    words, is_parameter = _words(stem), first > 0 and text[first - 1] in "?&"
    if goes_on or _is_of_another_thing(words, _words(tail)):
        return None
    may_be = is_sure = is_for_password = rule.section == "names.password"
    if is_for_password:
        is_apart = not stem[-1:].isalpha() or (stem[-1:].islower() and text[match.start()].isupper())
        may_be = is_sure = len(word) > 4 or is_apart or is_parameter
    elif word == "key":
        kinds = tuple(table(SECRETS).words["kinds_of_key"])
        is_sure = (words[-1].endswith(kinds) or stem.isupper()) if words else is_parameter
        may_be = True
    elif word == "api":
        may_be = bool(words) and not _words(tail)
    elif rule.section == "names.vendor":
        may_be = True
    else:
        is_sure = word not in ("auth", "sig", "pat", "signature") or not stem[-1:].islower()
    name = _Name(stem, word, tail, match.start(), is_parameter, is_for_password, is_sure)
    return name if is_sure or may_be else None


def _value_after(text: str, given: re.Match[str]) -> tuple[int, int]:
    """Return where the value starts and ends."""
    default = regex("default").match(text, given.end())
    start = default.end() if default else given.end()
    quoted = regex("quoted").match(text, start - 1) if given["quote"] and not default else None
    if quoted:
        return quoted.span(2)
    value = regex("said" if given["said"] else "bare").match(text, start)
    if value is not None:
        return start, start + len(value[0].rstrip(".:"))
    wide = None if given["tag"] else regex("wide").match(text, start)
    is_value = wide is not None and not is_call(wide[0]) and is_random(wide[0])
    return (start, wide.end()) if wide and is_value else (start, start)


def _is_given(text: str, name: _Name, given: re.Match[str], value: tuple[int, int]) -> bool:
    """Whether a name's value is a secret, judged by how it is assigned and by what it looks like."""
    shown, end, weak = text[value[0] : value[1]], value[1], given["weak"]
    if shown.lower() in f"{name.before}{name.word}{name.after}".lower():
        return False
    is_quoted, is_flag = given["quote"] is not None, name.before.startswith("--")
    if (given["space"] and not is_flag) or given["apart"] or given["said"]:  # the value is the next word of a text
        if name.after or given["closed"] or not name.is_sure:
            return False
        if not name.is_for_password:
            return len(shown) >= 12 and is_key(shown, sure=True, loud=False)
        if is_quoted and (given["said"] or name.before.isupper()):
            return is_password(shown, loud=True)
        return is_said_password(shown.rstrip("!?)"), of_three_kinds=name.word in ("pass", "pw", "pwd"))
    if weak == "," and not given["closed"] and (name.is_for_password or name.after or not name.is_sure):
        return False
    if weak and (name.after.strip("_") or name.word == "pass"):
        return False
    if not is_quoted and (text[end : end + 1] in ("(", "[") or is_call(shown)):
        return False
    loud = not weak and (is_quoted or is_flag or _is_loud(text, name, given, end))
    if not name.is_for_password:
        is_bare = name.word == "key" and (name.before[-1:] == " " or not _words(name.before)) and not name.is_sure
        return is_key(shown, sure=name.is_sure, loud=loud) and not (is_bare and not regex("bare-key").fullmatch(shown))
    if " " in shown or "\t" in shown:
        # Not a text about a password, as in `passwordHelp`, nor a pass over something.
        may_be = not weak and not _words(name.after) and (len(name.word) > 4 or name.before.isupper())
        return may_be and is_phrase(shown, sure=name.word == "passphrase")
    return is_password(shown, loud=loud and given["tag"] is None)


def _is_loud(text: str, name: _Name, given: re.Match[str], end: int) -> bool:
    """Whether an unquoted assignment has a literal, not a variable: `PASSWORD=x`, `?password=x`, a line of its own."""
    if name.is_parameter or (text[name.start : name.start + 4].isupper() and name.before.upper() == name.before):
        return True
    line_start = text.rfind("\n", max(0, name.start - 80), name.start) + 1
    before = text[line_start : name.start] if line_start or name.start < 80 else "("
    is_alone = text[end : end + 2].strip(" \r")[:1] in ("", "\n")
    return "=" in (given["sign"] or "") and is_alone and regex("name-only").match(before) is not None


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets: private keys, then those in vendors' formats, then those that their surroundings give away.

    Spans may overlap; only a private key's can touch an existing mark. Linear in the length of the text.
    """
    if "PRIVATE KEY" in text:  # with header and footer; of one that was cut off, what is left
        for match in regex("private-key").finditer(text):
            yield Span(*match.span(), "[secret:private-key]", "private-key")
    if "\\" in text or "\x1b" in text:  # every character keeps its position
        text = regex("break").sub(lambda match: "\n".ljust(len(match[0])), text)
        text = regex("tab").sub(lambda match: "\t".ljust(len(match[0])), text)
        text = regex("open-quote").sub(lambda match: " " * len(match[0]), text)
        text = regex("close-quote").sub(lambda match: match[0][-1].ljust(len(match[0])), text)
    marks = [match.span() for match in MARK.finditer(text)] if "[" in text else []
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(each.lower() if each.isascii() else each for each in text)
    for span in chain(_vendors(text), _given(text, lower), _find_assigned(text, lower)):
        place = bisect_right(marks, (span.start, len(text)))
        if not (place and marks[place - 1][1] > span.start) and not (place < len(marks) and marks[place][0] < span.end):
            yield span


def _vendors(text: str) -> Iterator[Span]:
    """Yield what is in a vendor's format; only the long words are searched, because no such secret is short."""
    words = list(regex("long-word").finditer(text))
    joined = "\n".join(word[0] for word in words)
    if not regex("long-enough").search(joined):
        return
    starts = [0, *accumulate(len(word[0]) + 1 for word in words)]
    for rule in table(SECRETS).sections["vendors"]:
        if not any_in(joined, rule.hints):
            continue
        for match in _behind_prefix(rule, joined) if rule.prefix else compiled(rule).finditer(joined):
            group = 1 if match.re.groups else 0
            word = bisect_right(starts, match.start(group)) - 1
            start = words[word].start() + match.start(group) - starts[word]
            found, is_known = match[group], rule.section not in ("vendors.unknown", "vendors.prefixed")
            if not is_mixed(found) or is_example(match[0]):
                continue
            # Random characters are no secret where a name says that they are an id, a hash or public.
            if is_known or (is_random(found) and not has_public_name(text, start)):
                yield Span(start, start + len(found), f"[secret:{rule.kind}]", rule.name)


def _behind_prefix(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with a literal: searching for the literal is many times faster."""
    prefix, pattern = rule.prefix, compiled(rule)
    is_distinct = len(prefix) >= 4 and prefix[-1] in "_-."  # then anything random matches: vendors change lengths
    at = text.find(prefix)
    while at >= 0:
        match = pattern.match(text, at)
        if match is None and is_distinct and not re.match(r"[\w-]", text[at - 1 : at]):
            after = regex("after-prefix").match(text, at + len(prefix))
            match = after if after and is_random(after[0].rstrip(".")) else None
        if match:
            yield match
        at = text.find(prefix, match.end() if match else at + 1)


def _given(text: str, lower: str) -> Iterator[Span]:
    """Yield the values in headers, addresses, documents and on command lines."""
    for rule in table(SECRETS).sections["context"]:
        if not any_in(lower, rule.hints):
            continue
        for match in compiled(rule).finditer(lower):
            value = text[match.start(1) : match.end(1)]
            is_token = rule.section in _WITH_MIXED
            if is_mixed(value) and not _stands_for_one(value) if is_token else is_password(value, loud=True):
                yield Span(*match.span(1), f"[secret:{rule.kind}]", rule.name)
