"""A query as it is searched: whole and by its sentences, embedded once, and the time that it names."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from swarm_memory.schema.errors import InputError, ModelError
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.memories import Candidate, SearchResult, View
from swarm_memory.tools.ports.models import Embedder, Vector
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

MAX_PARTS = 4
"""At most this many sentences, those with the most words, are compared separately."""

LIGHT = 0.3
"""The weight of the light embedder's cosine, which goes by words, in the order of what fits."""

REMEMBERED_QUERIES, REMEMBERED_CHARS = 512, 4_000
"""How many of the last queries' vectors are remembered, for queries up to this length: at most 3 MB."""

_QUERY_CHARS = 8_000
_LEAST_WORDS = 2
_ENDS = re.compile(r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1b\uff1f])|\n+")


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a query."""

    whole: Vector | None
    """None: the embedder failed."""
    views: tuple[View, ...] = ()
    """Those of its sentences; then, where there is a light embedder too, that one's, of the whole query first."""
    parts: int = 0

    def compared(self, result: SearchResult) -> tuple[SearchResult, list[float | None]]:
        """Return what was found, each with the cosine that decides whether it fits, and those that decide the order.

        The former is the whole query's, or the mean of that and the best sentence's, if greater. The latter is always
        that mean, blended with the light embedder's, which has the weight `LIGHT`.
        """
        if not self.views:
            return result, [each.cosine for each in result.candidates]
        nearest, order = list[Candidate](), list[float | None]()
        for each in result.candidates:
            fits = weighed = each.cosine
            if fits is not None and each.views:
                weighed = _halved(fits, each.views[: self.parts])
                fits = max(fits, weighed)
                light, *parts = each.views[self.parts :] or (None,)
                if light is not None:
                    weighed = (1 - LIGHT) * weighed + LIGHT * _halved(light, parts)
            nearest.append(each if fits == each.cosine else each._replace(cosine=fits))
            order.append(weighed)
        return result._replace(candidates=tuple(nearest)), order


async def vectors_of(toolbox: Toolbox, text: str, notices: list[str]) -> Vectors:
    """Return the vectors of a query, embedded in one batch; none, with a notice, where the embedder fails."""
    parts = sentences(text)
    found = await embed_queries(toolbox, [text, *parts], notices)
    if not found:
        return Vectors(None)
    embedder = toolbox.embedder
    views = [View(embedder.name, vector) for vector in found[1:]]
    if light := embedder.light:
        try:
            views += [View(light.name, each) for each in await embed_queries(toolbox, [text, *parts], notices, light)]
        except InputError:  # the light embedder can make nothing of its words
            views = views[: len(parts)]
    return Vectors(found[0], tuple(views), len(parts))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that are compared separately; none if the text is a single sentence."""
    parts = dict.fromkeys(map(str.strip, _ENDS.split(text[:_QUERY_CHARS])))
    counted = [(len(query_tokens(part)), part) for part in parts]
    said = [each for each in counted if each[0] >= _LEAST_WORDS]
    longest = sorted(said, key=lambda each: -each[0])[:MAX_PARTS]
    return [part for _, part in longest] if len(said) > 1 else []


def _halved(whole: float, parts: Sequence[float | None]) -> float:
    """Return the mean of the whole's cosine and the best part's; the whole's where no part has one."""
    known = [part for part in parts if part is not None]
    return (whole + max(known)) / 2 if known else whole


async def embed_queries(
    toolbox: Toolbox, texts: Sequence[str], notices: list[str], embedder: Embedder | None = None
) -> list[Vector]:
    """Return the vectors of queries, in order; an empty list, with a notice, where the embedder fails."""
    embedder, remembered = embedder or toolbox.embedder, toolbox.embedded
    known = {text: remembered.pop((embedder.name, text), None) for text in texts}
    missing = [text for text, vector in known.items() if vector is None]
    try:
        if missing:
            known |= zip(missing, await embedder.embed_queries(missing), strict=True)
    except ModelError as error:
        failed = f"the embedder {embedder.name} failed: {redact(str(error)).text}"
        notices.append(f"keywords only, because {failed}")
        return []
    vectors = [vector for text in texts if (vector := known[text]) is not None]
    for text, vector in zip(texts, vectors, strict=True):
        if len(text) <= REMEMBERED_CHARS:
            remembered[embedder.name, text] = vector  # after those that were used longer ago
            if len(remembered) > REMEMBERED_QUERIES:
                del remembered[next(iter(remembered))]
    return vectors


@dataclass(frozen=True, slots=True)
class TargetTime:
    """A moment, and the distance in days that counts half."""

    moment: datetime
    half_days: float

    def closeness(self, moment: datetime) -> float:
        """Return 1 at the target, ½ at its half width, then quickly less: 0.5 ** (distance / half width)²."""
        days = abs((moment - self.moment).total_seconds()) / 86_400
        return 0.5 ** ((days / self.half_days) ** 2)


_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3,
}  # fmt: skip
_UNIT_DAYS = {"day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}
_YESTERDAY = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_COUNT = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_MONTH = (
    "january|jan|february|feb|march|mar|april|apr|may|june|jun|july|jul|august|aug|september|sep|october|oct"
    "|november|nov|december|dec"
)
_YEAR = r"(?:19|20)\d\d"
_NAMES_ONE = re.compile(rf"\b(?:ago|earlier|before now|back|last|yesterday|{_YEAR}|{'|'.join(_MONTHS)})", re.IGNORECASE)
_DATES = (
    lazy(rf"\b(?P<year>{_YEAR})-(?P<month>\d\d)-(?P<day>\d\d)\b"),
    lazy(
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})\b\.?,?\s*(?P<year>{_YEAR})?",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<month>{_MONTH})\b\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\s+(?P<year>{_YEAR}))?",
        re.IGNORECASE,
    ),
)
_AGO = lazy(rf"\b(\d{{1,3}}|{_COUNT})\s+(day|week|month|year)s?\s+(?:ago|earlier|before now|back)\b", re.IGNORECASE)
_LAST = lazy(
    rf"\blast\s+(week|month|year|{'|'.join(_DAYS)})\b|\b(yesterday|the day before yesterday|last night)\b",
    re.IGNORECASE,
)
_MONTH_ONLY = lazy(rf"\b(?:in|during|since|of|last)\s+({_MONTH})\b(?:,?\s+({_YEAR}))?", re.IGNORECASE)
_YEAR_ONLY = lazy(rf"\b(?:in|during|of)\s+({_YEAR})\b", re.IGNORECASE)
_TIME_CHARS = 4_000


def mentioned_time(query: str, now: datetime) -> TargetTime | None:
    """Return the first time of these kinds that the query names ("three weeks ago", "in May 2023"), or None.

    "Today" and "now" do not count: they say when the query is asked. Relative times count from `now`.
    """
    text = query[:_TIME_CHARS]
    if not _NAMES_ONE.search(text):
        return None
    for pattern, read in _READERS:
        if found := pattern.search(text):
            try:
                return read(found, now)
            except ValueError:  # there is no such day
                continue
    return None


def _date(found: re.Match[str], now: datetime) -> TargetTime:
    month = found["month"]
    number = int(month) if month.isdecimal() else 1 + _MONTHS.index(month.lower()[:3])
    at = datetime(int(found["year"] or now.year), number, int(found["day"]), 12, tzinfo=UTC)
    return TargetTime(at if found["year"] or at <= now else at.replace(year=at.year - 1), 2.0)


def _ago(found: re.Match[str], now: datetime) -> TargetTime:
    count = int(found[1]) if found[1].isdecimal() else _NUMBERS[found[1].lower()]
    days = _UNIT_DAYS[found[2].lower()]
    return TargetTime(now - timedelta(days=count * days), max(1.0, days / 2))


def _last(found: re.Match[str], now: datetime) -> TargetTime:
    named = (found[1] or found[2]).lower()
    if named in _UNIT_DAYS:
        return TargetTime(now - timedelta(days=_UNIT_DAYS[named]), _UNIT_DAYS[named] / 2)
    back = _YESTERDAY[named] if named in _YESTERDAY else (now.weekday() - _DAYS.index(named) - 1) % 7 + 1
    return TargetTime(now - timedelta(days=back), 1.0)


def _month(found: re.Match[str], now: datetime) -> TargetTime:
    number = 1 + _MONTHS.index(found[1].lower()[:3])
    year = int(found[2]) if found[2] else now.year - (number > now.month)
    return TargetTime(datetime(year, number, (monthrange(year, number)[1] + 1) // 2, 12, tzinfo=UTC), 15.0)


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], TargetTime]], ...] = (
    *((pattern, _date) for pattern in _DATES),
    (_AGO, _ago),
    (_LAST, _last),
    (_MONTH_ONLY, _month),
    (_YEAR_ONLY, lambda found, now: TargetTime(datetime(int(found[1]), 7, 2, tzinfo=UTC), 150.0)),
)
