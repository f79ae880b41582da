"""The suite of tool memory: reads the questions, opens scratch banks, and leaves the results file of that benchmark."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import JsonValue

from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.suites.mock_tools import (
    DESCRIPTION,
    QuestionSet,
    chosen,
    own_questions,
    read_questions,
)
from swarm_memory.tools.benchmark.suites.tool_choice import (
    SCENARIOS,
    Called,
    ChatChooser,
    Chooser,
    Epoch,
    GuidanceReader,
    Pace,
    Scenario,
    ToolSuiteOptions,
)
from swarm_memory.tools.benchmark.suites.tool_choice_report import Calls
from swarm_memory.tools.tool_memory.evaluate import interval_of
from swarm_memory.tools.toolbox import Toolbox

RESULTS_FILE = "tool_memory_benchmark_results.json"
"""Beside the files of runs: every call, what the agent was told, and the tables, of the newest run."""

_TELL_EVERY = 10


@dataclass(slots=True)
class _Run:
    """One run of the suite while it goes on."""

    bench: SuiteContext
    options: ToolSuiteOptions
    questions: QuestionSet
    chooser: Chooser
    called: list[Called] = field(default_factory=list[Called])
    notes: list[str] = field(default_factory=list[str])
    guidance: list[JsonValue] = field(default_factory=list[JsonValue])
    done: int = 0

    @property
    def total(self) -> int:
        """Calls of all epochs."""
        return self.options.epochs * (len(self.questions.train) + (len(SCENARIOS) - 1) * len(self.questions.test))

    def results(self) -> SuiteResults:
        """Return what there is by now."""
        details: dict[str, JsonValue] = {"chooser": self.chooser.name, "guidance": list(self.guidance)}
        return Calls(self.called, self.options.seed).results(self.questions.info, self.notes, details)

    async def tell(self, scenario: Scenario) -> None:
        """Pass on how far it is, now and then."""
        self.done += 1
        if self.done % _TELL_EVERY == 0 or self.done == self.total:
            await self.bench.report(Progress(done=self.done, total=self.total, message=scenario))


async def measure(bench: SuiteContext, options: ToolSuiteOptions) -> SuiteResults:
    """Run all epochs. Raises `InputError`, `ConfigError`, `ModelUnavailable`."""
    questions = await anyio.to_thread.run_sync(_questions, bench.root, options)
    bank = _judged_as_chosen(bench.toolbox, options)
    run = _Run(bench, options, questions, _chooser(bank, options))
    run.notes.append(
        f"chosen by: {run.chooser.name}; evaluated by {'evidence' if bank.chat is None else 'the settings'}"
    )
    pace = Pace(options.workers, _delay(bank, options), options.timeout_s)
    try:
        banks = [range(at, at + 1) for at in range(options.epochs)] if options.fresh else [range(options.epochs)]
        for numbers in banks:
            async with _scratch(bench, bank) as scratch:
                for at in numbers:
                    await _epoch(run, Epoch(at + 1, options.seed, run.chooser, pace, run.tell), scratch)
    finally:
        await anyio.to_thread.run_sync(_write, bench.cache / RESULTS_FILE, run)
    return run.results()


async def _epoch(run: _Run, epoch: Epoch, scratch: Toolbox) -> None:
    async for calls in epoch.run(scratch, run.questions):
        run.called += calls
        run.bench.keep(run.results())
    run.notes += epoch.notes
    run.guidance.append({"epoch": epoch.number, "markdown": epoch.guidance})


def _questions(root: Path, options: ToolSuiteOptions) -> QuestionSet:
    if options.queries is None:
        return chosen(own_questions(), "own questions", options.per_level)
    path = root / Path(options.queries).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"option queries: {path} is no regular file")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"option queries: {path} cannot be read: {error}") from error
    return chosen(read_questions(text, path.name), path.name, options.per_level)


def _judged_as_chosen(toolbox: Toolbox, options: ToolSuiteOptions) -> Toolbox:
    """Return the toolbox without its chat model where no model is wanted, so that none evaluates either."""
    if options.chooser == "model" and toolbox.chat is None:
        raise InputError("option chooser: model needs a chat model in the settings (chat.providers)")
    return replace(toolbox, chat=None) if options.chooser == "reader" else toolbox


def _chooser(toolbox: Toolbox, options: ToolSuiteOptions) -> Chooser:
    return GuidanceReader() if toolbox.chat is None else ChatChooser(toolbox.chat, DESCRIPTION, options.timeout_s)


def _delay(toolbox: Toolbox, options: ToolSuiteOptions) -> float:
    return interval_of(None, toolbox.chat) if options.delay_s is None else options.delay_s


@asynccontextmanager
async def _scratch(bench: SuiteContext, bank: Toolbox) -> AsyncGenerator[Toolbox]:
    async with bench.open_store(bank.embedder) as store:
        yield replace(bank, store=store)


def _write(file: Path, run: _Run) -> None:
    """Write every call. Raises `ConfigError`."""
    found = run.results()
    record = {
        "chooser": run.chooser.name,
        "options": run.options.model_dump(mode="json"),
        "notes": run.notes,
        "guidance": run.guidance,
        "tables": [table.model_dump(mode="json") for table in found.tables],
        "figures": [figure.model_dump(mode="json", exclude_none=True) for figure in found.figures],
        "calls": [asdict(each) for each in run.called],
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(json.dumps(record, ensure_ascii=False, indent=1), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the results cannot be written to {file}: {error.strerror}") from error


SUITE = Suite(
    "tool-memory", "whether what is known of tools makes an agent choose better ones", ToolSuiteOptions, measure
)
