"""What may be kept of a text: without secrets (vendors' formats, what stands around one) and personal data."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from pydantic import JsonValue

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.guard.rules import SECRETS, Table, compiled, table
from swarm_memory.tools.text.cleaning import clean

_MAX_DEPTH = 20
_MAX_TASK_CHARS = 20_000


class Span(NamedTuple):
    """The half-open range `start` … `end` of a text, the mark that takes its place, and the rule that found it."""

    start: int
    end: int
    mark: str
    rule: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with marks in place of what was taken out, and how often each mark was set."""

    text: str
    counts: Mapping[str, int]


def redact(text: str, *, pii: bool = True) -> Redacted:
    """Replace secrets, and with `pii` personal data, by typed marks such as `[secret:github-token]` and `[email]`.

    Linear in the length of the text; redacting twice changes nothing.
    """
    spans = list(find_secrets(text))
    if pii:
        spans.extend(find_personal_data(text))
    if not spans:
        return Redacted(text, {})
    kept: list[str] = []
    counts: Counter[str] = Counter()
    position = 0
    for span in _disjoint(spans):
        kept += (text[position : span.start], span.mark)
        counts[span.mark] += 1
        position = span.end
    kept.append(text[position:])
    return Redacted("".join(kept), dict(counts))


def _disjoint(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in order; those that overlap become one, named by the one that was found first."""
    ordered = sorted(enumerate(spans), key=lambda each: each[1].start)
    rank, current = ordered[0]
    for number, span in ordered[1:]:
        if span.start >= current.end:
            yield current
            rank, current = number, span
            continue
        first = span if number < rank else current
        rank, current = min(rank, number), first._replace(start=current.start, end=max(current.end, span.end))
    yield current


def archivable(trajectory: Trajectory, settings: Settings) -> Trajectory:
    """Return the trajectory with every text of it cleaned and redacted, long texts cut and the middle left out.

    At most `settings.learn.max_steps` steps of at most `max_step_chars` characters; doing it twice changes nothing.
    """
    pii, limit = settings.distill.redact_pii, settings.learn.max_step_chars
    kept, dropped = _ends(trajectory.steps, settings.learn.max_steps)
    steps = tuple(_step(step, limit, pii=pii) for step in kept)
    task = _text(trajectory.task, _MAX_TASK_CHARS, pii=pii)
    changed = {"task": task, "steps": steps, "dropped_steps": trajectory.dropped_steps + dropped}
    return trajectory.model_copy(update=changed)


def _ends(steps: tuple[Step, ...], limit: int) -> tuple[tuple[Step, ...], int]:
    """The end tells how it went and weighs more than the beginning."""
    if len(steps) <= limit:
        return steps, 0
    head = limit // 4
    return steps[:head] + steps[len(steps) - (limit - head) :], len(steps) - limit


def _step(step: Step, limit: int, *, pii: bool) -> Step:
    changed: dict[str, object] = {"text": _text(step.text, limit, pii=pii)}
    if step.tool_input is not None:
        changed["tool_input"] = _value(step.tool_input, limit, _MAX_DEPTH, pii=pii)
    return step.model_copy(update=changed)


def _text(text: str, limit: int, *, pii: bool) -> str:
    """Redacted before it is cut: half a secret would not be known as one."""
    return clean(redact(clean(text), pii=pii).text, limit)


def _value(value: JsonValue, limit: int, depth: int, *, pii: bool) -> JsonValue:
    if isinstance(value, str):
        return _text(value, limit, pii=pii)
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, JsonValue], value)
        return {_text(key, 200, pii=pii): _value(field, limit, depth - 1, pii=pii) for key, field in fields.items()}
    if isinstance(value, list):
        return [_value(part, limit, depth - 1, pii=pii) for part in value]
    return value


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets, those of known vendors first, then those that their surroundings give away.

    Spans may overlap. Linear in the length of the text.
    """
    rules = table(SECRETS)
    present = {hint for hint in rules.hints if hint in text}
    for rule in rules.sections["vendors"] if present else ():
        if not present.isdisjoint(rule.hints):
            pattern = compiled(rule)
            group = 1 if pattern.groups else 0
            for match in pattern.finditer(text):
                if _is_mixed(match[group]):
                    yield Span(*match.span(group), f"[secret:{rule.kind}]", rule.name)
    yield from _private_keys(text)
    lower = _lowered(text)
    yield from _given(rules, "context.headers", text, lower)
    yield from _given(rules, "context.addresses", text, lower)
    yield from _assignments(rules, text, lower)
    yield from _given(rules, "context.commands", text, lower)


def _is_mixed(secret: str) -> bool:
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
            body = _PEM_BODY.match(text, match.end(), limit)
            position = body.end() if body else match.end()
        yield Span(match.start(), position, "[secret:private-key]", "private-key")


def _given(rules: Table, section: str, text: str, lower: str) -> Iterator[Span]:
    """Yield the values in headers, addresses and on command lines."""
    for rule in rules.sections[section]:
        if any(hint in lower for hint in rule.hints):
            for match in compiled(rule).finditer(lower):
                value = text[match.start(1) : match.end(1)]
                is_header = section == "context.headers"
                is_value = (
                    any(map(str.isdigit, value)) if is_header else value.lower() not in rules.words["placeholders"]
                )
                if is_value and not _is_reference(value):
                    yield Span(*match.span(1), f"[secret:{rule.kind}]", rule.name)


_AFTER_NAME = re.compile(r"[a-z0-9_.-]{0,30}[\"'`\])]{0,2}[ \t]{0,4}(?::=|=>|==|=|:)[ \t]{0,4}(?:[a-z]{0,2}[\"'`]|)")
_VALUE = re.compile(r"[^\s\"'`,;&<>|(){}\[\]]{4,4000}")
_QUOTED = re.compile(r"[^\n\"'`]{4,4000}")
_LONG_VALUE = 100
_NAME_ONLY = re.compile(r"[ \t]{0,8}(?:export |set |env )?[\w.-]{0,60}$")
_NAME_BEFORE = re.compile(r"[A-Z0-9_]{0,60}$")


def _assignments(rules: Table, text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are given to names such as `password`, `api_key`, `client_secret`."""
    for rule in rules.sections["names"]:
        is_password = rule.section == "names.password"
        position = 0
        for name in compiled(rule).finditer(lower):
            after = _AFTER_NAME.match(lower, name.end()) if name.start() >= position else None
            if after is None or not _names_secret(name, lower, rules.words["kinds_of_key"]):
                continue
            start, end, quoted = _value_after(text, after)
            # A long value is looked at once, whatever names stand in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            loud = quoted or _is_loud(text, name.start(), after) or _is_own_line(text, name.start(), end, after)
            if _is_secret_value(text[start:end], rules, is_password=is_password, loud=loud):
                yield Span(start, end, "[secret:password]" if is_password else "[secret:assigned]", rule.name)


def _names_secret(name: re.Match[str], lower: str, kinds_of_key: frozenset[str]) -> bool:
    """Tell whether the word, with what stands before it, names a secret: an API key, not a sort key."""
    before = lower[max(0, name.start() - 20) : name.start()]
    if name[0].startswith("key"):
        return (before[:-1] if before.endswith(("_", " ", "-")) else before).endswith(tuple(kinds_of_key))
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


_REFERENCE = re.compile(
    r"\$|%[({A-Z]|\{|<|\[|\*{3}|x{4,}|\.{3}|…|#\{|@\{|!|&[A-Za-z]|os\.|process\.|env[.\[(]|self\.|this\."
    r"|config[.\[]|settings\.|args\."
    r"|req(?:uest)?\.|params[.\[]|ctx\.|secrets?\.|vars?\.|data\.|var\.|getenv|getpass|your[_-]"
    r"|my[_-](?:secret|pass|token|api|key)|<|--",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,6}(?:[(\[].*)?$", re.DOTALL)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@/-]+$|[\w-]+(?:/[\w.-]+)+\.\w{1,5}$")


def _is_secret_value(value: str, rules: Table, *, is_password: bool, loud: bool) -> bool:
    if (
        len(value) < 4
        or _is_reference(value)
        or value.lower().strip("_-") in rules.words["placeholders"]
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
    return len(value) >= 10 and _is_mixed(value) and _entropy(value) >= (2.5 if loud else 3.0) and not _is_code(value)


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


def find_personal_data(text: str) -> Iterator[Span]:
    """Yield what identifies a person: e-mail addresses, cards (Luhn), IBANs (mod 97), phone numbers (cautiously)."""
    for rule in table(SECRETS).sections["personal"]:
        if not rule.hints or any(hint in text for hint in rule.hints):
            for match in compiled(rule).finditer(text):
                if _IS_PERSONAL[rule.name](text, match):
                    yield Span(*match.span(), f"[{rule.name}]", rule.name)


def is_card_number(text: str) -> bool:
    """Tell whether digits (with spaces or hyphens) have a card's prefix and length and pass Luhn (ISO/IEC 7812-1)."""
    digits = re.sub(r"\D", "", text)
    if len(digits) not in _card_lengths(digits):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _card_lengths(digits: str) -> tuple[int, ...]:
    if digits[:2] in ("34", "37"):
        return (15,)
    if digits[:2] in ("36", "38", "39") or "300" <= digits[:3] <= "305":
        return (14,)
    if digits[0] == "4":
        return (13, 16)
    master = "51" <= digits[:2] <= "55" or "2221" <= digits[:4] <= "2720"
    other = digits[:2] in ("35", "50", "56", "57", "58", "60", "62", "63", "64", "65", "67")
    return (16,) if master or other else ()


def is_iban(text: str) -> bool:
    """Tell whether text has the length of its country's account numbers and passes mod 97 (ISO 13616)."""
    compact = text.replace(" ", "")
    if f"{compact[:2]}{len(compact)}" not in table(SECRETS).words["iban_lengths"]:
        return False
    return int("".join(str(int(each, 36)) for each in compact[4:] + compact[:4])) % 97 == 1


def _is_email(text: str, match: re.Match[str]) -> bool:
    words = table(SECRETS).words
    in_address = "://" in text[max(0, match.start() - 100) : match.start()].rpartition(" ")[2]
    is_of_nobody = match[1].lower() in words["mailboxes_of_nobody"]
    return not (in_address or is_of_nobody or match[3].lower() in words["endings_of_files"])


def _is_phone(text: str, match: re.Match[str]) -> bool:
    """Leave out sums, lines of a diff and other numbers with a plus."""
    digits = sum(each.isdigit() for each in match[0])
    at_line_start = match.start() == 0 or text[match.start() - 1] == "\n"
    is_bare = match[0][1:].isdigit()
    return 9 <= digits <= 15 and not (is_bare and at_line_start)


_IS_PERSONAL: Mapping[str, Callable[[str, re.Match[str]], bool]] = {
    "email": _is_email,
    "card": lambda _, match: is_card_number(match[0]),
    "iban": lambda _, match: is_iban(match[0]),
    "phone": _is_phone,
}
"""What is asked of each find of these rows, within its text."""
