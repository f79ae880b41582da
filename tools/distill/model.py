"""Distilling by a chat model: what it is shown, and which of its items may be kept."""

import asyncio
import re
from collections.abc import Sequence

from swarm_memory.schema.memory import CANDIDATE, FIX, OPEN_PROBLEM, Distillation, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.bounds import accepted, validated
from swarm_memory.tools.distill.corrections import FROM_USER, USERS_WORD
from swarm_memory.tools.guard.redact import archivable, kept_text
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, Rendered, ask_about, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.phrasing import mask_names
from swarm_memory.tools.trajectory.reading import read

MAX_CONTENT_CHARS = 1_200
"""Characters of one item with all its steps: all items together get 600 tokens in a prompt."""

_RULES_TAGS = frozenset({FIX, OPEN_PROBLEM, CANDIDATE, FROM_USER, USERS_WORD})
"""Tags that mark what the rules themselves extracted; a model may not set them."""

_MAX_TAGS, _MAX_REASON_CHARS, _TIMEOUT_S = 5, 400, 60.0
_NUMBER = re.compile(r"\A\s*(?:(?:step\s*)?\d{1,2}\s*[.):]|[-*•])\s+", re.IGNORECASE)
_NO_LIMIT = re.compile(r"(?i)\W*(?:none|never|nothing|n/?a)?\W*")


class DistilledItem(BaseAnswer):
    """One item as a model proposes it."""

    title: str
    description: str
    steps: list[str]
    not_when: str
    domain: str
    tags: list[str]
    evidence: list[str]


class DistilledItems(BaseAnswer):
    """What the distillers' prompts ask for."""

    analysis: str
    items: list[DistilledItem]


async def distill_by_model(
    model: ChatModel, trajectory: Trajectory, verdict: Verdict, settings: Settings, root: str = ""
) -> tuple[Distillation, bool]:
    """Return the model's distillation, and whether it gave items that may be kept or answered that there are none.

    Strategies for a success, guardrails for a failure, at most `settings.distill.max_items_per_traj`, at temperature 0;
    the verdict must be one of the two. The items are checked by `check_items`; `reason` names those that were refused,
    or why there is no usable answer. Raises `ModelUnavailable`.
    """
    wanted = settings.distill.max_items_per_traj
    kept = await asyncio.to_thread(archivable, trajectory, settings)
    said = (" ".join(kept_text(reason, settings, _MAX_REASON_CHARS).split()) for reason in verdict.reasons)
    reasons = "\n".join(f"- {reason}" for reason in said) or "- none given"

    def write(tokens: int) -> tuple[Rendered, Shortened]:
        shown = shorten_trajectory(kept, tokens)
        untrusted = {"task": shown_task(kept, tokens // 2), "reasons": reasons, "trajectory": shown.text}
        prompt = load_prompt(f"distill_{verdict.label.lower()}")
        return render(prompt, given={"max_items": str(wanted)}, untrusted=untrusted), shown

    asked = await ask_about(
        model,
        write,
        DistilledItems,
        purpose="distill",
        effort=AskOptions(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=settings.judge.max_trajectory_tokens,
    )
    distilled = Distillation(drafts=(), distiller="model", prompt_hash=asked.prompt.hash, model=asked.model)
    if isinstance(asked.answer, ParseFailure):
        why = f"the model's answer cannot be used: {asked.answer.reason}"
        return distilled.model_copy(update={"reason": why}), False
    given = asked.answer.items
    drafts, refused = await asyncio.to_thread(check_items, given, kept, asked.shown, settings, wanted, root)
    why = "; ".join(refused) or (None if drafts else "the model found nothing that would help another task")
    return distilled.model_copy(update={"drafts": drafts, "reason": why}), bool(drafts) or not given


def check_items(
    items: Sequence[DistilledItem],
    trajectory: Trajectory,
    shown: Shortened,
    settings: Settings,
    max_items: int,
    root: str = "",
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the items of a model that may be stored, made `portable`, and for each other one the reason why not.

    An item needs a title, steps (numbered if there are several) and evidence among the steps that were shown; its
    limits, if any, become the last line. For a task without commands, names and ids from its calls are removed: they
    belong to a service's customers, not to a project. At most `max_items` are accepted.
    """
    reading = read(trajectory)
    names = () if any(call.command for call in reading.calls) else reading.particulars

    def plain(text: str) -> str:
        return " ".join(mask_names(clean(text), names).split())

    def check(item: DistilledItem) -> MemoryDraft | str:
        named = {word for text in item.evidence for word in re.findall(r"[\w-]+", text)}
        evidence = tuple(step for step in shown.shown if step in named)
        if not evidence:
            return "its evidence names no step that was shown"
        steps = [step for text in item.steps if (step := _NUMBER.sub("", plain(text)))]
        lines = [f"{number}. {step}" for number, step in enumerate(steps, 1)] if len(steps) > 1 else steps
        if steps and not _NO_LIMIT.fullmatch(limits := plain(item.not_when)):
            lines.append(f"Limits: {limits}")
        if not 0 < len(content := "\n".join(lines)) <= MAX_CONTENT_CHARS:
            return f"its steps have {len(content):,} characters instead of 1 to {MAX_CONTENT_CHARS:,}"
        tags = [tag for text in item.tags[:_MAX_TAGS] if (tag := plain(text).lower()) not in _RULES_TAGS]
        texts = {"title": plain(item.title), "description": plain(item.description), "content": content}
        labels = {"domain": plain(item.domain).lower(), "tags": tags, "evidence": evidence}
        return validated(texts | labels, settings, root)

    return accepted(items, check, max_items)
