"""The operation that says whether a task was met: from evidence, a model or the agent's own word."""

import asyncio
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from pydantic import JsonValue

from swarm_memory.schema.base import TRAJECTORY, new_id
from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict
from swarm_memory.tools.guard.redact import archivable, redact, stored
from swarm_memory.tools.judge.evidence import HINT, HINTS, Signal, signals_of
from swarm_memory.tools.judge.model import judge_by_model
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.reading import Reading, read

MAX_CONFIDENCE, MAX_SUCCESS = 0.97, 0.9
"""Evidence read by rules is never surer than this; of a Success less so, since a check may look at something else."""

OUTWEIGHS = 0.85
"""Evidence as sure as this wins over the agent's own verdict."""

HARD = 1.0
"""Log-odds from which checks that contradict each other leave a verdict open."""

HARD_CHECK = 1.3
"""Log-odds from which no model's word stands against a check: a test or a build that was there and had the last word,
or one that the task asks for. One that a later change made stale weighs less, one of the agent's own much less."""

SOFT_WEIGHT = 0.5
"""Of evidence without a hard check, against a model that read the same signs among its facts."""

AUDIT_RATE = 0.05
"""Share of the verdicts that are compared with what the evidence says."""

AUDITED = "judge.audited"
"""Kind of the event that an audit leaves."""

_LABELS: tuple[Label, ...] = get_args(Label)
_MIN_OBSERVED = 0.2
_MAX_SIGNALS, _MAX_REASONS, _MAX_EVIDENCE, _MAX_REASON_CHARS = 8, 20, 30, 300


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

    It is the agent's own where it gave one that stands; else that of the toolbox's chat model and the evidence
    together; without a chat model, or where it is not to be had, that of the evidence. Raises `InputError` when the
    agent's verdict names steps that the trajectory does not have.
    """
    reading = read(given)
    trajectory = reading.trajectory
    found, signals = await asyncio.to_thread(_by_evidence, reading, toolbox.settings)
    if agent_verdict is not None:
        return Judged(weigh_agent_verdict(agent_verdict, found, trajectory), found, None)
    if toolbox.chat is None or trajectory.broken_off is not None:
        return Judged(found, found, None)
    return await judge_with_fallback(toolbox.chat, trajectory, toolbox.settings, found, signals)


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


def judge_by_evidence(trajectory: Trajectory, settings: Settings) -> Verdict:
    """Judge without any model.

    The weights of the signals (log-odds at even prior odds) are added up, those of hints up to 0.4 on either side; the
    confidence is the logistic function of the sum, at most 0.97, of a Success 0.9. Undecided when that is below
    `settings.judge.min_confidence`, when hard evidence stands on both sides, or when nothing but the agent's own words
    speaks for it.
    """
    return _by_evidence(read(trajectory), settings)[0]


def _by_evidence(reading: Reading, settings: Settings) -> tuple[Verdict, tuple[Signal, ...]]:
    """Where the host's own connection broke a task off, nothing speaks: it is no fault of the agent's, and no end."""
    if (said := reading.trajectory.broken_off) is not None:
        shown = one_line(redact(said).text, _MAX_REASON_CHARS)
        return _undecided(f"the host's connection to its model broke the task off: {shown}"), ()
    signals = signals_of(reading)
    return weigh(signals, reading.calls, settings.judge.min_confidence), signals


def weigh(signals: Sequence[Signal], calls: Sequence[Call], min_confidence: float) -> Verdict:
    """Combine signals into a verdict; see `judge_by_evidence`."""
    if not calls:
        return _undecided("no tool was called: words alone prove nothing")
    if not signals:
        return _undecided("nothing that was done shows whether the task was met")
    total = log_odds_of(signals)
    observed = log_odds_of([signal for signal in signals if signal.source != "agent"])
    confidence = min(1 / (1 + math.exp(-abs(total))), MAX_CONFIDENCE if total < 0 else MAX_SUCCESS)
    reasons = tuple(f"{signal.reason} ({signal.weight:+.2f})" for signal in signals[:_MAX_SIGNALS])
    evidence = tuple(dict.fromkeys(step for signal in signals for step in signal.steps))[:_MAX_EVIDENCE]
    hard = {signal.weight > 0 for signal in signals if signal.source == "check" and abs(signal.weight) >= HARD}
    if len(hard) == 2:
        return _undecided("the last checks contradict each other", reasons, evidence)
    if confidence < min_confidence:
        return _undecided("the evidence is too weak or contradicts itself", reasons, evidence)
    if observed * total <= 0 or abs(observed) < _MIN_OBSERVED:
        return _undecided("only the agent's own words speak for it", reasons, evidence)
    label = "Success" if total > 0 else "Failure"
    return Verdict(label=label, confidence=round(confidence, 3), reasons=reasons, evidence=evidence, judge="evidence")


def log_odds_of(signals: Sequence[Signal]) -> float:
    """Return the sum of the weights, where all hints of one side count for at most 0.4 together."""
    firm = sum(signal.weight for signal in signals if abs(signal.weight) > HINT)
    hints = [signal.weight for signal in signals if abs(signal.weight) <= HINT]
    speaking_for, against = (sum(weight for weight in hints if weight * sign > 0) for sign in (1, -1))
    return firm + min(speaking_for, HINTS) + max(against, -HINTS)


def _undecided(why: str, reasons: tuple[str, ...] = (), evidence: tuple[str, ...] = ()) -> Verdict:
    return Verdict(label="Undecided", confidence=0.0, reasons=(why, *reasons), evidence=evidence, judge="evidence")


def weigh_agent_verdict(given: Verdict, found: Verdict, trajectory: Trajectory) -> Verdict:
    """Return the agent's verdict when the evidence lets it stand.

    Evidence of the other label wins: with 0.85 and more its verdict is taken, with less the result is Undecided; both
    reasons are kept. Raises `InputError` for evidence ids that are not steps of the trajectory.
    """
    unknown = sorted(set(given.evidence) - {step.id for step in trajectory.steps})
    if unknown:
        raise InputError(f"verdict.evidence names steps that the trajectory does not have: {', '.join(unknown[:5])}")
    opposed = {given.label, found.label} == {"Success", "Failure"}
    said = tuple(f"agent: {reason}" for reason in given.reasons[:_MAX_SIGNALS]) or (f"agent: {given.label}",)
    if opposed and found.confidence >= OUTWEIGHS:
        why = f"the evidence contradicts the agent's verdict {given.label}"
        return found.model_copy(update={"reasons": (why, *found.reasons, *said)})
    if opposed:
        reasons = ("the agent's verdict and the evidence contradict each other", *said, *found.reasons)
        return _undecided(reasons[0], reasons[1:], found.evidence).model_copy(update={"judge": "agent"})
    confidence = 0.0 if given.label == "Undecided" else min(given.confidence, MAX_CONFIDENCE)
    return given.model_copy(update={"judge": "agent", "confidence": confidence, "model": None})


async def judge_with_fallback(
    model: ChatModel, trajectory: Trajectory, settings: Settings, found: Verdict, signals: Sequence[Signal]
) -> Judged:
    """Return the verdict of model and evidence together; that of the evidence alone when the model is not to be had.

    `found` and `signals` are what the evidence says of the same trajectory. The first reason says how it was made.
    """
    try:
        said = await judge_by_model(model, trajectory, settings)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, _MAX_REASON_CHARS)
        return Judged(without_model(found, why), found, None)
    return Judged(combine(found, said, signals, settings.judge.min_confidence), found, said)


def hard_label(signals: Iterable[Signal]) -> Label | None:
    """Return what the hard checks say, all of them; None where there are none or they contradict each other."""
    signs = {signal.weight > 0 for signal in signals if signal.source == "check" and abs(signal.weight) >= HARD_CHECK}
    if len(signs) != 1:
        return None
    return "Success" if signs.pop() else "Failure"


def combine(found: Verdict, said: Verdict, signals: Sequence[Signal], min_confidence: float) -> Verdict:
    """Return one verdict from that of the evidence (`found`) and that of a model (`said`), with the reasons of both.

    - Where one is undecided the other stands; but no model turns a check that failed at the end into a Success.
    - Where they agree the surer counts; both saw the same steps, so that their certainties do not add up.
    - Where they contradict each other hard evidence of failure wins. Otherwise their log-odds are subtracted, of soft
      evidence half of them, for the model was told of it: what is left says which one stands and how sure it is; below
      `min_confidence` the result is Undecided.

    `judge` says whose label it is; `model` names the model either way.
    """
    is_refuted = said.label == "Success" and hard_label(signals) == "Failure"
    if found.label == "Undecided" or said.label == "Undecided":
        return _one_decided(found, said, is_refuted)
    if found.label == said.label:
        return _joined(said, found, said, max(found.confidence, said.confidence), "evidence and model agree")
    if is_refuted:
        why = "hard evidence of failure outweighs the model's Success"
        return _joined(found, found, said, found.confidence, why)
    weight = 1.0 if hard_label(signals) == found.label else SOFT_WEIGHT
    net = _log_odds(said.confidence) - weight * _log_odds(found.confidence)
    confidence = round(1 / (1 + math.exp(-abs(net))), 3)
    if confidence < max(min_confidence, 0.5):
        return _left_open(found, said, f"the evidence says {found.label} and the model {said.label}, neither surer")
    winner, name = (said, "model") if net > 0 else (found, "evidence")
    return _joined(winner, found, said, confidence, f"the {name} is the surer of two that contradict each other")


def _one_decided(found: Verdict, said: Verdict, is_refuted: bool) -> Verdict:
    if is_refuted:
        return _left_open(found, said, "a check failed at the end: the model's Success does not stand against it")
    if said.label != "Undecided":
        return _joined(said, found, said, said.confidence, "the model decided what the evidence left open")
    if found.label != "Undecided":
        return _joined(found, found, said, found.confidence, "the evidence decided what the model left open")
    return _left_open(found, said, "neither the evidence nor the model decides it")


def _joined(winner: Verdict, found: Verdict, said: Verdict, confidence: float, why: str) -> Verdict:
    evidence = tuple(dict.fromkeys((*winner.evidence, *found.evidence, *said.evidence)))[:_MAX_EVIDENCE]
    update = {"confidence": confidence, "reasons": _reasons(found, said, why), "evidence": evidence}
    return winner.model_copy(update=update | {"model": said.model})


def _left_open(found: Verdict, said: Verdict, why: str) -> Verdict:
    return _joined(said.model_copy(update={"label": "Undecided"}), found, said, 0.0, why)


def _reasons(found: Verdict, said: Verdict, why: str) -> tuple[str, ...]:
    """Return why, then the reasons of each with its label: both are kept whoever won."""
    of_model = [f"model ({_sure(said)}): {reason}" for reason in said.reasons or ("no reason given",)]
    of_evidence = [f"evidence ({_sure(found)}): {reason}" for reason in found.reasons or ("no reason given",)]
    room = _MAX_REASONS - 1 - len(of_model)
    return (why, *of_evidence[:room], *of_model)


def _sure(verdict: Verdict) -> str:
    return verdict.label if verdict.label == "Undecided" else f"{verdict.label} {verdict.confidence:.2f}"


def _log_odds(confidence: float) -> float:
    bounded = min(max(confidence, 0.01), 0.99)
    return math.log(bounded / (1 - bounded))


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
