"""Whether a lesson only repeats what the agent was told: by its task, by an output, or by a memory nobody vouches for.

A success bears out that the steps were taken, not that they were the agent's own: an attack that is followed succeeds
too. Who may be trusted with what is not here (`trust`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.text.tokens import tokenize

COVERED = 0.7
"""The share of a step's words, of different stems, that stand together where it was told or done."""

MIN_WORDS = 3
"""A step of fewer words ("run the tests") is everybody's."""

_MAX_CHARS = 400
_STEM_CHARS = 4
_NUMBER = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*])\s+")
_QUOTED = re.compile(r'"[^"\n]*"')
"""What a lesson quotes is a symptom, not a step."""

_ENDS = re.compile(r"[\n\r]+|(?<=[.;!?:])\s+|[<>{}]+|\\n")


def is_hearsay(
    lesson: MemoryDraft | MemoryItem, trajectory: Trajectory, had: Sequence[MemoryItem | MemoryDraft] = ()
) -> bool:
    """Whether any step of a lesson was told to the agent before the agent did or said it by itself.

    `had` are the memories that the task was given and that nobody vouches for. A step is told by the words that stand
    within one or two sentences together. Linear in the length of the trajectory for each step of the lesson.
    """
    told = [trajectory.task, *(f"{each.title}\n{each.content}" for each in had)]
    return any(_was_told(words, told, trajectory.steps) for words in _steps_of(lesson))


def _steps_of(lesson: MemoryDraft | MemoryItem) -> Iterator[frozenset[str]]:
    for line in lesson.content.splitlines():
        words = frozenset(tokenize(_QUOTED.sub(" ", _NUMBER.sub("", line))))
        if len(words) >= MIN_WORDS:
            yield words


def _was_told(words: frozenset[str], beforehand: Iterable[str], steps: Sequence[Step]) -> bool:
    if any(_stand_in(words, text) for text in beforehand):
        return True
    for step in steps:
        if _stand_in(words, _text_of(step)):
            return step.role != "assistant"
    return False


def _text_of(step: Step) -> str:
    if step.tool_input is None:
        return step.text
    return f"{step.text}\n{' '.join(_strings(step.tool_input))}"


def _strings(value: object) -> Iterator[str]:
    yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _stand_in(words: frozenset[str], text: str) -> bool:
    """Whether enough of the words stand in two sentences that follow one another."""
    needed = COVERED * len(words)
    if not _may_stand_in(words, text, needed):
        return False
    before: frozenset[str] = frozenset()
    for part in _parts(text):
        found = words.intersection(tokenize(part))
        if len(found | before) >= needed:
            return True
        before = found
    return False


def _may_stand_in(words: frozenset[str], text: str, needed: float) -> bool:
    """Whether it is worth to take a text apart: by the beginnings of the words, where no accent can hide them."""
    if not text.isascii():
        return True
    lower = text.lower()
    return sum(word[:_STEM_CHARS] in lower for word in words) >= needed


def _parts(text: str) -> Iterator[str]:
    for part in _ENDS.split(text):
        for start in range(0, len(part), _MAX_CHARS):
            yield part[start : start + _MAX_CHARS]
