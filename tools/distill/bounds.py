"""What every proposed item is held to before it may be stored: few, said once, and nothing of one task alone."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean

MAX_DRAFTS = 10
"""Of one agent, or one answer of a model, for one trajectory."""

PLACEHOLDER = re.compile(r"<[^<>]*>|\[\w+:[^\]]*\]|\[(?:email|card|iban|phone)\]")
"""What stands where something was taken out."""

WORD = re.compile(r"\w+")
_URL = re.compile(r"(?i)\b(?:https?|ftp|ssh|file)://\S+")

Proposed = TypeVar("Proposed")


def check_drafts(
    drafts: Sequence[MemoryDraft], trajectory: Trajectory, settings: Settings
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the drafts of an agent that may be stored, redacted and generalised, and for each other one the reason.

    At most `max_items_per_traj` are taken. Evidence must be steps of the trajectory.
    """
    known = {step.id for step in trajectory.steps}
    return accepted(
        drafts, lambda draft: held_to(draft, known, settings), settings.distill.max_items_per_traj, with_title=True
    )


def accepted(
    proposed: Sequence[Proposed],
    check: Callable[[Proposed], MemoryDraft | str],
    max_items: int,
    *,
    with_title: bool = False,
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return what `check` lets through, each content (`with_title`: and title) once; why not the rest."""
    taken: dict[str, MemoryDraft] = {}
    refused: list[str] = []
    for number, each in enumerate(proposed[:MAX_DRAFTS], 1):
        checked = check(each)
        if isinstance(checked, str):
            refused.append(f"item {number}: {checked}")
        elif len(taken) >= max_items:
            refused.append(f"item {number}: only {max_items} are taken of one trajectory")
        elif (said := words_of(f"{checked.title if with_title else ''} {checked.content}")) in taken:
            refused.append(f"item {number}: says the same as an earlier one")
        else:
            taken[said] = checked
    if len(proposed) > MAX_DRAFTS:
        refused.append(f"items {MAX_DRAFTS + 1}…{len(proposed)}: at most {MAX_DRAFTS} are looked at")
    return tuple(taken.values()), tuple(refused)


def held_to(draft: MemoryDraft, known: set[str], settings: Settings) -> MemoryDraft | str:
    """Return the draft as it may be stored, or what is wrong with it."""
    unknown = [step for step in draft.evidence if step not in known]
    if unknown:
        return f"evidence names steps that the trajectory does not have: {', '.join(unknown[:5])}"
    title = " ".join(general(draft.title, settings, MAX_TITLE).split())
    description = general(draft.description, settings, MAX_DESCRIPTION)
    content = general(draft.content, settings, MAX_CONTENT)
    if any(len(re.sub(r"\W", "", PLACEHOLDER.sub("", text))) < 3 for text in (title, content)):
        return "nothing is left of it without what belongs to this task alone (paths, ids, secrets)"
    tags = tuple(tag for tag in (general(" ".join(tag.split()), settings, 60) for tag in draft.tags) if tag)
    return draft.model_copy(update={"title": title, "description": description, "content": content, "tags": tags})


def general(text: str, settings: Settings, limit: int) -> str:
    """Return the text, of at most so many characters, with placeholders for what belongs to one task or person."""
    without_urls = _URL.sub("<url>", redact(clean(text), pii=settings.distill.redact_pii).text)
    return clean(generalize(without_urls), limit).strip()


def words_of(text: str) -> str:
    """Return what a text says, whatever its case and punctuation."""
    return " ".join(WORD.findall(text.casefold()))
