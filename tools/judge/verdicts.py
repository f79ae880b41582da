"""How the verdicts of evidence and of a model become one, and which are audited; it asks nobody and stores nothing."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.tools.judge.evidence import Signal
from swarm_memory.tools.ports.journal import Event

MAX_MODEL_CONFIDENCE = 0.9
"""A model is believed no further than this: what models say of their own certainty is too high."""

HARD_CHECK = 1.3
"""Log-odds from which a check is hard evidence here: a test or a build that was the last word, with no change after
it. A check that a later change made stale weighs less."""

AUDIT_RATE = 0.05
"""Share of the verdicts that are compared with what the evidence says."""

AUDITED = "judge.audited"
"""Kind of the event that an audit leaves."""

_LABELS: tuple[str, ...] = ("Success", "Failure", "Undecided")
_MAX_REASONS, _MAX_EVIDENCE = 20, 30


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with the two that it was made of."""

    verdict: Verdict
    by_evidence: Verdict
    by_model: Verdict | None
    """None: the model could not be asked."""


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
    - Where they contradict each other hard evidence of failure wins. Otherwise their log-odds are subtracted: what is
      left says which one stands and how sure it is; below `min_confidence` the result is Undecided.

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
    net = _log_odds(said.confidence) - _log_odds(found.confidence)
    confidence = round(1 / (1 + math.exp(-abs(net))), 3)
    if confidence < max(min_confidence, 0.5):
        return _undecided(found, said, f"the evidence says {found.label} and the model {said.label}, neither surer")
    winner, name = (said, "model") if net > 0 else (found, "evidence")
    return _joined(winner, found, said, confidence, f"the {name} is the surer of two that contradict each other")


def _one_decided(found: Verdict, said: Verdict, is_refuted: bool) -> Verdict:
    if is_refuted:
        return _undecided(found, said, "a check failed at the end: the model's Success does not stand against it")
    if said.label != "Undecided":
        return _joined(said, found, said, said.confidence, "the model decided what the evidence left open")
    if found.label != "Undecided":
        return _joined(found, found, said, found.confidence, "the evidence decided what the model left open")
    return _undecided(found, said, "neither the evidence nor the model decides it")


def _joined(winner: Verdict, found: Verdict, said: Verdict, confidence: float, why: str) -> Verdict:
    evidence = tuple(dict.fromkeys((*winner.evidence, *found.evidence, *said.evidence)))[:_MAX_EVIDENCE]
    update = {"confidence": confidence, "reasons": _reasons(found, said, why), "evidence": evidence}
    return winner.model_copy(update=update | {"model": said.model})


def _undecided(found: Verdict, said: Verdict, why: str) -> Verdict:
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
    return [(cast(Label, said), cast(Label, found)) for said, found in labels if said in _LABELS and found in _LABELS]


def confusion(pairs: Iterable[tuple[Label, Label]]) -> dict[str, dict[str, int]]:
    """Return how often the model said the first label (outer key) where the evidence said the second (inner key)."""
    table = {said: dict.fromkeys(_LABELS, 0) for said in _LABELS}
    for said, found in pairs:
        table[said][found] += 1
    return table
