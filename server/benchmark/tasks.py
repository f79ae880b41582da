"""The learning suite: real tasks in three arms, done by an agent's command and checked by scripts;
and its report: figures, the cost gate, each task.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Literal, NamedTuple, get_args

import anyio
import anyio.to_thread
from pydantic import Field, JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import SuiteResults, Table
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.server.child_process import run
from swarm_memory.server.runners.command import CommandRunner
from swarm_memory.server.runners.workplace import RolloutWorkspaces, parse_allowed
from swarm_memory.tools.benchmark.figures import RESAMPLES, Column, figure, figures, table, written
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.credit.outcome import count_steps
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.matts.rollouts import LEAST_TEMPERATURE, prompt_of, seed_of
from swarm_memory.tools.ports.models import AgentRunner, ChatAnswer, ChatModel, ChatRequest
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.toolbox import Toolbox

TaskArm = Literal["baseline", "reasoningbank", "reasoningbank+matts"]
TASK_ARMS: tuple[TaskArm, ...] = get_args(TaskArm)

GATE = 0.85
"""Share of the baseline's cost per success at which the document lets a rollout go on: 15 % less, success no worse."""

_MAX_SAID = 110


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of one task in one arm."""

    arm: TaskArm
    scenario: str
    round: int
    met: bool
    """Whether the task was met; when scaling, by the rollout that the judge chose."""
    steps: int
    """Those of the same rollout."""
    tokens: int
    """Those of all rollouts, and of judging and distilling where a model does that."""
    tokens_counted: bool
    rollouts: int
    passed_rollouts: int
    notes: int
    said: str


class TaskReport:
    """The results so far; an arm is compared with the baseline over the tasks that both have done."""

    def __init__(self, results: Sequence[TaskResult], seed: int) -> None:
        self._results, self._seed = results, seed
        self._arms = tuple(arm for arm in TASK_ARMS if any(each.arm == arm for each in results))

    def results(self) -> SuiteResults:
        """Return figures and tables."""
        if not self._results:
            return SuiteResults()
        notes = () if all(each.tokens_counted for each in self._results) else (
            "where the agent did not count its tokens, they are estimated from what it was shown and printed",
        )  # fmt: skip
        note = "success as judged by the checkers; tokens of every rollout, and of judging and distilling"
        arms = table("Real tasks", _ARM, map(self._of, self._arms), note)
        tables = (arms, self._gate_table(), table("Each task", _EACH, self._results))
        found = [each for arm in self._arms for each in figures(arm, _ARM, self._of(arm))]
        found += [
            figure(arm, "tokens_per_success_against_baseline", ratio, better="lower")
            for arm in self._arms[1:]
            if (ratio := self.cost_ratio(arm)) is not None
        ]
        return SuiteResults(figures=tuple(found), tables=tables, notes=notes)

    def cost_ratio(self, arm: str) -> Interval | None:
        """Return an arm's cost per success over the baseline's, resampling pairs of tasks; None without a success."""
        pairs = self._pairs(arm)
        value = _ratio(pairs)
        if value is None:
            return None
        chance = Random(self._seed)
        found = sorted(
            ratio for _ in range(RESAMPLES) if (ratio := _ratio(chance.choices(pairs, k=len(pairs)))) is not None
        )
        return Interval(value, found[int(0.025 * len(found))], found[max(0, int(0.975 * len(found)) - 1)])

    def _of(self, arm: str) -> list[TaskResult]:
        return [each for each in self._results if each.arm == arm]

    def _pairs(self, arm: str) -> list[tuple[TaskResult, TaskResult]]:
        base = {(each.scenario, each.round): each for each in self._of(TASK_ARMS[0])}
        return [(each, base[at]) for each in self._of(arm) if (at := (each.scenario, each.round)) in base]

    def _gate_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for arm in self._arms[1:]:
            pairs, ratio = self._pairs(arm), self.cost_ratio(arm)
            gained = sum(ours.met for ours, _ in pairs) - sum(theirs.met for _, theirs in pairs)
            shown, gate = "-" if ratio is None else written(ratio, ".2f"), "not met"
            if ratio is None:
                gate = "unknown: an arm has no success"
            elif gained >= 0 and ratio.value <= GATE:
                gate = "met" if ratio.high <= GATE else "met by the mean, but not shown by the interval"
            rows.append((arm, f"{gained:+d} of {len(pairs)}", shown, gate))
        headings = ("arm", "more successes", "cost per success relative to the baseline", "gate")
        note = f"gate: at most {GATE:g} of the baseline's cost per success, and no fewer successes; in pairs of tasks"
        return Table(title="The gate", headings=headings, rows=tuple(rows), note=note)


def _cost(results: Sequence[TaskResult]) -> float | None:
    met = sum(each.met for each in results)
    return sum(each.tokens for each in results) / met if met else None


def _ratio(pairs: Sequence[tuple[TaskResult, TaskResult]]) -> float | None:
    ours, theirs = _cost([mine for mine, _ in pairs]), _cost([base for _, base in pairs])
    return None if ours is None or not theirs else ours / theirs


_ARM: tuple[Column[Sequence[TaskResult]], ...] = (
    Column("arm", lambda of: of[0].arm),
    Column("tasks", len),
    Column("success", lambda of: wilson(sum(each.met for each in of), len(of)), ".2f", "success_rate", len, "higher"),
    Column("steps", lambda of: fmean(each.steps for each in of), ".1f", "steps", len),
    Column("tokens", lambda of: fmean(each.tokens for each in of), ",.0f", "tokens", len),
    Column("tokens per success", _cost, ",.0f", "tokens_per_success", len, missing="no success"),
    Column(
        "rollouts that solved the task",
        lambda of: f"{sum(each.passed_rollouts for each in of)} of {sum(each.rollouts for each in of)}",
    ),
)
_EACH: tuple[Column[TaskResult], ...] = (
    Column("arm", lambda each: each.arm),
    Column("scenario", lambda each: each.scenario),
    Column("round", lambda each: each.round),
    Column("checker", lambda each: "met" if each.met else "not met"),
    Column("steps", lambda each: each.steps),
    Column("tokens", lambda each: each.tokens, ",d"),
    Column("notes", lambda each: each.notes),
    Column("the checker said", lambda each: each.said[:_MAX_SAID]),
)


_PARTS = ("task.md", "work", "check.py")
CHECK_LIMIT_S = 120.0
_MAX_OUTPUT_BYTES = 1_000_000


class TaskOptions(SuiteOptions):
    """Options of the suite."""

    tasks: str | None = Field(
        default=None,
        description="The folder of tasks, each a folder with task.md, work/ and check.py; command line only",
    )
    rounds: int = Field(default=2, ge=1, le=100, description="How often each task is done, one round after another")
    k: int = Field(default=3, ge=1, le=MAX_ROLLOUTS, description="Rollouts of a task in the arm that scales")
    command: str | None = Field(
        default=None, description="The agent's command line, as listed in matts.allowed_commands; required"
    )
    timeout_s: float = Field(default=600.0, gt=0, le=86_400, description="Limit of one rollout")


class Scenario(NamedTuple):
    """One task and how it is checked."""

    name: str
    task: str
    """What the agent is asked."""
    work: Path
    """The folder of which the agent gets a copy."""
    check: Path
    """A script that is given a folder, tries what was made there, and ends with 0 when all of it works, else with 1."""


class Slot(NamedTuple):
    """One task of a run: the `round`-th time that a scenario is done."""

    seed: int
    scenario: Scenario
    round: int

    @property
    def key(self) -> str:
        return f"{self.seed}-{self.scenario.name}-{self.round}"

    @property
    def run_id(self) -> str:
        """The same in every arm, so that the seeds derived from it are the same too."""
        return f"run_{hashlib.sha256(self.key.encode()).hexdigest()[:26].upper()}"


def schedule(seed: int, scenarios: Sequence[Scenario], rounds: int) -> list[Slot]:
    """Return all scenarios once per round, each round in a random order."""
    chance = Random(f"tasks-{seed}")
    return [Slot(seed, each, at) for at in range(1, rounds + 1) for each in chance.sample(scenarios, len(scenarios))]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout and the result of its check."""

    met: bool
    """Whether the task was met, by the scenario's checker."""
    steps: int
    tokens: int
    """Those of the agent."""
    tokens_counted: bool
    """Whether the agent counted them; else they are estimated from what it was shown and what it printed."""
    said: str = ""
    """What the checker said of it."""


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
    return None, f"the checker did not finish within {CHECK_LIMIT_S:g} s: {printed.decode('utf-8', 'replace')[-300:]}"


class ScenarioRunner:
    """Passes rollouts on to a runner that works in copies below `scratch`, and checks each copy."""

    takes_notes = True

    def __init__(self, scenario: Scenario, inner: AgentRunner, scratch: Path) -> None:
        self.name = inner.name
        self.attempts: dict[int, Attempt] = {}
        self._scenario, self._inner, self._scratch = scenario, inner, scratch

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Run the task, then check it. Raises what the runner raises, and `ConfigError` for a broken checker."""
        answer = await self._inner.run(request)
        folder = self._scratch / request.run_id / str(request.number)
        code, said = await check(self._scenario, folder) if folder.is_dir() else (1, "there is no folder")
        if code not in (0, 1, None):
            raise ConfigError(f"the checker of {self._scenario.name} itself failed: {one_line(said[-400:], 400)}")
        done = answer.trajectory
        counted = sum(done.usage.model_dump().values()) if done else 0
        shown = [request.prompt, *(f"{step.text} {step.tool_input or ''}" for step in (done.steps if done else ()))]
        self.attempts[request.number] = Attempt(
            met=code == 0,
            steps=count_steps(done) if done else 0,
            tokens=counted or sum(map(count_tokens, shown)),
            tokens_counted=counted > 0,
            said=one_line(said, 300),
        )
        return answer

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear everything away: what counts has been checked."""
        del best
        return await self._inner.settle(run_id, None)


@dataclass(slots=True)
class CountingChat:
    """A chat model that adds up its tokens."""

    model: ChatModel
    tokens: int = field(default=0)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def is_local(self) -> bool:
        return self.model.is_local

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Call the model. Raises what it raises."""
        answer = await self.model.complete(request)
        self.tokens += answer.usage.input_tokens + answer.usage.output_tokens
        return answer


@dataclass(slots=True)
class TaskRun:
    """One run of the suite in progress."""

    context: SuiteContext
    options: TaskOptions
    scenarios: Sequence[Scenario]
    tasks: list[TaskResult] = field(default_factory=list[TaskResult])

    def results(self) -> SuiteResults:
        """Return the results so far."""
        found, chat = TaskReport(self.tasks, self.options.seed).results(), self.context.toolbox.chat
        judge = "evidence alone" if chat is None else chat.name
        note = f"tasks: judged by {judge}, which does not see the checker's result"
        details: dict[str, JsonValue] = {"tasks": [asdict(each) for each in self.tasks]}
        return found.model_copy(update={"notes": (note, *found.notes), "details": details})

    async def do(self, arm: TaskArm, place: Slot, bank: Toolbox) -> None:
        """Do a task in an arm, learn from it, and report the progress of the run.

        The judge never learns the checker's result. Raises `ConfigError`, `InputError` (a bad runner), `StorageError`.
        """
        counted = None if bank.chat is None else CountingChat(bank.chat)
        bank = replace(bank, chat=counted)
        scratch = self.context.folder / "rollouts" / arm / place.scenario.name
        workplace = RolloutWorkspaces(place.scenario.work, scratch, bank.settings.matts)
        agent = CommandRunner(self.options.command or "", workplace)
        runner = ScenarioRunner(place.scenario, agent, scratch)
        best, notes = await self._rollouts(arm, place, bank, runner)
        attempts = runner.attempts.values()
        nothing = Attempt(met=False, steps=0, tokens=0, tokens_counted=True, said="left nothing")
        chosen = runner.attempts.get(best, nothing)
        result = TaskResult(
            arm=arm,
            scenario=place.scenario.name,
            round=place.round,
            met=chosen.met,
            steps=chosen.steps,
            tokens=sum(each.tokens for each in attempts) + (counted.tokens if counted else 0),
            tokens_counted=all(each.tokens_counted for each in attempts),
            rollouts=len(attempts),
            passed_rollouts=sum(each.met for each in attempts),
            notes=notes,
            said=chosen.said,
        )
        self.tasks.append(result)
        self.context.keep(self.results())
        total = len(TASK_ARMS) * len(self.scenarios) * self.options.rounds
        message = f"{arm}: {place.scenario.name}, round {place.round}"
        await self.context.report(Progress(done=len(self.tasks), total=total, message=message))

    async def _rollouts(self, arm: TaskArm, place: Slot, bank: Toolbox, runner: ScenarioRunner) -> tuple[int, int]:
        """Do a task; return the number of the rollout that counts, and how many notes it had."""
        task = place.scenario.task
        if arm == "reasoningbank+matts":
            asked = MattsRequest(task=task, count=self.options.k, task_id=place.key, run_id=place.run_id)
            ended = await run_matts(bank, asked, runner)
            return ended.run.summary.best or 1, len(ended.run.summary.memory_ids)
        preamble, ids = "", ()
        if arm != "baseline":
            found = await retrieve(bank, task, task_id=place.key, unasked=Unasked())
            preamble, ids = found.preamble, tuple(each.item.id for each in found.memories)
        request = RolloutRequest(
            run_id=place.run_id,
            task_id=place.key,
            task=task,
            prompt=prompt_of(task, preamble, None),
            number=1,
            mode="parallel",
            seed=seed_of(place.run_id, 1),
            temperature=LEAST_TEMPERATURE,
            timeout_s=bank.settings.matts.rollout_timeout_s,
            memory_ids=ids,
        )
        try:
            answer = await runner.run(request)
        finally:
            await runner.settle(place.run_id, None)
        if arm != "baseline" and answer.trajectory is not None:
            done = answer.trajectory.model_copy(update={"task_id": place.key, "task": task, "injected_memory_ids": ids})
            await learn(bank, done, agent_verdict=answer.agent_verdict)
        return 1, len(ids)


async def measure(context: SuiteContext, options: TaskOptions) -> SuiteResults:
    """Do the tasks in all arms. Raises `InputError`, `ConfigError`, `StorageError`."""
    scenarios = await anyio.to_thread.run_sync(load_scenarios, context.root, options)
    run, toolbox = TaskRun(context, options, scenarios), context.toolbox
    if options.command is None:
        raise InputError("option command: tasks need an agent: give one of matts.allowed_commands")
    parse_allowed(options.command, toolbox.settings.matts)
    matts = toolbox.settings.matts.model_copy(update={"enabled": True, "rollout_timeout_s": options.timeout_s})
    settings = toolbox.settings.model_copy(update={"matts": matts})
    for arm in TASK_ARMS:  # each with an empty bank, and the user's settings and chat model
        async with context.open_store(toolbox.embedder) as store:
            bank = replace(toolbox, store=store, scope=Scope(project="scenarios"), settings=settings)
            for place in schedule(options.seed, scenarios, options.rounds):
                await run.do(arm, place, bank)
    return run.results()


def load_scenarios(root: Path, options: TaskOptions) -> tuple[Scenario, ...]:
    """Return the tasks of the options' folder. Raises `InputError` that says what is missing, and where."""
    if options.tasks is None:
        raise InputError(
            "option tasks is missing: the user passes the folder of tasks on the command line. Those of swarm-memory "
            "are in its repository: swarm-memory benchmark run learning -o tasks=benchmarks/tasks"
        )
    folder = root / Path(options.tasks).expanduser()
    names = sorted(each.parent.name for each in folder.glob("*/task.md"))
    if not names:
        raise InputError(
            f"option tasks: {folder} contains no tasks: a task is a folder with {', '.join(_PARTS)}; those of "
            "swarm-memory are in benchmarks/tasks of its repository"
        )
    return tuple(_scenario(folder / name) for name in names)


def _scenario(folder: Path) -> Scenario:
    missing = [part for part in _PARTS if not (folder / part).exists()]
    if missing:
        raise InputError(f"option tasks: the task {folder} lacks {', '.join(missing)}")
    task = (folder / "task.md").read_text(encoding="utf-8").strip()
    return Scenario(folder.name, task, folder / "work", (folder / "check.py").resolve())


SUITE = Suite(
    "learning",
    "whether an agent with memory does real tasks better, and at what cost",
    "an agent does each task of a folder ten times or more: hours, and what its tokens cost; command line only",
    TaskOptions,
    measure,
)
