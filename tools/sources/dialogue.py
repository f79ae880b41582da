"""Conversations as passages: each turn one, in order, under who says it and when."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from swarm_memory.schema.source import Passage
from swarm_memory.tools.sources.chunks import MAX_WORDS, Chunk, chunks, markdown_blocks, word_count
from swarm_memory.tools.sources.sources import NEIGHBOURS
from swarm_memory.tools.text.cleaning import one_line

_MAX_NAME_CHARS = 80
_MILLISECONDS = 100_000_000_000
"""Seconds since 1970 are less in the year 5000; a greater number counts milliseconds."""


class Turn(NamedTuple):
    """What one of them says."""

    text: str
    speaker: str = ""
    time: datetime | float | str | None = None
    """A number: seconds or milliseconds since 1970. A text that begins with no date is kept as it is."""
    session: str = ""
    """The talk that it is part of: a turn of another is no context."""


def turns(group: str, said: Iterable[Turn]) -> list[Passage]:
    """Return the passages of a conversation; `data.turn` is a turn's number, from 0. A blank one has none.

    A title is like "Anna, 7 May 2023". A turn of more than `MAX_WORDS` is several passages.
    """
    passages: list[Passage] = []
    position, session = 0, None
    for number, turn in enumerate(said):
        if session not in (None, turn.session):
            position += NEIGHBOURS["document"]
        session = turn.session
        title = ", ".join(filter(None, (one_line(turn.speaker, _MAX_NAME_CHARS), day_of(turn.time))))
        is_long = word_count(turn.text) > MAX_WORDS
        parts = chunks(turn.text, markdown_blocks(turn.text)) if is_long else [Chunk(0, len(turn.text))]
        for part in parts:
            if content := turn.text[part.start : part.end].strip():
                passages.append(
                    Passage(
                        kind="document",
                        group=group,
                        position=position,
                        title=title or group[:1000],
                        content=content,
                        data={"turn": number},
                    )
                )
                position += 1
    return passages


def day_of(time: datetime | float | str | None) -> str:
    """Return the day of a time in words ("7 May 2023"): in UTC where it is a number, else as it is written."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip()[:10].replace("/", "-"))
        except ValueError:
            return one_line(time, _MAX_NAME_CHARS)
    if isinstance(time, int | float):
        seconds = time / 1000 if time > _MILLISECONDS else time
        try:
            time = datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, OSError, ValueError):
            return ""
    return f"{time.day} {time:%B %Y}" if time else ""
