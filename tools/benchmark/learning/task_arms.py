"""Real tasks in three arms: no memory, ReasoningBank, ReasoningBank with scaling; same tasks, same seeds.

Who does a task and how it is checked are ports; the judge never learns the checker's result unless it is shown to it.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, NamedTuple, Protocol

from swarm_memory.schema.chat import ChatAnswer, ChatRequest
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest
from swarm_memory.tools.benchmark.tasks.scenarios import Scenario, ScenarioName, scenario
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.matts.rollouts import prompt_of, seed_of
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.ports.rollouts import AgentRunner
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

TaskArm = Literal["baseline", "reasoningbank", "reasoningbank+matts"]
TASK_ARMS: tuple[TaskArm, ...] = ("baseline", "reasoningbank", "reasoningbank+matts")


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


MakeRunner = Callable[[Toolbox, TaskArm, Scenario], CheckedRunner]
"""Makes the runner of one task; a chat model as an agent is that of the toolbox, whose tokens are counted."""


class Place(NamedTuple):
    """One task of a run: the `round`-th time that a scenario is done."""

    seed: int
    scenario: ScenarioName
    round: int

    @property
    def key(self) -> str:
        return f"{self.seed}-{self.scenario}-{self.round}"

    @property
    def run_id(self) -> str:
        """The same in every arm, so that the seeds drawn from it are."""
        return f"run_{hashlib.sha256(self.key.encode()).hexdigest()[:26].upper()}"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of one task in one arm."""

    arm: TaskArm
    scenario: ScenarioName
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


def schedule(seed: int, scenarios: tuple[ScenarioName, ...], rounds: int) -> list[Place]:
    """Return all scenarios once, in a random order, then again."""
    drawn = Random(f"tasks-{seed}")
    return [Place(seed, name, at) for at in range(1, rounds + 1) for name in drawn.sample(scenarios, len(scenarios))]


async def run_arm(
    arm: TaskArm,
    places: list[Place],
    bank: Toolbox,
    make_runner: MakeRunner,
    k: int,
    on_done: Callable[[TaskArm, Place], Awaitable[None]],
) -> AsyncIterator[TaskResult]:
    """Yield the results of the tasks, one after the other, each learned from before the next.

    Raises `ConfigError`, `InputError` for a runner that cannot run, `StorageError`.
    """
    counted = None if bank.chat is None else CountingChat(bank.chat)
    bank = replace(bank, chat=counted)
    for place in places:
        before = counted.tokens if counted else 0
        chosen = scenario(place.scenario)
        runner = make_runner(bank, arm, chosen)
        best, notes = await _do(arm, place, chosen.task, bank, runner, k)
        spent = (counted.tokens if counted else 0) - before
        yield _result(arm, place, runner, best, notes, spent)
        await on_done(arm, place)


async def _do(arm: TaskArm, place: Place, task: str, bank: Toolbox, runner: CheckedRunner, k: int) -> tuple[int, int]:
    """Do a task; return the number of the rollout that counts, and how many notes it had."""
    if arm == "reasoningbank+matts":
        ended = await run_matts(bank, MattsRequest(task=task, count=k, task_id=place.key, run_id=place.run_id), runner)
        return ended.run.summary.best or 1, len(ended.run.summary.memory_ids)
    preamble, ids = "", ()
    if arm == "reasoningbank":
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
    if arm == "reasoningbank" and answer.trajectory is not None:
        done = answer.trajectory.model_copy(update={"task_id": place.key, "task": task, "injected_memory_ids": ids})
        await learn(bank, done, agent_verdict=answer.agent_verdict)
    return 1, len(ids)


def _result(
    arm: TaskArm, place: Place, runner: CheckedRunner, best: int, notes: int, learning_tokens: int
) -> TaskResult:
    attempts = runner.attempts
    chosen = attempts.get(best, Attempt(met=False, steps=0, tokens=0, tokens_counted=True, said="left nothing"))
    return TaskResult(
        arm=arm,
        scenario=place.scenario,
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
