"""OpenAI-style message lists, {role, content} steps and ReAct text as trajectories."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from swarm_memory.schema.settings import LearnSettings
from swarm_memory.schema.trajectory import Role, StepKind, TrajectorySource, Usage
from swarm_memory.server.hosts.plain.acts import Act, action, labelled
from swarm_memory.server.hosts.plain.answers import Answer, as_code, read_answer
from swarm_memory.server.hosts.plain.events import is_event
from swarm_memory.server.hosts.plain.rewrite import ROLES, TOOL_CALLS_MARK, with_calls
from swarm_memory.server.hosts.plain.words import EDITOR_ARGUMENTS, EDITOR_COMMANDS, MANY_TOOLS, TASK_FRAMES, TASK_LEADS
from swarm_memory.server.hosts.records import (
    JsonObject,
    as_bool,
    as_count,
    as_list,
    as_object,
    as_text,
    as_time,
    text_of,
)
from swarm_memory.server.hosts.steps import Draft, exit_code_of
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.trajectory.tasks import is_own_tool, task_text

_MIN_QUOTED = 60
"""A shorter task may stand in another sentence by chance."""

_SAID = ("content", "text", "tool_calls", "function_call", "reasoning_content", "reasoning", "refusal")
"""Where a message says something; an output may be empty text."""


def is_message(record: JsonObject) -> bool:
    """Tell whether a record is one message: a role with a content or with tool calls."""
    return bool(as_text(record.get("role"))) and ("content" in record or "tool_calls" in record)


def is_step(record: Mapping[str, object]) -> bool:
    """Tell whether a record is a message, or a step as this project writes it: who acted, and what was said or done."""
    if record.get("kind") in get_args(StepKind):
        return any(record.get(key) is not None for key in ("text", "tool_name", "tool_input"))
    return is_event(dict(record)) or (bool(as_text(record.get("role"))) and _says(record))


def has_steps(record: JsonObject) -> bool:
    """Tell whether a record holds a whole trajectory: one without any step, or with some that say something.

    Of a file text without a role is taken too, as the ReAct form has it.
    """
    given = messages_of(record)
    return given is not None and (not given or any(is_step(each) or _says(each) for each in map(as_object, given)))


def _says(record: Mapping[str, object]) -> bool:
    return any(record.get(key) is not None for key in _SAID)


def messages_of(record: JsonObject) -> list[object] | None:
    """Return the steps or messages of a record that holds a whole trajectory, else None."""
    for key in ("steps", "messages", "history", "trajectory"):
        if isinstance(record.get(key), list):
            return as_list(record[key])
    return None


def read_list(
    messages: Iterable[JsonObject],
    limits: LearnSettings,
    *,
    task_id: str,
    task: str = "",
    source: TrajectorySource = "messages",
    session_id: str | None = None,
) -> Draft:
    """Return the draft of one trajectory. Without a `task` the first message of the user is the task."""
    reader = _Reader(Draft(task_id, task_in(task), source, limits, session_id=session_id))
    for message in with_calls(messages):
        reader.read(message)
    return reader.draft


def read_object(record: JsonObject, limits: LearnSettings, *, task_id: str, session_id: str | None) -> Draft:
    """Return the draft of an object with `steps` or `messages`; its own id and task come before `task_id`."""
    first = as_object(next(iter(as_list(record.get("steps"))), None))
    is_ours = first.get("kind") in get_args(StepKind)
    owns = map(record.get, ("task_id",) if is_ours else ("id", "instance_id"))
    named = next((str(own) for own in owns if isinstance(own, str | int) and str(own).strip()), task_id)
    draft = read_list(
        map(as_object, messages_of(record) or []),
        limits,
        task_id=named,
        task=next(filter(None, (as_text(record.get(key)) for key in ("task", "query", "question", "prompt"))), ""),
        source="steps" if isinstance(record.get("steps"), list) else "messages",
        session_id=session_id or as_text(record.get("session_id")) or None,
    )
    draft.agent_id = as_text(record.get("agent_id")) or None
    return draft


@dataclass(slots=True)
class _Reader:
    """Where the reading of a message list stands."""

    draft: Draft
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Tool names by call id."""
    unanswered: deque[str] = field(default_factory=deque[str])
    """Ids of calls that have no observation yet, oldest first."""
    made: int = 0
    """Calls that came without an id and were given one."""
    begun: bool = False
    """Whether the agent has said anything."""

    def read(self, message: JsonObject) -> None:
        if message.get("kind") in get_args(StepKind):
            self._own_step(message)
            return
        name = as_text(message.get("role")).lower()
        role = ROLES.get(name)
        text = text_of(message.get("content", message.get("text")))
        if usage := as_object(message.get("usage")):
            self._usage(message, usage)
        if role == "tool":
            self._observation(message, text)
        elif role is None:
            read_react(self.draft, text)
            self.begun = True
        elif role == "user":
            self._user(message, text)
        else:
            self._agent(role, message, text)

    def _own_step(self, step: JsonObject) -> None:
        kinds: dict[object, StepKind] = {kind: kind for kind in get_args(StepKind)}
        exit_code = step.get("exit_code")
        self.draft.add(
            kinds[step.get("kind")],
            ROLES.get(as_text(step.get("role")), "assistant"),
            as_text(step.get("text")),
            at=as_time(step.get("at")),
            tool_name=as_text(step.get("tool_name")),
            tool_input=step.get("tool_input"),
            call_id=as_text(step.get("call_id")),
            is_error=as_bool(step.get("is_error")),
            exit_code=exit_code if isinstance(exit_code, int) else None,
            interrupted=step.get("interrupted") is True,
        )

    def _user(self, message: JsonObject, text: str) -> None:
        for block in map(as_object, as_list(message.get("content"))):
            if as_text(block.get("type")).endswith("tool_result"):
                self._observation(block, text_of(block.get("content")))
        said = task_text(text)
        if not self.draft.task:
            self.draft.task = task_in(text)
            self.draft.started_at = as_time(message.get("timestamp"))
        elif self.begun or not tells_again(said, self.draft.task):
            self.draft.add("message", "user", text, at=as_time(message.get("timestamp")))

    def _agent(self, role: Role, message: JsonObject, text: str) -> None:
        at = as_time(message.get("timestamp"))
        self.begun = self.begun or role == "assistant"
        thought = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
        self.draft.add("thought", role, thought, at=at)
        said, written = _written_calls(text)
        self.draft.add("message", role, said or as_text(message.get("refusal")), at=at)
        for block in map(as_object, as_list(message.get("content"))):
            if block.get("type") == "thinking":
                self.draft.add("thought", role, as_text(block.get("thinking")), at=at)
            elif as_text(block.get("type")).endswith("tool_use"):
                self._call(role, as_text(block.get("name")), block.get("input"), as_text(block.get("id")))
        legacy = [{"function": message["function_call"]}] if message.get("function_call") else []
        for call in map(as_object, [*as_list(message.get("tool_calls")), *legacy, *written]):
            function = as_object(call.get("function")) or call
            arguments = function.get("arguments", function.get("args"))
            self._call(role, as_text(function.get("name")), arguments, as_text(call.get("id")))

    def _call(self, role: Role, name: str, arguments: object, call_id: str) -> None:
        if not call_id:
            self.made += 1
            call_id = f"call-{self.made}"
        name = name or "tool"
        self.names[call_id] = name
        self.unanswered.append(call_id)
        if is_own_tool(name):
            self.draft.own_call(name, _arguments(arguments))
        else:
            done, given = _of_many(name, _arguments(arguments))
            self.names[call_id] = done
            self.draft.add("tool_call", role, tool_name=done, tool_input=given, call_id=call_id)

    def _observation(self, message: JsonObject, text: str) -> None:
        call_id = self._answered(_answered_id(message))
        name = as_text(message.get("name")) or self.names.get(call_id, "")
        if is_own_tool(name):
            return
        answer = _answer_of(message, text)
        self.draft.add(
            "observation",
            "tool",
            answer.text if answer.is_wrapped else text,
            at=as_time(message.get("timestamp")),
            tool_name=name,
            call_id=call_id,
            is_error=answer.is_error,
            exit_code=answer.exit_code,
        )

    def _answered(self, call_id: str) -> str:
        """Return the id of the call that an observation answers: the one it names, else the oldest open one."""
        if not call_id:
            return self.unanswered.popleft() if self.unanswered else ""
        if call_id in self.unanswered:
            self.unanswered.remove(call_id)
        return call_id

    def _usage(self, message: JsonObject, usage: JsonObject) -> None:
        key = as_text(message.get("id")) or f"message-{len(self.draft.usage)}"
        self.draft.usage[key] = Usage(
            input_tokens=as_count(usage.get("prompt_tokens", usage.get("input_tokens"))),
            output_tokens=as_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        )


def _answered_id(message: JsonObject) -> str:
    """Return the id of the call that a result names, alone or in a list; empty where it names none."""
    for key in ("tool_call_id", "tool_use_id"):
        if named := as_text(message.get(key)):
            return named
    return as_text(next(iter(as_list(message.get("tool_call_ids"))), ""))


def _of_many(name: str, given: object) -> tuple[str, object]:
    """Return a call of a tool that does several things as one of what it does."""
    told = as_object(given)
    does = EDITOR_COMMANDS.get(as_text(told.get("command"))) if name in MANY_TOOLS else None
    if does is None:
        return name, given
    return does, {EDITOR_ARGUMENTS.get(key, key): value for key, value in told.items() if key != "command"}


def _answer_of(message: JsonObject, text: str) -> Answer:
    """Read how a call ended: what the message itself says comes before what its text does."""
    failed = as_bool(message.get("is_error", message.get("isError")))
    if "exit_code" in message:
        return Answer(text, as_code(message["exit_code"]), failed)
    told = read_answer(text)
    code = exit_code_of(text) if told.exit_code is None else told.exit_code
    return replace(told, exit_code=code, is_error=told.is_error if failed is None else failed)


def _written_calls(text: str) -> tuple[str, list[object]]:
    """Split a content that ends in `[tool_calls]` and the calls as JSON, as some benchmarks write them."""
    said, mark, calls = text.partition(TOOL_CALLS_MARK)
    if not mark:
        return text, []
    found = as_list(json_in(calls))
    return (said, found) if found else (text, [])


def _arguments(arguments: object) -> object:
    """Return the arguments of a call as an object: they come as JSON text, or as they are."""
    if not isinstance(arguments, str):
        return arguments if arguments is not None else {}
    parsed = as_object(json_in(arguments))
    return parsed if parsed or not arguments.strip("{ }") else {"input": arguments}


def task_in(text: str) -> str:
    """Return the part of a first message that a tag marks as the task; the whole where nothing marks it."""
    for opening, closing in TASK_FRAMES:
        _, mark, rest = text.partition(opening)
        task, end, _ = rest.partition(closing)
        if mark and end and task.strip():
            lead, _, own = task.strip().partition("\n")
            return own.strip() if lead.strip().lower() in TASK_LEADS and own.strip() else task.strip()
    return text


def tells_again(text: str, task: str) -> bool:
    """Tell whether a message is the task once more, perhaps within a template."""
    asked, told = " ".join(task.split()), " ".join(text.split())
    return told == asked or (len(asked) >= _MIN_QUOTED and asked in told)


def read_react(draft: Draft, text: str) -> None:
    """Append the steps of a text; what stands before the first label is a message, unless it is the task."""
    opening, parts = labelled(text)
    if opening and not draft.task:
        draft.task, opening = opening, ""
    if opening != draft.task.strip():
        draft.add("message", "assistant", opening)
    for kind, body, given in parts:
        if kind == "action":
            _add_call(draft, action(body, given))
        elif kind == "thought":
            draft.add("thought", "assistant", body)
        elif kind == "observation":
            answer = read_answer(body)
            draft.add("observation", "tool", answer.text, is_error=answer.is_error, exit_code=answer.exit_code)
        elif kind == "answer":
            draft.add("message", "assistant", body)


def _add_call(draft: Draft, act: Act | None) -> None:
    """Append a call; one that finishes is the final message."""
    if act is not None and act.is_answer:
        draft.add("message", "assistant", str(act.arguments["input"]))
    elif act is not None:
        draft.add("tool_call", "assistant", tool_name=act.name, tool_input=act.arguments)
