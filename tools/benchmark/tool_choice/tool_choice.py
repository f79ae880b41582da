"""The tool memory suite: its options, its epochs of training and testing, and the figures of its calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import anyio.to_thread
from pydantic import Field, JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError, ModelAnswerInvalid, SwarmMemoryError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.tools.benchmark.figures import Column, figures, table
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions
from swarm_memory.tools.benchmark.tool_choice.mock_tools import (
    DESCRIPTION,
    LEVELS,
    TOOLS,
    ChatChooser,
    GuidanceReader,
    Level,
    LeveledQuestion,
    QuestionSet,
    SearchAnswer,
    best_tool,
    questions_of,
    search,
)
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls, interval_of
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox

_REPORT_EVERY = 10

Scenario = Literal["train, no memory", "test, no memory", "test, memory", "test, memory for the question"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)
TRAIN, BASELINE, MEMORY, MEMORY_FOR_QUESTION = SCENARIOS


class Called(NamedTuple):
    """One question, the tool it was put to, and what came of it."""

    scenario: Scenario
    level: Level
    tool: str | None
    """None: no tool was chosen in time, or one that does not exist."""
    score: float
    """From the evaluation of the tool memory, which sees only the call and its output."""


class _Cut(NamedTuple):
    """The calls of a scenario, or those of one level."""

    scenario: Scenario
    level: Level | Literal[""]
    calls: Sequence[Called]

    def rate(self, of: Callable[[Called], float]) -> Interval:
        return wilson(round(sum(map(of, self.calls))), len(self.calls))


MEASURES: dict[str, tuple[str, Callable[[Called], float]]] = {
    "score": ("average score", lambda call: call.score),
    "right_tool": ("right tool chosen", lambda call: call.tool == best_tool(call.level)),
}
_RATES = tuple(
    Column[_Cut](title, partial(_Cut.rate, of=of), ".3f", measure, lambda cut: len(cut.calls), "higher")
    for measure, (title, of) in MEASURES.items()
)
_COLUMNS = (
    Column[_Cut]("scenario", lambda cut: cut.scenario),
    Column[_Cut]("level", lambda cut: cut.level or "all"),
    Column[_Cut]("calls", lambda cut: len(cut.calls)),
    *_RATES,
)
_NOTE = "score: 0 or 1 as evaluated by the tool memory, which sees the call and its output"


class ToolSuiteOptions(SuiteOptions):
    """The options of the tool memory benchmark."""

    epochs: int = Field(default=3, ge=1, le=100, description="Each draws new calls; what was trained is kept")
    per_level: int | None = Field(default=None, ge=1, description="Limit on the questions of each level; default: all")
    path: str | None = Field(default=None, description="Questions as in ReMe's query.json; default: the shipped ones")
    chooser: Literal["auto", "model", "reader"] = Field(
        default="auto",
        description="model: the chat model; reader: a reader of the guidance's text; auto: the model if there is one",
    )


WORKERS, TIMEOUT_S = 4, 120.0
"""How many calls are made at the same time, and the seconds that one choice and its call may take."""

WINDOW = 10_000
"""How many calls of each tool the scratch bank holds: all of them."""


@dataclass(slots=True)
class _Run:
    """One run of the suite in progress."""

    bench: SuiteContext
    options: ToolSuiteOptions
    questions: QuestionSet
    chooser: ChatChooser | GuidanceReader
    delay_s: float
    """Seconds between two submissions."""
    called: list[Called] = field(default_factory=list[Called])
    notes: list[str] = field(default_factory=list[str])
    guidance: list[JsonValue] = field(default_factory=list[JsonValue])
    done: int = 0

    @property
    def total(self) -> int:
        """The number of calls in all epochs."""
        return self.options.epochs * (len(self.questions.train) + (len(SCENARIOS) - 1) * len(self.questions.test))

    def results(self) -> SuiteResults:
        """Return the results so far."""
        cuts = [
            _Cut(scenario, level, found)
            for scenario in SCENARIOS
            for level in ("", *LEVELS)
            if (found := [each for each in self.called if each.scenario == scenario and level in ("", each.level)])
        ]
        return SuiteResults(
            dataset=self.questions.info,
            figures=tuple(found for cut in cuts for found in figures(cut.scenario, _COLUMNS, cut, cut.level)),
            tables=(table("Tool memory benchmark", _COLUMNS, cuts, _NOTE),) if cuts else (),
            notes=tuple(self.notes),
            details={"chooser": self.chooser.name, "guidance": list(self.guidance)},
        )

    async def count(self, scenario: Scenario) -> None:
        """Count one call and, now and then, report how far the run has come."""
        self.done += 1
        if self.done % _REPORT_EVERY == 0 or self.done == self.total:
            await self.bench.report(Progress(done=self.done, total=self.total, message=scenario))


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One epoch; what earlier epochs trained on this bank stays."""

    run: _Run
    number: int
    bank: Toolbox

    async def measure(self) -> None:
        """Make the calls of each scenario and add them to the run. Raises `ModelUnavailable`, `StorageError`."""
        questions, train = self.run.questions, _workspace(self.bank, TRAIN)
        await self._scenario(TRAIN, questions.train)
        await self._scenario(BASELINE, questions.test)
        summarized = await summarize_tool_memory(train, TOOLS)
        if summarized.evaluation.failed or any(each.status == "failed" for each in summarized.tools):
            self._note(f": {summarized.message}; {summarized.evaluation.failed} not evaluated")
        guidance = (await retrieve_tool_memory(train, TOOLS)).markdown
        self.run.guidance.append({"epoch": self.number, "markdown": guidance})

        await self._scenario(MEMORY, questions.test, [guidance] * len(questions.test))
        each = [(await retrieve_tool_memory(train, TOOLS, asked.text)).markdown for asked in questions.test]
        await self._scenario(MEMORY_FOR_QUESTION, questions.test, each)

    def _note(self, text: str) -> None:
        self.run.notes.append(f"epoch {self.number}{text}")

    async def _scenario(
        self, scenario: Scenario, questions: Sequence[LeveledQuestion], guidance: Sequence[str] = ()
    ) -> None:
        """Put every question, with its `guidance` if any, to a tool; log and evaluate each call as its own session."""
        made = await self._calls(scenario, questions, guidance)
        workspace = _workspace(self.bank, TRAIN if scenario == TRAIN else f"{scenario}, epoch {self.number}")
        logged = [_logged(f"{self.number}-{at}", questions[at], *call) for at, call in made.items()]
        if logged:
            await log_tool_calls(workspace, logged, evaluate_later=False)
            await evaluate_tool_calls(workspace)
        evaluated: dict[str | None, float] = {}
        for tool in TOOLS:
            for kept in await workspace.store.tool_memory.recent_calls(workspace.scope, tool, WINDOW):
                if kept.evaluation is not None:
                    evaluated[kept.call.call_id] = kept.evaluation.score
        for at, asked in enumerate(questions):
            tool, _ = made.get(at, (None, None))
            self.run.called.append(Called(scenario, asked.level, tool, evaluated.get(f"{self.number}-{at}", 0.0)))
        if missing := len(questions) - len(made):
            self._note(f", {scenario}: no usable choice for {missing} of {len(questions)} questions, which count as 0")
        self.run.bench.keep(self.run.results())

    async def _calls(
        self, scenario: Scenario, questions: Sequence[LeveledQuestion], guidance: Sequence[str]
    ) -> dict[int, tuple[str, SearchAnswer]]:
        seed, phase = self.run.options.seed, "train" if scenario == TRAIN else "test"
        made: dict[int, tuple[str, SearchAnswer]] = {}
        faults: list[SwarmMemoryError] = []
        limiter = anyio.CapacityLimiter(WORKERS)

        async def one(at: int, asked: LeveledQuestion) -> None:
            async with limiter:
                if faults:
                    return
                try:
                    with anyio.move_on_after(TIMEOUT_S):
                        chance = f"{seed}/{self.number}/{phase}/{asked.text}"
                        tool = await self.run.chooser.choose(
                            asked.text, TOOLS, guidance[at] if guidance else "", chance
                        )
                        made[at] = tool, search(seed, self.number, phase, asked, tool)
                except ModelAnswerInvalid:
                    pass  # no tool was chosen, and the question counts as such
                except SwarmMemoryError as error:
                    faults.append(error)
            await self.run.count(scenario)

        async with anyio.create_task_group() as group:
            for at, asked in enumerate(questions):
                if at and self.run.delay_s:
                    await anyio.sleep(self.run.delay_s)
                group.start_soon(one, at, asked)
        if faults:
            raise faults[0]
        return made


def _workspace(bank: Toolbox, name: str) -> Toolbox:
    """Return a toolbox for a separate scope of the scratch bank, with a window that holds all calls."""
    settings = bank.settings.tool_memory.model_copy(update={"max_history_tool_call_cnt": WINDOW})
    return replace(bank, scope=Scope(project=name), settings=bank.settings.model_copy(update={"tool_memory": settings}))


def _logged(call_id: str, asked: LeveledQuestion, tool: str, answer: SearchAnswer) -> ReportedCall:
    return ReportedCall(
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


async def measure(bench: SuiteContext, options: ToolSuiteOptions) -> SuiteResults:
    """Run all epochs. Raises `InputError`, `ConfigError`, `ModelUnavailable`."""
    file = None if options.path is None else bench.named(options.path)
    questions = await anyio.to_thread.run_sync(questions_of, file, options.per_level)
    bank = bench.toolbox
    if options.chooser == "model" and bank.chat is None:
        raise InputError("option chooser: model needs a chat model in the settings (chat.providers)")
    if options.chooser == "reader":
        bank = replace(bank, chat=None)  # so that no model evaluates either
    chooser = ChatChooser(bank.chat, TIMEOUT_S) if bank.chat is not None else GuidanceReader()
    run = _Run(bench, options, questions, chooser, interval_of(bank.chat))
    run.notes.append(
        f"chosen by: {run.chooser.name}; evaluated by {'evidence' if bank.chat is None else 'the settings'}"
    )
    async with bench.open_store(bank.embedder) as store:
        for number in range(1, options.epochs + 1):
            await _Epoch(run, number, replace(bank, store=store)).measure()
    return run.results()


SUITE = Suite(
    "tool-memory",
    "whether what is known about tools makes an agent choose better ones",
    "720 choices: seconds; if a chat model is set, each is a call to it, unless chooser=reader; less with epochs=1",
    ToolSuiteOptions,
    measure,
)
