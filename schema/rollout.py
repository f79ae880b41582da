"""Test-time scaling (MaTTS): one task done several times, the result of each rollout, and the state of the run."""

from statistics import fmean
from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import RUN, Model, Scope, Timestamp, Unit, new_id
from swarm_memory.schema.memory import Distiller
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict

ScalingMode = Literal["parallel", "sequential"]
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
RolloutStatus = Literal["finished", "timed_out", "failed"]
"""finished: by itself; timed_out: stopped at its time limit, keeping what it had done; failed: left no trajectory."""

MAX_ROLLOUTS = 32


class MattsRequest(Model):
    """A request to scale one task."""

    task: str
    """May be empty where `run_id` names an existing run."""
    mode: ScalingMode = "parallel"
    count: int | None = None
    """The number of rollouts (parallel) or refinements (sequential); None: as the settings say."""
    task_id: str | None = None
    run_id: str = Field(default_factory=lambda: new_id(RUN))
    """The id of a run that was interrupted or failed resumes that run."""


class RolloutRequest(Model):
    """One attempt that a runner is asked to make."""

    run_id: str
    task_id: str
    task: str
    """The task as requested, with nothing added."""
    prompt: str
    """What the agent is given: task, notes and, in a refinement, the record of the previous attempt."""
    number: int = Field(ge=1)
    """Counted from 1; in sequential scaling 2 refines 1, and so on."""
    mode: ScalingMode
    seed: int = Field(ge=0)
    temperature: float = Field(ge=0, le=2)
    timeout_s: float = Field(gt=0)
    memory_ids: tuple[str, ...] = ()
    """Ids of the memories whose notes are in the prompt."""


class RunnerAnswer(Model):
    """What a runner returns for one rollout."""

    status: RolloutStatus
    trajectory: Trajectory | None = None
    """What was done; None where no record of it is left."""
    error: str | None = None
    """Why it failed or was stopped."""
    agent_verdict: Verdict | None = None
    """The acting agent's own verdict, where it gave one."""


class Rollout(Model):
    """One rollout as the run keeps it; seed and temperature are unknown where the work was done before the run."""

    number: int
    status: RolloutStatus
    seed: int | None = None
    temperature: float | None = None
    trajectory_id: str | None = None
    label: Label | None = None
    confidence: Unit = 0.0
    is_hard: bool = False
    """Whether hard evidence, such as a final test or build, gives the same verdict."""
    steps: int = 0
    """Tool calls, or messages of the agent where it called no tool."""
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()
    """What the agent noted while it checked and corrected."""
    error: str | None = None


class RunSummary(Model):
    """The state of a run; it grows with every rollout, and a restart resumes from it."""

    runner: str
    memory_ids: tuple[str, ...] = ()
    preamble: str = ""
    """The notes that every rollout was given; they stay the same after a restart."""
    rollouts: tuple[Rollout, ...] = ()
    """The rollouts that have ended, in the order of their numbers."""
    best: int | None = None
    """Number of the rollout that is returned; None when no rollout left a trajectory."""
    best_folder: str | None = None
    """The folder with the files of the best rollout, for a runner that works on files."""
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
    """The number of rollouts (parallel), or of refinements after a first attempt (sequential)."""
    status: RunStatus = "queued"
    summary: RunSummary
    created_at: Timestamp

    @property
    def total(self) -> int:
        """The greatest number of rollouts that the run can have."""
        return self.k + 1 if self.mode == "sequential" else self.k

    @property
    def lift(self) -> float | None:
        """Success (1 or 0) of the chosen rollout minus the mean of single attempts; None: no rollout was decided.

        A single attempt is any decided rollout of parallel scaling, and the first decided one of sequential scaling.
        """
        decided = [rollout for rollout in self.summary.rollouts if rollout.label in ("Success", "Failure")]
        single = [float(each.label == "Success") for each in decided[: 1 if self.mode == "sequential" else None]]
        chosen = self.rollout(self.summary.best) if self.summary.best is not None else None
        return (chosen is not None and chosen.label == "Success") - fmean(single) if single else None

    def rollout(self, number: int) -> Rollout | None:
        """Return the rollout with a number; None where it has not ended."""
        return next((each for each in self.summary.rollouts if each.number == number), None)

    def with_rollout(self, ended: Rollout) -> "MattsRun":
        """Return the run with a rollout that has ended; it replaces an earlier one of the same number."""
        others = (each for each in self.summary.rollouts if each.number != ended.number)
        rollouts = tuple(sorted((*others, ended), key=lambda each: each.number))
        return self.model_copy(update={"summary": self.summary.model_copy(update={"rollouts": rollouts})})

    def completed(self, summary: RunSummary) -> "MattsRun":
        """Return the run as completed, with this summary."""
        return self.model_copy(update={"status": "completed", "summary": summary})

    def failed(self, reason: str) -> "MattsRun":
        """Return the run as failed, for a reason; its rollouts stay."""
        summary = self.summary.model_copy(update={"reason": reason})
        return self.model_copy(update={"status": "failed", "summary": summary})
