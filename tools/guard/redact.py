"""Redact text before it is kept: secrets (by vendors' formats or by their surroundings) and personal data."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.guard.generalize import with_texts, without_places
from swarm_memory.tools.guard.person_names import find_names
from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.guard.secrets import find_secrets, regex
from swarm_memory.tools.text.cleaning import clean, shorten

if TYPE_CHECKING:  # the settings' model takes long to build, and a server answers before it reads settings
    from pydantic import JsonValue

    from swarm_memory.schema.settings import PersonalData, Settings

MAX_STEPS, MAX_STEP_CHARS = 2000, 20_000  # of a kept trajectory, and of a text or input of one step
_MAX_TASK_CHARS, _MAX_NAME_CHARS, _LONGEST_FIELD = 20_000, 200, 4000
CUT_MARGIN = 8192
"""So many characters next to a cut are redacted, then left out: no longer key or token is in common use."""
MAX_READ_CHARS = MAX_STEP_CHARS + 2 * CUT_MARGIN

_MOST_PASSES = 4
"""At most this many passes over a text: next to a new mark it can look different; hardly any text needs a third."""

_DIGITS = re.compile(r"[+(]?\d[\d ()./-]{7,40}\d")
_BEFORE_DIGITS, _AFTER_DIGITS = 40, 3
"""How many characters before and after a run of digits are searched for somebody's number."""


class Redacted(NamedTuple):
    """A text with marks in place of what was removed, how often each was set, and where a place in it now is."""

    text: str
    counts: Mapping[str, int]
    place: int = 0


def redact(text: str, *, pii: "PersonalData" = True, keeps_lines: bool = False, place: int = 0) -> Redacted:
    """Replace secrets, and with `pii` personal data, by typed marks such as `[secret:github-token]` and `[email]`.

    With `names`, names of people and places too; with `keeps_lines` lines keep their numbers. `place` follows the text.
    Linear. Twice changes nothing, except for names, known by context. Raises `ConfigError` if they cannot be found.
    """
    done = Redacted(text, {}, place)
    for _ in range(_MOST_PASSES):
        found = [*find_secrets(done.text), *(find_personal_data(done.text) if pii else ())]
        if not found:
            break
        done = _replaced(done, found, keeps_lines=keeps_lines)
    return _replaced(done, find_names(done.text)) if pii == "names" else done  # once: a model may find some in any text


def _replaced(given: Redacted, spans: Iterable[Span], *, keeps_lines: bool = False) -> Redacted:
    """Return a text with marks in place of spans, and count them; a place within a span is then behind the mark."""
    kept, position, place, counts = list[str](), 0, given.place, Counter(given.counts)
    for span in _disjoint(spans):
        mark = span.mark + "\n" * (keeps_lines and given.text.count("\n", *span[:2]))
        kept += (given.text[position : span.start], mark)
        counts[span.mark] += 1
        position = span.end
        place += len(mark) - min(position, given.place) + span.start if span.start < given.place else 0
    return Redacted("".join([*kept, given.text[position:]]), dict(counts), place)


def redact_start(text: str, max_chars: int, *, pii: "PersonalData" = True) -> str:
    """Return at most `max_chars` of the start, redacted before it is cut, because no rule recognizes half a secret."""
    start = redact(text[: max_chars + CUT_MARGIN], pii=pii, place=max_chars)
    return start.text[: min(max_chars, start.place) if len(text) > max_chars + CUT_MARGIN else max_chars]


def redact_end(text: str, max_chars: int, *, pii: "PersonalData" = True) -> str:
    """Return at most `max_chars` of the end, redacted likewise; a secret across the cut goes with its mark."""
    end = redact(text[-max_chars - CUT_MARGIN :], pii=pii, place=CUT_MARGIN)
    return end.text[max(len(end.text) - max_chars, end.place if len(text) > max_chars + CUT_MARGIN else 0) :]


def without_secrets(text: str) -> str:
    """Return a text that will be cut into passages, without secrets; lines keep their numbers."""
    return redact(text, pii=False, keeps_lines=True).text


def kept_text(text: str, settings: "Settings | None", max_chars: int) -> str:
    """Return `text` cleaned and redacted (without settings, of secrets alone), then its middle left out."""
    text, pii, half = clean(text), settings is not None and settings.distill.redact_pii, max_chars // 2
    if len(text) < 2 * (half + CUT_MARGIN):
        return shorten(redact(text, pii=pii).text, max_chars)
    return shorten(text, max_chars, (redact_start(text, half, pii=pii), redact_end(text, half, pii=pii)))


def redact_secret_fields(value: "JsonValue", name: str = "", depth: int = 60) -> "JsonValue":
    """Redact the texts of a JSON value that their fields' names show to be secrets, as in `{"password": "…"}`.

    A field `value` takes its name from the field next to it: `{"name": "PASSWORD", "value": "…"}`. What is nested more
    than `depth` times is left as it is. Doing it twice changes nothing.
    """
    if isinstance(value, str):
        quote = next((each for each in "\"'`" if each not in value), None)
        if quote is None or not name or len(value) > _LONGEST_FIELD:
            return value
        given, at = f"{name}={quote}{value}{quote}", len(name) + 2
        return _replaced(Redacted(given, {}), (span for span in find_secrets(given) if span.start >= at)).text[at:-1]
    if depth <= 0 or not isinstance(value, Mapping | list):
        return value
    if isinstance(value, list):
        return [redact_secret_fields(part, name, depth - 1) for part in value]
    own = next((part for key in ("name", "key") if isinstance(part := value.get(key), str)), name)
    return {key: redact_secret_fields(part, own if key == "value" else key, depth - 1) for key, part in value.items()}


def json_size(value: "JsonValue") -> int:
    """Return the approximate length of `value` as text, in characters."""
    if isinstance(value, str):
        return len(value)
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return sum(map(json_size, parts)) if isinstance(parts, list) else 8


def _disjoint(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in order; those that overlap become one, named after the one that was found first."""
    merged: list[tuple[int, Span]] = []
    for rank, span in sorted(enumerate(spans), key=lambda each: each[1].start):
        if merged and span.start < merged[-1][1].end:
            before, last = merged.pop()
            named = last if before < rank else span
            rank, span = min(before, rank), named._replace(start=last.start, end=max(last.end, span.end))
        merged.append((rank, span))
    return (span for _, span in merged)


def bounded_input(value: "JsonValue", bounded: Callable[..., str] | None = None) -> "JsonValue":
    """Return a tool's input, its texts redacted (only of secrets unless `bounded` does it) and shortened."""
    bounded = bounded or cache(partial(kept_text, settings=None, max_chars=MAX_STEP_CHARS))
    safe = redact_secret_fields(with_texts(value, bounded, partial(bounded, max_chars=_MAX_NAME_CHARS)))
    most = MAX_STEP_CHARS if json_size(safe) <= 2 * MAX_STEP_CHARS else MAX_STEP_CHARS // 20
    return with_texts(safe, partial(shorten, max_chars=most))


def archivable(trajectory: Trajectory, settings: "Settings") -> Trajectory:
    """Return the trajectory with all texts cleaned and redacted; a long text, or a long trajectory, loses its middle.

    At most `MAX_STEPS` steps of at most `MAX_STEP_CHARS` characters; doing it twice changes nothing.
    """
    dropped, head = max(0, len(trajectory.steps) - MAX_STEPS), MAX_STEPS // 4
    # The end shows how it went and gets more room than the beginning.
    kept = (*trajectory.steps[:head], *trajectory.steps[head + dropped :])
    bounded = cache(partial(kept_text, settings=settings, max_chars=MAX_STEP_CHARS))
    steps = tuple(
        step.model_copy(update={"text": bounded(step.text), "tool_input": bounded_input(step.tool_input, bounded)})
        for step in kept
    )
    task = bounded(trajectory.task, max_chars=_MAX_TASK_CHARS)
    dropped += trajectory.dropped_steps
    return trajectory.model_copy(update={"task": task, "steps": steps, "dropped_steps": dropped})


def strip_places(trajectory: Trajectory, settings: "Settings") -> Trajectory:
    """Return an archivable trajectory as the bank keeps it: with `distill.redact_pii`, without addresses and paths.

    Judge it and learn from it first: which file a check is in is a part of it. Doing it twice changes nothing.
    """
    if not settings.distill.redact_pii:
        return trajectory
    steps = tuple(
        step.model_copy(update={"text": without_places(step.text), "tool_input": without_places(step.tool_input)})
        for step in trajectory.steps
    )
    return trajectory.model_copy(update={"task": without_places(trajectory.task), "steps": steps})


def find_personal_data(text: str) -> Iterator[Span]:
    """Yield what identifies a person: e-mail addresses, cards (Luhn), IBANs (mod 97), US social security numbers.

    Phone numbers too, cautiously: in international or common national forms, or next to a word that says so.
    """
    sections = table(SECRETS).sections
    for rule in sections["personal.data"]:
        if not rule.hints or any_in(text, rule.hints):
            yield from _checked(rule, text, 0, len(text))
    for found in _DIGITS.finditer(text):
        for rule in sections["personal.numbers"]:
            yield from _checked(rule, text, max(0, found.start() - _BEFORE_DIGITS), found.end() + _AFTER_DIGITS)


def _checked(rule: Rule, text: str, start: int, end: int) -> Iterator[Span]:
    pattern, mark = compiled(rule), f"[{rule.name.partition('-')[0]}]"
    for match in pattern.finditer(text, start, end):
        if _IS_PERSONAL[rule.name](text, match):
            yield Span(*match.span("number" if "number" in pattern.groupindex else 0), mark, rule.name)


def is_card_number(text: str) -> bool:
    """Whether digits (with spaces or hyphens) have a card's prefix and length and pass Luhn (ISO/IEC 7812-1)."""
    digits = re.sub(r"\D", "", text)
    if not regex("card").fullmatch(digits):
        return False
    doubled = (divmod(int(digit) * (1 + place % 2), 10) for place, digit in enumerate(reversed(digits)))
    return sum(map(sum, doubled)) % 10 == 0


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
    """Whether a match is a phone number, not a sum, a line of a diff or another number with a plus."""
    at_line_start = match.start() == 0 or text[match.start() - 1] == "\n"
    return 9 <= sum(map(str.isdigit, match[0])) <= 15 and not (at_line_start and match[0][1:].isdigit())


_IS_PERSONAL: Mapping[str, Callable[[str, re.Match[str]], bool]] = {
    "email": _is_email,
    "card": lambda _, match: is_card_number(match[0]),
    "iban": lambda _, match: is_iban(match[0]),
    "phone": _is_phone,
    "phone-by-name": lambda _, match: 7 <= sum(map(str.isdigit, match["number"])) <= 15,
    "ssn": lambda _, match: True,
}
"""The check that a match of each of these rows must pass, given the text around it."""
