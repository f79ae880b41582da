"""A plain reader of notes: it finds commands in back-ticks and quoted errors, and knows no wording."""

import re

from world.advice import Note, words

_ENTRY = re.compile(r"(?m)^\d+\) ")
_SPAN = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r'"([^"]+)"')


def read_plain(prompt: str) -> tuple[Note, ...]:
    """Return the numbered entries of a prompt: after an error that one quotes, every command in it may help.

    An entry that quotes no error speaks of the task itself, so that its commands may help from the beginning.
    """
    return tuple(_read(entry) for entry in _ENTRY.split(prompt)[1:])


def _read(entry: str) -> Note:
    quoted = tuple(symptom for text in _QUOTED.findall(entry) if len(symptom := words(text)) >= 2)
    return Note(symptoms=quoted, advised=tuple(_SPAN.findall(entry)), discouraged=(), order=(), at_once=not quoted)
