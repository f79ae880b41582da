"""The operation that draws memory items from a judged trajectory: by a model, by extraction, and what may be kept."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, Distillation, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.corrections import corrections
from swarm_memory.tools.distill.lessons import Lesson, Material
from swarm_memory.tools.distill.open_problems import open_problems
from swarm_memory.tools.distill.procedures import procedures
from swarm_memory.tools.distill.ways_out import way_out_lessons
from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.phrasing import without
from swarm_memory.tools.trajectory.reading import Reading, read

MIN_VALUE = 0.4
"""A lesson worth less is not kept: a mistyped path, a file that was not read before the edit."""

MAX_DRAFTS = 10
"""Of one agent, or one answer of a model, for one trajectory."""

MIN_STEPS, MAX_STEPS = 3, 8
"""Numbered steps of one item of a model."""

COPIED_WORDS = 12
"""So many words in a row out of a tool's result are a copy: what a tool wrote never becomes advice by itself."""

PROMPTS = {"Success": "distill_success", "Failure": "distill_failure"}

_FINDERS: tuple[Callable[[Material], Iterator[Lesson]], ...] = (
    corrections, way_out_lessons, open_problems, procedures,
)  # fmt: skip
_MAX_STEP_CHARS, _MAX_REASON_CHARS = 400, 400
_ANSWER_TOKENS, _TIMEOUT_S = 2_500, 60.0
_PLACEHOLDER = re.compile(r"<[^<>]*>|\[\w+:[^\]]*\]|\[(?:email|card|iban|phone)\]")
"""What stands where something was taken out."""

_URL = re.compile(r"(?i)\b(?:https?|ftp|ssh|file)://\S+")
_NUMBER = re.compile(r"\A\s*(?:(?:step\s*)?\d{1,2}\s*[.):]|[-*•])\s+", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?][\"')]?\s+(?=[A-Z])")
_WORD = re.compile(r"\w+")
_ID = re.compile(r"[\w-]+")

Proposed = TypeVar("Proposed")


async def distill(toolbox: Toolbox, given: Trajectory | Reading, verdict: Verdict) -> Distillation:
    """Return what a judged trajectory teaches, by the toolbox's chat model; by extraction without one."""
    if toolbox.chat is not None:
        return await distill_with_fallback(toolbox.chat, given, verdict, toolbox.settings)
    return await asyncio.to_thread(distill_by_extraction, given, verdict, toolbox.settings)


def distill_by_extraction(given: Trajectory | Reading, verdict: Verdict, settings: Settings) -> Distillation:
    """Draw at most `settings.distill.max_items_per_traj` items, the most valuable first, without any model.

    Of an undecided trajectory only what it proves within itself: an error that a later run was seen to resolve, and the
    user's own corrections. When nothing is worth keeping the drafts are empty and `reason` says why.
    """
    reading = read(given)
    if reading.trajectory.broken_off is not None and verdict.label == "Undecided":
        return _nothing(
            "the host's connection to its model broke the task off: it teaches nothing until it is gone on with"
        )
    if not reading.calls:
        return _nothing("no tool was called: there is nothing to learn from")
    material = Material(reading, verdict)
    found = [lesson for find in _FINDERS for lesson in find(material)]
    if not found:
        return _nothing("no error that was seen to end, no correction and no check of the project to learn from")
    worth = [lesson for lesson in found if lesson.value >= MIN_VALUE]
    if not worth:
        return _nothing("only slips that teach nothing for another task")
    if verdict.label == "Undecided":
        worth = [lesson for lesson in worth if lesson.proven]
    if not worth:
        return _nothing("the verdict is Undecided and nothing was seen to be resolved")
    best = _best(worth)[: settings.distill.max_items_per_traj]
    return Distillation(drafts=tuple(lesson.draft for lesson in best), distiller="extractive")


def _nothing(reason: str) -> Distillation:
    return Distillation(drafts=(), distiller="extractive", reason=reason)


def _best(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Sort by value and keep one of each topic and title."""
    kept: list[Lesson] = []
    for lesson in sorted(lessons, key=lambda each: -each.value):
        if not any(lesson.topic == other.topic or lesson.draft.title == other.draft.title for other in kept):
            kept.append(lesson)
    return kept


async def distill_by_model(
    model: ChatModel, trajectory: Trajectory, verdict: Verdict, settings: Settings
) -> Distillation:
    """Draw at most `settings.distill.max_items_per_traj` items with the model, at temperature 0.

    Strategies of a success, guardrails of a failure; of an undecided trajectory none, and nobody is asked. The items
    are checked as `check_items` says; `reason` names those that were refused, or why there is no answer. Raises
    `ModelUnavailable`.
    """
    return (await _draw(model, trajectory, verdict, settings))[0]


async def distill_with_fallback(
    model: ChatModel, given: Trajectory | Reading, verdict: Verdict, settings: Settings
) -> Distillation:
    """Return what the model draws; what extraction draws where the model does not come to items that may be kept.

    That is: it cannot be asked, its answer cannot be used, all its items were refused, or the verdict is Undecided.
    A model that answers that nothing is worth keeping is believed. `reason` says which it was.
    """
    if verdict.label == "Undecided":
        return await asyncio.to_thread(distill_by_extraction, given, verdict, settings)
    try:
        drawn, is_final = await _draw(model, read(given).trajectory, verdict, settings)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, _MAX_REASON_CHARS)
    else:
        if is_final:
            return drawn
        why = str(drawn.reason)
    extracted = await asyncio.to_thread(distill_by_extraction, given, verdict, settings)
    reasons = [f"drawn without a model: {why}", *([extracted.reason] if extracted.reason else [])]
    return extracted.model_copy(update={"reason": "; ".join(reasons)})


async def _draw(
    model: ChatModel, trajectory: Trajectory, verdict: Verdict, settings: Settings
) -> tuple[Distillation, bool]:
    """Return what came of asking, and whether the model gave items that may be kept or said that there are none."""
    if verdict.label == "Undecided":
        reason = "the verdict is Undecided: no model was asked"
        return Distillation(drafts=(), distiller="model", reason=reason), False
    wanted = settings.distill.max_items_per_traj
    kept, shown = await asyncio.to_thread(_kept, trajectory, settings)
    prompt = render(
        load_prompt(PROMPTS[verdict.label]),
        given={"max_items": str(wanted)},
        untrusted={"task": shown_task(kept), "reasons": _reasons(verdict, settings), "trajectory": shown.text},
    )
    answer, name = await ask(
        model, prompt, DistilledItems, purpose="distill", effort=Effort(max_tokens=_ANSWER_TOKENS, timeout_s=_TIMEOUT_S)
    )
    if isinstance(answer, Unparsed):
        drafts, is_final, reason = (), False, f"the model's answer cannot be used: {answer.reason}"
    else:
        drafts, refused = await asyncio.to_thread(check_items, answer.items, kept, shown, settings, wanted)
        is_final = bool(drafts) or not answer.items
        reason = "; ".join(refused) or (None if drafts else "the model found nothing that would help another task")
    drawn = Distillation(drafts=drafts, distiller="model", reason=reason, prompt_hash=prompt.hash, model=name)
    return drawn, is_final


def _kept(trajectory: Trajectory, settings: Settings) -> tuple[Trajectory, Shortened]:
    kept = archivable(trajectory, settings)
    return kept, shorten_trajectory(kept, settings.judge.max_trajectory_tokens)


def _reasons(verdict: Verdict, settings: Settings) -> str:
    lines = (redact(clean(reason), pii=settings.distill.redact_pii).text for reason in verdict.reasons)
    return "\n".join(f"- {one_line(line, _MAX_REASON_CHARS)}" for line in lines) or "- none given"


class DistilledItem(Answered):
    """One item as a model proposes it."""

    title: str
    description: str
    steps: list[str]
    evidence: list[str]


class DistilledItems(Answered):
    """What the distillers' prompts ask for."""

    items: list[DistilledItem]


def check_drafts(
    drafts: Sequence[MemoryDraft], trajectory: Trajectory, settings: Settings
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the drafts of an agent that may be stored, redacted and generalised, and for each other one the reason.

    At most `max_items_per_traj` are taken. Evidence must be steps of the trajectory.
    """
    known = {step.id for step in trajectory.steps}
    return _accepted(
        drafts, lambda draft: _checked(draft, known, settings), settings.distill.max_items_per_traj, with_title=True
    )


def check_items(
    items: Sequence[DistilledItem], trajectory: Trajectory, shown: Shortened, settings: Settings, max_items: int
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the items of a model that may be stored, and of each other one why not.

    An item has a title, a description of one sentence (of more the first is kept), 3 to 8 steps that are written down
    with their numbers, and evidence among the steps that were shown. What belongs to this task alone (URLs, ids,
    paths, names, secrets, personal data) is replaced as `check_drafts` does; an item that says nothing without it is
    refused, and so is one that copies 12 words in a row out of a tool's result. At most `max_items` are taken.
    """
    return _accepted(items, _Bounds(trajectory, shown, settings).check, max_items)


def _accepted(
    proposed: Sequence[Proposed],
    check: Callable[[Proposed], MemoryDraft | str],
    max_items: int,
    *,
    with_title: bool = False,
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return what `check` lets through, each content (`with_title`: and title) once; why not the rest."""
    accepted: dict[str, MemoryDraft] = {}
    refused: list[str] = []
    for number, each in enumerate(proposed[:MAX_DRAFTS], 1):
        checked = check(each)
        if isinstance(checked, str):
            refused.append(f"item {number}: {checked}")
        elif len(accepted) >= max_items:
            refused.append(f"item {number}: only {max_items} are taken of one trajectory")
        elif (said := _words(f"{checked.title if with_title else ''} {checked.content}")) in accepted:
            refused.append(f"item {number}: says the same as an earlier one")
        else:
            accepted[said] = checked
    if len(proposed) > MAX_DRAFTS:
        refused.append(f"items {MAX_DRAFTS + 1}…{len(proposed)}: at most {MAX_DRAFTS} are looked at")
    return tuple(accepted.values()), tuple(refused)


class _Bounds:
    """What an item of one trajectory is held to."""

    def __init__(self, trajectory: Trajectory, shown: Shortened, settings: Settings) -> None:
        self._particulars = read(trajectory).particulars
        self._known = {step.id for step in trajectory.steps}
        self._shown, self._settings = shown.shown, settings
        results = (step.text for step in trajectory.steps if step.kind == "observation" and step.id in shown.shown)
        self._heard = " | ".join(_words(text) for text in results)

    def check(self, item: DistilledItem) -> MemoryDraft | str:
        """Return the item as it may be stored, or what is wrong with it."""
        title, description = self._plain(item.title), _first_sentence(self._plain(item.description))
        steps = [_NUMBER.sub("", self._plain(step)) for step in item.steps]
        named = {word for text in item.evidence for word in _ID.findall(text)}
        evidence = tuple(step for step in self._shown if step in named)
        if fault := _fault_of_form(title, description, steps):
            return fault
        if not evidence:
            return "its evidence names no step that was shown"
        if any(run in self._heard for text in (title, description, *steps) for run in _runs(text)):
            return f"it copies {COPIED_WORDS} words in a row out of a tool's result"
        content = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        if len(content) > MAX_CONTENT:
            return f"its steps have more than {MAX_CONTENT:,} characters"
        draft = MemoryDraft(title=title, description=description, content=content, evidence=evidence)
        checked = _checked(draft, self._known, self._settings)
        if isinstance(checked, str):
            return checked
        empty = [line.partition(". ")[0] for line in checked.content.splitlines() if _is_empty(line)]
        return f"step {empty[0]} says nothing without what belongs to this task alone" if empty else checked

    def _plain(self, text: str) -> str:
        """One line without the names and ids of the task; the rest is done as with drafts of an agent."""
        return " ".join(without(clean(text), self._particulars).split())


def _checked(draft: MemoryDraft, known: set[str], settings: Settings) -> MemoryDraft | str:
    """Return the draft as it may be stored, or what is wrong with it."""
    unknown = [step for step in draft.evidence if step not in known]
    if unknown:
        return f"evidence names steps that the trajectory does not have: {', '.join(unknown[:5])}"
    title = " ".join(_general(draft.title, settings, MAX_TITLE).split())
    description = _general(draft.description, settings, MAX_DESCRIPTION)
    content = _general(draft.content, settings, MAX_CONTENT)
    if any(len(re.sub(r"\W", "", _PLACEHOLDER.sub("", text))) < 3 for text in (title, content)):
        return "nothing is left of it without what belongs to this task alone (paths, ids, secrets)"
    tags = tuple(tag for tag in (_general(" ".join(tag.split()), settings, 60) for tag in draft.tags) if tag)
    return draft.model_copy(update={"title": title, "description": description, "content": content, "tags": tags})


def _general(text: str, settings: Settings, limit: int) -> str:
    without_urls = _URL.sub("<url>", redact(clean(text), pii=settings.distill.redact_pii).text)
    return clean(generalize(without_urls), limit).strip()


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
