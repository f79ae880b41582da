"""Whether a value that is given to a name is a secret, or stands for one: words, variables, code, examples."""

import re

from swarm_memory.tools.guard.rules import SECRETS, table
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
    r"|ENC\[|arn:|vault:|[\[(](?:secret:|email|card|iban|phone|ssn)",
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
