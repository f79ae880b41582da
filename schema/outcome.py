"""What came of a task, what that changed in its memories, and what the outcomes of many tasks add up to."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model, Timestamp, Unit
from swarm_memory.schema.trajectory import Judge, Label, TrajectorySource

UseMethod = Literal["cited", "overlap", "none"]
"""How it was seen that a memory was used: the agent named it, its actions match it, or it was not seen."""

Arm = Literal["memory", "held_out", "nothing_fitted"]
"""Whether a task had memories, was kept from those that fitted it, or would have had none."""

OutcomeStatus = Literal["credited", "already_credited", "undecided", "nothing_injected"]

Conclusion = Literal["too few tasks to tell", "no difference shown", "better with memory", "worse with memory"]


class Use(Model):
    """Whether a task used a memory that it was given."""

    memory_id: str
    method: UseMethod
    overlap: Unit = 0.0
    """The share of what the memory names that the task's actions took from it."""


class Credit(Use):
    """What one task's outcome changed in one memory."""

    change: float = Field(ge=-1, le=1)
    """What the rule asks for."""
    worked: bool | None = None
    """What a fix did against its own error, which counts in place of the task's label; None: it was not tried."""
    applied: float = Field(default=0.0, ge=-1, le=1)
    """What the confidence really changed by: at 0 and 1 it stops."""


class TaskFigures(Model, extra="ignore"):
    """What a task took; of earlier versions a bank holds more. None: the host did not say."""

    steps: int | None = Field(default=None, ge=0)
    """Actions of the agent: tool calls, or messages where it called no tool."""
    tokens: int | None = Field(default=None, ge=0)
    """Input, output and what was written to the cache; what was read from the cache again is not counted."""
    duration_s: float | None = Field(default=None, ge=0)
    failed_calls: int | None = Field(default=None, ge=0)
    """Calls of tools that failed."""


class OutcomeRecord(Model, extra="ignore"):
    """The outcome of one task. A task has one: a later version of it takes the place of the former.

    Beside it a bank keeps where its figure stands.
    """

    task_id: str
    digest: str
    """Of the trajectory that it rests on; empty without one."""
    label: Label
    judge: Judge
    given: bool = False
    """Somebody gave the label for this task: what evidence says of a later version does not change it."""
    arm: Arm
    randomised: bool = False
    """Whether tasks were being held out at random at that time: only then both arms can be compared."""
    credits: tuple[Credit, ...] = ()
    rested: tuple[str, ...] = ()
    """Ids of memories that fitted and were not shown, since they are on trial."""
    figures: TaskFigures = Field(default_factory=TaskFigures)
    at: Timestamp
    """When the task ended; when the outcome was recorded, where that is not known."""
    status: OutcomeStatus = "credited"

    @property
    def used(self) -> int:
        """How many memories the task was seen to use."""
        return sum(credit.method != "none" for credit in self.credits)


class RecordedTask(Model):
    """One task as a list shows it, by one trajectory: mostly the newest."""

    trajectory_id: str
    task_id: str
    task: str
    """The beginning of what was asked."""
    is_blank: bool
    """Whether the words were removed or forgotten."""
    source: TrajectorySource | None
    """None: it was written before sources were."""
    agent_id: str | None
    session_id: str | None
    began: Timestamp | None
    ended: Timestamp
    """When it was recorded, where it is not known when it ended."""
    label: Label | None
    """None: nobody judged it."""
    confidence: Unit | None
    judge: Judge | None
    failures: int | None
    """Calls of tools that failed; None: not counted."""
    run_id: str | None
    """The run that learned from it."""
    matts_run_id: str | None
    taught: int
    """Memories that came from the task, whatever became of them."""
    outcome: OutcomeRecord | None
    """What the task had of memories, and what it took."""


class ArmFigures(Model):
    """The tasks of one side of the comparison."""

    tasks: int = Field(ge=0)
    decided: int = Field(ge=0)
    """Those with the label Success or Failure; the success rate is of these."""
    successes: int = Field(ge=0)
    success_rate: float | None = None
    mean_steps: float | None = None
    mean_failed_calls: float | None = None
    mean_tokens: float | None = None


class Difference(Model):
    """One figure with memory less the same without, and its 95 % interval."""

    value: float
    low: float
    high: float
    n_with: int
    n_without: int
    conclusion: Conclusion


class Effect(Model):
    """What memories did for the tasks of one scope."""

    basis: Literal["hold_out", "observed"]
    """`hold_out`: tasks were kept from their memories at random, so that the difference is the memories' doing.
    `observed`: tasks for which nothing fitted are other tasks, and the difference may have any cause."""
    with_memory: ArmFigures
    without_memory: ArmFigures
    success_rate: Difference | None = None
    """None while one side has no decided task."""
    steps: Difference | None = None
    """None while one side has fewer than two tasks of which it is known; of failed calls and tokens too."""
    failed_calls: Difference | None = None
    tokens: Difference | None = None
    says: str
    """The same in one sentence."""
