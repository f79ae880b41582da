"""The operation that draws memory items from a judged trajectory, and the checks on items that others propose."""

import re
from collections.abc import Callable, Iterator, Sequence

from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, Distillation, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.corrections import pointers, reworked
from swarm_memory.tools.distill.habits import corrections, fruitless_lookups, loops, procedures
from swarm_memory.tools.distill.lessons import Lesson, Material
from swarm_memory.tools.distill.open_errors import open_errors
from swarm_memory.tools.distill.repair_lessons import repairs
from swarm_memory.tools.guard.redact import generalize, redact
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.trajectory.calls import calls_of
from swarm_memory.tools.trajectory.phrasing import particulars_of

MIN_VALUE = 0.4
"""A lesson worth less is not kept: a mistyped path, a file that was not read before the edit."""

MAX_DRAFTS = 10
"""Of one agent for one trajectory."""

_FINDERS: tuple[Callable[[Material], Iterator[Lesson]], ...] = (
    corrections, repairs, open_errors, loops, fruitless_lookups, procedures, pointers, reworked,
)  # fmt: skip
_PLACEHOLDER = re.compile(r"<[^<>]*>|\[\w+:[^\]]*\]|\W")
"""What stands where something was taken out, and what is no word."""

_URL = re.compile(r"(?i)\b(?:https?|ftp|ssh|file)://\S+")


def distill_by_extraction(trajectory: Trajectory, verdict: Verdict, settings: Settings) -> Distillation:
    """Draw at most `settings.distill.max_items_per_traj` items, the most valuable first, without any model.

    Of an undecided trajectory only what it proves within itself: an error that a later run was seen to resolve, and the
    user's own corrections. When nothing is worth keeping the drafts are empty and `reason` says why.
    """
    calls = calls_of(trajectory)
    if not calls:
        return _nothing("no tool was called: there is nothing to learn from")
    material = Material(trajectory, verdict, calls, particulars_of(trajectory, calls))
    found = [lesson for find in _FINDERS for lesson in find(material)]
    if not found:
        return _nothing("no error, correction or loop to learn from")
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


def check_drafts(
    drafts: Sequence[MemoryDraft], trajectory: Trajectory, settings: Settings
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the drafts of an agent that may be stored, redacted and generalised, and for each other one the reason.

    At most `max_items_per_traj` are taken. Evidence must be steps of the trajectory.
    """
    accepted: list[MemoryDraft] = []
    rejections: list[str] = []
    known = {step.id for step in trajectory.steps}
    for number, draft in enumerate(drafts[:MAX_DRAFTS], 1):
        checked = _checked(draft, known, settings)
        if isinstance(checked, str):
            rejections.append(f"item {number}: {checked}")
        elif len(accepted) >= settings.distill.max_items_per_traj:
            rejections.append(f"item {number}: only {settings.distill.max_items_per_traj} are taken of one trajectory")
        elif any(_folded(checked) == _folded(other) for other in accepted):
            rejections.append(f"item {number}: says the same as an earlier one")
        else:
            accepted.append(checked)
    if len(drafts) > MAX_DRAFTS:
        rejections.append(f"items {MAX_DRAFTS + 1}…{len(drafts)}: at most {MAX_DRAFTS} are looked at")
    return tuple(accepted), tuple(rejections)


def _checked(draft: MemoryDraft, known: set[str], settings: Settings) -> MemoryDraft | str:
    """Return the draft as it may be stored, or what is wrong with it."""
    unknown = [step for step in draft.evidence if step not in known]
    if unknown:
        return f"evidence names steps that the trajectory does not have: {', '.join(unknown[:5])}"
    title, description, content = (
        _plain(text, settings, limit)
        for text, limit in (
            (draft.title, MAX_TITLE),
            (draft.description, MAX_DESCRIPTION),
            (draft.content, MAX_CONTENT),
        )
    )
    title = " ".join(title.split())
    if any(len(_PLACEHOLDER.sub("", text)) < 3 for text in (title, content)):
        return "nothing is left of it without what belongs to this task alone (paths, ids, secrets)"
    tags = tuple(tag for tag in (_plain(" ".join(tag.split()), settings, 60) for tag in draft.tags) if tag)
    return draft.model_copy(update={"title": title, "description": description, "content": content, "tags": tags})


def _plain(text: str, settings: Settings, limit: int) -> str:
    without_urls = _URL.sub("<url>", redact(clean(text), pii=settings.distill.redact_pii).text)
    return clean(generalize(without_urls), limit).strip()


def _folded(draft: MemoryDraft) -> str:
    return " ".join(f"{draft.title} {draft.content}".lower().split())
