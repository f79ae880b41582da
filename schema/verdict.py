"""The result of judging a trajectory."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model, Unit

Label = Literal["Success", "Failure", "Undecided"]
Judge = Literal["model", "agent", "evidence"]


class Verdict(Model):
    """Whether the task was met, how sure that is, and what it rests on."""

    label: Label
    confidence: Unit
    """Of a decided label: the estimated probability that it is right. Of Undecided: 0."""
    reasons: tuple[str, ...] = Field(default=(), max_length=20)
    evidence: tuple[str, ...] = ()
    """Ids of the steps that the verdict rests on."""
    judge: Judge
    model: str | None = None
    """The chat model that answered, where one did."""
