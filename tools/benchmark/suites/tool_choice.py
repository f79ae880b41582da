"""The tool memory suite: its options, who chooses a tool, and its epochs of training and testing."""

import hashlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, Protocol

import anyio
from pydantic import Field

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelAnswerInvalid, SwarmMemoryError
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.tools.benchmark.suite import SuiteOptions
from swarm_memory.tools.benchmark.suites.mock_tools import (
    DESCRIPTION,
    TOOLS,
    Asked,
    Level,
    QuestionSet,
    SearchAnswer,
    best_tool,
    search,
)
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox


class ToolSuiteOptions(SuiteOptions):
    """What is asked of the tool memory benchmark."""

    epochs: int = Field(
        default=3, ge=1, le=100, description="Each draws its calls anew; what was trained stays unless `fresh`"
    )
    fresh: bool = Field(default=False, description="true: every epoch begins with an empty memory")
    queries: str | None = Field(default=None, description="A file {train, test}{simple, moderate, complex}[…]")
    per_level: int | None = Field(default=None, ge=1, description="Questions of each level at most; default: all")
    chooser: Literal["auto", "model", "reader"] = Field(
        default="auto",
        description="model: the chat model; reader: a reader of the guidance's text; auto: the model if there is one",
    )
    workers: int = Field(default=4, ge=1, le=64, description="Calls at the same time")
    delay_s: float | None = Field(
        default=None, ge=0, le=60, description="Between two submissions; default: 1 with a remote model, else 0"
    )
    timeout_s: float = Field(default=120.0, gt=0, le=600, description="Limit of one choice and call")


PROMPT = "benchmark_choose_tool"
_ANSWER_TOKENS = 200

_NAME = re.compile(r"`([^`]+)`")
_RATE = re.compile(r"\b(?P<what>success|score)(?: rate)?:? (?P<percent>\d{1,3}(?:\.\d+)?) ?%")
_TOLD = re.compile(r"^[-*] (?P<kind>Best|Worst) for: (?P<what>.*)$")
_COUNTED = re.compile(r"(?P<good>\d+) of (?P<calls>\d+)")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LENGTH = re.compile(r"\d+ to \d+ words")
_OWN_WEIGHT = 4.0
"""What a tool's rate counts beside what is said of a word: so many calls."""
_UNCOUNTED = 2
"""Calls that a statement without counts stands for."""


class Chooser(Protocol):
    """Chooses one of the tools for a question, from what it is told of them."""

    @property
    def name(self) -> str: ...

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        """Return the name of a tool. Raises `ModelError` where a model is asked."""
        ...


@dataclass(slots=True)
class _Read:
    """What the text says of one tool."""

    rate: float | None = None
    words: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By word: good calls and calls, as often as something is said of it."""

    def expects(self, words: frozenset[str]) -> float | None:
        """Return the share of good calls to expect, or None where nothing is said."""
        told = [each for word in words for each in self.words.get(word, ())]
        if self.rate is None and not told:
            return None
        rate = 0.5 if self.rate is None else self.rate
        good = _OWN_WEIGHT * rate + sum(good for good, _ in told)
        return good / (_OWN_WEIGHT + sum(calls for _, calls in told))


class GuidanceReader:
    """Takes the tool that the Markdown speaks best of; what it says nothing of is as good as the average.

    It reads names in backticks, percentages after "success" and "score", and the words after "Best for" and "Worst for"
    with their counts, as a person would. Without any of that it takes one by lot.
    """

    name = "reader of the guidance"

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        read = read_guidance(guidance)
        words = frozenset(_WORD.findall(question.lower())) | _lengths(question)
        expected = {tool: read[tool].expects(words) if tool in read else None for tool in tools}
        known = [each for each in expected.values() if each is not None]
        average = sum(known) / len(known) if known else 0.0
        rated = {tool: average if each is None else each for tool, each in expected.items()}
        best = max(rated.values())
        drawn = Random(hashlib.sha256(seed.encode()).digest())
        return drawn.choice([tool for tool in tools if rated[tool] >= best - 1e-9])


def read_guidance(text: str) -> dict[str, _Read]:
    """Return what Markdown says of each tool that it names."""
    found: dict[str, _Read] = defaultdict(_Read)
    subject = ""
    for line in text.splitlines():
        named = _NAME.search(line)
        if named and (line.startswith("#") or line[:1].isdigit()):
            subject = named[1]
        rates = {rate["what"]: float(rate["percent"]) / 100 for rate in _RATE.finditer(line)}
        if subject and rates and found[subject].rate is None:
            found[subject].rate = rates.get("score", rates.get("success"))
        told = _TOLD.match(line)
        if subject and told:
            _take(found[subject], told["what"], is_best=told["kind"] == "Best")
    return dict(found)


def _take(read: _Read, what: str, *, is_best: bool) -> None:
    counted = _COUNTED.search(what)
    good, calls = (int(counted["good"]), int(counted["calls"])) if counted else (_UNCOUNTED * is_best, _UNCOUNTED)
    quoted = re.findall(r'"([^"]+)"', what) or [_COUNTED.sub("", what)]
    length = _LENGTH.search(what)
    for word in {length[0]} if length else {word for text in quoted for word in _WORD.findall(text.lower())}:
        read.words[word].append((good, calls))


def _lengths(question: str) -> frozenset[str]:
    """Return every way to say between which numbers the count of words lies, as guidance may put it."""
    count = len(question.split())
    return frozenset(f"{low} to {high} words" for low in range(count + 1) for high in range(count, 2 * count + 10))


class _Choice(Answered):
    """What the prompt asks for."""

    tool: str


class ChatChooser:
    """Asks the chat model, as an agent is asked that has these tools."""

    def __init__(self, model: ChatModel, description: str, timeout_s: float) -> None:
        self.name = model.name
        self._model, self._description, self._timeout_s = model, description, timeout_s

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        listed = "\n".join(f"- {tool}: {self._description}" for tool in tools)
        answer, _ = await ask(
            self._model,
            render(
                load_prompt(PROMPT),
                given={"tools": listed},
                untrusted={"guidance": guidance or "(none)", "question": question},
            ),
            _Choice,
            purpose=PROMPT,
            effort=Effort(
                max_tokens=_ANSWER_TOKENS,
                timeout_s=self._timeout_s,
                seed=int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) >> 1,
            ),
        )
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(answer.reason)
        if answer.tool.strip() not in tools:
            raise ModelAnswerInvalid(f"it chose a tool that there is not: {answer.tool[:60]!r}")
        return answer.tool.strip()


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
