"""What the learning suite can be asked."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from swarm_memory.schema.rollout import MAX_ROLLOUTS
from swarm_memory.tools.benchmark.bench import SuiteOptions
from swarm_memory.tools.benchmark.listed import listed
from swarm_memory.tools.benchmark.tasks.scenarios import ScenarioName, scenario_names

LearningPart = Literal["world", "tasks"]


class LearningOptions(SuiteOptions):
    """What is asked of the learning suite."""

    parts: Annotated[tuple[LearningPart, ...], BeforeValidator(listed)] = Field(
        default=("world",), min_length=1, description="world: small tasks without a model; tasks: the scenarios"
    )
    seeds: int = Field(default=5, ge=2, le=1000, description="world: each has tasks and random streams of its own")
    tasks: int = Field(default=6, ge=1, le=100, description="world: tasks of each of the six families")
    k: int = Field(default=3, ge=1, le=MAX_ROLLOUTS, description="Rollouts of a task in the arms that scale")
    scaling_tasks: int = Field(default=3, ge=0, le=100, description="world: so many of the tasks are scaled too")
    scenarios: Annotated[tuple[ScenarioName, ...], BeforeValidator(listed)] = Field(
        default_factory=scenario_names, min_length=1, description="tasks: which of them"
    )
    rounds: int = Field(default=2, ge=1, le=100, description="tasks: how often each is done, one after the other")
    command: str | None = Field(
        default=None, description="tasks: the agent's command line, as matts.allowed_commands has it"
    )
    show_check: bool = Field(
        default=False, description="tasks: true: the checker's result is in the trajectory that is judged"
    )
    timeout_s: float = Field(default=600.0, gt=0, le=86_400, description="tasks: limit of one rollout")
