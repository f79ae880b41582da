"""Judging by a chat model: what it is shown, and what is believed of its answer."""

import asyncio
import re
from typing import Literal

from swarm_memory.schema.base import counted
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.model.ask import Answered, Effort, ask_about
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import Rendered, load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task

_GROUNDED, _UNGROUNDED = 0.9, 0.7
"""How far a model is believed at most, and one that names no step or was not shown the last result."""

_MAX_REASONS, _MAX_REASON_CHARS, _TIMEOUT_S = 6, 300, 45.0
_WORD = re.compile(r"[\w-]+")


class ModelVerdict(Answered):
    """What the judge's prompt asks for."""

    analysis: str
    label: Literal["Success", "Failure", "Undecided"]
    confidence: float
    reasons: list[str]


async def judge_by_model(model: ChatModel, trajectory: Trajectory, settings: Settings) -> Verdict:
    """Return what the model says of a trajectory, at temperature 0.

    The trajectory is redacted, fenced and shortened to `settings.judge.max_trajectory_tokens` first, and to less for a
    model whose context window is smaller. Undecided, with the reason, when the answer cannot be used, and when the
    model is less sure than `settings.judge.min_confidence`. Its confidence counts up to 0.9, and up to 0.7 when its
    reasons name no step that it was shown, or it was not shown the last result. Raises `ModelUnavailable`.
    """
    kept = await asyncio.to_thread(archivable, trajectory, settings)

    def write(tokens: int) -> tuple[Rendered, Shortened]:
        shown = shorten_trajectory(kept, tokens)
        untrusted = {"task": shown_task(kept, tokens // 2), "trajectory": shown.text}
        return render(load_prompt("judge"), given={}, untrusted=untrusted), shown

    asked = await ask_about(
        model,
        write,
        ModelVerdict,
        purpose="judge",
        effort=Effort(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=settings.judge.max_trajectory_tokens,
    )
    if isinstance(asked.answer, Unparsed):
        why = f"the model's answer cannot be used: {asked.answer.reason}"
        return Verdict(label="Undecided", confidence=0.0, reasons=(why,), judge="model", model=asked.model)
    results = [step.id for step in kept.steps if step.kind == "observation"]
    return _believed(asked.answer, asked.model, asked.shown, {*results[-1:]} <= {*asked.shown.shown}, settings)


def _believed(answer: ModelVerdict, name: str, shown: Shortened, has_end: bool, settings: Settings) -> Verdict:
    said = (redact(clean(text), pii=settings.distill.redact_pii).text for text in answer.reasons[:_MAX_REASONS])
    reasons = [reason for text in said if (reason := one_line(text, _MAX_REASON_CHARS))]
    named = {word for reason in reasons for word in _WORD.findall(reason)}
    evidence = tuple(step for step in shown.shown if step in named)
    confidence = round(min(answer.confidence, _GROUNDED if evidence and has_end else _UNGROUNDED), 3)
    reasons += [f"{counted(shown.left_out, 'step')} left out for length"] * bool(shown.left_out)
    doubts: list[str] = []
    if not 0 <= answer.confidence <= 1:
        doubts = ["the model's answer cannot be used: its confidence is not from 0 to 1"]
    elif answer.label != "Undecided" and confidence < settings.judge.min_confidence:
        doubts = [f"the model says {answer.label} and is not sure of it ({confidence:.2f})"]
    label = "Undecided" if doubts else answer.label
    return Verdict(
        label=label,
        confidence=0.0 if label == "Undecided" else confidence,
        reasons=(*doubts, *reasons),
        evidence=evidence,
        judge="model",
        model=name,
    )
