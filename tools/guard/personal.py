"""Personal data in a text: addresses, cards, account numbers, social security numbers, telephone numbers."""

import re
from collections.abc import Callable, Iterator, Mapping

from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.guard.secrets import Excerpt, lines_with

_DIGITS = re.compile(r"[+(]?\d[\d ()./-]{7,40}\d")
_BEFORE_DIGITS, _AFTER_DIGITS, _REACH = 40, 3, 500


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
    "phone-by-name": lambda _, match: 7 <= sum(map(str.isdigit, match["number"])) <= 15,
    "ssn": lambda _, match: True,
}
"""What is asked of each find of these rows, within its text."""
