"""The closed loop as an experiment: arms that differ in their memory alone, over the same tasks and random streams."""

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from swarm_memory.schema.memory import Retrieval
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Label, Step, Trajectory
from swarm_memory.tools.anchors.handles import at_failure
from swarm_memory.tools.credit.harm import is_held_out
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.memories.heard import Session as TaughtIn
from swarm_memory.tools.memories.remember import remember_notes
from swarm_memory.tools.retrieve.at_moment import Around, beside_failure
from swarm_memory.tools.retrieve.preamble import preamble
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from world.advice import meant, read_notes
from world.agent import Reader, attempt
from world.families import FAMILIES, make_world
from world.plain import read_plain
from world.rules import World
from world.teacher import note_of
from world.terms import Action, Seen


class Arm(NamedTuple):
    """What an agent is told of earlier tasks, and how it reads that."""

    name: str
    notes: Literal["none", "own", "others", "every"] = "none"
    """At the prompt: those that fit the task, as many of those that fit a task of another family, or, without a bank,
    every note that was left after a task of the same family."""
    at_failure: bool = False
    """Beside a failed result: what ended that error, as the hook of a failed call tells it."""
    read: Reader = read_notes
    teaches: bool = False
    """Whether the agent leaves a note of its own after each task, by the tool `remember`."""

    @property
    def has_memory(self) -> bool:
        return self.at_failure or self.notes != "none"


NONE = Arm("none")
PLAIN = " (plain)"
"""Ends the name of an arm whose reader knows no wording of the notes."""


def _told(ending: str, read: Reader) -> tuple[Arm, ...]:
    return (
        Arm(f"notes{ending}", "own", read=read),
        Arm(f"way out{ending}", at_failure=True, read=read),
        Arm(f"both{ending}", "own", at_failure=True, read=read),
        Arm(f"shuffled{ending}", "others", read=read),
    )


TAUGHT = " (agent's)"
"""Ends the name of an arm whose agent teaches; its reader is the plain one."""

EVERY = Arm(f"every note{TAUGHT}", "every", read=read_plain, teaches=True)
"""What the agent's notes are worth at most: none is lost, held back or missed."""

ARMS: tuple[Arm, ...] = (
    NONE,
    *_told("", read_notes),
    *_told(PLAIN, read_plain),
    *(arm._replace(teaches=True) for arm in _told(TAUGHT, read_plain)),
    EVERY,
)
"""No memory; then, for a reader that knows the wording of the notes and for a plain one: notes at the prompt, the way
out at a failure, both, and as a control the notes of another task; the same with the notes that the agent itself
leaves."""


def scaled_arm(k: int, *, with_notes: bool) -> str:
    """Return the name of the arm with `k` rollouts a task: with notes of earlier tasks, or best-of-k alone."""
    return f"k={k}" if with_notes else f"k={k}, no notes"


class Bank(NamedTuple):
    """A bank, and where it lies: hooks open it by themselves."""

    toolbox: Toolbox
    database: Path


OpenBank = Callable[[], AbstractAsyncContextManager[Bank]]
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
    ways_out: int = 0
    """Failures that something was told beside."""
    false_cure: bool = False
    """What was told from tasks of the same family advises something, and nothing that helps."""
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
    if not arm.has_memory:
        for place in places:
            world = place.world()
            steps = attempt(world, world.task, place.rng())
            yield Result(**asdict(place), arm=arm.name, met=world.met, steps=_calls(steps), label=None)
        return
    if arm.notes == "every":
        for result in _without_bank(arm, places):
            yield result
        return
    async with open_bank() as bank:
        for place in places:
            yield await _learned(bank, arm, place)


def _without_bank(arm: Arm, places: Sequence[Place]) -> Iterator[Result]:
    """Yield the results of tasks that are shown every note left after an earlier one of their family."""
    left: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for place in places:
        world, notes = place.world(), left[place.family]
        prompt = f"{preamble(notes, 10_000)}\n\n{world.task}"
        steps = attempt(world, prompt, place.rng(), arm.read)
        yield Result(
            **asdict(place), arm=arm.name, met=world.met, steps=_calls(steps), label=None, notes=len(notes),
            own_notes=len(notes),
        )  # fmt: skip
        note = note_of(world.task, steps, place.world().cures, prompt, Random(f"teacher-{place.key}"))
        if note is not None:
            notes.append((place.key, note.title, f"{note.when} {note.note}"))


async def _learned(bank: Bank, arm: Arm, place: Place) -> Result:
    """Have one task done with what the arm tells, then learn from it."""
    toolbox, world = bank.toolbox, place.world()
    found: Retrieval | None = None
    if arm.notes != "none":
        asked = world if arm.notes == "own" else other_family(place).world()
        found = await retrieve(toolbox, asked.task, task_id=place.key)
    memories, prompt = (found.memories, f"{found.preamble}\n\n{world.task}") if found else ((), world.task)
    told: list[str] = []
    beside = partial(_beside, asyncio.get_running_loop(), toolbox, place, told) if arm.at_failure else None
    steps = await asyncio.to_thread(attempt, world, prompt, place.rng(), arm.read, beside)
    trajectory = Trajectory(
        task_id=place.key,
        task=world.task,
        steps=steps,
        source="agent",
        injected_memory_ids=tuple(each.item.id for each in memories),
    )
    met = world.met
    learned = await learn(toolbox, trajectory)
    known, rng = "\n".join([prompt, *told]), Random(f"teacher-{place.key}")
    if arm.teaches and (note := note_of(world.task, steps, place.world().cures, known, rng)) is not None:
        await remember_notes(toolbox, [note], TaughtIn(place.key, place.key, (trajectory,)))
    own = [each.item for each in memories if _is_own(each.item.provenance.task_id, place)]
    own_notes = preamble([(item.id, item.title, item.content) for item in own], 10_000)
    return Result(
        **asdict(place),
        arm=arm.name,
        met=met,
        steps=_calls(steps),
        label=learned.verdict.label,
        notes=len(memories),
        own_notes=len(own),
        ways_out=len(told),
        false_cure=is_false_cure(place.world(), "\n".join([own_notes, *told])),
        stored=tuple(item.title for item in learned.stored),
    )


def _beside(
    loop: asyncio.AbstractEventLoop, toolbox: Toolbox, place: Place, told: list[str], action: Action, seen: Seen
) -> str:
    """Return what is shown beside a failed call, and note it in `told`; the task is done in a thread of its own."""
    error = f"Exit code {seen.exit_code}\n{seen.text}" if seen.exit_code else seen.text
    handles = at_failure(action.tool, dict(action.input), error)

    async def shown() -> str:
        withheld = is_held_out(place.key, toolbox.settings.credit.holdout_rate)
        before = await toolbox.store.shown_in(toolbox.scope, place.key, [place.key])
        return await beside_failure(toolbox, Around(place.key, place.key, before, (), withheld), handles)

    text = asyncio.run_coroutine_threadsafe(shown(), loop).result()
    if text:
        told.append(text)
    return text


def is_false_cure(world: World, told: str) -> bool:
    """Tell whether a text advises actions that the task does not name, and none of them truly helps."""
    actions = world.actions()
    spans = {span for note in read_notes(told) for span in note.advised}
    asked = set(re.findall("`([^`]+)`", world.task))
    advised = {actions[at].text for span in spans for at in meant(span, actions)} - asked
    return bool(advised) and advised.isdisjoint(world.cures)


def _is_own(task_id: str | None, place: Place) -> bool:
    return f"-{place.family}-" in (task_id or "")


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
    async with open_bank() as bank:
        for place in places:
            runner = ExplorerRunner(place, takes_notes=with_notes)
            task = place.world().task
            ended = await run_matts(
                bank.toolbox, MattsRequest(task=task, count=k, task_id=place.key, run_id=run_id_of(k, place)), runner
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
