"""Test-time scaling (MaTTS): one task done several times, what each rollout gave, and how the whole run stands."""

from statistics import fmean
from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import RUN, Model, Scope, Timestamp, Unit, new_id
from swarm_memory.schema.memory import Distiller
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict

ScalingMode = Literal["parallel", "sequential"]
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
RolloutStatus = Literal["finished", "timed_out", "failed"]
"""Ended by itself; ended by its time limit, with what it had done until then; gave no trajectory."""

MAX_ROLLOUTS = 32


class MattsRequest(Model):
    """What is asked of scaling."""

    task: str
    """May be empty where `run_id` names a run that is there."""
    mode: ScalingMode = "parallel"
    count: int | None = None
    """Rollouts of parallel scaling, refinements of sequential scaling; None: as the settings say."""
    task_id: str | None = None
    run_id: str = Field(default_factory=lambda: new_id(RUN))
    """Of a run that was interrupted or failed: it is gone on with."""


class RolloutRequest(Model):
    """What a runner is asked to do once."""

    run_id: str
    task_id: str
    task: str
    """As it was asked, without anything added."""
    prompt: str
    """What the agent is given: notes, task, and in a refinement the record of the former attempt."""
    number: int = Field(ge=1)
    """From 1; in sequential scaling 2 refines 1, and so on."""
    mode: ScalingMode
    seed: int = Field(ge=0)
    temperature: float = Field(ge=0, le=2)
    timeout_s: float = Field(gt=0)
    memory_ids: tuple[str, ...] = ()
    """Memories whose notes stand in the prompt."""


class RunnerAnswer(Model):
    """What a runner gives back of one rollout."""

    status: RolloutStatus
    trajectory: Trajectory | None = None
    """What was done; None where nothing of it is left."""
    error: str | None = None
    """Why it failed or was ended."""
    agent_verdict: Verdict | None = None
    """The acting agent's own word on it, where it gave one."""


class Rollout(Model):
    """One rollout as the run remembers it; of one that was made before the run no seed and temperature are known."""

    number: int
    status: RolloutStatus
    seed: int | None = None
    temperature: float | None = None
    trajectory_id: str | None = None
    label: Label | None = None
    confidence: Unit = 0.0
    is_hard: bool = False
    """Whether the verdict rests on hard evidence: a test or build that was the last word."""
    steps: int = 0
    """Tool calls; messages of the agent where it called no tool."""
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()
    """What the agent noted while it checked and corrected."""
    error: str | None = None


class RunSummary(Model):
    """How a run stands; grows with every rollout and is what a restart goes on from."""

    runner: str
    memory_ids: tuple[str, ...] = ()
    preamble: str = ""
    """The notes that every rollout was given: the same after a restart."""
    rollouts: tuple[Rollout, ...] = ()
    """Those that have ended, by number."""
    best: int | None = None
    """Number of the rollout that is returned; None when none gave a trajectory."""
    best_folder: str | None = None
    """Where the files of the best rollout lie, for a runner that works on files."""
    stored: tuple[str, ...] = ()
    reinforced: tuple[str, ...] = ()
    distiller: Distiller | None = None
    prompt_hash: str | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()
    """What the comparison found besides the items."""
    reason: str | None = None
    """Why no items, or fewer, were distilled, or why the run failed."""


class MattsRun(Model):
    """One run: a row of `matts_runs`."""

    run_id: str
    scope: Scope
    task_id: str
    task: str
    mode: ScalingMode
    k: int = Field(ge=1, le=MAX_ROLLOUTS)
    """Rollouts of parallel scaling; refinements of sequential scaling, which come after a first attempt."""
    status: RunStatus = "queued"
    summary: RunSummary
    created_at: Timestamp

    @property
    def total(self) -> int:
        """How many rollouts there are at most."""
        return self.k + 1 if self.mode == "sequential" else self.k

    @property
    def lift(self) -> float | None:
        """Success of the rollout that was chosen, 1 or 0, less the mean of single attempts; None: none was decided.

        A single attempt is any rollout of parallel scaling, and the first one of sequential scaling.
        """
        decided = [rollout for rollout in self.summary.rollouts if rollout.label in ("Success", "Failure")]
        single = [float(each.label == "Success") for each in decided[: 1 if self.mode == "sequential" else None]]
        chosen = self.rollout(self.summary.best) if self.summary.best is not None else None
        return (chosen is not None and chosen.label == "Success") - fmean(single) if single else None

    def rollout(self, number: int) -> Rollout | None:
        """Return a rollout that has ended."""
        return next((each for each in self.summary.rollouts if each.number == number), None)

    def with_rollout(self, ended: Rollout) -> "MattsRun":
        """Return the run with a rollout that has ended; it takes the place of a former one of its number."""
        others = (each for each in self.summary.rollouts if each.number != ended.number)
        rollouts = tuple(sorted((*others, ended), key=lambda each: each.number))
        return self.model_copy(update={"summary": self.summary.model_copy(update={"rollouts": rollouts})})

    def completed(self, summary: RunSummary) -> "MattsRun":
        """Return the run as it ended well."""
        return self.model_copy(update={"status": "completed", "summary": summary})

    def failed(self, reason: str) -> "MattsRun":
        """Return the run as it failed; its rollouts stay."""
        summary = self.summary.model_copy(update={"reason": reason})
        return self.model_copy(update={"status": "failed", "summary": summary})
