"""Finding secrets by what stands around them: names, headers, flags, connection strings, PEM frames."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from swarm_memory.tools.guard.spans import Span


def find_by_context(text: str) -> Iterator[Span]:
    """Yield the secrets that their surroundings give away, in no order; spans may overlap."""
    lower = _lowered(text)
    yield from _private_keys(text)
    yield from _headers(text, lower)
    yield from _addresses(text)
    yield from _assignments(text, lower)
    yield from _flags(text, lower)


def is_mixed(secret: str) -> bool:
    """Tell a random string from a word: it has a digit, or letters of both cases."""
    return any(each.isdigit() for each in secret) or (secret.lower() != secret and secret.upper() != secret)


def _lowered(text: str) -> str:
    """Return the text in lower case with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(each.lower() if each.isascii() else each for each in text)


_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,60}-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*")
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
            position = _end_of(_PEM_BODY.match(text, match.end(), limit), match.end())
        yield Span(match.start(), position, "[secret:private-key]")


def _end_of(match: re.Match[str] | None, otherwise: int) -> int:
    return match.end() if match else otherwise


_AUTHORIZATION = re.compile(
    r"authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest|apikey|key|negotiate)\s{1,3})?"
    r"([^\s\"'\[,;{}<$]{8,4000})"
)
_BEARER = re.compile(r"\bbearer\s{1,3}([a-z0-9_.~+/=-]{16,4000})")
_COOKIE = re.compile(r"\b(?:set-)?cookie[\"']?\s{0,2}:\s{0,2}[\"']?([a-z0-9_.-]{1,80}=[^\s\"'\[<][^\n\"'\[]{8,4000})")


def _headers(text: str, lower: str) -> Iterator[Span]:
    if "authorization" in lower:
        yield from _groups(_AUTHORIZATION, text, lower, "[secret:authorization]")
    if "bearer" in lower:
        yield from _groups(_BEARER, text, lower, "[secret:bearer-token]")
    if "cookie" in lower:
        yield from _groups(_COOKIE, text, lower, "[secret:cookie]")


def _groups(pattern: re.Pattern[str], text: str, lower: str, mark: str) -> Iterator[Span]:
    for match in pattern.finditer(lower):
        value = text[match.start(1) : match.end(1)]
        if any(map(str.isdigit, value)) and not _is_reference(value):
            yield Span(*match.span(1), mark)


_USER_INFO = re.compile(r"://([^\s/:@\"'<>\[\]{}$]{0,100}):([^\s/@\"'<>\[\]]{1,200})@")
_TOKEN_INFO = re.compile(r"://([A-Za-z0-9_-]{20,255})@")


def _addresses(text: str) -> Iterator[Span]:
    """Yield the passwords in connection strings `scheme://user:password@host`."""
    if "://" not in text or "@" not in text:
        return
    for match in _USER_INFO.finditer(text):
        if not _is_reference(match[2]) and match[2].lower() not in _PLACEHOLDERS:
            yield Span(*match.span(2), "[secret:url-password]")
    for match in _TOKEN_INFO.finditer(text):
        if is_mixed(match[1]):
            yield Span(*match.span(1), "[secret:url-password]")


_PASSWORD_NAMES = (
    r"passw(?:or)?d",
    r"passphrase",
    r"passwort",
    r"pwd(?=[\"']?\s{0,3}[:=])",
    r"pass(?=[\"']?\s{0,3}=)",
    r"kennwort",
    r"密码",
)
_TOKEN_NAMES = (
    r"secret",
    r"token(?!s|iz|_type|_count|_limit)",
    r"credential",
    r"auth(?=\"?\s{0,3}[:=])",
    r"signature(?==)",
    r"sig(?==)",
    r"sas(?==)",
    r"key(?![a-z]|s[a-z])",
)
_NAMES = tuple(
    (re.compile(name), is_password)
    for names, is_password in ((_PASSWORD_NAMES, True), (_TOKEN_NAMES, False))
    for name in names
)
"""Each begins with letters of its own: such patterns are searched for many times faster than one of alternatives."""

_KIND_OF_KEY = re.compile(
    r"(?:api|access|secret|private|auth|encryption|encrypt|signing|master|account|storage|service|license|deploy|shared"
    r"|session|consumer|client|app|application|admin|webhook|subscription|instrumentation|integration|ssh|jwt|hmac|aes"
    r"|cipher|crypto|host|functions?|team|bot|server|write|ingest|publish|live|rest|sharedaccess|dev|test|prod)[_ -]?$"
)
_AFTER_NAME = re.compile(r"[a-z0-9_.-]{0,30}[\"'`\])]{0,2}[ \t]{0,4}(?::=|=>|==|=|:)[ \t]{0,4}(?:[a-z]{0,2}[\"'`]|)")
_VALUE = re.compile(r"[^\s\"'`,;&<>|(){}\[\]]{4,4000}")
_QUOTED = re.compile(r"[^\n\"'`]{4,4000}")
_LONG_VALUE = 100
_NAME_ONLY = re.compile(r"[ \t]{0,8}(?:export |set |env )?[\w.-]{0,60}$")
_NAME_BEFORE = re.compile(r"[A-Z0-9_]{0,60}$")


def _assignments(text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are given to names such as `password`, `api_key`, `client_secret`."""
    for pattern, is_password in _NAMES:
        position = 0
        for name in pattern.finditer(lower):
            after = _AFTER_NAME.match(lower, name.end()) if name.start() >= position else None
            if after is None or not _names_secret(name, lower):
                continue
            start, end, quoted = _value_after(text, after)
            # A long value is looked at once, whatever names stand in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            loud = quoted or _is_loud(text, name.start(), after) or _is_own_line(text, name.start(), end, after)
            if _is_secret_value(text[start:end], is_password=is_password, loud=loud):
                yield Span(start, end, "[secret:password]" if is_password else "[secret:assigned]")


def _names_secret(name: re.Match[str], lower: str) -> bool:
    """Tell whether the word, with what stands before it, names a secret: an API key, not a sort key."""
    before = lower[max(0, name.start() - 20) : name.start()]
    if name[0].startswith("key"):
        return _KIND_OF_KEY.search(before) is not None
    return name[0] not in ("auth", "sig", "sas", "pass") or not before[-1:].isalpha()


def _value_after(text: str, after: re.Match[str]) -> tuple[int, int, bool]:
    """Return where the value starts and ends, and whether it stands in quotes."""
    quoted = after[0][-1:] in ("'", '"', "`")
    value = (_QUOTED if quoted else _VALUE).match(text, after.end())
    if value is None:
        return after.end(), after.end(), quoted
    trailing = 0 if quoted else len(value[0]) - len(value[0].rstrip(".:"))
    return value.start(), value.end() - trailing, quoted


def _is_loud(text: str, start: int, after: re.Match[str]) -> bool:
    """Tell whether an assignment outside quotes gives a value, not a variable: `PASSWORD=x`, `?password=x`."""
    before = text[max(0, start - 60) : start]
    stem = _NAME_BEFORE.search(before)
    shouted = text[start : start + 4].isupper() and stem is not None
    return shouted or before[-1:] in ("?", "&", ";") or (before[-2:] == "--" and "=" in after[0])


def _is_own_line(text: str, start: int, end: int, after: re.Match[str]) -> bool:
    """Tell whether a line holds nothing but `name=value`, as in a file of settings."""
    line_start = text.rfind("\n", max(0, start - 80), start) + 1
    before = text[line_start:start] if line_start or start < 80 else " "
    return (
        "=" in after[0] and _NAME_ONLY.match(before) is not None and text[end : end + 2].strip(" \r")[:1] in ("", "\n")
    )


_PLACEHOLDERS = frozenset({
    "password", "passwd", "pass", "secret", "token", "string", "str", "none", "null", "nil", "undefined",
    "true", "false", "example", "changeme", "change-me", "redacted", "required", "optional", "hidden",
    "placeholder", "default", "unknown", "invalid", "missing", "empty", "bytes", "text", "number", "integer",
    "boolean", "object", "any", "void", "func", "function", "import", "return", "value", "user", "username",
    "your", "test", "testing", "todo", "xxx", "dummy", "sample", "fake", "foo", "bar", "baz", "bearer", "basic",
    "incorrect", "expired", "field", "input", "type", "auto", "env", "environment", "file", "path", "vault",
    "prompt", "stdin",
})  # fmt: skip
_REFERENCE = re.compile(
    r"\$|%[({A-Z]|\{|<|\[|\*{3}|x{4,}|\.{3}|…|#\{|@\{|!|&[A-Za-z]|os\.|process\.|env[.\[(]|self\.|this\."
    r"|config[.\[]|settings\.|args\."
    r"|req(?:uest)?\.|params[.\[]|ctx\.|secrets?\.|vars?\.|data\.|var\.|getenv|getpass|your[_-]"
    r"|my[_-](?:secret|pass|token|api|key)|<|--",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,6}(?:[(\[].*)?$", re.DOTALL)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@/-]+$|[\w-]+(?:/[\w.-]+)+\.\w{1,5}$")


def _is_secret_value(value: str, *, is_password: bool, loud: bool) -> bool:
    if (
        len(value) < 4
        or _is_reference(value)
        or value.lower().strip("_-") in _PLACEHOLDERS
        or " " in value.strip()
        or "\t" in value
    ):
        return False
    if is_password:
        return _is_password(value, loud=loud)
    if len(value) < 8 or _PATH.match(value) or value.isdigit():
        return False
    if value.isalpha() or _is_snake(value):
        return (
            loud
            and len(value) >= 20
            and value.lower() != value.upper()
            and _entropy(value) >= 3.6
            and value != value.lower()
        )
    return len(value) >= 10 and is_mixed(value) and _entropy(value) >= (2.5 if loud else 3.0) and not _is_code(value)


def _is_password(value: str, *, loud: bool) -> bool:
    if _PATH.match(value) or (value.isdigit() and len(value) < 4):
        return False
    has_digit = any(map(str.isdigit, value))
    if loud:
        return not value.endswith(":") and (has_digit or not (_is_snake(value) and "_" in value))
    names_one = value.lower().startswith(("pass", "pw")) or (_is_code(value) and not value.isalnum())
    return len(value) >= 6 and has_digit and any(map(str.isalpha, value)) and not names_one


def _is_snake(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z]+(?:[_.-][A-Za-z]+){0,12}", value[:200]) is not None


def _is_code(value: str) -> bool:
    """Tell a variable, an attribute or a call from a value: words without digits in the middle of them."""
    return _CODE.match(value[:500]) is not None and not re.search(r"[A-Za-z]\d+[A-Za-z]|\d[A-Za-z]*\d", value[:500])


def _is_reference(value: str) -> bool:
    """Tell whether a value only stands for a secret: a variable, a placeholder, one of our own marks."""
    return _REFERENCE.match(value) is not None or (value[:1] in "[(" and value[:8] in ("[secret:", "(secret:"))


def _entropy(value: str) -> float:
    """Return Shannon's entropy of the characters, in bits each."""
    counts, length = Counter(value[:400]), min(len(value), 400)
    return -sum(n / length * math.log2(n / length) for n in counts.values())


_FLAG = re.compile(
    r"(?<!\w)(?:--(?:password|passwd|pass|token|secret|api-key|apikey|access-key|secret-key|auth-token"
    r"|access-token)[ \t]{1,3}"
    r"|sshpass[ \t]{1,3}-p[ \t]{0,3}"
    r"|login[ \t]{1,3}\S{1,100}[ \t]{1,3}password[ \t]{1,3})[\"']?([^\s\"'<>|;&$\[\]-][^\s\"'<>"
    r"|;&\[\]]{3,300})"
)
_MYSQL = re.compile(
    r"(?<!\w)(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,200}?[ \t]-p([^\s\"'|;&$\[\]<>-][^\s\"'"
    r"|;&\[\]<>]{3,100})"
)
_CURL_USER = re.compile(
    r"(?<!\w)curl\b[^\n|]{0,300}?[ \t](?:-u|--user)[ \t=]{0,2}[\"']?[^\s:\"'$<>]{1,100}:([^\s\"'|;&$\[\]<>]{4,200})"
)


def _flags(text: str, lower: str) -> Iterator[Span]:
    """Yield the secrets that stand on a command line."""
    patterns = ((_FLAG, ("--", "sshpass", "login")), (_MYSQL, ("mysql", "mariadb")), (_CURL_USER, ("curl",)))
    for pattern, hints in patterns:
        if any(hint in lower for hint in hints):
            for match in pattern.finditer(lower):
                value = text[match.start(1) : match.end(1)]
                if not _is_reference(value) and value.lower() not in _PLACEHOLDERS:
                    yield Span(*match.span(1), "[secret:password]")
