"""Items that a model proposes, and which of them may be kept; how they are asked for and stored is not here."""

import re
from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.distill.distill import check_drafts
from swarm_memory.tools.model.ask import Answered
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.trajectory.calls import calls_of
from swarm_memory.tools.trajectory.excerpt import Shortened
from swarm_memory.tools.trajectory.phrasing import particulars_of, without

MIN_STEPS, MAX_STEPS = 3, 8
"""Numbered steps of one item."""

COPIED_WORDS = 12
"""So many words in a row out of a tool's result are a copy: what a tool wrote never becomes advice by itself."""

_MAX_ITEMS_READ, _MAX_STEP_CHARS = 10, 400
_NUMBER = re.compile(r"\A\s*(?:(?:step\s*)?\d{1,2}\s*[.):]|[-*•])\s+", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?][\"')]?\s+(?=[A-Z])")
_WORD = re.compile(r"\w+")
_ID = re.compile(r"[\w-]+")
_PLACEHOLDER = re.compile(r"<[^<>]*>|\[\w+:[^\]]*\]|\[(?:email|card|iban|phone)\]")


class DistilledItem(Answered):
    """One item as a model proposes it."""

    title: str
    description: str
    steps: list[str]
    evidence: list[str]


class DistilledItems(Answered):
    """What the distillers' prompts ask for."""

    items: list[DistilledItem]


def check_items(
    items: Sequence[DistilledItem], trajectory: Trajectory, shown: Shortened, settings: Settings, max_items: int
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the items that may be stored, and of each other one why not.

    An item has a title, a description of one sentence (of more the first is kept), 3 to 8 steps that are written down
    with their numbers, and evidence among the steps that were shown. What belongs to this task alone (URLs, ids,
    paths, names, secrets, personal data) is replaced as `check_drafts` does; an item that says nothing without it is
    refused, and so is one that copies 12 words in a row out of a tool's result. At most `max_items` are taken.
    """
    bounds = _Bounds(trajectory, shown, settings, particulars_of(trajectory, calls_of(trajectory)))
    accepted: list[MemoryDraft] = []
    refused: list[str] = []
    for number, item in enumerate(items[:_MAX_ITEMS_READ], 1):
        checked = bounds.check(item)
        if isinstance(checked, str):
            refused.append(f"item {number}: {checked}")
        elif len(accepted) >= max_items:
            refused.append(f"item {number}: only {max_items} are taken of one trajectory")
        elif any(_words(checked.content) == _words(other.content) for other in accepted):
            refused.append(f"item {number}: says the same as an earlier one")
        else:
            accepted.append(checked)
    if len(items) > _MAX_ITEMS_READ:
        refused.append(f"items {_MAX_ITEMS_READ + 1}…{len(items)}: at most {_MAX_ITEMS_READ} are looked at")
    return tuple(accepted), tuple(refused)


class _Bounds:
    """What an item of one trajectory is held to."""

    def __init__(
        self, trajectory: Trajectory, shown: Shortened, settings: Settings, particulars: tuple[str, ...]
    ) -> None:
        self._trajectory, self._settings, self._particulars = trajectory, settings, particulars
        self._shown = shown.shown
        results = (step.text for step in trajectory.steps if step.kind == "observation" and step.id in shown.shown)
        self._heard = " | ".join(_words(text) for text in results)

    def check(self, item: DistilledItem) -> MemoryDraft | str:
        """Return the item as it may be stored, or what is wrong with it."""
        title, description = self._plain(item.title), _first_sentence(self._plain(item.description))
        steps = [_NUMBER.sub("", self._plain(step)) for step in item.steps]
        named = {word for text in item.evidence for word in _ID.findall(text)}
        evidence = tuple(step for step in self._shown if step in named)
        fault = _fault_of_form(title, description, steps) or self._fault_of_source(title, description, steps, evidence)
        if fault:
            return fault
        content = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        if len(content) > MAX_CONTENT:
            return f"its steps have more than {MAX_CONTENT:,} characters"
        draft = MemoryDraft(title=title, description=description, content=content, evidence=evidence)
        accepted, refused = check_drafts((draft,), self._trajectory, self._settings)
        if not accepted:
            return refused[0].removeprefix("item 1: ")
        empty = [line.partition(". ")[0] for line in accepted[0].content.splitlines() if _is_empty(line)]
        return f"step {empty[0]} says nothing without what belongs to this task alone" if empty else accepted[0]

    def _plain(self, text: str) -> str:
        """One line without the names and ids of the task; the rest is `check_drafts`' business."""
        return " ".join(without(clean(text), self._particulars).split())

    def _fault_of_source(
        self, title: str, description: str, steps: Sequence[str], evidence: tuple[str, ...]
    ) -> str | None:
        if not evidence:
            return "its evidence names no step that was shown"
        if any(run in self._heard for text in (title, description, *steps) for run in _runs(text)):
            return f"it copies {COPIED_WORDS} words in a row out of a tool's result"
        return None


def _fault_of_form(title: str, description: str, steps: Sequence[str]) -> str | None:
    if not 3 <= len(title) <= MAX_TITLE:
        return f"its title must have 3 to {MAX_TITLE} characters"
    if not 3 <= len(description) <= MAX_DESCRIPTION:
        return f"its description must be one sentence of at most {MAX_DESCRIPTION} characters"
    if not MIN_STEPS <= len(steps) <= MAX_STEPS:
        return f"it has {len(steps)} steps instead of {MIN_STEPS} to {MAX_STEPS}"
    wrong = next((number for number, step in enumerate(steps, 1) if not 3 <= len(step) <= _MAX_STEP_CHARS), None)
    return f"step {wrong} must have 3 to {_MAX_STEP_CHARS} characters" if wrong else None


def _is_empty(line: str) -> bool:
    """Whether a numbered line has less than four letters of its own."""
    return sum(map(len, _WORD.findall(_PLACEHOLDER.sub(" ", line.partition(". ")[2])))) < 4


def _first_sentence(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return text[: end.end()].rstrip() if end else text


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _runs(text: str) -> Iterator[str]:
    words = _words(text).split()
    for start in range(len(words) - COPIED_WORDS + 1):
        yield " ".join(words[start : start + COPIED_WORDS])
