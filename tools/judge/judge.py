"""The operation that says whether a task was met: from evidence, a model or the agent's own word."""

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from pydantic import JsonValue

from swarm_memory.schema.base import TRAJECTORY, new_id
from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, redact, stored
from swarm_memory.tools.judge.model import judge_by_model
from swarm_memory.tools.judge.proofs import proofs_of
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

MAX_CONFIDENCE = 0.97
"""An agent's own verdict counts for no more than this."""

SAID_CONFIDENCE = 0.8
"""Of the verdict that an agent gave on the way."""

AUDIT_RATE = 0.05
"""Share of the verdicts that are compared with what the evidence says."""

AUDITED = "judge.audited"
"""Kind of the event that an audit leaves."""

_LABELS: tuple[Label, ...] = get_args(Label)
_MAX_SAID, _MAX_REASONS, _MAX_EVIDENCE, _MAX_REASON_CHARS = 8, 20, 30, 300


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with the two that it was made of."""

    verdict: Verdict
    by_evidence: Verdict
    by_model: Verdict | None
    """None: the model could not be asked."""


async def judge(toolbox: Toolbox, trajectory: Trajectory, *, agent_verdict: Verdict | None = None) -> Verdict:
    """Return the verdict on a trajectory, as `judge_in_full` comes to it."""
    return (await judge_in_full(toolbox, trajectory, agent_verdict=agent_verdict)).verdict


async def judge_in_full(
    toolbox: Toolbox, given: Trajectory | Reading, *, agent_verdict: Verdict | None = None
) -> Judged:
    """Return the verdict with those that it was made of.

    In this order: the user's word and what was seen that nobody can doubt; the agent's own verdict, which is given here
    or was said in the trajectory by a tool of this server; that of the toolbox's chat model; else it is Undecided.
    Raises `InputError` when the agent's verdict names steps that the trajectory does not have.
    """
    reading = read(given)
    found = await asyncio.to_thread(judge_by_evidence, reading, toolbox.settings)
    own = agent_verdict or said_verdict(reading.trajectory)
    if own is not None:
        return Judged(weigh_agent_verdict(own, found, reading.trajectory), found, None)
    if toolbox.chat is None or reading.trajectory.broken_off is not None:
        return Judged(found, found, None)
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
    if (said := reading.trajectory.broken_off) is not None:
        shown = one_line(redact(said).text, _MAX_REASON_CHARS)
        return _undecided(f"the host's connection to its model broke the task off: {shown}")
    if not reading.calls:
        return _undecided("no tool was called: words alone prove nothing")
    proofs = [proof for proof in proofs_of(reading) if proof.confidence >= settings.judge.min_confidence]
    if not proofs:
        return _undecided("nothing that was done proves whether the task was met")
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
    if trajectory.outcome is None:
        return None
    return Verdict.by_agent(trajectory.outcome, SAID_CONFIDENCE, ["it said so itself, by a tool of this server"])


def _undecided(why: str, reasons: tuple[str, ...] = (), evidence: tuple[str, ...] = ()) -> Verdict:
    return Verdict(label="Undecided", confidence=0.0, reasons=(why, *reasons), evidence=evidence, judge="evidence")


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
    confidence = 0.0 if given.label == "Undecided" else min(given.confidence, MAX_CONFIDENCE)
    return given.model_copy(update={"judge": "agent", "confidence": confidence, "model": None})


async def judge_with_fallback(model: ChatModel, trajectory: Trajectory, settings: Settings, found: Verdict) -> Judged:
    """Return the verdict of evidence (`found`) and model together; without the model where that is not to be had.

    The first reason says how it was made.
    """
    try:
        said = await judge_by_model(model, trajectory, settings)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, _MAX_REASON_CHARS)
        return Judged(without_model(found, why), found, None)
    return Judged(combine(found, said), found, said)


def combine(found: Verdict, said: Verdict) -> Verdict:
    """Return what is proven (`found`), or where nothing is, what a model says (`said`), with the reasons of both.

    `judge` says whose label it is; `model` names the model either way.
    """
    if found.label == "Undecided":
        is_told = said.label != "Undecided"
        why = (
            "the model decided what the evidence left open"
            if is_told
            else "neither the evidence nor the model decides it"
        )
        return _joined(said, found, said, why)
    if found.label == said.label:
        surer = said.model_copy(update={"confidence": max(found.confidence, said.confidence)})
        return _joined(surer, found, said, "evidence and model agree")
    why = (
        "the evidence decided what the model left open"
        if said.label == "Undecided"
        else "evidence comes before a model"
    )
    return _joined(found, found, said, why)


def _joined(winner: Verdict, found: Verdict, said: Verdict, why: str) -> Verdict:
    evidence = tuple(dict.fromkeys((*winner.evidence, *found.evidence, *said.evidence)))[:_MAX_EVIDENCE]
    of_model = [f"model ({_sure(said)}): {reason}" for reason in said.reasons or ("no reason given",)]
    of_evidence = [f"evidence ({_sure(found)}): {reason}" for reason in found.reasons or ("no reason given",)]
    reasons = (why, *of_evidence[: _MAX_REASONS - 1 - len(of_model)], *of_model)
    return winner.model_copy(update={"reasons": reasons, "evidence": evidence, "model": said.model})


def _sure(verdict: Verdict) -> str:
    return verdict.label if verdict.label == "Undecided" else f"{verdict.label} {verdict.confidence:.2f}"


def without_model(found: Verdict, why: str) -> Verdict:
    """Return the evidence's verdict with the reason first why no model was heard."""
    reason = f"judged by the evidence alone: {why}"
    return found.model_copy(update={"reasons": (reason, *found.reasons[: _MAX_REASONS - 1])})


def is_audited(trajectory_id: str, rate: float = AUDIT_RATE) -> bool:
    """Tell whether the verdict on this trajectory is audited: the same answer for the same id, `rate` of all ids."""
    drawn = int.from_bytes(hashlib.sha256(trajectory_id.encode("utf-8", "replace")).digest()[:8])
    return drawn < rate * 2**64


def audit_event(trajectory_id: str, judged: Judged, at: datetime, rate: float = AUDIT_RATE) -> Event | None:
    """Return the line of the audit trail that compares the model's verdict with the evidence's.

    None: no model judged, or this trajectory is not drawn.
    """
    if judged.by_model is None or not is_audited(trajectory_id, rate):
        return None
    sides = {"model": judged.by_model, "evidence": judged.by_evidence, "combined": judged.verdict}
    data: dict[str, JsonValue] = {name: verdict.label for name, verdict in sides.items()}
    return Event(AUDITED, at, trajectory_id, {**data, "judge": judged.by_model.model})


def audited_pairs(events: Iterable[Event]) -> list[tuple[Label, Label]]:
    """Return (the model's label, the evidence's label) of each audit; events that hold none are passed over."""
    labels = ((event.data.get("model"), event.data.get("evidence")) for event in events)
    return [(said, found) for said, found in labels if said in _LABELS and found in _LABELS]


def confusion(pairs: Iterable[tuple[Label, Label]]) -> dict[str, dict[str, int]]:
    """Return how often the model said the first label (outer key) where the evidence said the second (inner key)."""
    table: dict[str, dict[str, int]] = {said: dict.fromkeys(_LABELS, 0) for said in _LABELS}
    for said, found in pairs:
        table[said][found] += 1
    return table
