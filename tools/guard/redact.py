"""What may be kept of a text: without secrets (vendors' formats, what stands around one) and personal data."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from pydantic import JsonValue

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.guard.generalize import without_places
from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.guard.secrets import Excerpt, find_secrets, lines_with
from swarm_memory.tools.text.cleaning import clean

MAX_STEPS, MAX_STEP_CHARS = 2000, 20_000  # of a kept trajectory, and of a text or input of one step
_MAX_DEPTH = 20
_MOST_PASSES = 4
"""Of texts in which something is found; hardly one needs a third."""
_MAX_TASK_CHARS = 20_000

_DIGITS = re.compile(r"[+(]?\d[\d ()./-]{7,40}\d")
_BEFORE_DIGITS, _AFTER_DIGITS, _REACH = 40, 3, 500


class Redacted(NamedTuple):
    """A text with marks in place of what was taken out, and how often each mark was set."""

    text: str
    counts: Mapping[str, int]


def redact(text: str, *, pii: bool = True) -> Redacted:
    """Replace secrets, and with `pii` personal data, by typed marks such as `[secret:github-token]` and `[email]`.

    Linear in the length of the text; redacting twice changes nothing.
    """
    counts: Counter[str] = Counter()
    parts: Iterable[tuple[int, int]] = [(0, len(text))]
    # What stands beside a mark can look otherwise than before: the lines with marks are looked at again.
    for _ in range(_MOST_PASSES):
        excerpt = Excerpt(text, parts)
        spans = [*find_secrets(excerpt.text), *(find_personal_data(excerpt.text) if pii else ())]
        if not (found := [span for each in spans if (span := _within(each, excerpt)) is not None]):
            break
        text = _masked(text, found, counts)
        parts = lines_with(text, (f"[{mark}" for mark in ("secret:", "email]", "card]", "iban]", "phone]", "ssn]")))
    return Redacted(text, dict(counts))


_APART = "\n \n"
"""Between texts that are looked at as one: no secret goes on behind it, and no sign of one reaches over it."""
_TOGETHER_CHARS = 200_000


def kept_text(text: str, settings: Settings, max_chars: int) -> str:
    """Return `text` without secrets, its middle left out. The last cut comes last: it could hide half a secret."""
    bounded = clean(text, 4 * max_chars)
    return clean(redact(bounded, pii=settings.distill.redact_pii).text, max_chars)


def redact_each(texts: Sequence[str], *, pii: bool = True) -> list[str]:
    """Return the texts, each as `redact` leaves it; where nothing is to be taken out, which is usual, at one look.

    Of texts in which something is found the halves are looked at again: few of many hold a secret.
    """
    if len(texts) == 1:
        return [redact(texts[0], pii=pii).text]
    together = _APART.join(texts)
    if len(together) <= _TOGETHER_CHARS and redact(together, pii=pii).text == together:
        return list(texts)
    half = len(texts) // 2
    return redact_each(texts[:half], pii=pii) + redact_each(texts[half:], pii=pii)


def _within(span: Span, excerpt: Excerpt) -> Span | None:
    """Return where in the whole text a span of an excerpt stands; None where it goes over the end of a part."""
    start, end = excerpt.span((span.start, span.end))
    return span._replace(start=start, end=end) if excerpt.span((span.end - 1, span.end))[1] == end else None


def _masked(text: str, spans: Iterable[Span], counts: Counter[str]) -> str:
    kept: list[str] = []
    position = 0
    for span in _disjoint(spans):
        kept += (text[position : span.start], span.mark)
        counts[span.mark] += 1
        position = span.end
    kept.append(text[position:])
    return "".join(kept)


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

    At most `MAX_STEPS` steps of at most `MAX_STEP_CHARS` characters; doing it twice changes nothing.
    """
    kept, dropped = _ends(trajectory.steps)
    texts = dict.fromkeys(
        map(clean, (trajectory.task, *(text for step in kept for text in (step.text, *_strings(step.tool_input)))))
    )
    # Before they are cut: half a secret would not be known as one.
    redacted = dict(zip(texts, redact_each(list(texts), pii=settings.distill.redact_pii), strict=True))
    steps = tuple(_step(step, MAX_STEP_CHARS, redacted) for step in kept)
    task = _text(trajectory.task, _MAX_TASK_CHARS, redacted)
    dropped += trajectory.dropped_steps
    return trajectory.model_copy(update={"task": task, "steps": steps, "dropped_steps": dropped})


def stored(trajectory: Trajectory, settings: Settings) -> Trajectory:
    """Return an archivable trajectory as the bank keeps it: with `distill.redact_pii`, without addresses and paths too.

    Not before it was judged and learned from: which file a check is in is a part of what happened. Doing it twice
    changes nothing.
    """
    if not settings.distill.redact_pii:
        return trajectory
    steps = tuple(
        step.model_copy(update={"text": without_places(step.text), "tool_input": without_places(step.tool_input)})
        for step in trajectory.steps
    )
    return trajectory.model_copy(update={"task": without_places(trajectory.task), "steps": steps})


def _ends(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], int]:
    """Return both ends; the end shows how it went and has more room than the beginning."""
    dropped, head = max(0, len(steps) - MAX_STEPS), MAX_STEPS // 4
    return steps[:head] + steps[head + dropped :], dropped


def _strings(value: JsonValue, depth: int = _MAX_DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth > 0 and isinstance(value, Mapping):
        for key, field in cast("Mapping[str, JsonValue]", value).items():
            yield key
            yield from _strings(field, depth - 1)
    elif depth > 0 and isinstance(value, list):
        for part in value:
            yield from _strings(part, depth - 1)


def _step(step: Step, limit: int, redacted: Mapping[str, str]) -> Step:
    changed: dict[str, object] = {"text": _text(step.text, limit, redacted)}
    if step.tool_input is not None:
        changed["tool_input"] = _value(step.tool_input, limit, _MAX_DEPTH, redacted)
    return step.model_copy(update=changed)


def _text(text: str, limit: int, redacted: Mapping[str, str]) -> str:
    return clean(redacted[clean(text)], limit)


def _value(value: JsonValue, limit: int, depth: int, redacted: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        return _text(value, limit, redacted)
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, JsonValue]", value)
        return {_text(key, 200, redacted): _value(field, limit, depth - 1, redacted) for key, field in fields.items()}
    if isinstance(value, list):
        return [_value(part, limit, depth - 1, redacted) for part in value]
    return value


def find_personal_data(text: str) -> Iterator[Span]:
    """Yield what identifies a person: e-mail addresses, cards (Luhn), IBANs (mod 97), US social security numbers.

    Phone numbers too, cautiously: in an international form, in the usual national ones, beside a word that says so.
    """
    sections = table(SECRETS).sections
    for rule in sections["personal.data"]:
        if not rule.hints or any_in(text, rule.hints):
            yield from _checked(
                rule, Excerpt(text, lines_with(text, rule.hints, _REACH) if rule.hints else [(0, len(text))])
            )
    found = [match.span() for match in _DIGITS.finditer(text)]
    numbers = Excerpt(text, ((max(0, start - _BEFORE_DIGITS), end + _AFTER_DIGITS) for start, end in found))
    for rule in sections["personal.numbers"] if found else ():
        yield from _checked(rule, numbers)


def _checked(rule: Rule, excerpt: Excerpt) -> Iterator[Span]:
    pattern, mark = compiled(rule), f"[{rule.name.partition('-')[0]}]"
    for match in pattern.finditer(excerpt.text):
        if _IS_PERSONAL[rule.name](excerpt.text, match):
            yield Span(*excerpt.span(match.span("number" if "number" in pattern.groupindex else 0)), mark, rule.name)


_CARD = re.compile(
    r"3[47]\d{13}|3(?:[689]\d|0[0-5])\d{11}|4\d{12}(?:\d{3})?|(?:35|5[0-8]|6[023457])\d{14}"
    r"|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
)
"""The prefixes and lengths of issuers."""


def is_card_number(text: str) -> bool:
    """Whether digits (with spaces or hyphens) have a card's prefix and length and pass Luhn (ISO/IEC 7812-1)."""
    digits = re.sub(r"\D", "", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_iban(text: str) -> bool:
    """Whether text has the length of its country's account numbers and passes mod 97 (ISO 13616)."""
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
    "phone-by-name": lambda _, match: 7 <= sum(map(str.isdigit, match["number"])) <= 15,
    "ssn": lambda _, match: True,
}
"""What is asked of each find of these rows, within its text."""
