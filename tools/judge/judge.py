"""The operation that judges whether a task was met, by evidence, a chat model or the agent's own verdict; and how far a
model's answer is believed.
"""

import asyncio
import re
from typing import Literal

from swarm_memory.schema.base import TRAJECTORY, counted, new_id
from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, kept_text, redact, strip_places
from swarm_memory.tools.judge.proofs import proofs_of
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, Rendered, ask_about, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.reading import Reading, read

_GROUNDED, _UNGROUNDED = 0.9, 0.7
"""The highest confidence of a model's verdict, and of one that names no step or was not shown the last result."""

_MAX_REASONS, _TIMEOUT_S = 6, 45.0
_WORD = re.compile(r"[\w-]+")

_MOST, _ON_THE_WAY = 0.97, 0.8
"""The highest confidence of an agent's own verdict, and the confidence of one that it gave while it worked."""

_MAX_SAID, _MAX_EVIDENCE, _MAX_REASON_CHARS = 8, 30, 300


class ModelVerdict(BaseAnswer):
    """What the judge's prompt asks for."""

    analysis: str
    label: Literal["Success", "Failure", "Undecided"]
    confidence: float
    reasons: list[str]


async def judge_by_model(model: ChatModel, trajectory: Trajectory, settings: Settings) -> Verdict:
    """Return the model's verdict on a trajectory, at temperature 0.

    The trajectory is first redacted, fenced and shortened to `settings.judge.max_trajectory_tokens`, or to less for a
    model with a smaller context window. The verdict is Undecided, with the reason, when the answer cannot be used or
    the model is less sure than `settings.judge.min_confidence`. Its confidence is capped at 0.9, and at 0.7 when its
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
        effort=AskOptions(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=settings.judge.max_trajectory_tokens,
    )
    if isinstance(asked.answer, ParseFailure):
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
        doubts = ["the model's answer cannot be used: its confidence is not between 0 and 1"]
    elif answer.label != "Undecided" and confidence < settings.judge.min_confidence:
        doubts = [f"the model says {answer.label} but is not sure ({confidence:.2f})"]
    label = "Undecided" if doubts else answer.label
    return Verdict(
        label=label,
        confidence=0.0 if label == "Undecided" else confidence,
        reasons=(*doubts, *reasons),
        evidence=evidence,
        judge="model",
        model=name,
    )


async def judge(toolbox: Toolbox, given: Trajectory | Reading, *, agent_verdict: Verdict | None = None) -> Verdict:
    """Return the verdict on a trajectory, with its reasons.

    The first of these decides: the user's word or a proof; the agent's own verdict, given here or in the trajectory
    through a tool of this server; the verdict of the toolbox's chat model. Otherwise it is Undecided.
    Raises `InputError` when the agent's verdict names steps that the trajectory does not have.
    """
    reading = read(given)
    found = await asyncio.to_thread(judge_by_evidence, reading, toolbox.settings)
    own = agent_verdict or said_verdict(reading.trajectory)
    if own is not None:
        reasons = tuple(kept_text(each, toolbox.settings, _MAX_REASON_CHARS) for each in own.reasons)
        return weigh_agent_verdict(own.model_copy(update={"reasons": reasons}), found, reading.trajectory)
    if toolbox.chat is None or reading.trajectory.broken_off is not None:
        return found
    return await judge_with_fallback(toolbox.chat, reading.trajectory, toolbox.settings, found)


async def judge_given(
    toolbox: Toolbox, given: Trajectory, agent_verdict: Verdict | None, *, store: bool
) -> tuple[Trajectory, Verdict, str | None]:
    """Return a trajectory as it may be kept, the verdict on it, and the trajectory's id if both were stored.

    For callers that judge before anything is learned: what is stored here does not count as learned from. Raises what
    `judge` raises, and `StorageError`.
    """
    kept = await asyncio.to_thread(archivable, given, toolbox.settings)
    verdict = await judge(toolbox, kept, agent_verdict=agent_verdict)
    if not store:
        return kept, verdict, None
    archived = await asyncio.to_thread(strip_places, kept, toolbox.settings)
    return kept, verdict, await toolbox.store.save_verdict(toolbox.scope, new_id(TRAJECTORY), archived, verdict)


def judge_by_evidence(given: Trajectory | Reading, settings: Settings) -> Verdict:
    """Judge by the user's word and by proofs alone, without any model.

    The surest proof decides; its confidence is how often proofs of its kind were right. Undecided when no proof
    reaches `settings.judge.min_confidence`. Also Undecided when the host's own connection broke the task off: that is
    not the agent's fault, and not the end of the task.
    """
    reading = read(given)
    proofs = [proof for proof in proofs_of(reading) if proof.confidence >= settings.judge.min_confidence]
    why = "nothing that was done proves whether the task succeeded"
    if (said := reading.trajectory.broken_off) is not None:
        proofs = []
        why = f"the host's connection to its model cut the task short: {one_line(redact(said).text, _MAX_REASON_CHARS)}"
    if not proofs:
        return Verdict(label="Undecided", confidence=0.0, reasons=(why,), judge="evidence")
    agreeing = [proof for proof in proofs if proof.label == proofs[0].label]
    return Verdict(
        label=proofs[0].label,
        confidence=proofs[0].confidence,
        reasons=tuple(proof.reason for proof in agreeing[:_MAX_SAID]),
        evidence=tuple(dict.fromkeys(step for proof in agreeing for step in proof.steps))[:_MAX_EVIDENCE],
        judge="evidence",
    )


def said_verdict(trajectory: Trajectory) -> Verdict | None:
    """Return the last verdict that the agent gave through a tool of this server as it worked; None if it gave none."""
    why = "the agent said so itself, through a tool of this server"
    return Verdict.by_agent(trajectory.outcome, _ON_THE_WAY, [why]) if trajectory.outcome else None


def weigh_agent_verdict(given: Verdict, found: Verdict, trajectory: Trajectory) -> Verdict:
    """Return the agent's verdict, or the proven one when it contradicts, with the reasons of both.

    Raises `InputError` for evidence ids that are not steps of the trajectory.
    """
    unknown = sorted(set(given.evidence) - {step.id for step in trajectory.steps})
    if unknown:
        raise InputError(f"verdict.evidence names steps that are not in the trajectory: {', '.join(unknown[:5])}")
    if found.label not in ("Undecided", given.label):
        said = tuple(f"agent: {reason}" for reason in given.reasons[:_MAX_SAID]) or (f"agent: {given.label}",)
        why = f"the evidence contradicts the agent's verdict of {given.label}"
        return found.model_copy(update={"reasons": (why, *found.reasons, *said)})
    confidence = 0.0 if given.label == "Undecided" else min(given.confidence, _MOST)
    return given.model_copy(update={"judge": "agent", "confidence": confidence, "model": None})


async def judge_with_fallback(model: ChatModel, trajectory: Trajectory, settings: Settings, found: Verdict) -> Verdict:
    """Return the verdict of evidence (`found`) and model combined; if the model fails, `found`, the reason first."""
    try:
        said = await judge_by_model(model, trajectory, settings)
    except ModelUnavailable as error:
        why = f"judged by the evidence alone: the model could not be asked: {error}"
        reasons = (one_line(redact(why).text, _MAX_REASON_CHARS), *found.reasons)
        return found.model_copy(update={"reasons": reasons})
    return weigh_model_verdict(found, said)


def weigh_model_verdict(found: Verdict, said: Verdict) -> Verdict:
    """Return the proven verdict (`found`), or the model's (`said`) when nothing is proven, with the reasons of both.

    `judge` says whose label it is: the model's when both agree, with the higher confidence. `model` is set either way.
    """
    agreed = found.label == said.label
    winner = said if agreed or found.label == "Undecided" else found
    confidence = max(found.confidence, said.confidence) if agreed else winner.confidence
    reasons = tuple(f"{each.judge} ({each.label}): {reason}" for each in (found, said) for reason in each.reasons)
    evidence = tuple(dict.fromkeys((*winner.evidence, *found.evidence, *said.evidence)))[:_MAX_EVIDENCE]
    fields = {"confidence": confidence, "reasons": reasons, "evidence": evidence, "model": said.model}
    return winner.model_copy(update=fields)
