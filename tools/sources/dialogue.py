"""Conversations: found in JSON by their shape, and made passages, each turn one, under who says it and when."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple

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

_MAX_DEPTH, _MAX_NAME_CHARS = 12, 80


class Turn(NamedTuple):
    """What one of them says; a time in words that begin with no date is kept as it is."""

    text: str
    speaker: str = ""
    time: datetime | str | None = None
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
        session, text, time = turn.session, clean(turn.text), turn.time
        speaker = one_line(clean(turn.speaker), _MAX_NAME_CHARS)
        day = f"{time.day} {time:%B %Y}" if isinstance(time, datetime) else one_line(clean(time or ""), _MAX_NAME_CHARS)
        title = ", ".join(filter(None, (speaker, day))) or group[:1000]
        data: dict[str, JsonValue] = {"turn": number, "speaker": speaker} if speaker else {"turn": number}
        parts = chunks(text, markdown_blocks(text)) if word_count(text) > MAX_WORDS else [Chunk(0, len(text))]
        for content in filter(None, (text[part.start : part.end].strip() for part in parts)):
            passage = Passage(kind="document", group=group, position=position, title=title, content=content, data=data)
            passages.append(passage)
            position += 1
    return passages


def turns_in(text: str, *, by_line: bool) -> list[Turn]:
    """Return the turns of all conversations in JSON or (`by_line`) JSON Lines, in order; none of what is something
    else. Raises `InputError` for what names speakers and texts and is no JSON.

    A session is a list or object of which most are turns: objects that name a speaker and a text. Times order them. A
    turn without one has its session's, from the object around, from `NAME_date_time`, or from `…_dates`, which is as
    long as `…_sessions`. Named things are no talk: in one everybody speaks twice on average, or they are two.
    """
    names = text.lower().replace("_", "")
    if not all(any(f'"{each}"' in names for each in some) for some in (_SPEAKERS, _TEXTS)):
        return []  # it need not be parsed, nor be JSON

    def plain(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return {re.sub(r"[\W_]", "", key.lower()): part for key, part in value.items()}

    values: list[JsonValue] = []
    for at, line in enumerate(text.split("\n"), 1) if by_line else [("", text)]:
        try:
            values += [json.loads(line, object_hook=plain)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            where = f"the JSON of line {at}" if at else "the JSON"
            raise InputError(f"{where} is not valid: {str(error)[:200] or 'it is nested too deep'}") from None
    found = list(_sessions(values if by_line else values[0], None, "", _MAX_DEPTH))
    return found if len({turn.speaker for turn in found}) <= max(2, len(found) // 2) else []


def _sessions(value: JsonValue, time: datetime | str | None, name: str, depth: int) -> Iterator[Turn]:
    """Yield the turns in a value that stands at `name`, in what is from a `time`."""
    if not isinstance(value, list | dict) or not depth:
        return
    fields = value if isinstance(value, dict) else {str(at): part for at, part in enumerate(value)}
    said = [turn for part in fields.values() if (turn := _turn(part, time, name)) is not None]
    if 2 * len(said) > len(fields):
        has_times = all(isinstance(turn.time, datetime) for turn in said)
        yield from sorted(said, key=attrgetter("time")) if has_times else said
        return
    for key, part in fields.items():
        named = (f"{key.removesuffix('sessions')}{end}" for end in (*_TIMES, "dates"))
        beside = next((fields[each] for each in named if each in fields), None)
        if isinstance(part, list) and isinstance(beside, list) and len(part) == len(beside):
            dated = zip(part, beside, strict=True)
            part = list[JsonValue]({"date": moment, "session": each} for each, moment in dated)
        moment = _when([beside, *map(fields.get, _TIMES)]) or time
        yield from _sessions(part, moment, f"{name}/{key}", depth - 1)


def _turn(value: JsonValue, time: datetime | str | None, session: str) -> Turn | None:
    """Return what an object, or the `message` in it, says; None where it names no speaker or no text."""
    if not isinstance(value, dict):
        return None
    fields = {**value, **inner} if isinstance(inner := value.get("message"), dict) else value
    speaker = _text(fields, _SPEAKERS)
    if not speaker or fields.keys().isdisjoint(_TEXTS):
        return None
    captions = (part for key, part in fields.items() if key.endswith("caption") and isinstance(part, str))
    said = "\n".join(filter(None, (_text(fields, _TEXTS), *captions)))
    return Turn(said, speaker, _when(map(fields.get, _TIMES)) or time, session)


def _text(value: JsonValue, names: Iterable[str], depth: int = _MAX_DEPTH) -> str:
    """Return a text, those of a list as lines, or of an object what the first of `names` says."""
    if isinstance(value, dict) and depth:
        return next(filter(None, (_text(value.get(name), names, depth - 1) for name in names)), "")
    if isinstance(value, list) and depth:
        return "\n".join(filter(None, (_text(part, names, depth - 1) for part in value)))
    return value if isinstance(value, str) and value.strip() else ""


def _when(values: Iterable[JsonValue]) -> datetime | str | None:
    """Return the first of some values that can be a time, in UTC where no zone is named; other words as they are."""
    value = next((each for each in values if each and isinstance(each, str | int | float)), None)
    if isinstance(value, str):
        for words in (value, value[:10]):
            with suppress(ValueError):
                moment = datetime.fromisoformat(words.strip().replace("/", "-"))
                return moment.replace(tzinfo=moment.tzinfo or UTC)
        return value
    with suppress(ValueError, OverflowError, OSError):
        seconds = value / 1000 if value and value > 1e11 else value  # which would be in the year 5000
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    return None
