"""The suite of tasks: real tasks done by an agent's command or the chat model, each checked by its own script."""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.rollout import RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.child_process import run
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.suites.tasks import (
    TASK_ARMS,
    Arm,
    Attempt,
    Place,
    Scenario,
    TaskArm,
    TaskOptions,
    TaskReport,
    TaskResult,
    schedule,
)
from swarm_memory.tools.credit.outcome import steps_of
from swarm_memory.tools.ports.rollouts import AgentRunner
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.toolbox import Toolbox

_PARTS = ("task.md", "work", "check.py")
CHECK_LIMIT_S = 120.0
_MAX_OUTPUT_BYTES = 1_000_000


async def check(scenario: Scenario, folder: Path) -> tuple[int | None, str]:
    """Run a scenario's checker on a folder; return its exit code (None: it did not end in time) and what it said."""
    printed = bytearray()
    with anyio.move_on_after(CHECK_LIMIT_S):
        finished = await run(
            [sys.executable, "-I", "-B", str(scenario.check), str(folder)],
            stdin=b"",
            cwd=folder,
            environment={"PATH": os.environ.get("PATH", ""), "PYTHONDONTWRITEBYTECODE": "1"},
            max_output_bytes=_MAX_OUTPUT_BYTES,
            printed=printed,
        )
        return finished.code, (finished.output + finished.error).decode("utf-8", "replace").strip()
    return None, f"the checker did not end within {CHECK_LIMIT_S:g} s: {printed.decode('utf-8', 'replace')[-300:]}"


class ScenarioRunner:
    """Passes rollouts on to a runner that works in copies below `scratch`, and checks each copy.

    `metered`: the agent's tokens are counted where its chat model is, and not here.
    """

    takes_notes = True

    def __init__(
        self, scenario: Scenario, inner: AgentRunner, scratch: Path, *, show_check: bool, metered: bool
    ) -> None:
        self.name = inner.name
        self.attempts: dict[int, Attempt] = {}
        self._metered = metered
        self._scenario, self._inner, self._scratch, self._show_check = scenario, inner, scratch, show_check

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Let the task be done, then check it. Raises as the runner does; `ConfigError` for a broken checker."""
        answer = await self._inner.run(request)
        folder = self._scratch / request.run_id / str(request.number)
        code, said = await check(self._scenario, folder) if folder.is_dir() else (1, "there is no folder")
        if code not in (0, 1, None):
            raise ConfigError(f"the checker of {self._scenario.name} failed itself: {one_line(said[-400:], 400)}")
        attempt = _attempt(request, answer.trajectory, met=code == 0, said=said)
        self.attempts[request.number] = replace(attempt, tokens=0, tokens_counted=True) if self._metered else attempt
        if self._show_check and answer.trajectory is not None:
            return answer.model_copy(update={"trajectory": _with_check(answer.trajectory, code, said)})
        return answer

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear everything away: what counts was checked."""
        del best
        return await self._inner.settle(run_id, None)


def _attempt(request: RolloutRequest, trajectory: Trajectory | None, *, met: bool, said: str) -> Attempt:
    told = one_line(said, 300)
    if trajectory is None:
        return Attempt(met=met, steps=0, tokens=count_tokens(request.prompt), tokens_counted=False, said=told)
    used = trajectory.usage
    counted = used.input_tokens + used.output_tokens + used.cache_read_tokens + used.cache_creation_tokens
    steps = steps_of(trajectory)
    if counted:
        return Attempt(met=met, steps=steps, tokens=counted, tokens_counted=True, said=told)
    texts = (f"{step.text} {step.tool_input or ''}" for step in trajectory.steps)
    estimated = count_tokens(request.prompt) + sum(map(count_tokens, texts))
    return Attempt(met=met, steps=steps, tokens=estimated, tokens_counted=False, said=told)


def _with_check(trajectory: Trajectory, code: int | None, said: str) -> Trajectory:
    """Return the trajectory with the check at its end, as a project's own tests would stand there."""
    number, ended = len(trajectory.steps), 124 if code is None else code
    steps = (
        Step(
            id=f"s{number + 1}", kind="tool_call", role="assistant", tool_name="Bash", call_id="check",
            tool_input={"command": "python check.py"},
        ),
        Step(
            id=f"s{number + 2}", kind="observation", role="tool", tool_name="Bash", call_id="check",
            text=f"Exit code {ended}\n{said}" if ended else said, exit_code=ended, is_error=ended != 0,
        ),
    )  # fmt: skip
    return trajectory.model_copy(update={"steps": (*trajectory.steps, *steps)})


@dataclass(slots=True)
class _Run:
    """One run of the suite while it goes on."""

    context: SuiteContext
    options: TaskOptions
    scenarios: Sequence[Scenario]
    tasks: list[TaskResult] = field(default_factory=list[TaskResult])

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        found = TaskReport(self.tasks, self.options.seed).results()
        notes = (_agent_note(self.options, self.context), *found.notes)
        return found.model_copy(update={"notes": notes, "details": {"tasks": [asdict(each) for each in self.tasks]}})

    async def tell(self, arm: TaskArm, place: Place) -> None:
        """Pass on how far it is."""
        total = len(TASK_ARMS) * len(self.scenarios) * self.options.rounds
        message = f"{arm}: {place.scenario.name}, round {place.round}"
        await self.context.report(Progress(done=len(self.tasks), total=total, message=message))


async def measure(context: SuiteContext, options: TaskOptions) -> SuiteResults:
    """Do the tasks in all arms. Raises `InputError`, `ConfigError`, `StorageError`."""
    scenarios = await anyio.to_thread.run_sync(read_scenarios, context.root, options)
    _check_agent(context, options)
    run = _Run(context, options, scenarios)
    places = schedule(options.seed, scenarios, options.rounds)
    for name in TASK_ARMS:
        arm = Arm(name, options.k, partial(_runner, run), run.tell)
        async with _task_bank(run) as bank:
            async for result in arm.run(places, bank):
                run.tasks.append(result)
                context.keep(run.results())
    return run.results()


def read_scenarios(root: Path, options: TaskOptions) -> tuple[Scenario, ...]:
    """Return the tasks of the options' folder. Raises `InputError` that says what is missing, and where."""
    if options.tasks is None:
        raise InputError(
            "option tasks is missing: the folder of tasks, which the user gives on the command line. Those of "
            "swarm-memory are in its repository: swarm-memory benchmark run learning -o tasks=benchmarks/tasks"
        )
    folder = root / Path(options.tasks).expanduser()
    names = sorted(each.parent.name for each in folder.glob("*/task.md"))
    if not names:
        raise InputError(
            f"option tasks: {folder} holds no task: a task is a folder with {', '.join(_PARTS)}; those of swarm-memory "
            "are in benchmarks/tasks of its repository"
        )
    unknown = sorted({*(options.scenarios or ())} - {*names})
    if unknown:
        raise InputError(f"option scenarios: {folder} has no task {unknown[0]!r}; it has {', '.join(names)}")
    return tuple(_scenario(folder / name) for name in options.scenarios or names)


def _scenario(folder: Path) -> Scenario:
    missing = [part for part in _PARTS if not (folder / part).exists()]
    if missing:
        raise InputError(f"option tasks: the task {folder} lacks {', '.join(missing)}")
    task = (folder / "task.md").read_text(encoding="utf-8").strip()
    return Scenario(folder.name, task, folder / "work", (folder / "check.py").resolve())


def _check_agent(context: SuiteContext, options: TaskOptions) -> None:
    """Raises `InputError`, `ConfigError` for an agent that cannot run."""
    if options.command is None and context.toolbox.chat is None:
        raise InputError(
            "option command: tasks need an agent: give a line of matts.allowed_commands, or set a chat model"
        )
    if options.command is not None:
        from swarm_memory.server.runners.workplace import permitted

        permitted(options.command, context.toolbox.settings.matts)


def _agent_note(options: TaskOptions, context: SuiteContext) -> str:
    chat = context.toolbox.chat
    agent = "the command" if options.command else f"the chat model {chat.name if chat else ''}".strip()
    judge = "evidence alone" if chat is None else chat.name
    sees = "sees the checker's result" if options.show_check else "does not see the checker's result"
    return f"tasks: done by {agent}; judged by {judge}, which {sees}"


@asynccontextmanager
async def _task_bank(run: _Run) -> AsyncGenerator[Toolbox]:
    """Open an empty bank with the user's settings and chat model."""
    toolbox = run.context.toolbox
    matts = toolbox.settings.matts.model_copy(update={"enabled": True, "rollout_timeout_s": run.options.timeout_s})
    settings = toolbox.settings.model_copy(update={"matts": matts})
    async with run.context.open_store(toolbox.embedder) as store:
        yield replace(toolbox, store=store, scope=Scope(project="scenarios"), settings=settings)


def _runner(run: _Run, bank: Toolbox, arm: TaskArm, scenario: Scenario) -> ScenarioRunner:
    scratch = run.context.folder / "rollouts" / arm / scenario.name
    agent, metered = _agent(run, bank, scenario, scratch), run.options.command is None
    return ScenarioRunner(scenario, agent, scratch, show_check=run.options.show_check, metered=metered)


def _agent(run: _Run, bank: Toolbox, scenario: Scenario, scratch: Path) -> AgentRunner:
    settings = bank.settings
    if run.options.command is not None:
        from swarm_memory.server.runners.command import CommandRunner

        return CommandRunner(
            run.options.command, folder=scenario.work, scratch=scratch, settings=settings.matts, limits=settings.learn
        )
    from swarm_memory.server.runners.model import FolderTools, ModelRunner
    from swarm_memory.server.runners.workplace import WorkingCopies

    assert bank.chat is not None, "this was checked before anything was opened"
    workplace = FolderTools(("List", "Read", "Write", "Bash"), WorkingCopies(scenario.work, scratch), settings.matts)
    return ModelRunner(bank.chat, workplace=workplace, max_steps=settings.matts.model_steps)


SUITE = Suite(
    "learning", "whether an agent with memory gets better at its tasks, and at what cost", TaskOptions, measure
)
