"""The closed loop as an experiment: arms that differ only in their memory, on the same tasks and random streams."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from typing import Literal, NamedTuple

from swarm_memory.schema.memory import Retrieval
from swarm_memory.schema.trajectory import Label, Step, Trajectory
from swarm_memory.tools.anchors.handles import at_failure
from swarm_memory.tools.credit.harm import is_held_out
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.remember import Session as TaughtIn
from swarm_memory.tools.memories.remember import remember_notes
from swarm_memory.tools.retrieve.at_moment import MomentContext, beside_failure
from swarm_memory.tools.retrieve.preamble import preamble
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve
from swarm_memory.tools.toolbox import Toolbox
from world.advice import meant, read_notes
from world.agent import DONE, attempt
from world.folders import FAMILIES
from world.rules import World
from world.teacher import note_of, warning_of
from world.terms import Action, Seen


class Arm(NamedTuple):
    """What an agent is shown from earlier tasks."""

    name: str
    notes: Literal["none", "own", "others", "every"] = "none"
    """The notes at the prompt: those that fit the task, as many that fit a task of another family, or, without a bank,
    every note that was left after a task of the same family."""
    at_failure: bool = False
    """Whether what ended an error is shown next to a failed result, as the hook of a failed call shows it."""
    teaches: bool = False
    """Whether the agent leaves a note of its own after each task, by the tool `remember`."""
    failures_alone: bool = False
    """Whether only the tasks that the agent gave up teach anything: what it tried in vain."""

    @property
    def has_memory(self) -> bool:
        return self.at_failure or self.notes != "none"


NONE = Arm("none")
TAUGHT = " (agent's)"
"""Ends the name of each arm whose agent teaches."""

EVERY = Arm(f"every note{TAUGHT}", "every", teaches=True)
"""The most that the agent's notes can be worth: none is lost, held back or missed."""

FAILURES = Arm(f"failures alone{TAUGHT}", "own", teaches=True, failures_alone=True)
"""What failures are worth by themselves."""

_BY_RULES = (Arm("notes", "own"), Arm("at failure", at_failure=True), Arm("shuffled", "others"))
ARMS: tuple[Arm, ...] = (
    NONE,
    *_BY_RULES,
    *(arm._replace(name=arm.name + TAUGHT, teaches=True) for arm in _BY_RULES),
    EVERY,
    FAILURES,
)
"""No memory; notes at the prompt, what ended an error next to its failure, and as a control the notes of another task;
the same with the notes that the agent itself leaves. Notes from the prompt are not shown again next to a failure."""


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
        return FAMILIES[self.family](Random(self.key))

    def rng(self) -> Random:
        """Return the agent's random stream on this task: the same in every arm."""
        return Random(f"agent-{self.key}-1")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one task."""

    seed: int
    family: str
    number: int
    arm: str
    met: bool
    """Whether the world itself says that the task was met."""
    steps: int
    """Tool calls."""
    label: Label | None
    """The judge's label; None if nothing was judged."""
    notes: int = 0
    own_notes: int = 0
    """How many of these come from a task of the same family."""
    at_failures: int = 0
    """How many failures had something shown next to them."""
    false_cure: bool = False
    """Whether what was shown from tasks of the same family advises something, but nothing that helps."""
    stored: tuple[str, ...] = ()
    """The titles of the new items."""


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
    """Return the task whose notes the shuffled arm gets instead: one of another family, each family in turn."""
    names = list(FAMILIES)
    shift = 1 + (place.seed + place.number) % (len(names) - 1)
    return Place(place.seed, names[(names.index(place.family) + shift) % len(names)], place.number)


async def run_arm(arm: Arm, places: Sequence[Place], open_bank: OpenBank) -> AsyncIterator[Result]:
    """Yield the results of the tasks in order; each task is learned from before the next begins."""
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
    async with open_bank() as toolbox:
        for place in places:
            yield await _learned(toolbox, arm, place)


def _without_bank(arm: Arm, places: Sequence[Place]) -> Iterator[Result]:
    """Yield the results of tasks that are shown every note left after an earlier one of their family."""
    left: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for place in places:
        world, notes = place.world(), left[place.family]
        prompt = f"{preamble(notes, 10_000)}\n\n{world.task}"
        steps = attempt(world, prompt, place.rng())
        yield Result(
            **asdict(place), arm=arm.name, met=world.met, steps=_calls(steps), label=None, notes=len(notes),
            own_notes=len(notes),
        )  # fmt: skip
        note = note_of(world.task, steps, place.world().cures, prompt, Random(f"teacher-{place.key}"))
        if note is not None:
            notes.append((place.key, note.title, f"{note.when} {note.note}"))


async def _learned(toolbox: Toolbox, arm: Arm, place: Place) -> Result:
    """Run one task with what the arm shows, then learn from it."""
    world = place.world()
    found: Retrieval | None = None
    if arm.notes != "none":
        asked = world if arm.notes == "own" else other_family(place).world()
        found = await retrieve(toolbox, asked.task, task_id=place.key, unasked=Unasked())
    memories, prompt = (found.memories, f"{found.preamble}\n\n{world.task}") if found else ((), world.task)
    shown: list[str] = []
    beside = partial(_beside, asyncio.get_running_loop(), toolbox, place, shown) if arm.at_failure else None
    steps = await asyncio.to_thread(attempt, world, prompt, place.rng(), beside)
    trajectory = Trajectory(
        task_id=place.key,
        task=world.task,
        steps=steps,
        source="agent",
        injected_memory_ids=tuple(each.item.id for each in memories),
    )
    met = world.met
    label, stored = await _taught(toolbox, arm, place, trajectory, "\n".join([prompt, *shown]))
    own = [each.item for each in memories if _is_own(each.item.provenance.task_id, place)]
    advice = [(item.id, item.title, item.content) for item in own if item.outcome == "Success"]
    return Result(
        **asdict(place),
        arm=arm.name,
        met=met,
        steps=_calls(steps),
        label=label,
        notes=len(memories),
        own_notes=len(own),
        at_failures=len(shown),
        false_cure=is_false_cure(place.world(), "\n".join([preamble(advice, 10_000), *shown])),
        stored=stored,
    )


async def _taught(
    toolbox: Toolbox, arm: Arm, place: Place, trajectory: Trajectory, known: str
) -> tuple[Label | None, tuple[str, ...]]:
    """Learn from a task as the arm does; return the label and the titles of what the rules stored."""
    session, steps = TaughtIn(place.key, place.key, (trajectory,)), trajectory.steps
    if arm.failures_alone:
        warning = None if steps[-1].text == DONE else warning_of(trajectory.task, steps)
        if warning is not None:
            await remember_notes(toolbox, [warning], session._replace(outcome="Failure"))
        return None, ()
    learned = await learn(toolbox, trajectory)
    rng = Random(f"teacher-{place.key}")
    if arm.teaches and (note := note_of(trajectory.task, steps, place.world().cures, known, rng)) is not None:
        await remember_notes(toolbox, [note], session)
    return learned.verdict.label, tuple(item.title for item in learned.stored)


def _beside(
    loop: asyncio.AbstractEventLoop, toolbox: Toolbox, place: Place, shown: list[str], action: Action, seen: Seen
) -> str:
    """Return what is shown next to a failed call, and add it to `shown`; the task runs in a thread of its own."""
    error = f"Exit code {seen.exit_code}\n{seen.text}" if seen.exit_code else seen.text
    handles = at_failure(action.tool, dict(action.input), error)

    async def found() -> str:
        withheld = is_held_out(place.key, toolbox.settings.credit.holdout_rate)
        before = await toolbox.store.shown_in(toolbox.scope, place.key, [place.key])
        return await beside_failure(toolbox, MomentContext(place.key, place.key, before, (), withheld), handles)

    text = asyncio.run_coroutine_threadsafe(found(), loop).result()
    if text:
        shown.append(text)
    return text


def is_false_cure(world: World, shown: str) -> bool:
    """Whether a text advises actions that the task does not name, and none of them truly helps."""
    actions = world.actions()
    spans = {span for note in read_notes(shown) for span in note.advised}
    asked = set(re.findall("`([^`]+)`", world.task))
    advised = {actions[at].text for span in spans for at in meant(span, actions)} - asked
    return bool(advised) and advised.isdisjoint(world.cures)


def _is_own(task_id: str | None, place: Place) -> bool:
    return f"-{place.family}-" in (task_id or "")


def _calls(steps: Sequence[Step]) -> int:
    return sum(step.kind == "tool_call" for step in steps)
