"""The operation that says whether a task was met: from evidence, a chat model or the agent's own word; and what of a
model's answer is believed.
"""

import asyncio
import re
from typing import Literal

from swarm_memory.schema.base import TRAJECTORY, counted, new_id
from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, kept_text, redact, stored
from swarm_memory.tools.judge.proofs import proofs_of
from swarm_memory.tools.model.ask import Answered, Effort, Rendered, ask_about, load_prompt, render
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.reading import Reading, read

_GROUNDED, _UNGROUNDED = 0.9, 0.7
"""How far a model is believed at most, and one that names no step or was not shown the last result."""

_MAX_REASONS, _TIMEOUT_S = 6, 45.0
_WORD = re.compile(r"[\w-]+")

_MOST, _ON_THE_WAY = 0.97, 0.8
"""An agent's own verdict counts for no more than the first; one that it gave on the way, for the second."""

_MAX_SAID, _MAX_EVIDENCE, _MAX_REASON_CHARS = 8, 30, 300


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


async def judge(toolbox: Toolbox, given: Trajectory | Reading, *, agent_verdict: Verdict | None = None) -> Verdict:
    """Return the verdict on a trajectory, with its reasons.

    In this order: the user's word and what was seen that nobody can doubt; the agent's own verdict, which is given here
    or was said in the trajectory by a tool of this server; that of the toolbox's chat model; else it is Undecided.
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
    """Return a trajectory as it may be kept, the verdict on it, and the trajectory's id where both were stored.

    It is for those who look before anything is learned: nothing counts as learned from what is stored. Raises as
    `judge`, and `StorageError`.
    """
    kept = await asyncio.to_thread(archivable, given, toolbox.settings)
    verdict = await judge(toolbox, kept, agent_verdict=agent_verdict)
    if not store:
        return kept, verdict, None
    archived = await asyncio.to_thread(stored, kept, toolbox.settings)
    return kept, verdict, await toolbox.store.save_verdict(toolbox.scope, new_id(TRAJECTORY), archived, verdict)


def judge_by_evidence(given: Trajectory | Reading, settings: Settings) -> Verdict:
    """Judge by the user's word and by proofs alone, without any model.

    The surest proof decides, with the share in which such a one was right as its confidence; Undecided where there is
    none, or where that is below `settings.judge.min_confidence`. Where the host's own connection broke a task off,
    nothing speaks: it is no fault of the agent's, and no end.
    """
    reading = read(given)
    proofs = [proof for proof in proofs_of(reading) if proof.confidence >= settings.judge.min_confidence]
    why = "nothing that was done proves whether the task was met"
    if (said := reading.trajectory.broken_off) is not None:
        proofs = []
        why = f"the host's connection to its model broke the task off: {one_line(redact(said).text, _MAX_REASON_CHARS)}"
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
    """Return the verdict that the agent gave last by a tool of this server, as it worked; None where it gave none."""
    why = "it said so itself, by a tool of this server"
    return Verdict.by_agent(trajectory.outcome, _ON_THE_WAY, [why]) if trajectory.outcome else None


def weigh_agent_verdict(given: Verdict, found: Verdict, trajectory: Trajectory) -> Verdict:
    """Return the agent's verdict, or the one that is proven where that is the other one; both reasons are kept.

    Raises `InputError` for evidence ids that are not steps of the trajectory.
    """
    unknown = sorted(set(given.evidence) - {step.id for step in trajectory.steps})
    if unknown:
        raise InputError(f"verdict.evidence names steps that the trajectory does not have: {', '.join(unknown[:5])}")
    if found.label not in ("Undecided", given.label):
        said = tuple(f"agent: {reason}" for reason in given.reasons[:_MAX_SAID]) or (f"agent: {given.label}",)
        why = f"the evidence contradicts the agent's verdict {given.label}"
        return found.model_copy(update={"reasons": (why, *found.reasons, *said)})
    confidence = 0.0 if given.label == "Undecided" else min(given.confidence, _MOST)
    return given.model_copy(update={"judge": "agent", "confidence": confidence, "model": None})


async def judge_with_fallback(model: ChatModel, trajectory: Trajectory, settings: Settings, found: Verdict) -> Verdict:
    """Return the verdict of evidence (`found`) and model together; without a model `found`, which says first why."""
    try:
        said = await judge_by_model(model, trajectory, settings)
    except ModelUnavailable as error:
        why = f"judged by the evidence alone: the model could not be asked: {error}"
        reasons = (one_line(redact(why).text, _MAX_REASON_CHARS), *found.reasons)
        return found.model_copy(update={"reasons": reasons})
    return combine(found, said)


def combine(found: Verdict, said: Verdict) -> Verdict:
    """Return what is proven (`found`), or where nothing is, what a model says (`said`), with the reasons of both.

    `judge` says whose label it is: the model's where both agree, as sure as the surer one. `model` names it either way.
    """
    agreed = found.label == said.label
    winner = said if agreed or found.label == "Undecided" else found
    confidence = max(found.confidence, said.confidence) if agreed else winner.confidence
    reasons = tuple(f"{each.judge} ({each.label}): {reason}" for each in (found, said) for reason in each.reasons)
    evidence = tuple(dict.fromkeys((*winner.evidence, *found.evidence, *said.evidence)))[:_MAX_EVIDENCE]
    fields = {"confidence": confidence, "reasons": reasons, "evidence": evidence, "model": said.model}
    return winner.model_copy(update=fields)
