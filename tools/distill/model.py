"""Distilling by a chat model: what it is asked and what becomes of its answer; which items may be kept is not here."""

import asyncio
from dataclasses import dataclass

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import Distillation
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.drafts import DistilledItems, check_items
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.model.ask import ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task

PROMPTS = {"Success": "distill_success", "Failure": "distill_failure"}

_MAX_REASON_CHARS = 400
_ANSWER_TOKENS, _TIMEOUT_S = 2_500, 60.0


async def distill_by_model(
    model: ChatModel,
    trajectory: Trajectory,
    verdict: Verdict,
    settings: Settings,
    *,
    max_items: int | None = None,
    budget_tokens: int | None = None,
) -> Distillation:
    """Draw at most `max_items` (default: `settings.distill.max_items_per_traj`) items with the model, temperature 0.

    Strategies of a success, guardrails of a failure; of an undecided trajectory none, and nobody is asked. The items
    are checked as `check_items` says; `reason` names those that were refused, or why there is no answer. Raises
    `ModelUnavailable`.
    """
    drawn = await _draw(model, trajectory, verdict, settings, max_items, budget_tokens)
    return drawn.distillation


async def distill_with_fallback(
    model: ChatModel, trajectory: Trajectory, verdict: Verdict, settings: Settings
) -> Distillation:
    """Return what the model draws; what extraction draws where the model does not come to items that may be kept.

    That is: it cannot be asked, its answer cannot be used, all its items were refused, or the verdict is Undecided.
    A model that answers that nothing is worth keeping is believed. `reason` says which it was.
    """
    if verdict.label == "Undecided":
        return await asyncio.to_thread(distill_by_extraction, trajectory, verdict, settings)
    try:
        drawn = await _draw(model, trajectory, verdict, settings, None, None)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, _MAX_REASON_CHARS)
    else:
        if drawn.is_final:
            return drawn.distillation
        why = str(drawn.distillation.reason)
    extracted = await asyncio.to_thread(distill_by_extraction, trajectory, verdict, settings)
    reasons = [f"drawn without a model: {why}", *([extracted.reason] if extracted.reason else [])]
    return extracted.model_copy(update={"reason": "; ".join(reasons)})


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What came of asking."""

    distillation: Distillation
    is_final: bool
    """Whether the model gave items that may be kept, or said that there are none."""


async def _draw(
    model: ChatModel,
    trajectory: Trajectory,
    verdict: Verdict,
    settings: Settings,
    max_items: int | None,
    budget_tokens: int | None,
) -> _Drawn:
    if verdict.label == "Undecided":
        reason = "the verdict is Undecided: no model was asked"
        return _Drawn(Distillation(drafts=(), distiller="model", reason=reason), is_final=False)
    wanted = settings.distill.max_items_per_traj if max_items is None else max_items
    limit = settings.judge.max_trajectory_tokens if budget_tokens is None else budget_tokens
    kept, shown = await asyncio.to_thread(_kept, trajectory, settings, limit)
    prompt = render(
        load_prompt(PROMPTS[verdict.label]),
        given={"max_items": str(wanted)},
        untrusted={"task": shown_task(kept), "reasons": _reasons(verdict, settings), "trajectory": shown.text},
    )
    answer, name = await ask(
        model,
        prompt,
        DistilledItems,
        purpose="distill",
        temperature=0.0,
        max_tokens=_ANSWER_TOKENS,
        timeout_s=_TIMEOUT_S,
    )
    if isinstance(answer, Unparsed):
        drafts, is_final, reason = (), False, f"the model's answer cannot be used: {answer.reason}"
    else:
        drafts, refused = await asyncio.to_thread(check_items, answer.items, kept, shown, settings, wanted)
        is_final = bool(drafts) or not answer.items
        reason = "; ".join(refused) or (None if drafts else "the model found nothing that would help another task")
    distillation = Distillation(drafts=drafts, distiller="model", reason=reason, prompt_hash=prompt.hash, model=name)
    return _Drawn(distillation, is_final)


def _kept(trajectory: Trajectory, settings: Settings, budget_tokens: int) -> tuple[Trajectory, Shortened]:
    kept = archivable(trajectory, settings)
    return kept, shorten_trajectory(kept, budget_tokens)


def _reasons(verdict: Verdict, settings: Settings) -> str:
    lines = (redact(clean(reason), pii=settings.distill.redact_pii).text for reason in verdict.reasons)
    return "\n".join(f"- {one_line(line, _MAX_REASON_CHARS)}" for line in lines) or "- none given"
