"""What came of a task: its label and figures, which memories it had, and what that changed in them."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model, Timestamp, Unit
from swarm_memory.schema.verdict import Judge, Label

UseMethod = Literal["cited", "overlap", "none"]
"""How it was seen that a memory was used: the agent named it, its actions match it, or it was not seen."""

Arm = Literal["memory", "held_out", "nothing_fitted"]
"""Whether a task had memories, was kept from those that fitted it, or would have had none."""

OutcomeStatus = Literal["credited", "already_credited", "undecided", "nothing_injected"]


class Use(Model):
    """Whether a task used a memory that it was given."""

    memory_id: str
    method: UseMethod
    overlap: Unit = 0.0
    """The share of what the memory names that the task's actions took from it."""


class Credit(Model):
    """What one task's outcome changed in one memory."""

    memory_id: str
    method: UseMethod
    overlap: Unit = 0.0
    change: float = Field(ge=-1, le=1)
    """What the rule asks for."""
    applied: float = Field(default=0.0, ge=-1, le=1)
    """What the confidence really changed by: at 0 and 1 it stops."""


class TaskFigures(Model):
    """What a task took. None: the host did not tell."""

    steps: int | None = Field(default=None, ge=0)
    """Actions of the agent: tool calls, or messages where it called no tool."""
    tokens: int | None = Field(default=None, ge=0)
    """Input, output and what was written to the cache; what was read from the cache again is not counted."""
    cost_usd: float | None = Field(default=None, ge=0)
    duration_s: float | None = Field(default=None, ge=0)


class OutcomeRecord(Model):
    """The outcome of one task. A task has one: a later version of it takes the place of the former."""

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
    figures: TaskFigures = TaskFigures()
    at: Timestamp
    """When the task ended; when the outcome was recorded, where that is not known."""
    status: OutcomeStatus = "credited"

    @property
    def used(self) -> int:
        """How many memories the task was seen to use."""
        return sum(credit.method != "none" for credit in self.credits)
