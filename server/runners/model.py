"""A runner whose agent is the chat model itself: a ReAct loop over the tools that the caller allows."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from swarm_memory.schema.errors import InputError, ModelUnavailable, SwarmMemoryError
from swarm_memory.schema.rollout import RolloutRequest, RolloutStatus, RunnerAnswer, ToolName
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.runners.workplace import TIMED_OUT, Workplace, allowed_commands, permitted
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask, load_prompt, render
from swarm_memory.tools.model.parse import Unparsed, parse_json
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
"""What a tool may raise: the model sees it as the result of its call, and may try another way."""

_TIMEOUT_S = 90.0

MAX_FILE_BYTES, MAX_LISTED = 1_000_000, 500
MAX_OUTPUT_BYTES, COMMAND_LIMIT_S = 1_000_000, 120.0


class Arguments(BaseModel):
    """What a tool is called with."""

    model_config = ConfigDict(extra="forbid")


class _Where(Arguments):
    path: str = Field(description="Relative to the working folder")


class _Text(_Where):
    content: str


class _Line(Arguments):
    command: str


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool that the caller lets the model use."""

    name: str
    description: str
    arguments: type[Arguments]
    """What it is called with; it is checked before the call."""
    call: Callable[[Any], Awaitable[str]]
    """Returns what the model gets to see. Raises one of `TOOL_FAULTS`."""


class ReactAnswer(Answered):
    """What the prompt asks for at each step."""

    thought: str
    tool: str
    arguments: str
    answer: str


class ModelRunner:
    """Lets `chat` do the task in at most `max_steps` steps, with tools in the rollout's own folder.

    A tool that is not among `names` is never called, whatever the model asks for.
    """

    takes_notes = True

    def __init__(
        self, chat: ChatModel, workplace: Workplace, names: Sequence[ToolName] = (), *, max_steps: int = 20
    ) -> None:
        self._chat = chat
        self._workplace = workplace
        self._names = names
        self._max_steps = max_steps
        self.name = f"model:{chat.name}"

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Do the task; what was done until the time limit, or until the model could not be asked, is kept."""
        tools = await self.tools_for(request)
        steps: list[Step] = []
        status: RolloutStatus = "timed_out"
        error: str | None = f"ended by its time limit of {request.timeout_s:g} s"
        with anyio.move_on_after(request.timeout_s):
            error = await self._loop(request, tools, steps)
            status = "finished" if steps else "failed"
        return RunnerAnswer(status=status, trajectory=_trajectory(request, steps) if steps else None, error=error)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return where that is."""
        return await anyio.to_thread.run_sync(self._workplace.settle, run_id, best)

    async def tools_for(self, request: RolloutRequest) -> Mapping[str, AgentTool]:
        """Make the folder, if tools are allowed, and return them by name. Raises `InputError`, `ConfigError`."""
        if not self._names:
            return {}
        place = (await anyio.to_thread.run_sync(self._workplace.make, request)).resolve()

        def in_thread(work: Callable[[Path, Any], str]) -> Callable[[Any], Awaitable[str]]:
            return partial(anyio.to_thread.run_sync, partial(work, place))

        lines = [" ".join(words) for words in allowed_commands(self._workplace.settings)]
        line = f"Runs one of these command lines, exactly as it stands: {'; '.join(lines) or 'none is allowed'}."
        tools = (
            AgentTool("Read", "Returns the text of a file.", _Where, in_thread(_read)),
            AgentTool("List", "Lists the files below a folder.", _Where, in_thread(_list)),
            AgentTool("Write", "Writes a file, all of it.", _Text, in_thread(_write)),
            AgentTool("Bash", line, _Line, partial(self._bash, request)),
        )
        return {tool.name: tool for tool in tools if tool.name in self._names}

    async def _bash(self, request: RolloutRequest, given: _Line) -> str:
        """Run a command line in the copy, without a shell; it must be allowed exactly as it stands."""
        words, limit_s = permitted(given.command, self._workplace.settings), min(COMMAND_LIMIT_S, request.timeout_s)
        finished = await self._workplace.run(words, request, limit_s=limit_s, max_output_bytes=MAX_OUTPUT_BYTES)
        text = (finished.output + finished.error).decode("utf-8", "replace")
        ended = "\nended by its time limit" if finished.code == TIMED_OUT else ""
        return f"Exit code {finished.code}\n{text}{ended}" if finished.code else text

    async def _loop(self, request: RolloutRequest, tools: Mapping[str, AgentTool], steps: list[Step]) -> str | None:
        """Add steps until the model ends; return why it was ended, if it was."""

        def add(kind: str, role: str = "assistant", **fields: object) -> None:
            given = {"id": f"s{len(steps) + 1}", "at": datetime.now(UTC), "kind": kind, "role": role, **fields}
            steps.append(Step.model_validate(given))

        unusable = 0
        for left in range(self._max_steps, 0, -1):
            try:
                answer = await self._ask(request, tools, steps, left)
            except ModelUnavailable as error:
                return f"the model could not be asked: {redact(str(error)).text}"
            if isinstance(answer, Unparsed):
                unusable += 1
                if unusable == MAX_UNUSABLE:
                    return f"{MAX_UNUSABLE} answers in a row could not be used: {answer.reason}"
                continue
            unusable = 0
            if answer.thought.strip():
                add("thought", text=clean(answer.thought, MAX_RESULT_CHARS))
            name = answer.tool.strip()
            if not name:
                add("message", text=clean(answer.answer, MAX_RESULT_CHARS))
                return None
            parsed = parse_json(answer.arguments.strip() or "{}")
            given = parsed if isinstance(parsed, dict) else {"input": answer.arguments}
            call = {"tool_name": name, "call_id": f"c{len(steps)}"}
            add("tool_call", tool_input=given, **call)
            text, is_error = await _result(tools, name, given)
            add("observation", "tool", text=clean(text, MAX_RESULT_CHARS), is_error=is_error, **call)
        return f"ended after {self._max_steps} steps without a result"

    async def _ask(
        self, request: RolloutRequest, tools: Mapping[str, AgentTool], steps: Sequence[Step], steps_left: int
    ) -> ReactAnswer | Unparsed:
        shown = await asyncio.to_thread(shorten_trajectory, _trajectory(request, steps), RECORD_TOKENS)
        described = (
            f"- {tool.name}: {tool.description}\n  {json.dumps(tool.arguments.model_json_schema())}"
            for tool in tools.values()
        )
        listed = "\n".join(described) or "There are none: answer from the task alone."
        prompt = render(
            load_prompt(PROMPT),
            given={"tools": listed, "steps_left": str(steps_left)},
            untrusted={"task": request.prompt, "record": redact(shown.text).text or "Nothing was done yet."},
        )
        effort = Effort(
            timeout_s=min(_TIMEOUT_S, request.timeout_s), temperature=request.temperature, seed=request.seed
        )
        answer, _ = await ask(self._chat, prompt, ReactAnswer, purpose="rollout", effort=effort)
        return answer


def _trajectory(request: RolloutRequest, steps: Sequence[Step]) -> Trajectory:
    return Trajectory(
        task_id=request.task_id,
        task=request.task,
        steps=tuple(steps),
        source="agent",
        started_at=steps[0].at if steps else None,
        ended_at=steps[-1].at if steps else None,
    )


async def _result(tools: Mapping[str, AgentTool], name: str, given: Mapping[str, JsonValue]) -> tuple[str, bool]:
    """Return what a call gave, and whether that is an error."""
    tool = tools.get(name)
    if tool is None:
        return f"unknown tool {name!r}; there are: {', '.join(tools) or 'none'}", True
    try:
        arguments = tool.arguments.model_validate(dict(given), strict=True)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False))
        return f"invalid arguments: they must be one JSON object ({'; '.join(wrong)})"[:300], True
    try:
        return await tool.call(arguments), False
    except TOOL_FAULTS as error:
        return f"{type(error).__name__}: {error}", True


def _within(place: Path, given: _Where) -> Path:
    """Return the path that is meant. Raises `InputError` where it, or a link in it, leads out of the folder."""
    wanted = (place / given.path).resolve()
    if not wanted.is_relative_to(place):
        raise InputError("path must be relative and stay within the working folder")
    return wanted


def _read(place: Path, given: _Where) -> str:
    path = _within(place, given)
    if not path.is_file():
        raise InputError("there is no such file: List shows those there are")
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")


def _list(place: Path, given: _Where) -> str:
    root = _within(place, given)
    if not root.is_dir():
        raise InputError("there is no such folder")
    found: list[str] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != ".git")
        found += [(Path(folder) / name).relative_to(place).as_posix() for name in sorted(files)]
    left = f"\n… and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return "\n".join(found[:MAX_LISTED]) + left or "no files"


def _write(place: Path, given: _Text) -> str:
    path = _within(place, given)
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"{path.write_text(given.content, encoding='utf-8', errors='replace')} characters written"
