"""A runner whose agent is the chat model itself: a ReAct loop over the tools that the caller allows."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

import anyio
from pydantic import JsonValue

from swarm_memory.schema.errors import ModelUnavailable, SwarmMemoryError
from swarm_memory.schema.rollout import RolloutRequest, RolloutStatus, RunnerAnswer
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, ask
from swarm_memory.tools.model.parse import Unparsed, parse_json
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.trajectory.excerpt import shorten_trajectory

PROMPT = "react"

RECORD_TOKENS = 12_000
"""Of the steps so far at most so much is shown."""

MAX_RESULT_CHARS = 20_000

MAX_UNUSABLE = 3
"""So many answers in a row that cannot be used end a rollout."""

TOOL_FAULTS = (SwarmMemoryError, OSError, ValueError, LookupError, TypeError, ArithmeticError)
"""What a tool may raise: the model is told as the result of its call, and may try another way."""

_ANSWER_TOKENS, _TIMEOUT_S = 1_500, 90.0

CallTool: TypeAlias = Callable[[Mapping[str, JsonValue]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool that the caller lets the model use."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """JSON schema of its arguments; they are checked before the call."""
    call: CallTool
    """Returns what the model gets to see. Raises one of `TOOL_FAULTS`."""


class Workplace(Protocol):
    """Where a rollout works: it gives each one its own tools."""

    async def tools(self, request: RolloutRequest) -> Mapping[str, AgentTool]:
        """Return the rollout's tools by name. Raises `InputError`, `ConfigError`."""
        ...

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear up after a run, and return where the best rollout's files are."""
        ...


class ReactAnswer(Answered):
    """What the prompt asks for at each step."""

    thought: str
    tool: str
    arguments: str
    answer: str


@dataclass
class _Record:
    """The steps of one rollout."""

    request: RolloutRequest
    tools: Mapping[str, AgentTool]
    steps: list[Step] = field(default_factory=list[Step])
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def add(self, **fields: object) -> None:
        step_id = f"s{len(self.steps) + 1}"
        self.steps.append(Step.model_validate({"id": step_id, "at": datetime.now(UTC), **fields}))

    @property
    def trajectory(self) -> Trajectory:
        return Trajectory(
            task_id=self.request.task_id,
            task=self.request.task,
            steps=tuple(self.steps),
            source="agent",
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
        )


class ModelRunner:
    """Lets `chat` do the task in at most `max_steps` steps with `tools` and those of the rollout's own `workplace`.

    A tool that is not among them is never called, whatever the model asks for.
    """

    takes_notes = True

    def __init__(
        self,
        chat: ChatModel,
        tools: Mapping[str, AgentTool] | None = None,
        *,
        workplace: Workplace | None = None,
        max_steps: int = 20,
    ) -> None:
        self._chat = chat
        self._tools = dict(tools or {})
        self._workplace = workplace
        self._max_steps = max_steps
        self.name = f"model:{chat.name}"

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Do the task; what was done until the time limit, or until the model could not be asked, is kept."""
        tools = dict(self._tools)
        if self._workplace is not None:
            tools.update(await self._workplace.tools(request))
        record = _Record(request, tools)
        status: RolloutStatus = "timed_out"
        error: str | None = f"ended by its time limit of {request.timeout_s:g} s"
        with anyio.move_on_after(request.timeout_s):
            error = await self._loop(record)
            status = "finished" if error is None or record.steps else "failed"
        if not record.steps:
            return RunnerAnswer(status="failed" if status == "finished" else status, error=error)
        return RunnerAnswer(status=status, trajectory=record.trajectory, error=error)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Let the workplace clear up; without one there is nothing to clear."""
        return None if self._workplace is None else await self._workplace.settle(run_id, best)

    async def _loop(self, record: _Record) -> str | None:
        """Go on until the model ends; return why it was ended, if it was."""
        unusable = 0
        for left in range(self._max_steps, 0, -1):
            try:
                answer = await self._ask(record, left)
            except ModelUnavailable as error:
                return f"the model could not be asked: {redact(str(error)).text}"
            if isinstance(answer, Unparsed):
                unusable += 1
                if unusable == MAX_UNUSABLE:
                    return f"{MAX_UNUSABLE} answers in a row could not be used: {answer.reason}"
                continue
            unusable = 0
            if answer.thought.strip():
                record.add(kind="thought", role="assistant", text=clean(answer.thought, MAX_RESULT_CHARS))
            if not answer.tool.strip():
                record.add(kind="message", role="assistant", text=clean(answer.answer, MAX_RESULT_CHARS))
                return None
            await self._call(record, answer)
        return f"ended after {self._max_steps} steps without a result"

    async def _ask(self, record: _Record, steps_left: int) -> ReactAnswer | Unparsed:
        shown = await asyncio.to_thread(shorten_trajectory, record.trajectory, RECORD_TOKENS)
        prompt = render(
            load_prompt(PROMPT),
            given={"tools": _described(record.tools), "steps_left": str(steps_left)},
            untrusted={"task": record.request.prompt, "record": redact(shown.text).text or "Nothing was done yet."},
        )
        answer, _ = await ask(
            self._chat,
            prompt,
            ReactAnswer,
            purpose="rollout",
            temperature=record.request.temperature,
            max_tokens=_ANSWER_TOKENS,
            timeout_s=min(_TIMEOUT_S, record.request.timeout_s),
            seed=record.request.seed,
        )
        return answer

    async def _call(self, record: _Record, answer: ReactAnswer) -> None:
        name, call_id = answer.tool.strip(), f"c{len(record.steps)}"
        arguments = _arguments(answer.arguments)
        given = arguments if isinstance(arguments, dict) else {"input": answer.arguments}
        record.add(kind="tool_call", role="assistant", tool_name=name, tool_input=given, call_id=call_id)
        text, is_error = await _result(record.tools, name, arguments)
        record.add(
            kind="observation",
            role="tool",
            text=clean(text, MAX_RESULT_CHARS),
            tool_name=name,
            call_id=call_id,
            is_error=is_error,
        )


def _described(tools: Mapping[str, AgentTool]) -> str:
    if not tools:
        return "There are none: answer from the task alone."
    lines = (f"- {tool.name}: {tool.description}\n  {json.dumps(tool.parameters)}" for tool in tools.values())
    return "\n".join(lines)


async def _result(
    tools: Mapping[str, AgentTool], name: str, arguments: dict[str, JsonValue] | Unparsed
) -> tuple[str, bool]:
    tool = tools.get(name)
    if tool is None:
        return f"unknown tool {name!r}; there are: {', '.join(tools) or 'none'}", True
    if isinstance(arguments, Unparsed):
        return f"invalid arguments: {arguments.reason}", True
    problem = _problem(arguments, tool.parameters)
    if problem:
        return f"invalid arguments: {problem}", True
    try:
        return await tool.call(arguments), False
    except TOOL_FAULTS as error:
        return f"{type(error).__name__}: {error}", True


def _arguments(text: str) -> dict[str, JsonValue] | Unparsed:
    parsed = parse_json(text.strip() or "{}")
    if isinstance(parsed, Unparsed):
        return parsed
    return parsed if isinstance(parsed, dict) else Unparsed("They must be a JSON object.")


def _problem(arguments: dict[str, JsonValue], schema: Mapping[str, JsonValue]) -> str | None:
    from jsonschema import Draft202012Validator, ValidationError

    try:
        Draft202012Validator(dict(schema)).validate(arguments)  # pyright: ignore[reportUnknownMemberType]
    except ValidationError as error:
        return str(error.message)[:300]
    return None
