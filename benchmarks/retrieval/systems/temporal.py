"""The bank's answer with more for items of the time that the query speaks of ("three weeks ago", "in May 2023")."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.benchmark.systems import Bank
from swarm_memory.tools.retrieve.retrieve import MAX_K, retrieve

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
_AGO = re.compile(
    rf"\b(\d{{1,3}}|{_COUNT})\s+(day|week|month|year)s?\s+(?:ago|earlier|before now|back)\b", re.IGNORECASE
)
_LAST = re.compile(rf"\blast\s+(week|month|year|{'|'.join(_DAYS)})\b", re.IGNORECASE)
_YESTERDAY = re.compile(r"\b(yesterday|the day before yesterday|last night|this morning|today)\b", re.IGNORECASE)
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_DAY_FIRST = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?,?\s*((?:19|20)\d\d)?", re.IGNORECASE
)
_MONTH_FIRST = re.compile(
    rf"\b({_MONTH})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\s+((?:19|20)\d\d))?", re.IGNORECASE
)
_MONTH_ONLY = re.compile(rf"\b(?:in|during|since|of|last)\s+({_MONTH})\b(?:,?\s+((?:19|20)\d\d))?", re.IGNORECASE)
_YEAR_ONLY = re.compile(r"\b(?:in|during|of)\s+((?:19|20)\d\d)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TargetTime:
    """A moment, and how many days off counts half."""

    moment: datetime
    half_days: float


def closeness(target: TargetTime, moment: datetime) -> float:
    """Return 1 at the target, ½ at its half width, then quickly less: 0.5 ** (distance / half width)²."""
    days = abs((moment - target.moment).total_seconds()) / 86_400
    return 0.5 ** ((days / target.half_days) ** 2)


def mentioned_time(query: str, now: datetime | None) -> TargetTime | None:
    """Return the first time of these kinds that the query names, or None.

    What is relative ("ago", "last", a day without its year) needs `now`; without one it is no time.
    """
    for rule in _RULES:
        target = rule(query, now)
        if target is not None:
            return target
    return None


def _full_date(query: str, now: datetime | None) -> TargetTime | None:
    if found := _ISO.search(query):
        return _date(int(found[1]), int(found[2]), int(found[3]))
    if found := _DAY_FIRST.search(query):
        return _dated(now, found[3], found[2], int(found[1]))
    if found := _MONTH_FIRST.search(query):
        return _dated(now, found[3], found[1], int(found[2]))
    return None


def _dated(now: datetime | None, year: str | None, month: str, day: int) -> TargetTime | None:
    number = _month_number(month)
    if year is not None:
        return _date(int(year), number, day)
    if now is None:
        return None
    this_year = _date(now.year, number, day)
    return this_year if this_year is None or this_year.moment <= now else _date(now.year - 1, number, day)


def _date(year: int, month: int, day: int) -> TargetTime | None:
    try:
        return TargetTime(datetime(year, month, day, 12, tzinfo=UTC), 2.0)
    except ValueError:
        return None


def _ago(query: str, now: datetime | None) -> TargetTime | None:
    found = _AGO.search(query)
    if found is None or now is None:
        return None
    count = int(found[1]) if found[1].isdecimal() else _NUMBERS[found[1].lower()]
    days = _UNIT_DAYS[found[2].lower()]
    return TargetTime(now - timedelta(days=count * days), max(1.0, days / 2))


def _last(query: str, now: datetime | None) -> TargetTime | None:
    found = _LAST.search(query)
    if found is None or now is None:
        return None
    named = found[1].lower()
    if named in _DAYS:
        back = (now.weekday() - _DAYS.index(named) - 1) % 7 + 1
        return TargetTime(now - timedelta(days=back), 1.0)
    return TargetTime(now - timedelta(days=_UNIT_DAYS[named]), _UNIT_DAYS[named] / 2)


def _near(query: str, now: datetime | None) -> TargetTime | None:
    found = _YESTERDAY.search(query)
    if found is None or now is None:
        return None
    back = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(found[1].lower(), 0)
    return TargetTime(now - timedelta(days=back), 1.0)


def _month(query: str, now: datetime | None) -> TargetTime | None:
    found = _MONTH_ONLY.search(query)
    if found is None or (found[2] is None and now is None):
        return None
    number = _month_number(found[1])
    year = int(found[2]) if found[2] else _latest_year(now, number)
    middle = (monthrange(year, number)[1] + 1) // 2
    return TargetTime(datetime(year, number, middle, 12, tzinfo=UTC), 15.0)


def _latest_year(now: datetime | None, month: int) -> int:
    assert now is not None, "a month without its year is only read where there is a now"
    return now.year if month <= now.month else now.year - 1


def _year(query: str, now: datetime | None) -> TargetTime | None:
    found = _YEAR_ONLY.search(query)
    return None if found is None else TargetTime(datetime(int(found[1]), 7, 2, tzinfo=UTC), 150.0)


def _month_number(name: str) -> int:
    return next(at for at, month in enumerate(_MONTHS, start=1) if month.startswith(name.lower()[:3]))


_RULES: tuple[Callable[[str, datetime | None], TargetTime | None], ...] = (
    _full_date,
    _ago,
    _last,
    _near,
    _month,
    _year,
)


TEMPORAL_BOOST = 0.40


@dataclass(frozen=True, slots=True)
class TemporalSystem:
    """The bank's answer, with more for items of the time that the query speaks of; silent where it names none."""

    name: str
    bank: Bank
    retrieve_settings: RetrieveSettings
    boost: float = TEMPORAL_BOOST
    times: dict[tuple[str, str], datetime] = field(default_factory=dict[tuple[str, str], datetime])

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        self.times.update({(group, item.id): item.time for item in items if item.time is not None})
        await self.bank.ingest(group, items)

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        target = mentioned_time(question.query, question.now)
        own = self.bank.within(question.group)
        settings = own.settings.model_copy(update={"retrieve": self.retrieve_settings})
        found = await retrieve(replace(own, settings=settings), question.query, k=k if target is None else MAX_K)
        ids = self.bank.items_of(question.group, [each.item.id for each in found.memories])
        if target is None:
            return ids
        scores: dict[str, float] = {}
        for item_id, memory in zip(ids, found.memories, strict=True):
            moment = self.times.get((question.group, item_id))
            near = 0.0 if moment is None else closeness(target, moment)
            scores[item_id] = memory.score + self.boost * near
        return sorted(scores, key=lambda item_id: -scores[item_id])[:k]

    async def size_bytes(self) -> int | None:
        return await self.bank.size_bytes()
