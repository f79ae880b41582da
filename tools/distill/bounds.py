"""Limits for every proposed item before it may be stored: few, no duplicates, nothing of one machine or person."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.guard.generalize import without_places
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.rules import MARKS
from swarm_memory.tools.text.cleaning import clean, faults
from swarm_memory.tools.text.tokens import words_as_written

_PLACEHOLDER = re.compile(rf"<[^<>]*>|{MARKS}|…")
"""Marks that replace removed text."""

Proposed = TypeVar("Proposed")


def portable(text: str, settings: Settings, root: str = "") -> str:
    """Return what an agent or a model wrote for others, without what belongs to one machine or person.

    Secrets and personal data become marks. Internet addresses, hosts, UUIDs and paths in somebody's folders become
    placeholders, but paths below `root`, the project's folder, become relative. All else is kept to the letter:
    commands, relative paths, commit ids, versions, times. Takes linear time, and doing it twice changes nothing.
    """
    inside = re.sub(rf"(?<![\w./~-]){re.escape(root)}/", "", clean(text)) if len(root) > 1 else clean(text)
    return str(without_places(redact(inside, pii=settings.distill.redact_pii).text)).strip()


def check_drafts(
    drafts: Sequence[MemoryDraft], trajectory: Trajectory, settings: Settings, root: str = ""
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the drafts of an agent that may be stored, made `portable`, and for each other one the reason why not.

    At most `max_items_per_traj` are taken. Evidence must be steps of the trajectory.
    """
    known = {step.id for step in trajectory.steps}

    def check(draft: MemoryDraft) -> MemoryDraft | str:
        if unknown := [step for step in draft.evidence if step not in known]:
            return f"evidence names steps that are not in the trajectory: {', '.join(unknown[:5])}"
        return validated(draft.model_dump(), settings, root)

    return accepted(drafts, check, settings.distill.max_items_per_traj)


def accepted(
    proposed: Sequence[Proposed], check: Callable[[Proposed], MemoryDraft | str], max_items: int
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the items that pass `check`, without repeats of title and content, and why the others were refused."""
    taken: dict[str, MemoryDraft] = {}
    refused: list[str] = []
    for number, each in enumerate(proposed, 1):
        if len(taken) >= max_items:
            refused.append(f"from item {number} on: the limit per trajectory is {max_items}")
            break
        checked = check(each)
        if isinstance(checked, str):
            refused.append(f"item {number}: {checked}")
        elif taken.setdefault(" ".join(words_as_written(f"{checked.title} {checked.content}")), checked) is not checked:
            refused.append(f"item {number}: says the same as an earlier one")
    return tuple(taken.values()), tuple(refused)


def validated(proposed: Mapping[str, Any], settings: Settings, root: str = "") -> MemoryDraft | str:
    """Return the item with the `proposed` fields as it may be stored, or what is wrong with it."""
    kept = partial(portable, settings=settings, root=root)
    texts = {name: kept(proposed[name]) for name in ("title", "description", "content")}
    texts["title"] = " ".join(texts["title"].split())
    if any(len(re.sub(r"\W", "", _PLACEHOLDER.sub("", texts[name]))) < 3 for name in ("title", "content")):
        return "nothing is left of it once what belongs to one machine or person (secrets, paths, addresses) is gone"
    labels = [kept(" ".join(text.split())) for text in (proposed["domain"] or "", *proposed["tags"])]
    domain, *tags = ("" if _PLACEHOLDER.search(label) else label for label in labels)
    tags = tuple(dict.fromkeys(filter(None, tags)))
    try:
        return MemoryDraft.model_validate({**proposed, **texts, "domain": domain or None, "tags": tags})
    except ValidationError as error:
        return faults(error)


def tool_outputs(*trajectories: Trajectory) -> list[str]:
    """Return what tools returned in the trajectories."""
    return [step.text for each in trajectories for step in each.steps if step.kind == "observation"]
