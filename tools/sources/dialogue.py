"""Conversations: found in JSON by their shape, and made passages, each turn one, under who says it and when."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.tools.sources.chunks import MAX_WORDS, Chunk, chunks, markdown_blocks, word_count
from swarm_memory.tools.sources.sources import NEIGHBOURS
from swarm_memory.tools.text.cleaning import clean, one_line

_SPEAKERS = ("speaker", "sender", "sendername", "author", "from", "user", "username", "displayname", "name", "role")
_TEXTS = ("text", "content", "parts", "message")
_TIMES = ("timestamp", "timestampms", "time", "datetime", "date", "ts", "createtime", "createdat")
"""What exports call them, in lower case and without marks; the first that says something counts."""

_MARKS = (
    re.compile(rb'"[\w ]{0,9}(?:speaker|sender|author|from|user|name|role)[\w ]{0,9}"\s{0,9}:', re.IGNORECASE),
    re.compile(rb'"(?:text|content|parts|message)"\s{0,9}:', re.IGNORECASE),
)
_NAMES_TIME = re.compile(r"(.{0,80}?)(?:date|time|stamp){1,3}s?")
_MAX_DEPTH = 12
_MAX_NAME_CHARS = 80
_MILLISECONDS = 100_000_000_000
"""Seconds since 1970 are less in the year 5000; a greater number counts milliseconds."""

Time: TypeAlias = datetime | float | str | None
"""A number: seconds or milliseconds since 1970. A text that begins with no date is kept as it is."""


class Turn(NamedTuple):
    """What one of them says."""

    text: str
    speaker: str = ""
    time: Time = None
    session: str = ""
    """The talk that it is part of: a turn of another is no context."""


def turns(group: str, said: Iterable[Turn]) -> list[Passage]:
    """Return the passages of a conversation; `data.turn` is a turn's number, from 0. A blank one has none.

    A title is like "Anna, 7 May 2023", of which the speaker alone (`data.speaker`) is embedded. A turn of more than
    `MAX_WORDS` is several passages.
    """
    passages: list[Passage] = []
    position, session = 0, None
    for number, turn in enumerate(said):
        if session not in (None, turn.session):
            position += NEIGHBOURS["document"]
        session, text = turn.session, clean(turn.text)
        speaker = one_line(clean(turn.speaker), _MAX_NAME_CHARS)
        title = ", ".join(filter(None, (speaker, _day(turn.time))))
        data: dict[str, JsonValue] = {"turn": number, "speaker": speaker} if speaker else {"turn": number}
        is_long = word_count(text) > MAX_WORDS
        parts = chunks(text, markdown_blocks(text)) if is_long else [Chunk(0, len(text))]
        for content in filter(None, (text[part.start : part.end].strip() for part in parts)):
            passages.append(
                Passage(
                    kind="document",
                    group=group,
                    position=position,
                    title=title or group[:1000],
                    content=content,
                    data=data,
                )
            )
            position += 1
    return passages


def may_hold_turns(data: bytes) -> bool:
    """Whether JSON is worth parsing: it has names of a speaker and of a text."""
    return all(mark.search(data) for mark in _MARKS)


def turns_in(text: str, *, by_line: bool) -> list[Turn]:
    """Return the turns of all conversations in an export, JSON or (`by_line`) JSON Lines, in order; none of what is
    something else. Raises `InputError` for what is no JSON.

    A session is a list of which most are turns (objects that name a speaker and a text), or an object of such nodes;
    where each turn has a time, these are its order. A turn without one has that of its session, which stands in the
    object around it, beside it (`NAME_date_time`), or in a list as long beside the list of sessions. Named things are
    no talk: in one everybody speaks twice on average, or they are two.
    """
    lines = [(f" of line {at}", line) for at, line in enumerate(text.split("\n"), 1) if line.strip()] if by_line else []
    values: list[JsonValue] = []
    for where, each in lines or [("", text)]:
        try:
            values.append(json.loads(each, object_hook=_plain))
        except (ValueError, RecursionError) as error:
            raise InputError(f"the JSON{where} is not valid: {str(error)[:200] or 'it is nested too deep'}") from None
    found = list(_sessions(values if by_line else values[0], None, "", _MAX_DEPTH))
    return found if len({turn.speaker for turn in found}) <= max(2, len(found) // 2) else []


def _plain(value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with its keys in lower case and without marks."""
    return {re.sub(r"[\W_]", "", key.lower()): part for key, part in value.items()}


def _sessions(value: JsonValue, time: Time, name: str, depth: int) -> Iterator[Turn]:
    """Yield the turns in a value that stands at `name`, in what is from a `time`."""
    if not isinstance(value, list | dict) or not depth:
        return
    parts = value if isinstance(value, list) else [*value.values()]
    said = [turn for part in parts if (turn := _turn(part, time, name)) is not None]
    if 2 * len(said) > len(parts):
        moments = [moment for turn in said if (moment := _moment(turn.time)) is not None]
        places = sorted(range(len(said)), key=moments.__getitem__) if len(moments) == len(said) else range(len(said))
        yield from (said[at] for at in places)
        return
    for key, part, moment in _dated(value, time):
        yield from _sessions(part, moment, f"{name}/{key}", depth - 1)


def _dated(value: list[JsonValue] | dict[str, JsonValue], time: Time) -> Iterator[tuple[str, JsonValue, Time]]:
    """Yield the name, value and time of each part; of a list beside a list of as many times, of each entry."""
    if isinstance(value, list):
        yield from ((str(at), part, time) for at, part in enumerate(value))
        return
    beside: dict[str | int, JsonValue] = {}
    for key, moment in value.items():
        if named := _NAMES_TIME.fullmatch(key):
            beside[len(moment) if isinstance(moment, list) else named[1]] = moment
    for key, part in value.items():
        moments = beside.get(len(part)) if isinstance(part, list) else None
        if isinstance(part, list) and isinstance(moments, list):
            yield from ((f"{key}/{at}", each, _time([moments[at]])) for at, each in enumerate(part))
        else:
            yield key, part, _time([beside.get(key), *map(value.get, _TIMES)]) or time


def _turn(value: JsonValue, time: Time, session: str) -> Turn | None:
    """Return what an object, or the `message` in it, says; None where it names no speaker or no text."""
    if not isinstance(value, dict):
        return None
    inner = value.get("message")
    fields = {**value, **inner} if isinstance(inner, dict) else value
    speaker = next(filter(None, (_name(fields.get(key)) for key in _SPEAKERS)), "")
    texts = [_text(fields[key], _MAX_DEPTH) for key in _TEXTS if key in fields]
    if not speaker or not texts:
        return None
    captions = (_text(part, 1) for key, part in fields.items() if key.endswith("caption"))
    said = "\n".join(filter(None, (next(filter(None, texts), ""), *captions)))
    return Turn(said, speaker, _time(map(fields.get, _TIMES)) or time, session)


def _text(value: JsonValue, depth: int) -> str:
    """Return a text, that of an object, or those of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and depth:
        return next(filter(None, (_text(value.get(key), depth - 1) for key in _TEXTS)), "")
    return (
        "\n".join(filter(None, (_text(part, depth - 1) for part in value))) if isinstance(value, list) and depth else ""
    )


def _name(value: JsonValue) -> str:
    named = map(value.get, _SPEAKERS) if isinstance(value, dict) else (value,)
    return next((each.strip() for each in named if isinstance(each, str) and each.strip()), "")


def _time(values: Iterable[JsonValue]) -> Time:
    """Return the first of some values that can be a time."""
    return next((each for each in values if each and isinstance(each, str | int | float) and each is not True), None)


def _moment(time: Time) -> datetime | None:
    """Return when that was, in UTC where no zone is named; None for words that begin with no date."""
    try:
        if isinstance(time, str):
            words = time.strip().replace("/", "-")
            try:
                time = datetime.fromisoformat(words)
            except ValueError:
                time = datetime.fromisoformat(words[:10])
        elif isinstance(time, int | float):
            time = datetime.fromtimestamp(time / 1000 if time > _MILLISECONDS else time, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time and time.replace(tzinfo=time.tzinfo or UTC)


def _day(time: Time) -> str:
    """Return the day of a time as people write it ("7 May 2023"), or the words that it is given in."""
    moment = _moment(time)
    if moment is None:
        return one_line(clean(time), _MAX_NAME_CHARS) if isinstance(time, str) else ""
    return f"{moment.day} {moment:%B %Y}"
