"""What the outcomes of tasks add up to: the effect of memory with its intervals, and the figures of each week."""

from datetime import date
from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model

Conclusion = Literal["too few tasks to tell", "no difference shown", "better with memory", "worse with memory"]
Basis = Literal["hold_out", "observed"]


class Arm(Model):
    """The tasks of one side of the comparison."""

    tasks: int = Field(ge=0)
    decided: int = Field(ge=0)
    """Those with the label Success or Failure; the success rate is of these."""
    successes: int = Field(ge=0)
    success_rate: float | None = None
    mean_steps: float | None = None
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

    basis: Basis
    """`hold_out`: tasks were kept from their memories by lot, so that the difference is the memories' doing.
    `observed`: tasks for which nothing fitted are other tasks, and the difference may have any cause."""
    with_memory: Arm
    without_memory: Arm
    success_rate: Difference | None = None
    """None while one side has no decided task."""
    steps: Difference | None = None
    """None while one side has fewer than two tasks that tell it; of tokens too."""
    tokens: Difference | None = None
    says: str
    """The same in one sentence."""


class WeekMetrics(Model):
    """One week of one scope. What cannot be known is None."""

    week: date
    """Its Monday, UTC."""
    tasks: int
    successes: int
    failures: int
    undecided: int
    success_rate: float | None = None
    success_rate_with_memory: float | None = None
    success_rate_without_memory: float | None = None
    """Of tasks that were held out and of those for which nothing fitted."""
    steps_to_success: float | None = None
    """Mean of the successful tasks."""
    tokens_per_success: float | None = None
    """Tokens of all tasks that told them, for each success among those; cost likewise."""
    cost_usd_per_success: float | None = None
    time_to_resolution_s: float | None = None
    """Median of the successful tasks."""
    new_items: int = 0
    new_items_per_100_tasks: float | None = None
    injected_per_task: float | None = None
    active_items_used_per_task: float | None = None
    """Memories that a task was seen to use, mean over all tasks."""
    matts_runs: int = 0
    matts_lift: float | None = None
    """Success rate of the rollouts that MaTTS chose less that of a single attempt at the same tasks."""
