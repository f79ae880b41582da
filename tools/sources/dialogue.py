"""Conversations: found in JSON by their shape, and made into passages: one for each turn, titled by speaker and day."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.source import Passage
from swarm_memory.tools.guard.redact import without_secrets
from swarm_memory.tools.sources.chunks import MAX_WORDS, Chunk, chunks, markdown_blocks, word_count
from swarm_memory.tools.sources.sources import NEIGHBOURS
from swarm_memory.tools.text.cleaning import clean, one_line

_SPEAKERS = ("speaker", "sender", "sendername", "author", "from", "user", "username", "displayname", "name", "role")
_TEXTS = ("text", "content", "parts", "message")
_TIMES = ("timestamp", "timestampms", "time", "datetime", "date", "ts", "createtime", "createdat")
"""Names that exports use for these, in lower case and without punctuation; the first one that says something counts."""

_MAX_DEPTH, _MAX_NAME_CHARS = 12, 80


class Turn(NamedTuple):
    """What one speaker says; a time in words that do not begin with a date is kept as it is."""

    text: str
    speaker: str = ""
    time: datetime | str | None = None
    session: str = ""
    """The session that it is part of: turns of another session are not its context."""


def conversation_passages(group: str, said: Iterable[Turn]) -> list[Passage]:
    """Return the passages of a conversation; `data.turn` is a turn's number, from 0. A blank turn has no passage.

    A title is like "Anna, 7 May 2023"; only the speaker in it (`data.speaker`) is embedded. A turn of more than
    `MAX_WORDS` becomes several passages.
    """
    passages: list[Passage] = []
    position, session = 0, None
    for number, turn in enumerate(said):
        if session not in (None, turn.session):
            position += NEIGHBOURS["document"]
        session, text, time = turn.session, clean(turn.text), turn.time
        speaker = one_line(without_secrets(clean(turn.speaker)), _MAX_NAME_CHARS)
        day = f"{time.day} {time:%B %Y}" if isinstance(time, datetime) else one_line(clean(time or ""), _MAX_NAME_CHARS)
        title = ", ".join(filter(None, (speaker, day))) or group[:1000]
        data: dict[str, JsonValue] = {"turn": number, "speaker": speaker} if speaker else {"turn": number}
        text = without_secrets(text) if (is_long := word_count(text) > MAX_WORDS) else text
        parts = chunks(text, markdown_blocks(text)) if is_long else [Chunk(0, len(text))]
        for content in filter(None, (text[part.start : part.end].strip() for part in parts)):
            passage = Passage(kind="document", group=group, position=position, title=title, content=content, data=data)
            passages.append(passage)
            position += 1
    return passages


def turns_in(text: str, *, by_line: bool) -> tuple[list[Turn], list[str]]:
    """Return the turns of all conversations in JSON, or in JSON Lines (`by_line`), and why parts could not be parsed.

    Text without any name for speakers, or for texts, is not parsed. A turn is an object with a speaker and a text; a
    session is a list or object, anywhere, most parts of which are turns. Its turns are ordered by time where all have
    one. A turn without a time gets its session's: from the object around the session, from `NAME_date_time` next to
    the session NAME, or from its place in `NAME_dates` next to the list `NAME_sessions`. Where there are more than two
    speakers and they do not speak twice on average, these are named things, and no turns.
    """
    names = text.lower().replace("_", "")
    if not all(any(f'"{each}"' in names for each in some) for some in (_SPEAKERS, _TEXTS)):
        return [], []

    def plain(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return {re.sub(r"[\W_]", "", key.lower()): part for key, part in value.items()}

    values, faults = list[JsonValue](), list[str]()
    for number, part in enumerate(text.split("\n") if by_line else [text], 1):
        try:
            values += [json.loads(part, object_hook=plain)] if part.strip() else []
        except (ValueError, RecursionError) as error:
            faults.append((f"line {number}: " if by_line else "") + (str(error)[:200] or "nested too deeply"))
    wholes = [values] if by_line else values
    found = [turn for whole in wholes for turn in _sessions(whole, None, "", _MAX_DEPTH)]
    return (found if len({turn.speaker for turn in found}) <= max(2, len(found) // 2) else []), faults


def _sessions(value: JsonValue, time: datetime | str | None, name: str, depth: int) -> Iterator[Turn]:
    """Yield the turns in a value at the path `name`; `time` is that of the value around it."""
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
    """Return a text, the texts of a list as lines, or what the first of `names` in an object says."""
    if isinstance(value, dict) and depth:
        return next(filter(None, (_text(value.get(name), names, depth - 1) for name in names)), "")
    if isinstance(value, list) and depth:
        return "\n".join(filter(None, (_text(part, names, depth - 1) for part in value)))
    return value if isinstance(value, str) and value.strip() else ""


def _when(values: Iterable[JsonValue]) -> datetime | str | None:
    """Return the first value that is a time: s or ms since 1970, a date (ISO or with `/`), or any text with a digit."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            continue
        with suppress(ValueError, OverflowError, OSError):
            if (seconds := float(value)) > 1e8:  # March 1973; 1e11 would be the year 5138
                return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
        if isinstance(value, str) and any(map(str.isdigit, value)):
            for words in (value, value[:10]):  # anything may follow the date
                with suppress(ValueError):
                    moment = datetime.fromisoformat(words.strip().replace("/", "-"))
                    return moment.replace(tzinfo=moment.tzinfo or UTC)
            return value
    return None
