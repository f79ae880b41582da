"""Tool memory from elsewhere: JSON lines out and in, another project's tools, the calls of a transcript."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import ValidationError

from swarm_memory.schema.base import Model, Scope, digest
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult, MemoryDraft
from swarm_memory.schema.tool_memory import Evaluation, KeptCall, LoggedCall, ToolCall, ToolTotals
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.redact import kept_text
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.ports.tool_memory import EvaluatedCall
from swarm_memory.tools.text.faults import faults
from swarm_memory.tools.tool_memory.evaluate import indexed_tokens
from swarm_memory.tools.tool_memory.log import MAX_TASK_CHARS, log_tool_calls
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.reading import Reading, read
from swarm_memory.tools.trajectory.tasks import is_own_tool

MAX_LINE_CHARS = 1_000_000
MAX_FAULTS = 100
_MAX_SAID = 600


class ToolLine(Model):
    """A tool's totals, before the lines of its calls."""

    kind: Literal["tool"] = "tool"
    totals: ToolTotals
    tool_schema: str | None = None


class CallLine(Model):
    """One call of the window."""

    kind: Literal["call"] = "call"
    call: ToolCall
    evaluation: Evaluation | None = None


@dataclass(slots=True)
class ImportedTools:
    """What became of the lines."""

    tools: int = 0
    """New here, with their totals over all time."""
    calls: int = 0
    known: int = 0
    faulty: int = 0
    faults: list[str] = field(default_factory=list[str])
    """`line 3: call.tool_name: …`"""


async def export_tools(toolbox: Toolbox, tool_names: Sequence[str] | None = None) -> AsyncIterator[str]:
    """Yield the tools of the scope, each with its totals and then the calls of its window, oldest first, as JSON."""
    store = toolbox.store.tool_memory
    for memory in await store.memories(toolbox.scope, tool_names):
        yield ToolLine(totals=memory.totals, tool_schema=memory.tool_schema).model_dump_json()
        calls = await store.recent_calls(toolbox.scope, memory.totals.tool_name, memory.totals.kept)
        for kept in reversed(calls):
            yield CallLine(call=kept.call, evaluation=kept.evaluation).model_dump_json()


async def import_tools(toolbox: Toolbox, lines: Iterable[str]) -> ImportedTools:
    """Add what an export holds to the project of the toolbox. Doing it again adds nothing.

    A tool that is new here gets its totals over all time; of one that is known here the calls are added that are not
    here yet. Texts are cleaned and redacted as any others. A faulty line is described and skipped. Raises
    `StorageError`.
    """
    result = ImportedTools()
    reader = _Reader(toolbox, result)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            await reader.take(_read(line))
        except InputError as error:
            result.faulty += 1
            if len(result.faults) < MAX_FAULTS:
                result.faults.append(f"line {number}: {error}")
    await reader.end_tool()
    return result


async def copy_tools(toolbox: Toolbox, project: str, tool_names: Sequence[str] | None = None) -> ImportedTools:
    """Copy the scope's tool memory, or some tools of it, into another project of the same tenant.

    Raises `InputError` for the project itself, `StorageError`.
    """
    if project == toolbox.scope.project:
        raise InputError("the tools are in this project already: name another one")
    lines = [line async for line in export_tools(toolbox, tool_names)]
    return await import_tools(toolbox.in_project(project), lines)


async def learn_and_log(
    toolbox: Toolbox,
    given: Trajectory | Reading,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
) -> LearnResult:
    """Learn from a trajectory and log the calls of its tools, as everybody does who takes one in; raises as `learn`."""
    reading = read(given)
    learned = await learn(toolbox, reading.trajectory, agent_verdict=agent_verdict, agent_drafts=agent_drafts)
    return learned.model_copy(update={"calls": await log_calls_of(toolbox, reading)})


async def log_calls_of(toolbox: Toolbox, given: Trajectory | Reading) -> int:
    """Log the calls that have ended, at their own times; return how many were not known. Raises `StorageError`.

    A call is known by the host's ids of session and call, so that what a hook logged is never counted twice; a
    trajectory without these ids has none to log.
    """
    reading = read(given)
    trajectory = reading.trajectory
    logged = [_logged(call, trajectory) for call in reading.calls if _counts(call)]
    if trajectory.session_id is None or not logged:
        return 0
    return (await log_tool_calls(toolbox, logged)).logged


def _counts(call: Call) -> bool:
    """Whether a call says something of its tool: one that a person interrupted, or that never ended, does not."""
    name = call.step.tool_name
    ended = call.observation is not None and not call.observation.interrupted
    return ended and bool(name) and bool(call.step.call_id) and not is_own_tool(name or "")


def _logged(call: Call, trajectory: Trajectory) -> LoggedCall:
    failed = call.observation is not None and call.observation.is_error is True
    return LoggedCall(
        tool_name=(call.step.tool_name or "")[:300],
        input=dict(call.input),
        output=call.output,
        success=not failed,
        create_time=call.step.at,
        session_id=trajectory.session_id,
        task_id=trajectory.task_id[:500],
        call_id=call.step.call_id,
        task=trajectory.task,
    )


class _Reader:
    """Takes lines in, one tool after the other."""

    def __init__(self, toolbox: Toolbox, result: ImportedTools) -> None:
        self._toolbox = toolbox
        self._result = result
        self._totals: ToolTotals | None = None
        self._here: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._batch: list[tuple[ToolCall, Evaluation | None]] = []
        self._tool: tuple[str, str | None] | None = None
        self._is_new = False

    async def take(self, line: ToolLine | CallLine) -> None:
        if isinstance(line, ToolLine):
            await self.end_tool()
            await self._begin(line.totals.tool_name, line)
            return
        if self._tool is None or self._tool[0] != line.call.tool_name:
            await self.end_tool()
            await self._begin(line.call.tool_name, None)
        call = _own(self._toolbox, line.call)
        if call.call_id is None:
            # Without an id, calls of the same content are told apart by counting: so many are here, so many more come.
            identity = _identity(call)
            self._seen[identity] += 1
            if self._seen[identity] <= self._here[identity]:
                self._result.known += 1
                return
            call = call.model_copy(update={"call_id": f"{identity}:{self._seen[identity]}"})
        self._batch.append((call, _own_evaluation(self._toolbox, line.evaluation)))

    async def _begin(self, name: str, line: ToolLine | None) -> None:
        store, scope = self._toolbox.store.tool_memory, self._toolbox.scope
        self._is_new = not await store.memories(scope, [name])
        self._totals = line.totals if line else None
        self._tool = (name, line.tool_schema if line else None)
        window = self._toolbox.settings.tool_memory.max_history_tool_call_cnt
        self._here = Counter(_identity(each.call) for each in await store.recent_calls(scope, name, window))
        self._seen = Counter()

    async def end_tool(self) -> None:
        """Write what was taken of the current tool: calls, evaluations, and the totals of one that is new here."""
        if self._tool is None:
            return
        name, schema = self._tool
        store, scope = self._toolbox.store.tool_memory, self._toolbox.scope
        window = self._toolbox.settings.tool_memory.max_history_tool_call_cnt
        added = await store.add_calls([call for call, _ in self._batch], window)
        self._result.calls += added
        self._result.known += len(self._batch) - added
        await self._evaluations(await store.recent_calls(scope, name, window))
        if self._is_new and self._batch:
            self._result.tools += 1
            if self._totals is not None and self._totals.calls >= added:
                await store.put_totals(scope, self._totals)
            if schema:
                await store.put_schema(scope, name, kept_text(schema, self._toolbox.settings, 4000))
        self._tool, self._totals, self._batch = None, None, []

    async def _evaluations(self, here: Sequence[KeptCall]) -> None:
        by_call = {_identity(call): found for call, found in self._batch if found is not None}
        evaluated = [
            EvaluatedCall(kept.seq, found, indexed_tokens(kept))
            for kept in here
            if kept.evaluation is None and (found := by_call.get(_identity(kept.call))) is not None
        ]
        now = self._toolbox.clock.now()
        await self._toolbox.store.tool_memory.save_evaluations(
            self._toolbox.scope, evaluated, (), now=now, retry_after_s=0.0
        )


def _read(line: str) -> ToolLine | CallLine:
    if len(line) > MAX_LINE_CHARS:
        raise InputError(f"has {len(line):,} characters; at most {MAX_LINE_CHARS:,} are read")
    found = json_in(line.lstrip("\ufeff"))
    kind = ToolLine if isinstance(found, dict) and "totals" in found else CallLine
    try:
        return kind.model_validate_json(line.lstrip("\ufeff").encode("utf-8", "replace"))
    except ValidationError as error:
        raise InputError(faults(error, kind.model_json_schema())) from error


def _own(toolbox: Toolbox, call: ToolCall) -> ToolCall:
    """Return a call as one of this scope, its texts as any others."""
    settings, limit = toolbox.settings, toolbox.settings.tool_memory.max_call_chars
    return call.model_copy(
        update={
            "scope": Scope(tenant_id=toolbox.scope.tenant_id, project=toolbox.scope.project),
            "tool_name": kept_text(call.tool_name, settings, 300),
            "input": kept_text(call.input, settings, limit),
            "output": kept_text(call.output, settings, limit),
            "task": kept_text(call.task, settings, MAX_TASK_CHARS) if call.task else None,
        }
    )


def _own_evaluation(toolbox: Toolbox, found: Evaluation | None) -> Evaluation | None:
    if found is None:
        return None
    said = {name: kept_text(getattr(found, name), toolbox.settings, _MAX_SAID) for name in ("summary", "evaluation")}
    return found.model_copy(update={**said, "score": float(found.score >= 1.0)})


def _identity(call: ToolCall) -> str:
    """Return what tells a call without an id from others: its content, time and session."""
    told = (call.tool_name, call.input, call.output, call.created_at.isoformat(), call.session_id, call.success)
    return f"content:{digest(told)[:32]}"
