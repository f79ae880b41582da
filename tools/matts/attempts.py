"""Several attempts at one task as they are compared, and an item that comparing gave; how is not here."""

from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.memory import MemoryDraft, Outcome
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout as it is compared: its steps are called `r2-s4`, so that ids of several stand beside each other."""

    number: int
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label as the prompt gives it."""
        sure = "" if self.verdict.label == "Undecided" else f" ({self.verdict.confidence:.2f})"
        return f"== attempt {self.number}: {self.verdict.label}{sure} =="


@dataclass(frozen=True, slots=True)
class Drawn:
    """One item that the comparison gave."""

    draft: MemoryDraft
    outcome: Outcome
    attempt: int
    """The attempt that shows it best."""


def numbered(
    number: int, trajectory_id: str, trajectory: Trajectory, verdict: Verdict, notes: tuple[str, ...] = ()
) -> Attempt:
    """Return an attempt whose steps and calls carry its number."""
    steps = tuple(_numbered(step, number) for step in trajectory.steps)
    evidence = tuple(f"r{number}-{step}" for step in verdict.evidence)
    told = verdict.model_copy(update={"evidence": evidence})
    return Attempt(number, trajectory_id, trajectory.model_copy(update={"steps": steps}), told, notes)


def _numbered(step: Step, number: int) -> Step:
    call_id = f"r{number}-{step.call_id}" if step.call_id else None
    return step.model_copy(update={"id": f"r{number}-{step.id}", "call_id": call_id})


def merged(attempts: Sequence[Attempt]) -> Trajectory:
    """Return one trajectory of all attempts: what an item may name as its evidence."""
    steps = tuple(step for attempt in attempts for step in attempt.trajectory.steps)
    return attempts[0].trajectory.model_copy(update={"steps": steps})
