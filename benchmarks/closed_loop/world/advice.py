"""How an agent reads notes: it finds commands in backticks and quoted errors, and in a guardrail what did not help."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from world.terms import Action

_ENTRY = re.compile(r"(?m)^\d+\) ")
_SPAN = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r'"([^"]+)"')
_SENTENCE = re.compile(r"(?<=[.;])\s+|\n")
_MIN_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Note:
    """One note as the agent understands it."""

    symptoms: tuple[frozenset[str], ...]
    """The words of each error that it quotes."""
    advised: tuple[str, ...]
    in_vain: tuple[str, ...] = ()
    """What a guardrail says did not help."""

    @property
    def at_once(self) -> bool:
        """Whether its advice may help from the start: it quotes no error, so it is about the task itself."""
        return not self.symptoms

    def meets(self, error: str) -> bool:
        """Whether an error reads like one that the note quotes."""
        said = words(error)
        return any(len(symptom & said) >= _MIN_SHARE * len(symptom) for symptom in self.symptoms)


def words(text: str) -> frozenset[str]:
    """Return the words of a text, without marks such as `<path>` that replace what was redacted."""
    return frozenset(re.findall(r"[a-z0-9]+", re.sub(r"<\w+>", " ", text.lower())))


def read_notes(prompt: str) -> tuple[Note, ...]:
    """Return the notes numbered in a prompt; after an error that a note quotes, every command in the note may help."""
    return tuple(_read(entry) for entry in _ENTRY.split(prompt)[1:])


def _read(entry: str) -> Note:
    quoted = tuple(symptom for text in _QUOTED.findall(entry) if len(symptom := words(text)) >= 2)
    if "Guardrail: " not in entry.partition("\n")[0]:  # who says it may come before
        return Note(symptoms=quoted, advised=tuple(_SPAN.findall(entry)))
    vain = (span for each in _SENTENCE.split(entry) if "did not help" in each for span in _SPAN.findall(each))
    return Note(symptoms=quoted, advised=(), in_vain=tuple(vain))


def meant(span: str, actions: Sequence[Action]) -> frozenset[int]:
    """Return the positions of the actions that best match a span of a note: they contain most of its words."""
    wanted = words(span)
    shares = [len(wanted & words(f"{action.tool} {action.text}")) / max(1, len(wanted)) for action in actions]
    best = max(shares, default=0.0)
    return frozenset(at for at, share in enumerate(shares) if share == best >= _MIN_SHARE)
