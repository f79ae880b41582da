"""Real tasks in three arms (no memory, ReasoningBank, ReasoningBank with scaling), and what came of them."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated, Literal, NamedTuple, Protocol

from pydantic import BeforeValidator, Field

from swarm_memory.schema.benchmark import Figure, Plot, Series, SuiteResults, Table
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsRequest, RolloutRequest
from swarm_memory.tools.benchmark.figures import Column, figure, figures, series, table, written
from swarm_memory.tools.benchmark.suite import SuiteOptions, comma_list
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.matts.rollouts import prompt_of, seed_of
from swarm_memory.tools.ports.models import ChatAnswer, ChatModel, ChatRequest
from swarm_memory.tools.ports.rollouts import AgentRunner
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

TaskArm = Literal["baseline", "reasoningbank", "reasoningbank+matts"]
TASK_ARMS: tuple[TaskArm, ...] = ("baseline", "reasoningbank", "reasoningbank+matts")

GATE = 0.85
"""Cost per success against the baseline's at which the document lets a rollout go on: 15 % less, success no worse."""

_RESAMPLES = 2000
_MAX_SAID = 110


class TaskOptions(SuiteOptions):
    """What is asked of the suite."""

    tasks: str | None = Field(
        default=None,
        description="The folder of tasks, each a folder with task.md, work/ and check.py; command line only",
    )
    scenarios: Annotated[tuple[str, ...] | None, BeforeValidator(comma_list)] = Field(
        default=None, min_length=1, description="Which of them, by the names of their folders; default: all"
    )
    rounds: int = Field(default=2, ge=1, le=100, description="How often each is done, one after the other")
    k: int = Field(default=3, ge=1, le=MAX_ROLLOUTS, description="Rollouts of a task in the arm that scales")
    command: str | None = Field(
        default=None, description="The agent's command line, as matts.allowed_commands has it; default: the chat model"
    )
    show_check: bool = Field(
        default=False, description="true: the checker's result is in the trajectory that is judged"
    )
    timeout_s: float = Field(default=600.0, gt=0, le=86_400, description="Limit of one rollout")


class Scenario(NamedTuple):
    """One task and how it is checked."""

    name: str
    task: str
    """What the agent is asked."""
    work: Path
    """The folder that an agent gets a copy of."""
    check: Path
    """A script that is given a folder, tries what was made there, and ends with 0 when all of it works, else with 1."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout as it was checked."""

    met: bool
    """By the scenario's checker."""
    steps: int
    tokens: int
    """Of the agent."""
    tokens_counted: bool
    """Whether the agent told them; else they are estimated from what it was told and what it printed."""
    said: str = ""
    """What the checker said of it."""


class CheckedRunner(AgentRunner, Protocol):
    """A runner whose rollouts are checked before anything is cleared away."""

    @property
    def attempts(self) -> dict[int, Attempt]:
        """What became of each rollout, by its number; a rollout that left nothing is not met."""
        ...


class Place(NamedTuple):
    """One task of a run: the `round`-th time that a scenario is done."""

    seed: int
    scenario: Scenario
    round: int

    @property
    def key(self) -> str:
        return f"{self.seed}-{self.scenario.name}-{self.round}"

    @property
    def run_id(self) -> str:
        """The same in every arm, so that the seeds drawn from it are."""
        return f"run_{hashlib.sha256(self.key.encode()).hexdigest()[:26].upper()}"


def schedule(seed: int, scenarios: Sequence[Scenario], rounds: int) -> list[Place]:
    """Return all scenarios once, in a random order, then again."""
    drawn = Random(f"tasks-{seed}")
    return [Place(seed, each, at) for at in range(1, rounds + 1) for each in drawn.sample(scenarios, len(scenarios))]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of one task in one arm."""

    arm: TaskArm
    scenario: str
    round: int
    met: bool
    """Of scaling: the rollout that the judge chose."""
    steps: int
    """Of the same."""
    tokens: int
    """Of all rollouts, and of judging and distilling where a model does that."""
    tokens_counted: bool
    rollouts: int
    met_rollouts: int
    notes: int
    said: str


@dataclass(slots=True)
class CountingChat:
    """A chat model whose tokens are added up."""

    model: ChatModel
    tokens: int = field(default=0)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def is_local(self) -> bool:
        return self.model.is_local

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Ask the model. Raises as it does."""
        answer = await self.model.complete(request)
        self.tokens += answer.usage.input_tokens + answer.usage.output_tokens
        return answer


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: how it is run."""

    name: TaskArm
    k: int
    make_runner: Callable[[Toolbox, TaskArm, Scenario], CheckedRunner]
    """Makes the runner of one task; a chat model as an agent is that of the toolbox, whose tokens are counted."""
    on_done: Callable[[TaskArm, Place], Awaitable[None]]

    async def run(self, places: Sequence[Place], bank: Toolbox) -> AsyncIterator[TaskResult]:
        """Yield the results of the tasks, one after the other, each learned from before the next.

        The judge never learns the checker's result unless the runner shows it. Raises `ConfigError`, `InputError` for a
        runner that cannot run, `StorageError`.
        """
        counted = None if bank.chat is None else CountingChat(bank.chat)
        bank = replace(bank, chat=counted)
        for place in places:
            before = counted.tokens if counted else 0
            runner = self.make_runner(bank, self.name, place.scenario)
            best, notes = await self._do(place, bank, runner)
            spent = (counted.tokens if counted else 0) - before
            yield self._result(place, runner.attempts, best, notes, spent)
            await self.on_done(self.name, place)

    async def _do(self, place: Place, bank: Toolbox, runner: CheckedRunner) -> tuple[int, int]:
        """Do a task; return the number of the rollout that counts, and how many notes it had."""
        task = place.scenario.task
        if self.name == "reasoningbank+matts":
            asked = MattsRequest(task=task, count=self.k, task_id=place.key, run_id=place.run_id)
            ended = await run_matts(bank, asked, runner)
            return ended.run.summary.best or 1, len(ended.run.summary.memory_ids)
        preamble, ids = "", ()
        if self.name == "reasoningbank":
            found = await retrieve(bank, task, task_id=place.key)
            preamble, ids = found.preamble, tuple(each.item.id for each in found.memories)
        request = RolloutRequest(
            run_id=place.run_id,
            task_id=place.key,
            task=task,
            prompt=prompt_of(task, preamble, None),
            number=1,
            mode="parallel",
            seed=seed_of(place.run_id, 1),
            temperature=bank.settings.matts.temperature_min,
            timeout_s=bank.settings.matts.rollout_timeout_s,
            memory_ids=ids,
        )
        try:
            answer = await runner.run(request)
        finally:
            await runner.settle(place.run_id, None)
        if self.name == "reasoningbank" and answer.trajectory is not None:
            done = answer.trajectory.model_copy(update={"task_id": place.key, "task": task, "injected_memory_ids": ids})
            await learn(bank, done, agent_verdict=answer.agent_verdict)
        return 1, len(ids)

    def _result(
        self, place: Place, attempts: dict[int, Attempt], best: int, notes: int, learning_tokens: int
    ) -> TaskResult:
        nothing = Attempt(met=False, steps=0, tokens=0, tokens_counted=True, said="left nothing")
        chosen = attempts.get(best, nothing)
        return TaskResult(
            arm=self.name,
            scenario=place.scenario.name,
            round=place.round,
            met=chosen.met,
            steps=chosen.steps,
            tokens=sum(each.tokens for each in attempts.values()) + learning_tokens,
            tokens_counted=all(each.tokens_counted for each in attempts.values()),
            rollouts=len(attempts),
            met_rollouts=sum(each.met for each in attempts.values()),
            notes=notes,
            said=chosen.said,
        )


class TaskReport:
    """Results until now; an arm is compared over the tasks that it and the baseline have done."""

    def __init__(self, results: Sequence[TaskResult], seed: int) -> None:
        self._results, self._seed = results, seed
        self._arms = tuple(arm for arm in TASK_ARMS if any(each.arm == arm for each in results))

    def results(self) -> SuiteResults:
        """Return figures, tables and a plot."""
        if not self._results:
            return SuiteResults()
        notes = () if all(each.tokens_counted for each in self._results) else (
            "tokens are estimated from what the agent was told and printed where it did not count them itself",
        )  # fmt: skip
        note = "success by the checkers; tokens of every rollout, and of judging and distilling"
        arms = table("Real tasks", _ARM, map(self._of, self._arms), note)
        tables = (arms, self._gate_table(), table("Each task", _EACH, self._results))
        return SuiteResults(figures=tuple(self._figures()), tables=tables, plots=(self._plot(),), notes=notes)

    def cost_ratio(self, arm: str) -> Interval | None:
        """Return an arm's cost per success over the baseline's, tasks resampled in pairs; None without a success."""
        pairs = self._pairs(arm)
        value = _ratio(pairs)
        if value is None:
            return None
        drawn = Random(self._seed)
        found = sorted(
            ratio for _ in range(_RESAMPLES) if (ratio := _ratio(drawn.choices(pairs, k=len(pairs)))) is not None
        )
        return Interval(value, found[int(0.025 * len(found))], found[max(0, int(0.975 * len(found)) - 1)])

    def _of(self, arm: str) -> list[TaskResult]:
        return [each for each in self._results if each.arm == arm]

    def _pairs(self, arm: str) -> list[tuple[TaskResult, TaskResult]]:
        base = {(each.scenario, each.round): each for each in self._of(TASK_ARMS[0])}
        return [(each, base[at]) for each in self._of(arm) if (at := (each.scenario, each.round)) in base]

    def _figures(self) -> Iterator[Figure]:
        for arm in self._arms:
            yield from figures(arm, _ARM, self._of(arm))
        for arm in self._arms[1:]:
            ratio = self.cost_ratio(arm)
            if ratio is not None:
                yield figure(arm, "tokens_per_success_against_baseline", ratio, better="lower")

    def _gate_table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for arm in self._arms[1:]:
            pairs, ratio = self._pairs(arm), self.cost_ratio(arm)
            gained = sum(ours.met for ours, _ in pairs) - sum(theirs.met for _, theirs in pairs)
            shown = "-" if ratio is None else written(ratio, ".2f")
            rows.append((arm, f"{gained:+d} of {len(pairs)}", shown, _gate(gained, ratio)))
        headings = ("arm", "more successes", "cost per success against the baseline's", "gate")
        note = f"gate: at most {GATE:g} of the baseline's cost per success, and no fewer successes; in pairs of tasks"
        return Table(title="The gate", headings=headings, rows=tuple(rows), note=note)

    def _plot(self) -> Plot:
        rounds = sorted({each.round for each in self._results})
        lines: list[Series] = []
        for arm in self._arms:
            done = {at: of for at in rounds if (of := [each for each in self._of(arm) if each.round == at])}
            lines.append(series(arm, [(at, _rate(of)) for at, of in done.items()]))
        return Plot(title="Real tasks by round", x_label="round", y_label="success rate", series=tuple(lines))


def _rate(results: Sequence[TaskResult]) -> Interval:
    return wilson(sum(each.met for each in results), len(results))


def _cost(results: Sequence[TaskResult]) -> float | None:
    met = sum(each.met for each in results)
    return sum(each.tokens for each in results) / met if met else None


def _ratio(pairs: Sequence[tuple[TaskResult, TaskResult]]) -> float | None:
    ours, theirs = _cost([mine for mine, _ in pairs]), _cost([base for _, base in pairs])
    return None if ours is None or not theirs else ours / theirs


def _gate(gained: int, ratio: Interval | None) -> str:
    if ratio is None:
        return "cannot be told: an arm has no success"
    if gained < 0 or ratio.value > GATE:
        return "not met"
    return "met" if ratio.high <= GATE else "met by the mean; the interval does not show it"


_ARM: tuple[Column[Sequence[TaskResult]], ...] = (
    Column("arm", lambda of: of[0].arm),
    Column("tasks", len),
    Column("success", _rate, ".2f", "success_rate", len, "higher"),
    Column("steps", lambda of: fmean(each.steps for each in of), ".1f", "steps", len),
    Column("tokens", lambda of: fmean(each.tokens for each in of), ",.0f", "tokens", len),
    Column("tokens per success", _cost, ",.0f", "tokens_per_success", len, missing="no success"),
    Column(
        "rollouts that met the task",
        lambda of: f"{sum(each.met_rollouts for each in of)} of {sum(each.rollouts for each in of)}",
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
    Column("it said", lambda each: each.said[:_MAX_SAID]),
)
