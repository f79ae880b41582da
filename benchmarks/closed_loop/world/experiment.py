"""The closed loop as an experiment: arms that differ in their memory alone, over the same tasks and random streams."""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from random import Random
from typing import Literal

from swarm_memory.schema.memory import Retrieval
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Label, Step, Trajectory
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from world.agent import attempt
from world.rules import FAMILIES, World, make_world

Arm = Literal["none", "memory", "shuffled"]
ARMS: tuple[Arm, ...] = ("none", "memory", "shuffled")
"""No memory; what fits the task; as much of what fits a task of another family."""


def scaled_arm(k: int, *, with_notes: bool) -> str:
    """Return the name of the arm with `k` rollouts a task: with notes of earlier tasks, or best-of-k alone."""
    return f"k={k}" if with_notes else f"k={k}, no notes"


OpenBank = Callable[[], AbstractAsyncContextManager[Toolbox]]
"""Opens a new, empty bank."""


@dataclass(frozen=True, slots=True)
class Place:
    """One task of a seed: the `number`-th of its family, from 1."""

    seed: int
    family: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.seed}-{self.family}-{self.number}"

    def world(self) -> World:
        return make_world(self.family, self.key)

    def rng(self, rollout: int = 1) -> Random:
        """Return the agent's random stream on this task: the same in every arm."""
        return Random(f"agent-{self.key}-{rollout}")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one task."""

    seed: int
    family: str
    number: int
    arm: str
    met: bool
    """By the world itself."""
    steps: int
    """Tool calls; of scaling those of the rollout that was chosen."""
    label: Label | None
    """What the judge said; None where nothing was judged."""
    notes: int = 0
    own_notes: int = 0
    """Of these, drawn from a task of the same family."""
    stored: tuple[str, ...] = ()
    """Titles of the items that were new."""
    each: float | None = None
    """Of scaling: the share of all its rollouts that met the task, whichever was chosen."""


def schedule(seed: int, tasks: int) -> list[Place]:
    """Return `tasks` tasks of each family: all families once, in a random order, then again."""
    rng = Random(f"schedule-{seed}")
    places: list[Place] = []
    for number in range(1, tasks + 1):
        round_ = [Place(seed, family, number) for family in FAMILIES]
        rng.shuffle(round_)
        places += round_
    return places


def other_family(place: Place) -> Place:
    """Return the task whose notes the shuffled arm is given instead: of another family, each in its turn."""
    names = list(FAMILIES)
    shift = 1 + (place.seed + place.number) % (len(names) - 1)
    return Place(place.seed, names[(names.index(place.family) + shift) % len(names)], place.number)


async def run_arm(arm: Arm, places: Sequence[Place], open_bank: OpenBank) -> AsyncIterator[Result]:
    """Yield the results of the tasks, one after the other, each learned from before the next."""
    if arm == "none":
        for place in places:
            world = place.world()
            steps = attempt(world, world.task, place.rng())
            yield Result(**asdict(place), arm=arm, met=world.met, steps=_calls(steps), label=None)
        return
    async with open_bank() as toolbox:
        for place in places:
            yield await _learned(toolbox, arm, place)


async def _learned(toolbox: Toolbox, arm: Arm, place: Place) -> Result:
    world = place.world()
    asked = world if arm == "memory" else other_family(place).world()
    found = await retrieve(toolbox, asked.task, task_id=place.key)
    steps = attempt(world, f"{found.preamble}\n\n{world.task}", place.rng())
    trajectory = Trajectory(
        task_id=place.key,
        task=world.task,
        steps=steps,
        source="agent",
        injected_memory_ids=tuple(each.item.id for each in found.memories),
    )
    learned = await learn(toolbox, trajectory)
    return Result(
        **asdict(place),
        arm=arm,
        met=world.met,
        steps=_calls(steps),
        label=learned.verdict.label,
        notes=len(found.memories),
        own_notes=_own(found, place),
        stored=tuple(item.title for item in learned.stored),
    )


def _own(found: Retrieval, place: Place) -> int:
    return sum(f"-{place.family}-" in (each.item.provenance.task_id or "") for each in found.memories)


def _calls(steps: Sequence[Step]) -> int:
    return sum(step.kind == "tool_call" for step in steps)


class ExplorerRunner:
    """Does rollouts of one task with the exploring agent, each in a world of its own."""

    name = "explorer"

    def __init__(self, place: Place, *, takes_notes: bool = True) -> None:
        self._place = place
        self.takes_notes = takes_notes
        self.met: dict[int, bool] = {}
        self.steps: dict[int, int] = {}

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Try the task once; the rollout's number chooses the random stream, the first is that of the other arms."""
        world = self._place.world()
        steps = attempt(world, request.prompt, self._place.rng(request.number))
        self.met[request.number] = world.met
        self.steps[request.number] = _calls(steps)
        trajectory = Trajectory(task_id=request.task_id, task=request.task, steps=steps, source="agent")
        return RunnerAnswer(status="finished", trajectory=trajectory)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Nothing is left behind."""
        del run_id, best
        return None


async def run_scaled(
    k: int, places: Sequence[Place], open_bank: OpenBank, *, with_notes: bool = True
) -> AsyncIterator[Result]:
    """Yield the results of parallel scaling with `k` rollouts a task: of each task the rollout that the judge chose.

    Without notes it is best-of-k alone: as many attempts, the same random streams and the same judge, and no rollout is
    told anything of earlier tasks.
    """
    async with open_bank() as toolbox:
        for place in places:
            runner = ExplorerRunner(place, takes_notes=with_notes)
            task = place.world().task
            ended = await run_matts(
                toolbox, MattsRequest(task=task, count=k, task_id=place.key, run_id=run_id_of(k, place)), runner
            )
            best = ended.run.summary.best or 1
            yield Result(
                **asdict(place),
                arm=scaled_arm(k, with_notes=with_notes),
                met=runner.met[best],
                steps=runner.steps[best],
                label=ended.best_verdict.label if ended.best_verdict else None,
                notes=len(ended.run.summary.memory_ids),
                stored=tuple(item.title for item in ended.stored),
                each=sum(runner.met.values()) / len(runner.met),
            )


def run_id_of(k: int, place: Place) -> str:
    """Return the same id for the same run every time, so that seeds drawn from it repeat."""
    return f"run_{hashlib.sha256(f'{k}-{place.key}'.encode()).hexdigest()[:26].upper()}"
