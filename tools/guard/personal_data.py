"""Finding personal data in text: e-mail addresses, card, account and phone numbers; it knows no secrets."""

import re
from collections.abc import Iterator

from swarm_memory.tools.guard.spans import Span

_EMAIL = re.compile(
    r"(?<![\w.%+/-])([A-Za-z0-9][\w.%+-]{0,63})@((?:[A-Za-z0-9-]{1,63}\.){1,8}([A-Za-z]{2,24}))(?![\w-]|\.\w)"
)
_NO_PERSON = frozenset({"git", "hg", "svn", "noreply", "no-reply"})
_NO_DOMAIN = frozenset({
    "png", "jpg", "jpeg", "gif", "svg", "webp", "py", "js", "ts", "jsx", "tsx", "mjs", "cjs", "css", "scss",
    "html", "json", "yaml", "yml", "toml", "md", "txt", "sh", "rs", "go", "java", "rb", "php", "c", "h", "cpp",
    "so", "lock", "log", "service", "socket", "target", "timer", "mount", "tgz", "gz", "zip", "whl", "tar",
    "conf", "cfg", "ini",
})  # fmt: skip
_CARD = re.compile(r"(?<![\w.-])(?<!\d[ ])[2-6](?:[ -]?\d){11,18}(?![\w-]|\.\d)(?![ ]\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_IBAN_LENGTH = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18,
    "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24,
    "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24,
    "XK": 20,
}  # fmt: skip
"""Characters of an account number by country (ISO 13616 registry)."""

_PHONE = re.compile(
    r"(?<![\w.+/@-])(?:"
    r"\+[1-9]\d{0,2}(?:[ .-]?\(0?\d{0,4}\))?(?:[ .-]\d{2,8}){1,5}"  # +49 170 1234567
    r"|\+[1-9]\d{10,13}"
    r"|\(\d{3}\) ?\d{3}-\d{4}"  # (555) 123-4567
    r"|[2-9]\d{2}-[2-9]\d{2}-\d{4}"
    r")(?![\w-]|\.\d)"
)


def find_personal_data(text: str) -> Iterator[Span]:
    """Yield what identifies a person: e-mail addresses, cards (Luhn), IBANs (mod 97), phone numbers (cautiously)."""
    if "@" in text:
        yield from _emails(text)
    for match in _CARD.finditer(text):
        if is_card_number(match[0]):
            yield Span(*match.span(), "[card]")
    for match in _IBAN.finditer(text):
        if is_iban(match[0]):
            yield Span(*match.span(), "[iban]")
    for match in _PHONE.finditer(text):
        if _is_phone(text, match):
            yield Span(*match.span(), "[phone]")


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
    if len(compact) != _IBAN_LENGTH.get(compact[:2]):
        return False
    return int("".join(str(int(each, 36)) for each in compact[4:] + compact[:4])) % 97 == 1


def _emails(text: str) -> Iterator[Span]:
    for match in _EMAIL.finditer(text):
        in_address = "://" in text[max(0, match.start() - 100) : match.start()].rpartition(" ")[2]
        if not in_address and match[3].lower() not in _NO_DOMAIN and match[1].lower() not in _NO_PERSON:
            yield Span(*match.span(), "[email]")


def _is_phone(text: str, match: re.Match[str]) -> bool:
    """Leave out sums, lines of a diff and other numbers with a plus."""
    digits = sum(each.isdigit() for each in match[0])
    at_line_start = match.start() == 0 or text[match.start() - 1] == "\n"
    is_bare = match[0][1:].isdigit()
    return 9 <= digits <= 15 and not (is_bare and at_line_start)
