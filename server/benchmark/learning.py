"""The suite of learning: the closed-loop world, and the scenarios done by an agent's command or the chat model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import Settings
from swarm_memory.server.benchmark.scenario_runner import ScenarioRunner
from swarm_memory.tools.benchmark.bench import Bench, Suite
from swarm_memory.tools.benchmark.learning.options import LearningOptions
from swarm_memory.tools.benchmark.learning.task_arms import (
    TASK_ARMS,
    Place,
    TaskArm,
    TaskResult,
    run_arm,
    schedule,
)
from swarm_memory.tools.benchmark.learning.task_report import TaskReport
from swarm_memory.tools.benchmark.learning.world_report import WorldReport
from swarm_memory.tools.benchmark.tasks.scenarios import Scenario
from swarm_memory.tools.benchmark.world import experiment as world
from swarm_memory.tools.benchmark.world.rules import FAMILIES
from swarm_memory.tools.ports.rollouts import AgentRunner
from swarm_memory.tools.toolbox import Toolbox


@dataclass(slots=True)
class _Run:
    """One run of the suite while it goes on."""

    bench: Bench
    options: LearningOptions
    in_world: list[world.Result] = field(default_factory=list[world.Result])
    """Of the seeds that all arms have done."""
    tasks: list[TaskResult] = field(default_factory=list[TaskResult])
    notes: list[str] = field(default_factory=list[str])
    done: int = 0

    @property
    def scaled(self) -> list[tuple[int, bool]]:
        """Rollouts and whether with notes, of each arm that scales."""
        return [(k, notes) for k in dict.fromkeys((1, self.options.k)) for notes in (False, True)]

    @property
    def total(self) -> int:
        """Tasks of all arms."""
        options, families = self.options, len(FAMILIES)
        per_seed = families * (len(world.ARMS) * options.tasks + len(self.scaled) * self.scaling_tasks)
        real = len(TASK_ARMS) * len(options.scenarios) * options.rounds
        return ("world" in options.parts) * options.seeds * per_seed + ("tasks" in options.parts) * real

    @property
    def scaling_tasks(self) -> int:
        """Tasks of each family that are scaled."""
        return min(self.options.scaling_tasks, self.options.tasks)

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        first, second = WorldReport(self.in_world, self.options.k).results(), self._tasks()
        return SuiteResults(
            figures=(*first.figures, *second.figures),
            case_ids=first.case_ids,
            cases=first.cases,
            tables=(*first.tables, *second.tables),
            plots=(*first.plots, *second.plots),
            notes=(*self.notes, *second.notes),
            details={"tasks": [asdict(each) for each in self.tasks]},
        )

    def _tasks(self) -> SuiteResults:
        return TaskReport(self.tasks, self.options.seed).results()

    async def tell(self, message: str) -> None:
        """Pass on how far it is."""
        self.done += 1
        await self.bench.report(Progress(done=self.done, total=self.total, message=message))


async def measure(bench: Bench, options: LearningOptions) -> SuiteResults:
    """Run the parts that are asked for. Raises `InputError`, `ConfigError`, `StorageError`."""
    run = _Run(bench, options)
    if "world" in options.parts:
        run.notes.append("world: no model is asked, and settings are as they ship")
    if "tasks" in options.parts:
        _check(bench, options)
        run.notes.append(_agent_note(options, bench))
    if "world" in options.parts:
        for seed in range(options.seed, options.seed + options.seeds):
            run.in_world += await _world_seed(run, seed)
            bench.keep(run.results())
    if "tasks" in options.parts:
        await _tasks(run)
    return run.results()


async def _world_seed(run: _Run, seed: int) -> list[world.Result]:
    """Return the results of one seed in every arm, each in a bank of its own, all without any model."""
    places = world.schedule(seed, run.options.tasks)
    opener = partial(_world_bank, run.bench)
    found: list[world.Result] = []
    arms = [world.run_arm(arm, places, opener) for arm in world.ARMS]
    if scaled := [each for each in places if each.number <= run.scaling_tasks]:
        arms += [world.run_scaled(k, scaled, opener, with_notes=notes) for k, notes in run.scaled]
    for arm in arms:
        async for result in arm:
            found.append(result)
            await run.tell(f"seed {seed}: {result.arm}")
    return found


@asynccontextmanager
async def _world_bank(bench: Bench) -> AsyncGenerator[Toolbox]:
    """Open an empty bank with the settings as they ship, so that runs of different users can be compared."""
    async with bench.open_store(bench.toolbox.embedder) as store:
        yield replace(bench.toolbox, store=store, scope=Scope(project="closed-loop"), chat=None, settings=Settings())


def _check(bench: Bench, options: LearningOptions) -> None:
    """Raises `InputError`, `ConfigError` for an agent that cannot run."""
    if options.command is None and bench.toolbox.chat is None:
        raise InputError(
            "option parts: tasks need an agent: give command (a line of matts.allowed_commands), or set a chat model"
        )
    if options.command is not None:
        from swarm_memory.server.runners.permission import permitted

        permitted(options.command, bench.toolbox.settings.matts)


def _agent_note(options: LearningOptions, bench: Bench) -> str:
    chat = bench.toolbox.chat
    agent = "the command" if options.command else f"the chat model {chat.name if chat else ''}".strip()
    judge = "evidence alone" if chat is None else chat.name
    sees = "sees the checker's result" if options.show_check else "does not see the checker's result"
    return f"tasks: done by {agent}; judged by {judge}, which {sees}"


async def _tasks(run: _Run) -> None:
    places = schedule(run.options.seed, run.options.scenarios, run.options.rounds)

    async def told(arm: TaskArm, place: Place) -> None:
        await run.tell(f"{arm}: {place.scenario}, round {place.round}")

    for arm in TASK_ARMS:
        async with _task_bank(run) as bank:
            results = run_arm(arm, places, bank, partial(_runner, run), run.options.k, told)
            async for result in results:
                run.tasks.append(result)
                run.bench.keep(run.results())


@asynccontextmanager
async def _task_bank(run: _Run) -> AsyncGenerator[Toolbox]:
    """Open an empty bank with the user's settings and chat model."""
    toolbox = run.bench.toolbox
    matts = toolbox.settings.matts.model_copy(update={"enabled": True, "rollout_timeout_s": run.options.timeout_s})
    settings = toolbox.settings.model_copy(update={"matts": matts})
    async with run.bench.open_store(toolbox.embedder) as store:
        yield replace(toolbox, store=store, scope=Scope(project="scenarios"), settings=settings)


def _runner(run: _Run, bank: Toolbox, arm: TaskArm, scenario: Scenario) -> ScenarioRunner:
    scratch = run.bench.folder / "rollouts" / arm / scenario.name
    agent, metered = _agent(run, bank, scenario, scratch), run.options.command is None
    return ScenarioRunner(scenario, agent, scratch, show_check=run.options.show_check, metered=metered)


def _agent(run: _Run, bank: Toolbox, scenario: Scenario, scratch: Path) -> AgentRunner:
    settings = bank.settings
    if run.options.command is not None:
        from swarm_memory.server.runners.command import CommandRunner

        return CommandRunner(
            run.options.command, folder=scenario.work, scratch=scratch, settings=settings.matts, limits=settings.learn
        )
    from swarm_memory.server.runners.folder_tools import FolderTools
    from swarm_memory.server.runners.model import ModelRunner
    from swarm_memory.server.runners.working_copy import WorkingCopies

    assert bank.chat is not None, "this was checked before anything was opened"
    workplace = FolderTools(("List", "Read", "Write", "Bash"), WorkingCopies(scenario.work, scratch), settings.matts)
    return ModelRunner(bank.chat, workplace=workplace, max_steps=settings.matts.model_steps)


SUITE = Suite(
    "learning", "whether an agent with memory gets better at its tasks, and at what cost", LearningOptions, measure
)
