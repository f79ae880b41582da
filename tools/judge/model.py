"""Judging by a chat model: what it is shown, and what is believed of its answer."""

import asyncio
import re
from typing import Literal

from swarm_memory.schema.base import counted
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import Rendered, load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task

PROMPT = "judge"

MAX_MODEL_CONFIDENCE = 0.9
"""A model is believed no further than this: what models say of their own certainty is too high."""

UNGROUNDED_CONFIDENCE = 0.7
"""A verdict that names no step is believed no further than this."""

_MAX_REASONS, _MAX_REASON_CHARS = 6, 300
_ANSWER_TOKENS, _TIMEOUT_S = 800, 45.0
_WORD = re.compile(r"[\w-]+")


class ModelVerdict(Answered):
    """What the judge's prompt asks for."""

    label: Literal["Success", "Failure", "Undecided"]
    confidence: float
    reasons: list[str]


async def judge_by_model(model: ChatModel, trajectory: Trajectory, settings: Settings) -> Verdict:
    """Return what the model says of a trajectory, at `settings.judge.temperature` (0 unless somebody set it).

    The trajectory is redacted, fenced and shortened to `settings.judge.max_trajectory_tokens` first. Undecided,
    with the reason, when the answer cannot be used, and when the model is less sure than
    `settings.judge.min_confidence`. Its confidence counts up to 0.9, and up to 0.7 when its reasons name no step that
    it was shown. Raises `ModelUnavailable`.
    """
    prompt, shown = await asyncio.to_thread(_prompt, trajectory, settings)
    answer, name = await ask(
        model,
        prompt,
        ModelVerdict,
        purpose="judge",
        effort=Effort(max_tokens=_ANSWER_TOKENS, timeout_s=_TIMEOUT_S, temperature=settings.judge.temperature),
    )
    if isinstance(answer, Unparsed):
        return _undecided(name, f"the model's answer cannot be used: {answer.reason}")
    return _believed(answer, name, shown, settings)


def _prompt(trajectory: Trajectory, settings: Settings) -> tuple[Rendered, Shortened]:
    kept = archivable(trajectory, settings)
    shown = shorten_trajectory(kept, settings.judge.max_trajectory_tokens)
    return render(load_prompt(PROMPT), given={}, untrusted={"task": shown_task(kept), "trajectory": shown.text}), shown


def _believed(answer: ModelVerdict, name: str, shown: Shortened, settings: Settings) -> Verdict:
    reasons = tuple(filter(None, (_reason(reason, settings) for reason in answer.reasons[:_MAX_REASONS])))
    named = {word for reason in reasons for word in _WORD.findall(reason)}
    evidence = tuple(step for step in shown.shown if step in named)
    if shown.left_out:
        reasons = (*reasons, f"{counted(shown.left_out, 'step')} left out for length")
    if answer.label == "Undecided":
        return _undecided(name, *reasons, evidence=evidence)
    limit = MAX_MODEL_CONFIDENCE if evidence else UNGROUNDED_CONFIDENCE
    confidence = round(min(answer.confidence, limit), 3)
    if not 0 <= answer.confidence <= 1:
        return _undecided(name, "the model's answer cannot be used: its confidence is not from 0 to 1", *reasons)
    if confidence < settings.judge.min_confidence:
        why = f"the model says {answer.label} and is not sure of it ({confidence:.2f})"
        return _undecided(name, why, *reasons, evidence=evidence)
    return Verdict(
        label=answer.label, confidence=confidence, reasons=reasons, evidence=evidence, judge="model", model=name
    )


def _reason(text: str, settings: Settings) -> str:
    return one_line(redact(clean(text), pii=settings.distill.redact_pii).text, _MAX_REASON_CHARS)


def _undecided(name: str, *reasons: str, evidence: tuple[str, ...] = ()) -> Verdict:
    return Verdict(label="Undecided", confidence=0.0, reasons=reasons, evidence=evidence, judge="model", model=name)
