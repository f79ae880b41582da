"""How an agent reads notes: which actions a text speaks for and against, and when; by words alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from world.terms import Action

_NOTE = re.compile(r"(?m)^\d+\) (?P<title>.*?)(?: \[\w+\])?$\n(?:   Steps: (?P<steps>.*))?")
_SPAN = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r'"([^"]+)"')
_BEFORE = re.compile(r"`(?P<first>[^`]+)` before `?(?P<then>[^`(]+)")
_AGAINST = re.compile(r"(?i)\bdo not\b|\bdid not (?:help|resolve)\b|\bnever succeeded\b|\binstead of\b|\bfailed \d+")
_UNCHANGED = re.compile(r"(?i)\bunchanged\b")
_TELLS_OF = re.compile(r"(?i) (?:before|ends with|fails with) ")
_MIN_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Note:
    """One note, read."""

    symptoms: tuple[frozenset[str], ...]
    """The words of what it quotes."""
    advised: tuple[str, ...]
    discouraged: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    """What it wants done before what."""
    at_once: bool = False
    """What it advises may help from the beginning, whatever was refused."""

    def meets(self, error: str) -> bool:
        """Whether an error reads like one that the note quotes."""
        said = words(error)
        return any(len(symptom & said) >= _MIN_SHARE * len(symptom) for symptom in self.symptoms)


def words(text: str) -> frozenset[str]:
    """Return the words of a text, without marks such as `<path>` that stand where something was taken out."""
    return frozenset(re.findall(r"[a-z0-9]+", re.sub(r"<\w+>", " ", text.lower())))


def read_notes(prompt: str) -> tuple[Note, ...]:
    """Return the notes of a prompt; none when it has no numbered ones."""
    return tuple(_read(found["title"], found["steps"] or "") for found in _NOTE.finditer(prompt))


def _read(title: str, steps: str) -> Note:
    advised: list[str] = []
    discouraged: list[str] = []
    for sentence in (title, *steps.split("; ")):
        if _UNCHANGED.search(sentence):
            continue  # it says nothing against the call itself, once something else was done
        told = discouraged if _AGAINST.search(sentence) else advised
        told += _SPAN.findall(_TELLS_OF.split(sentence)[0])
    quoted = [words(text) for text in _QUOTED.findall(f"{title} {steps}")]
    order = [(found["first"], found["then"]) for found in _BEFORE.finditer(title)]
    return Note(
        symptoms=tuple(symptom for symptom in quoted if len(symptom) >= 2),
        advised=tuple(advised),
        discouraged=tuple(discouraged),
        order=tuple(order),
    )


def meant(span: str, actions: Sequence[Action]) -> frozenset[int]:
    """Return the positions of the actions that a span of a note means best: most of its words stand in them."""
    wanted = words(span)
    shares = [len(wanted & words(f"{action.tool} {action.text}")) / max(1, len(wanted)) for action in actions]
    best = max(shares, default=0.0)
    return frozenset(at for at, share in enumerate(shares) if share == best >= _MIN_SHARE)
