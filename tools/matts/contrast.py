"""Self-contrast: the lessons of several attempts at one task together, found by a model or by their calls alone.

By the calls: what got any attempt past an error, and what failures ran into and no success. What counts is in how many
attempts it stands, not how often; what stands in one alone must have been seen to work.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import Distiller, Outcome
from swarm_memory.schema.rollout import ScalingMode
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.distill.bounds import check_drafts
from swarm_memory.tools.distill.corrections import corrections
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.model import DistilledItem, check_items
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.matts.differences import fixes_of, look, pitfalls
from swarm_memory.tools.matts.rollouts import Attempt, Lesson, merged
from swarm_memory.tools.model.ask import Answered, Effort, ask_about
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import Rendered, load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task

PROMPT = "self_contrast"

MAX_ITEMS = 3
"""Of one run, as the paper's self-contrast gives."""

ATTEMPTS_TOKENS = 24_000
"""Of all attempts together at most so much is shown to the model."""

_RELATIONS: dict[ScalingMode, str] = {
    "parallel": "independent of each other",
    "sequential": "refinements: each checks and corrects the one before",
}
_TIMEOUT_S = 90.0
_MAX_NOTES, _MAX_NOTE_CHARS = 5, 300


class ContrastedItem(DistilledItem):
    """One item as a model proposes it."""

    kind: Literal["strategy", "guardrail"]


class Contrasted(Answered):
    """What the prompt asks for."""

    analysis: str
    items: list[ContrastedItem]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Contrast:
    """What comparing gave, and how."""

    lessons: tuple[Lesson, ...]
    distiller: Distiller
    notes: tuple[str, ...] = ()
    reason: str | None = None
    """Why no lessons, or fewer; why they are not a model's."""
    prompt_hash: str | None = None
    model: str | None = None


async def self_contrast(
    chat: ChatModel | None, attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings
) -> Contrast:
    """Return at most three lessons of what parts success from failure, checked as those of an agent are.

    With a model its comparison counts; where it cannot be asked, answers with nothing that may be kept, or is not
    given, the attempts are compared by their calls, and `reason` says so. `attempts` must not be empty.
    """
    why = None
    if chat is not None:
        try:
            found, is_final = await _asked(chat, attempts, mode, settings)
            if is_final:
                return found
            why = found.reason
        except ModelUnavailable as error:
            why = one_line(redact(f"the model could not be asked: {error}").text, 400)
    lessons, reason = await asyncio.to_thread(_by_extraction, attempts, settings)
    reasons = (f"compared without a model: {why}" if why else None, reason)
    return Contrast(lessons, "extractive", reason="; ".join(filter(None, reasons)) or None)


def _by_extraction(attempts: Sequence[Attempt], settings: Settings) -> tuple[tuple[Lesson, ...], str]:
    """Return what the calls teach, as far as it passes the checks, and why it is no more."""
    lessons, reason = contrast_by_extraction(attempts, settings)
    whole = merged(attempts)
    kept: list[Lesson] = []
    reasons = [reason] if reason else []
    for number, each in enumerate(lessons, 1):
        accepted, rejections = check_drafts((each.draft,), whole, settings)
        kept += [each._replace(draft=draft) for draft in accepted]
        reasons += [rejection.replace("item 1", f"item {number}") for rejection in rejections]
    return tuple(kept), "; ".join(reasons)


async def _asked(
    chat: ChatModel, attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings
) -> tuple[Contrast, bool]:
    """Return what the model extracts, and whether it counts: items to keep, or its word that there are none."""
    asked = await ask_about(
        chat,
        lambda tokens: _prompt(attempts, mode, settings, tokens),
        Contrasted,
        purpose="self_contrast",
        effort=Effort(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=ATTEMPTS_TOKENS,
    )
    answer = asked.answer
    found = Contrast((), "model", prompt_hash=asked.prompt.hash, model=asked.model)
    if isinstance(answer, Unparsed):
        return replace(found, reason=f"the model's answer cannot be used: {answer.reason}"), False
    whole = await asyncio.to_thread(merged, attempts)
    lessons, refused = await asyncio.to_thread(_checked, answer.items, attempts, whole, asked.shown, settings)
    notes = tuple(one_line(_plain(note, settings), _MAX_NOTE_CHARS) for note in answer.notes[:_MAX_NOTES])
    reason = "; ".join(refused) or (None if lessons else "the model found nothing that would help another task")
    return replace(found, lessons=lessons, notes=notes, reason=reason), bool(lessons) or not answer.items


def _prompt(
    attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings, tokens: int
) -> tuple[Rendered, Shortened]:
    parts: list[str] = []
    ids: list[str] = []
    left_out = 0
    for attempt in attempts:
        shown = shorten_trajectory(attempt.trajectory, tokens // len(attempts))
        parts.append(f"{attempt.title}\n{shown.text}")
        ids += shown.shown
        left_out += shown.left_out
    notes = [f"- attempt {each.number}: {_plain(note, settings)}" for each in attempts for note in each.notes]
    text = "\n\n".join(parts)
    rendered = render(
        load_prompt(PROMPT),
        given={"relation": _RELATIONS[mode], "count": str(len(attempts)), "max_items": str(MAX_ITEMS)},
        untrusted={
            "task": shown_task(attempts[0].trajectory, tokens // 2),
            "notes": "\n".join(notes) or "- none",
            "attempts": text,
        },
    )
    return rendered, Shortened(text, tuple(ids), left_out)


def _checked(
    items: Sequence[ContrastedItem],
    attempts: Sequence[Attempt],
    whole: Trajectory,
    shown: Shortened,
    settings: Settings,
) -> tuple[tuple[Lesson, ...], tuple[str, ...]]:
    lessons: list[Lesson] = []
    refused: list[str] = []
    owners = {step.id: attempt for attempt in attempts for step in attempt.trajectory.steps}
    for kind in ("strategy", "guardrail"):
        of_kind = [item for item in items if item.kind == kind]
        drafts, rejections = check_items(of_kind, whole, shown, settings, MAX_ITEMS - len(lessons))
        outcome: Outcome = "Success" if kind == "strategy" else "Failure"
        lessons += [Lesson(draft, outcome, owners.get((*draft.evidence, "")[0], attempts[0])) for draft in drafts]
        refused += [f"{kind} {rejection}" for rejection in rejections]
    return tuple(lessons), tuple(refused)


def _plain(text: str, settings: Settings) -> str:
    return redact(clean(text), pii=settings.distill.redact_pii).text


def contrast_by_extraction(attempts: Sequence[Attempt], settings: Settings) -> tuple[tuple[Lesson, ...], str | None]:
    """Return at most three lessons and, where there are none, why.

    First what any attempt was seen to do against an error, the errors that kept failures from the end before the
    others. Where no such error says why most failures failed, what at least half of the failures, and no success, ran
    into. Of one attempt alone all that it teaches.
    """
    if len(attempts) == 1:
        (one,) = attempts
        alone = distill_by_extraction(one.trajectory, one.verdict, settings)
        lessons = [Lesson(draft, _outcome(one), one) for draft in alone.drafts[:MAX_ITEMS]]
        return tuple(lessons), None if lessons else alone.reason
    looked = [look(attempt) for attempt in attempts]
    failures = sum(each.label == "Failure" for each in looked)
    fixes = fixes_of(looked)
    lessons = [each.lesson for each in fixes if each.is_seen]
    # What the user said while an attempt was made holds for the others too.
    lessons += [
        Lesson(draft, _outcome(each.attempt), each.attempt) for each in looked for draft in corrections(each.reading)
    ]
    # Where most failures ended with an error that others got past, all other differences are by the way.
    if failures and not any(2 * each.failures >= failures for each in fixes):
        lessons += pitfalls(looked, {each.mark for each in fixes})
    by_title: dict[str, Lesson] = {}
    for each in lessons:
        by_title.setdefault(each.draft.title, each)
    if by_title:
        return tuple(by_title.values())[:MAX_ITEMS], None
    if all(each.label == "Undecided" for each in looked):
        return (), f"none of the {len(attempts)} attempts was decided, and none proves anything within itself"
    return (), "the attempts differ in nothing that would help with another task"


def _outcome(attempt: Attempt) -> Outcome:
    return "Failure" if attempt.verdict.label == "Failure" else "Success"
