"""The tool memory benchmark step by step: train without memory, test without, summarize, test with.

It draws no conclusions. How a bank is opened is its caller's business. A question put to the same tool in the same
epoch has the same fate with and without memory: what differs is the choice alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelAnswerInvalid, SwarmMemoryError
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.tools.benchmark.tool_suite.chooser import Chooser
from swarm_memory.tools.benchmark.tool_suite.mock_search import SearchAnswer, search
from swarm_memory.tools.benchmark.tool_suite.profile import DESCRIPTION, TOOLS, Level, best_tool
from swarm_memory.tools.benchmark.tool_suite.queries import Asked, QuestionSet
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox

Scenario = Literal["train, no memory", "test, no memory", "test, memory", "test, memory for the question"]
TRAIN: Scenario = "train, no memory"
BASELINE: Scenario = "test, no memory"
MEMORY: Scenario = "test, memory"
MEMORY_FOR_QUESTION: Scenario = "test, memory for the question"
SCENARIOS: tuple[Scenario, ...] = (TRAIN, BASELINE, MEMORY, MEMORY_FOR_QUESTION)

WINDOW = 10_000
"""Calls of each tool that the scratch bank holds: all of them."""

Guide = Callable[[str], Awaitable[str]]
"""Gives what an agent is told of the tools for a question."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How calls are submitted."""

    workers: int
    delay_s: float
    """Between two submissions."""
    timeout_s: float
    """Of one choice and call."""


@dataclass(frozen=True, slots=True)
class Called:
    """One question, the tool it was put to, and what came of it."""

    epoch: int
    scenario: Scenario
    question: str
    level: Level
    tool: str | None
    """None: no tool was chosen in time, or one that there is not."""
    success: bool
    score: float
    """By the evaluation of the tool memory, which sees the call and its output alone."""
    relevant: bool
    """By the mock tool itself."""

    @property
    def right_tool(self) -> bool:
        """Whether it is the best one of the table."""
        return self.tool == best_tool(self.level)


@dataclass(slots=True)
class Epoch:
    """One epoch while it goes on."""

    number: int
    seed: int
    chooser: Chooser
    pace: Pace
    on_called: Callable[[Scenario], Awaitable[None]]
    guidance: str = ""
    """What the summaries gave, as it is put before every question."""
    notes: list[str] = field(default_factory=list[str])

    async def run(self, bank: Toolbox, questions: QuestionSet) -> AsyncIterator[tuple[Called, ...]]:
        """Yield the calls of each scenario, in the order of `SCENARIOS`.

        What was trained on this bank in earlier epochs stays. Raises `ModelUnavailable`, `StorageError`.
        """
        train, others = _workspace(bank, TRAIN), [self._fresh(bank, each) for each in SCENARIOS[1:]]
        yield await self._scenario(TRAIN, train, questions.train, _nothing)
        yield await self._scenario(BASELINE, others[0], questions.test, _nothing)
        summarized = await summarize_tool_memory(train, TOOLS)
        if summarized.failed or summarized.evaluation.failed:
            self.notes.append(
                f"epoch {self.number}: {summarized.message}; {summarized.evaluation.failed} not evaluated"
            )
        self.guidance = (await retrieve_tool_memory(train, TOOLS)).markdown

        async def whole(question: str) -> str:
            del question
            return self.guidance

        async def for_question(question: str) -> str:
            return (await retrieve_tool_memory(train, TOOLS, question)).markdown

        yield await self._scenario(MEMORY, others[1], questions.test, whole)
        yield await self._scenario(MEMORY_FOR_QUESTION, others[2], questions.test, for_question)

    def _fresh(self, bank: Toolbox, scenario: Scenario) -> Toolbox:
        """Return a workspace that no call was logged in."""
        return _workspace(bank, f"{scenario}, epoch {self.number}")

    async def _scenario(
        self, scenario: Scenario, workspace: Toolbox, questions: Sequence[Asked], guide: Guide
    ) -> tuple[Called, ...]:
        """Put every question to a tool, then have the calls logged and evaluated, each as a session of its own."""
        made = await self._calls(scenario, questions, guide)
        logged = [_logged(self._call_id(at), questions[at], *call) for at, call in made.items()]
        if logged:
            await log_tool_calls(workspace, logged, evaluate_later=False)
            await evaluate_tool_calls(workspace)
        scores = await _scores(workspace)
        called: list[Called] = []
        for at, asked in enumerate(questions):
            tool, answer = made.get(at, (None, None))
            called.append(
                Called(
                    self.number,
                    scenario,
                    asked.text,
                    asked.level,
                    tool,
                    success=answer is not None and answer.success,
                    score=scores.get(self._call_id(at), 0.0),
                    relevant=answer is not None and answer.relevant,
                )
            )
        missing = sum(each.tool is None for each in called)
        if missing:
            self.notes.append(
                f"epoch {self.number}, {scenario}: {missing} questions had no usable choice; they count 0"
            )
        return tuple(called)

    def _call_id(self, at: int) -> str:
        return f"{self.number}-{at}"

    async def _calls(
        self, scenario: Scenario, questions: Sequence[Asked], guide: Guide
    ) -> dict[int, tuple[str, SearchAnswer]]:
        made: dict[int, tuple[str, SearchAnswer]] = {}
        faults: list[SwarmMemoryError] = []
        limiter = anyio.CapacityLimiter(self.pace.workers)

        async def one(at: int, asked: Asked) -> None:
            async with limiter:
                if faults:
                    return
                try:
                    with anyio.move_on_after(self.pace.timeout_s):
                        made[at] = await self._call(scenario, asked, await guide(asked.text))
                except ModelAnswerInvalid:
                    pass  # no tool was chosen: it counts as such
                except SwarmMemoryError as error:
                    faults.append(error)
            await self.on_called(scenario)

        async with anyio.create_task_group() as group:
            for at, asked in enumerate(questions):
                if at and self.pace.delay_s:
                    await anyio.sleep(self.pace.delay_s)
                group.start_soon(one, at, asked)
        if faults:
            raise faults[0]
        return made

    async def _call(self, scenario: Scenario, asked: Asked, guidance: str) -> tuple[str, SearchAnswer]:
        phase = "train" if scenario == TRAIN else "test"
        lot = f"{self.seed}/{self.number}/{phase}/{asked.text}"
        tool = await self.chooser.choose(asked.text, TOOLS, guidance, lot)
        return tool, search(self.seed, self.number, phase, asked, tool)


async def _nothing(question: str) -> str:
    del question
    return ""


def _workspace(bank: Toolbox, name: str) -> Toolbox:
    """Return a scope of its own in the scratch bank, whose window holds all calls."""
    settings = bank.settings.tool_memory.model_copy(update={"max_history_tool_call_cnt": WINDOW})
    return replace(bank, scope=Scope(project=name), settings=bank.settings.model_copy(update={"tool_memory": settings}))


def _logged(call_id: str, asked: Asked, tool: str, answer: SearchAnswer) -> LoggedCall:
    return LoggedCall(
        tool_name=tool,
        input={"query": asked.text},
        output=answer.output,
        success=answer.success,
        time_cost=answer.time_cost_s,
        token_cost=count_tokens(answer.output),
        session_id=call_id,
        call_id=call_id,
        tool_schema={"name": tool, "description": DESCRIPTION},
    )


async def _scores(workspace: Toolbox) -> Mapping[str, float]:
    """Return the score of each evaluated call by its id."""
    found: dict[str, float] = {}
    for tool in TOOLS:
        for kept in await workspace.store.tool_memory.recent_calls(workspace.scope, tool, WINDOW):
            if kept.evaluation is not None and kept.call.call_id is not None:
                found[kept.call.call_id] = kept.evaluation.score
    return found
