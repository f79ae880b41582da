"""Secrets in a text: those in the formats of vendors, and those given to a name (`password: …`, `API_KEY=…`, "the
token is …") whose value is one and does not stand for one, as words, variables, code and examples do.
"""

import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import NamedTuple

from swarm_memory.tools.guard.rules import MARK, SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.text.cleaning import lazy

_PIECE = lazy(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9\s]")
_SEPARATOR = lazy(r"[_\-./:]+")
_UUID = lazy(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = lazy(r"(?:0x)?[0-9a-fA-F]{16,}")
_LOOKED_AT = 400
"""So many characters show what kind of text a value is."""

_RANDOM_PIECE = 3.3
"""Random letters and digits come in runs of 1.6 to 2.7 of one kind, words in such of four and more."""
_STRUCTURED_PART = 8
"""The parts of a name with points or hyphens are short; a separator is rare among random characters."""

_REFERENCE = lazy(
    r"\$|%[({A-Z]|\{\{|\{[\w.!:\[\]]*\}|<|\*\*|\*{3}|x{4,}|X{4,}|\.{3}|…|#\{|@\{|@[A-Za-z_]{2,40}@"
    r"|!(?:[A-Z]?[a-z]+|!\w+)(?:[ \t]|$)"
    r"|!include|&[A-Za-z]+$|--|(?:os|process|self|this|settings|args|ctx|data|vars?|secrets?|req(?:uest)?)\."
    r"|env[.\[(]|config[.\[]|params[.\[]|getenv|getpass|your[_-]|my[_-]?(?:secret|pass|token|api|key)"
    r"|ENC\[|arn:|vault:|[\[(](?:secret:|email|card|iban|phone|ssn|person|place)",
    re.IGNORECASE,
)
_CODE = lazy(r"[A-Za-z_$]\w{0,60}(?:(?:\.|::|->)[A-Za-z_]\w{0,60}){0,6}(?:[(\[].*)?$", re.DOTALL)
_ARGUMENTS = lazy(r"[A-Za-z_][\w.]{0,60}[(\[]")
_MEMBER = lazy(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,6}$")
_PATH = lazy(
    r"[a-z_.-]+(?:/[a-z_.:-]+)+(?:#[a-z_]+)?$|(?:~|\.{1,2})?/[\w.@/-]+$|[\w.-]+(?:/[\w.-]+)+\.\w{1,5}$|[A-Za-z]:\\|[\w-]+\.[a-z]{2,5}$"
)
_ADDRESS = lazy(r"[a-z][a-z0-9+.-]{1,15}://|[\w-]+(?:\.[\w-]+)+:\d{2,5}$", re.IGNORECASE)
_EXAMPLE = lazy(
    r"example|placeholder|change[_-]?(?:me|it)|dummy|redacted|fake|your|insert|x{4}|\.\.\.|\*{3}", re.IGNORECASE
)
_NAME = lazy(
    r"^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$"
    r"|[a-z](?:Password|Passwd|Secret|Token|Key|Credentials?)$|_(?:password|passwd|secret|token|key)$"
)
"""A variable of the environment, or what holds a secret by its name."""
_GROUPED = lazy(r"[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){3,8}")
"""A licence or recovery key."""
_SNAKE = lazy(r"[A-Za-z]+(?:[_.:/-][A-Za-z]+){0,12}")
_PATTERN = lazy(
    r"[$#]\{[\w.:!-]+\}|^[\w /.-]*\{[\w.:!-]*\}[\w /.-]*$|^[.'\"]{0,2}\$|^#[a-z-]+$|^&(?:lt|#)"
    r"|\$\(|\\[wdsWDSb]|\(\?|^[(\[^]|->|\)$"
)
_TERM = lazy(
    r"(?:(?:hmac|aes|des|rsa|sha|md|utf|base|argon|pbkdf|oauth|http|ipv|tls|ssl|x|p|pkcs|ed|win|x86_|arm|python|v)-?\d"
    r"|\d+[- ]?[a-z]+$|[a-z]+\d?/)",
    re.IGNORECASE,
)
"""What has digits in a sentence and is the name of a thing: `sha256`, `oauth2`, `8-character`."""

_LONGEST_PHRASE = 100
_NAMED_THING = lazy(r"[A-Za-z][.:/_=(\[{'-][A-Za-z]|^[(\[{<#@*-]|[(]\)?$")
_BLANK = lazy(r"[ \t]")
_SIGN = lazy(r"\w[*=;|]\w|\w[!@#$%^&+~]|[!@#$%^&+~]\w")
"""What is in or at a word and no mark of a sentence."""
_QUANTITY = lazy(r"(?<!\S)[(~<>]?\d{1,3}(?:-\d{1,3})?\+?[ \t]+(?=[^\W\d])")
_TEXT = lazy(r"""[/~"'`+.,)\]\s]|\W\s|.*(?:\s\W*$|[+(\[,]$|://|%[a-z(]|[{}<>\\]|&\w+;)""")
"""What a path, a template, markup, or code between two quotes begins with or holds."""

_OF_A_NAME = string.ascii_letters + string.digits + "_.$@-"
_AFTER = lazy(r"[\w-]{0,40}(?:\.[A-Za-z_][\w-]{0,40})?")
_WORD_OF_NAME = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME_AND_SIGN = lazy(r"([\w.-]{1,60})\\?[\"'`]?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"'`]?$")
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
"""How a value is given to a name: behind a sign, in a tag, as the field `value`, or as the next word of a sentence."""
_BARE = lazy(r"[^\s\"'`,;&<>|(){}\[\]\\]{4,4000}")
_SAID = lazy(r"(?:[^\s\"'`,;&<>|(){}\[\]\\]|[,;&|](?=\w)){4,4000}")
_WIDE = lazy(r"[^\s\"'`]{8,200}")
_QUOTED = {quote: lazy(rf"[^\n{quote}]{{4,4000}}") for quote in "\"'`"}
_NAME_ONLY = lazy(r"[ \t]{0,8}(?:export |set |env )?[\w.-]{0,60}$")
_LONG_VALUE = 100

_ESCAPE = lazy(r"(?:\x1b|\\(?:x1[bB]|u001[bB]|033|e))\[[0-9;?]{0,20}[A-Za-z]|\\[nrt]")

_LONG_WORD = lazy(r"\S{16,}")
_LONG_ENOUGH = lazy(r"[!-~]{14}")
"""No vendor's format is shorter, or of other characters."""

_AFTER_PREFIX = lazy(r"[A-Za-z0-9_.=-]{16,400}")

_PEM_BEGIN = lazy(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = lazy(r"-----END [A-Z0-9 ]{1,60}-----")
_PEM_BODY = lazy(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*")
_MAX_PEM_CHARS = 16_000
"""A private RSA key of 16,384 bits has 13,000."""

_WITH_MIXED = ("context.headers", "context.documents")


def is_reference(value: str) -> bool:
    """Whether a value only stands for a secret: a variable, a placeholder, one of our own marks."""
    return _REFERENCE.match(value) is not None


def is_mixed(secret: str) -> bool:
    """Whether a string is random, and no word: it has a digit, letters of both cases, or one character many times."""
    return (
        any(each.isdigit() for each in secret)
        or (secret.lower() != secret and secret.upper() != secret)
        or len(set(secret[-12:])) == 1
        or (len(secret) >= 20 and secret.isalpha() and secret.isupper())
    )


def is_random(value: str) -> bool:
    """Whether characters are random, and no words, however these are joined: by the mean length of runs of one kind."""
    seen = value[:_LOOKED_AT]
    if _UUID.fullmatch(seen) or _HEX.fullmatch(seen):
        return any(map(str.isdigit, seen)) and len(set(seen)) > 5
    parts = [part for part in _SEPARATOR.split(seen) if part]
    pieces_of = [_PIECE.findall(part) for part in parts]
    pieces = [piece for each in pieces_of for piece in each]
    if not pieces or len(set(seen)) < 6:
        return False
    length = sum(map(len, pieces))
    blended = sum(len(each) > 1 for each in pieces_of)
    is_structured = len(parts) > 2 and length / len(parts) <= _STRUCTURED_PART and blended * 2 <= len(parts)
    return not is_structured and len(pieces) > 2 and length / len(pieces) < _RANDOM_PIECE


def is_call(value: str) -> bool:
    """Whether what stands outside quotes is code that gives a value: `f(x)`, `a["b"]`, `(a, b)`, `a.b`."""
    return _ARGUMENTS.match(value) is not None or value.startswith(("(", "[")) or _MEMBER.match(value) is not None


def is_password(value: str, *, loud: bool) -> bool:
    """Whether what is given to a password is one. `loud`: it stands where only a literal value can."""
    if len(value) < 4 or len(set(value)) == 1 or _BLANK.search(value) or _stands_for_one(value):
        return False
    if value.isdigit():
        return loud or len(value) > 5
    has_digit = any(map(str.isdigit, value))
    if loud:
        joins_words = re.search(r"[_.:/]", value) and _SNAKE.fullmatch(value[:200]) and not is_random(value)
        return not value.endswith(":") and (has_digit or not joins_words)
    names_one = value.lower().startswith(("pass", "pw")) or (_is_code(value) and not value.isalnum())
    has_sign = re.search(r"[^\w.,:;/()\[\]{}-]", value) is not None
    may_be = len(value) >= 6 and (has_digit or has_sign) and any(map(str.isalpha, value))
    return may_be and not names_one and not is_call(value)


def is_phrase(value: str, *, sure: bool) -> bool:
    """Whether words in quotes that are given to a password are one, no text about it. `sure`: it is of words."""
    words, found = table(SECRETS).words, re.findall(r"[^\W\d_]+", value.lower())
    is_text = _TEXT.match(value) or not (words["text_words"] | words["placeholders"]).isdisjoint(found)
    if not 6 <= len(value) <= _LONGEST_PHRASE or is_text or _stands_for_one(value):
        return False
    has_sign = _SIGN.search(value) or re.search(r"\d", _QUANTITY.sub("", value))
    return bool(found) if has_sign else sure and len(found) > 1


def is_said_password(value: str, *, of_three_kinds: bool) -> bool:
    """Whether the word after `password` in a sentence is one: letters with digits or signs, no name of a thing."""
    last = value.rpartition("/")[2]
    if len(value) < 6 or not any(map(str.isalpha, value)) or not is_password(value, loud=False):
        return False
    if _TERM.match(value) or _NAMED_THING.search(last):
        return False
    has_all = re.search(r"\d", last) is not None and last.lower() != last and last.upper() != last
    return has_all or not (of_three_kinds or "/" in value)


def is_key(value: str, *, sure: bool, loud: bool) -> bool:
    """Whether what is given to a key, token or secret is one. `sure`: its name says so, whatever its value."""
    if len(value) < 8 or _BLANK.search(value) or _stands_for_one(value):
        return False
    if value.isdigit() or len(set(value)) == 1:
        return sure and len(value) >= 20 and value[0].isalnum() and value[0] not in "xX0"
    if _GROUPED.fullmatch(value) and len({len(part) for part in value.split("-")}) == 1:
        return sure
    if is_random(value) and len(value) >= (10 if sure else 16):
        return sure or len(value) >= 32 or not (_UUID.fullmatch(value) or _HEX.fullmatch(value))
    if not sure or not any(map(str.isdigit, value)) or len(set(value)) < 6:
        return False
    return len(value) >= (10 if loud else 15) and (value.isalnum() or (loud and not _is_code(value)))


def _stands_for_one(value: str) -> bool:
    """Whether a value is a variable, a placeholder, a pattern, a path or an example."""
    if is_reference(value) or value.lower().strip("_-") in table(SECRETS).words["placeholders"]:
        return True
    if _PATTERN.search(value) or _NAME.search(value) or _ADDRESS.match(value):
        return True
    return (_PATH.match(value) is not None or _EXAMPLE.search(value) is not None) and not is_random(value)


def _is_code(value: str) -> bool:
    """Whether it is a variable, an attribute or a call, and no value: words without digits in the middle of them."""
    return _CODE.match(value[:500]) is not None and not re.search(r"[A-Za-z]\d+[A-Za-z]|\d[A-Za-z]*\d", value[:500])


class _Name(NamedTuple):
    """A name that holds a word for a secret, as far as it reaches."""

    before: str
    """What is in it before that word."""
    word: str
    after: str
    start: int
    """Of the word."""
    end: int
    is_parameter: bool
    """Whether it is in the query of an address: `?key=`, `&userpass=`."""
    is_for_password: bool


def _find_assigned(text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are given to names such as `password`, `api_key`, `client_secret`."""
    for rule in table(SECRETS).sections["names"]:
        if rule.hints and not any_in(lower, rule.hints):
            continue
        position = 0
        for match in compiled(rule).finditer(lower):
            name = _name_at(text, match, rule) if match.start() >= position else None
            if name is None or not (_is_secrets(name) or _may_be_secrets(name)):
                continue
            given = _GIVEN.match(text, name.end)
            if given is None:
                continue
            start, end = _value_after(text, given)
            # A long value is looked at once, whatever names are in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            if _is_given(text, name, given, (start, end)):
                yield Span(start, end, f"[secret:{'password' if name.is_for_password else 'assigned'}]", rule.name)


def is_shown_to_all(text: str, start: int) -> bool:
    """Whether a name before a value says that it is no secret: an id, a hash, something public."""
    named = _NAME_AND_SIGN.search(text[max(0, start - 80) : start])
    return named is not None and _is_of_another_thing(_words(named[1]), _words(named[1]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD_OF_NAME.findall(name)]


def _is_of_another_thing(before: list[str], after: list[str]) -> bool:
    """Whether a name is not the secret's own, `token_url`, or of what is shown to everybody, `public_key`."""
    words = table(SECRETS).words
    return bool(after and after[-1] in words["attributes"]) or not words["public_kinds"].isdisjoint(before)


def _name_at(text: str, match: re.Match[str], rule: Rule) -> _Name | None:
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
    is_for_password = rule.section == "names.password"
    return None if goes_on else _Name(stem, match[0], tail, match.start(), end, is_parameter, is_for_password)


def _is_secrets(name: _Name) -> bool:
    """Whether a name is of a secret, whatever its value looks like."""
    before = _words(name.before)
    if _is_of_another_thing(before, _words(name.after)) or name.word == "api":
        return False
    if name.is_for_password:
        return len(name.word) > 4 or not name.before[-1:].isalpha() or name.is_parameter
    if name.word == "key":
        kinds = tuple(table(SECRETS).words["kinds_of_key"])
        return (before[-1].endswith(kinds) or name.before.isupper()) if before else name.is_parameter
    return name.word not in ("auth", "sig", "pat", "signature") or not name.before[-1:].islower()


def _may_be_secrets(name: _Name) -> bool:
    """Whether a name may be of a secret, if its value looks like one: `my_key`, `my_api`."""
    before, after = _words(name.before), _words(name.after)
    if not before or _is_of_another_thing(before, after):
        return False
    return (name.word == "key" and not name.before.endswith(" ")) or (name.word == "api" and not after)


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


def _is_given(text: str, name: _Name, given: re.Match[str], value: tuple[int, int]) -> bool:
    """Whether a value of a name is a secret, by how it is given to it and by what it looks like."""
    shown, end, is_sure = text[value[0] : value[1]], value[1], _is_secrets(name)
    is_quoted, is_flag = given["quote"] is not None, name.before.startswith("--")
    if (given["space"] is not None and not is_flag) or given["apart"] or given["said"]:  # as the next word of a text
        if name.after or given["closed"] or not is_sure:
            return False
        if not name.is_for_password:
            return len(shown) >= 12 and is_key(shown, sure=True, loud=False)
        if is_quoted and given["said"] is not None:
            return is_password(shown, loud=True)
        return is_said_password(shown.rstrip("!?)"), of_three_kinds=name.word in ("pass", "pw", "pwd"))
    is_weak = given["weak"] is not None
    if given["weak"] == "," and not given["closed"]:
        return is_sure and not (name.is_for_password or name.after) and is_key(shown, sure=True, loud=False)
    if is_weak and (name.after or name.word == "pass"):
        return False
    if not is_quoted and (text[end : end + 1] in ("(", "[") or is_call(shown)):
        return False
    loud = not is_weak and (is_quoted or is_flag or _is_loud(text, name, given, end))
    if not name.is_for_password:
        return is_key(shown, sure=is_sure, loud=loud)
    if " " in shown or "\t" in shown:
        # Not a text on it, as `passwordHelp`, nor a pass over something.
        may_be = not _words(name.after) and (len(name.word) > 4 or name.before.isupper())
        return not is_weak and may_be and is_phrase(shown, sure=name.word == "passphrase")
    return is_password(shown, loud=loud and given["tag"] is None)


def _is_loud(text: str, name: _Name, given: re.Match[str], end: int) -> bool:
    """Whether an assignment outside quotes gives a value, not a variable: `PASSWORD=x`, `?password=x`, a line."""
    if name.is_parameter or (text[name.start : name.start + 4].isupper() and name.before.upper() == name.before):
        return True
    line_start = text.rfind("\n", max(0, name.start - 80), name.start) + 1
    before = text[line_start : name.start] if line_start or name.start < 80 else "("
    is_alone = text[end : end + 2].strip(" \r")[:1] in ("", "\n")
    is_attribute = name.after or name.before.startswith(("self.", "this."))
    return "=" in (given["sign"] or "") and is_alone and not is_attribute and _NAME_ONLY.match(before) is not None


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets, those of known vendors first, then those that their surroundings give away.

    Spans may overlap; none touches a mark that stands already. Linear in the length of the text.
    """
    yield from _private_keys(text)
    # What ends a word where it is shown ends it here: colours of a terminal, line breaks written as \n.
    if "\\" in text or "\x1b" in text:
        text = _ESCAPE.sub(lambda match: "\n".ljust(len(match[0])), text)
    marks = [match.span() for match in MARK.finditer(text)] if "[" in text else []
    lower = text.lower()
    if len(lower) != len(text):  # every character stays at its place
        lower = "".join(each.lower() if each.isascii() else each for each in text)
    for span in chain(_vendors(text), _given(text, lower), _find_assigned(text, lower)):
        place = bisect_right(marks, (span.start, len(text)))
        if not (place and marks[place - 1][1] > span.start) and not (place < len(marks) and marks[place][0] < span.end):
            yield span


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
            # Random characters are no secret where a name says that they are an id, a hash or public.
            is_known = rule.section != "vendors.unknown"
            if is_mixed(match[group]) and (is_known or (is_random(match[group]) and not is_shown_to_all(text, start))):
                yield Span(start, start + len(match[group]), f"[secret:{rule.kind}]", rule.name)


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
