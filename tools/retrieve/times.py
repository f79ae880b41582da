"""The time that a query speaks of ("three weeks ago", "in May 2023"), and how near a memory is to it."""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3,
}  # fmt: skip
_UNIT_DAYS = {"day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_COUNT = "|".join(sorted(map(re.escape, _NUMBERS), key=len, reverse=True))
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_AGO = rf"\b(\d{{1,3}}|{_COUNT})\s+(day|week|month|year)s?\s+(?:ago|earlier|before now|back)\b"
_LAST = rf"\blast\s+(week|month|year|{'|'.join(_DAYS)})\b"
_YESTERDAY = r"\b(yesterday|the day before yesterday|last night)\b"
_ISO = r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b"
_DAY_FIRST = rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?,?\s*((?:19|20)\d\d)?"
_MONTH_FIRST = rf"\b({_MONTH})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\s+((?:19|20)\d\d))?"
_MONTH_ONLY = rf"\b(?:in|during|since|of|last)\s+({_MONTH})\b(?:,?\s+((?:19|20)\d\d))?"
_YEAR_ONLY = r"\b(?:in|during|of)\s+((?:19|20)\d\d)\b"
_NAMED = re.compile(
    r"\b(?:ago|earlier|before now|back|last|yesterday|(?:19|20)\d\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
    re.IGNORECASE,
)
_MAX_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class TargetTime:
    """A moment, and how many days off counts half."""

    moment: datetime
    half_days: float


def closeness(target: TargetTime, moment: datetime) -> float:
    """Return 1 at the target, ½ at its half width, then quickly less: 0.5 ** (distance / half width)²."""
    days = abs((moment - target.moment).total_seconds()) / 86_400
    return 0.5 ** ((days / target.half_days) ** 2)


def mentioned_time(query: str, now: datetime) -> TargetTime | None:
    """Return the first time of these kinds that the query names, or None; nearly all name none.

    "Today" and "now" are none: they say when the query is asked. What is relative counts from `now`.
    """
    if not _NAMED.search(query, 0, _MAX_CHARS):
        return None
    text = query[:_MAX_CHARS]
    return next((target for rule in _RULES if (target := rule(text, now)) is not None), None)


def _found(pattern: str, query: str) -> re.Match[str] | None:
    return re.search(pattern, query, re.IGNORECASE)  # compiled when it is needed: hooks have no time for all of them


def _full_date(query: str, now: datetime) -> TargetTime | None:
    if found := _found(_ISO, query):
        return _date(int(found[1]), int(found[2]), int(found[3]))
    if found := _found(_DAY_FIRST, query):
        return _dated(now, found[3], found[2], int(found[1]))
    if found := _found(_MONTH_FIRST, query):
        return _dated(now, found[3], found[1], int(found[2]))
    return None


def _dated(now: datetime, year: str | None, month: str, day: int) -> TargetTime | None:
    number = _month_number(month)
    if year is not None:
        return _date(int(year), number, day)
    this_year = _date(now.year, number, day)
    return this_year if this_year is None or this_year.moment <= now else _date(now.year - 1, number, day)


def _date(year: int, month: int, day: int) -> TargetTime | None:
    try:
        return TargetTime(datetime(year, month, day, 12, tzinfo=UTC), 2.0)
    except ValueError:
        return None


def _ago(query: str, now: datetime) -> TargetTime | None:
    found = _found(_AGO, query)
    if found is None:
        return None
    count = int(found[1]) if found[1].isdecimal() else _NUMBERS[found[1].lower()]
    days = _UNIT_DAYS[found[2].lower()]
    return TargetTime(now - timedelta(days=count * days), max(1.0, days / 2))


def _last(query: str, now: datetime) -> TargetTime | None:
    found = _found(_LAST, query)
    if found is None:
        return None
    named = found[1].lower()
    if named in _DAYS:
        back = (now.weekday() - _DAYS.index(named) - 1) % 7 + 1
        return TargetTime(now - timedelta(days=back), 1.0)
    return TargetTime(now - timedelta(days=_UNIT_DAYS[named]), _UNIT_DAYS[named] / 2)


def _near(query: str, now: datetime) -> TargetTime | None:
    found = _found(_YESTERDAY, query)
    if found is None:
        return None
    back = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(found[1].lower(), 0)
    return TargetTime(now - timedelta(days=back), 1.0)


def _month(query: str, now: datetime) -> TargetTime | None:
    found = _found(_MONTH_ONLY, query)
    if found is None:
        return None
    number = _month_number(found[1])
    year = int(found[2]) if found[2] else _latest_year(now, number)
    middle = (monthrange(year, number)[1] + 1) // 2
    return TargetTime(datetime(year, number, middle, 12, tzinfo=UTC), 15.0)


def _latest_year(now: datetime, month: int) -> int:
    return now.year if month <= now.month else now.year - 1


def _year(query: str, now: datetime) -> TargetTime | None:
    found = _found(_YEAR_ONLY, query)
    return None if found is None else TargetTime(datetime(int(found[1]), 7, 2, tzinfo=UTC), 150.0)


def _month_number(name: str) -> int:
    return next(at for at, month in enumerate(_MONTHS, start=1) if month.startswith(name.lower()[:3]))


_RULES: tuple[Callable[[str, datetime], TargetTime | None], ...] = (_full_date, _ago, _last, _near, _month, _year)
