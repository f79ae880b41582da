"""The operation that says whether a task was met: from evidence, a model or the agent's own word; it stores nothing."""

import asyncio
import math
from collections.abc import Sequence

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.judge.evidence import Signal, signals_of
from swarm_memory.tools.judge.model import judge_with_fallback
from swarm_memory.tools.judge.verdicts import Judged
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call, calls_of

MAX_CONFIDENCE = 0.97
"""Evidence read by rules is never surer than this."""

OUTWEIGHS = 0.85
"""Evidence as sure as this wins over the agent's own verdict."""

HARD = 1.0
"""Log-odds from which one signal of a check counts as hard evidence."""

_MIN_OBSERVED = 0.2
_MAX_REASONS, _MAX_EVIDENCE = 8, 30


async def judge(toolbox: Toolbox, trajectory: Trajectory, *, agent_verdict: Verdict | None = None) -> Verdict:
    """Return the verdict on a trajectory, as `judge_in_full` comes to it."""
    return (await judge_in_full(toolbox, trajectory, agent_verdict=agent_verdict)).verdict


async def judge_in_full(toolbox: Toolbox, trajectory: Trajectory, *, agent_verdict: Verdict | None = None) -> Judged:
    """Return the verdict with those that it was made of.

    It is the agent's own where it gave one that stands; else that of the toolbox's chat model and the evidence
    together; without a chat model, or where it is not to be had, that of the evidence. Raises `InputError` when the
    agent's verdict names steps that the trajectory does not have.
    """
    found, signals = await asyncio.to_thread(_by_evidence, trajectory, toolbox.settings)
    if agent_verdict is not None:
        return Judged(weigh_agent_verdict(agent_verdict, found, trajectory), found, None)
    if toolbox.chat is None:
        return Judged(found, found, None)
    return await judge_with_fallback(toolbox.chat, trajectory, toolbox.settings, found, signals)


def judge_by_evidence(trajectory: Trajectory, settings: Settings) -> Verdict:
    """Judge without any model.

    The weights of the signals (log-odds at even prior odds) are added up; the confidence is the logistic function of
    the sum, at most 0.97. Undecided when that is below `settings.judge.min_confidence`, when hard evidence stands on
    both sides, or when nothing but the agent's own words speaks for it.
    """
    return _by_evidence(trajectory, settings)[0]


def _by_evidence(trajectory: Trajectory, settings: Settings) -> tuple[Verdict, tuple[Signal, ...]]:
    calls = calls_of(trajectory)
    signals = signals_of(trajectory, calls)
    return weigh(signals, calls, settings.judge.min_confidence), signals


def weigh(signals: Sequence[Signal], calls: Sequence[Call], min_confidence: float) -> Verdict:
    """Combine signals into a verdict; see `judge_by_evidence`."""
    if not calls:
        return _undecided("no tool was called: words alone prove nothing")
    if not signals:
        return _undecided("nothing that was done shows whether the task was met")
    total = sum(signal.weight for signal in signals)
    observed = sum(signal.weight for signal in signals if signal.source != "agent")
    confidence = min(1 / (1 + math.exp(-abs(total))), MAX_CONFIDENCE)
    reasons = tuple(f"{signal.reason} ({signal.weight:+.2f})" for signal in signals[:_MAX_REASONS])
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
    said = tuple(f"agent: {reason}" for reason in given.reasons[:_MAX_REASONS]) or (f"agent: {given.label}",)
    if opposed and found.confidence >= OUTWEIGHS:
        why = f"the evidence contradicts the agent's verdict {given.label}"
        return found.model_copy(update={"reasons": (why, *found.reasons, *said)})
    if opposed:
        reasons = ("the agent's verdict and the evidence contradict each other", *said, *found.reasons)
        return _undecided(reasons[0], reasons[1:], found.evidence).model_copy(update={"judge": "agent"})
    confidence = 0.0 if given.label == "Undecided" else min(given.confidence, MAX_CONFIDENCE)
    return given.model_copy(update={"judge": "agent", "confidence": confidence, "model": None})
