"""A memory item made of what was drawn from a judged trajectory: its provenance, and how far it is believed at first.

It asks nobody and stores nothing; whether the bank says the same already is not here (`novelty`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import Distiller, MemoryDraft, MemoryItem, Outcome, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.trust import repeats_what_was_told

ASSUMED_CONFIDENCE = 0.6
"""Stands for the judge's confidence in what an undecided trajectory proves within itself."""


class Drawing(Protocol):
    """How drafts were drawn, as a `Distillation` and a `Contrast` say it."""

    @property
    def distiller(self) -> Distiller: ...

    @property
    def prompt_hash(self) -> str | None: ...

    @property
    def model(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The trajectory that a draft was drawn from, as it was judged, and the run that drew it."""

    run_id: str
    scope: Scope
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    drawing: Drawing
    had: Sequence[MemoryItem] = ()
    """Memories that the task was given and nobody vouches for: what repeats them is hearsay."""


def drawn_item(draft: MemoryDraft, origin: Origin, *, outcome: Outcome, confidence: float, at: datetime) -> MemoryItem:
    """Return a draft as a new item, which is not prepared for the bank yet.

    Whether it is hearsay is looked for here, in time linear in the length of the trajectory.
    """
    provenance = Provenance(
        task_id=origin.trajectory.task_id,
        trajectory_id=origin.trajectory_id,
        session_id=origin.trajectory.session_id,
        agent_id=origin.trajectory.agent_id,
        evidence=draft.evidence,
        judge=origin.verdict.judge,
        distiller=origin.drawing.distiller,
        prompt_hash=origin.drawing.prompt_hash,
        model=origin.drawing.model,
        run_id=origin.run_id,
        hearsay=repeats_what_was_told(draft, origin.trajectory, origin.had),
    )
    return MemoryItem(
        id=new_id(MEMORY),
        scope=origin.scope,
        title=draft.title,
        description=draft.description,
        content=draft.content,
        tags=draft.tags,
        domain=draft.domain,
        outcome=outcome,
        confidence=confidence,
        created_at=at,
        provenance=provenance,
    )


def confidence_of(verdict: Verdict, settings: Settings) -> float:
    """Return the first confidence of an item: that of the judge times the prior of its outcome."""
    if verdict.label == "Failure":
        return round(verdict.confidence * settings.distill.failure_prior, 4)
    sure = ASSUMED_CONFIDENCE if verdict.label == "Undecided" else verdict.confidence
    return round(sure * settings.distill.success_prior, 4)


def mean_confidence(outcome: Outcome, verdicts: Iterable[Verdict], settings: Settings) -> float:
    """Return the first confidence of what several rollouts teach: the mean of what the verdicts of its side give."""
    sure = [confidence_of(verdict, settings) for verdict in verdicts if verdict.label == outcome]
    undecided = confidence_of(Verdict(label="Undecided", confidence=0.0, judge="evidence"), settings)
    return round(sum(sure) / len(sure), 4) if sure else undecided
