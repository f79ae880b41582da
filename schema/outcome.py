"""The outcome of a task, what it changed in the task's memories, and what the outcomes of many tasks add up to."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model, Timestamp, Unit
from swarm_memory.schema.trajectory import Judge, Label, TrajectorySource

UseMethod = Literal["cited", "overlap", "none"]
"""How the use of a memory was detected: the agent named it, its actions match it, or no use was detected."""

Arm = Literal["memory", "held_out", "nothing_fitted"]
"""Whether a task was shown memories, had the fitting ones withheld, or had none that fitted."""

OutcomeStatus = Literal["credited", "already_credited", "undecided", "nothing_injected"]

Conclusion = Literal["too few tasks to tell", "no difference shown", "better with memory", "worse with memory"]


class Use(Model):
    """Whether a task used a memory that it was shown."""

    memory_id: str
    method: UseMethod
    overlap: Unit = 0.0
    """The share of the names in the memory that the task's calls used before the agent could read them elsewhere."""


class Credit(Use):
    """What one task's outcome changed in one memory."""

    change: float = Field(ge=-1, le=1)
    """The change that the rule calls for."""
    worked: bool | None = None
    """Whether a fix ended its own error, which counts instead of the task's label; None: it was not tried."""
    applied: float = Field(default=0.0, ge=-1, le=1)
    """By how much the confidence really changed: it stops at 0 and 1."""


class TaskFigures(Model, extra="ignore"):
    """What a task took; None: the host did not say. Banks of earlier versions hold more figures."""

    steps: int | None = Field(default=None, ge=0)
    """Actions of the agent: tool calls, or messages where it called no tool."""
    tokens: int | None = Field(default=None, ge=0)
    """Tokens of input, of output and written to the cache; tokens read from the cache are not counted."""
    duration_s: float | None = Field(default=None, ge=0)
    failed_calls: int | None = Field(default=None, ge=0)
    """Tool calls that failed."""


class OutcomeRecord(Model, extra="ignore"):
    """The outcome of one task. A task has one: a later version of the task replaces it.

    A bank stores the position of the outcome's figure along with it.
    """

    task_id: str
    digest: str
    """The digest of the trajectory that the outcome rests on; empty without one."""
    label: Label
    judge: Judge
    given: bool = False
    """Whether somebody reported the label explicitly: what is judged later does not change it."""
    said_by: tuple[str, ...] = ()
    """The sessions and connections that its steps or its label came from, or may have come from."""
    arm: Arm
    randomised: bool = False
    """Whether tasks were being held out at random at that time: only then can both arms be compared."""
    credits: tuple[Credit, ...] = ()
    rested: tuple[str, ...] = ()
    """Ids of memories that fitted but were not shown, because they are on trial."""
    figures: TaskFigures = Field(default_factory=TaskFigures)
    at: Timestamp
    """When the task ended or, where that is not known, when the outcome was recorded."""
    status: OutcomeStatus = "credited"

    @property
    def used(self) -> int:
        """How many memories the task was seen to use."""
        return sum(credit.method != "none" for credit in self.credits)


class RecordedTask(Model):
    """One task as shown in a list, as one of its trajectories has it: mostly the newest."""

    trajectory_id: str
    task_id: str
    task: str
    """The beginning of the task's words."""
    is_blank: bool
    """Whether the task's words were removed or forgotten."""
    source: TrajectorySource | None
    """None: it was recorded before sources were."""
    agent_id: str | None
    session_id: str | None
    began: Timestamp | None
    ended: Timestamp
    """When the task ended or, where that is not known, when it was recorded."""
    label: Label | None
    """None: it was not judged."""
    confidence: Unit | None
    judge: Judge | None
    failures: int | None
    """Tool calls that failed; None: not counted."""
    run_id: str | None
    """The run that learned from it."""
    matts_run_id: str | None
    taught: int
    """How many memories came from the task, whatever became of them."""
    outcome: OutcomeRecord | None
    """Which memories the task had, and what it took (steps, tokens, time)."""


class ArmFigures(Model):
    """Figures of the tasks on one side of the comparison."""

    tasks: int = Field(ge=0)
    decided: int = Field(ge=0)
    """Tasks with the label Success or Failure; the success rate is taken over these."""
    successes: int = Field(ge=0)
    success_rate: float | None = None
    mean_steps: float | None = None
    mean_failed_calls: float | None = None
    mean_tokens: float | None = None


class Difference(Model):
    """One figure with memory minus the same figure without, and the 95 % interval of this difference."""

    value: float
    low: float
    high: float
    n_with: int
    n_without: int
    conclusion: Conclusion


class Effect(Model):
    """What memories did for the tasks of one scope."""

    basis: Literal["hold_out", "observed"]
    """`hold_out`: memories were withheld from tasks at random, so the difference is due to the memories.
    `observed`: the tasks for which nothing fitted are different tasks, so the difference may have any cause."""
    with_memory: ArmFigures
    without_memory: ArmFigures
    success_rate: Difference | None = None
    """None while one side has no decided task."""
    steps: Difference | None = None
    """None while this is known of fewer than two tasks on one side; likewise for failed calls and tokens."""
    failed_calls: Difference | None = None
    tokens: Difference | None = None
    says: str
    """The same in one sentence."""
