"""Reads lists of chat messages with tool calls, and objects of {id, task, steps}, as trajectories."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from swarm_memory.schema.base import digest
from swarm_memory.schema.trajectory import Role, StepKind, Trajectory, TrajectorySource, Usage
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import JsonDict, as_object, as_text, text_or_json
from swarm_memory.server.hosts.session import Draft, Session, exit_code_of, read_answer
from swarm_memory.tools.model.parse import json_or_none
from swarm_memory.tools.trajectory.tasks import task_text

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model"), "assistant"),
    **dict.fromkeys(("tool", "function"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_KINDS: dict[str, StepKind] = {kind: kind for kind in get_args(StepKind)}

_MIN_QUOTED = 60
"""A task with fewer characters may be part of another sentence by chance."""

_SAID = ("content", "text", "tool_calls", "reasoning_content", "reasoning", "refusal")
"""The fields that hold a message's content; empty text counts, since a tool's output may be empty."""


def is_message(record: JsonDict) -> bool:
    """Whether a record is one message: a role with content or tool calls."""
    return bool(record.text("role")) and ("content" in record or "tool_calls" in record)


def is_step(record: Mapping[str, object]) -> bool:
    """Whether a record is a message, or a step in this project's own format: who acted, and what was said or done."""
    if as_text(record.get("kind")) in _KINDS:
        return any(record.get(key) is not None for key in ("text", "tool_name", "tool_input"))
    return bool(as_text(record.get("role"))) and any(record.get(key) is not None for key in _SAID)


def has_steps(record: JsonDict) -> bool:
    """Whether a record holds a whole trajectory: a list of steps that is empty or has at least one valid step."""
    given = _steps_of(record)
    return given is not None and (not given or any(is_step(as_object(each)) for each in given))


def read_list(
    messages: Iterable[JsonDict],
    *,
    task_id: str,
    task: str = "",
    source: TrajectorySource = "messages",
    session_id: str | None = None,
) -> Draft:
    """Return the draft of one trajectory. Without a `task` the first message of the user is the task."""
    draft = Draft(task_id, task, source, session_id=session_id)
    reader = _Reader(source, session_id, draft=draft)
    for message in messages:
        reader.take(message, draft)
    return draft


def _read_messages(messages: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield the one trajectory of a list with one message per line."""
    named = origin.session_id or origin.stem
    draft = read_list(filter(is_message, messages), task_id=named or "messages", session_id=origin.session_id)
    if named is None:
        draft.task_id = f"messages-{digest(draft.task)[:16]}"
    yield draft.finished(origin.records.skipped)


def _read_objects(objects: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield the trajectory of each object; without an id it is named by file and position, or by its hash."""
    counted, stem = 0, origin.session_id or origin.stem
    for number, record in enumerate(objects, start=1):
        if not has_steps(record):
            origin.records.skipped += 1
            continue
        steps = list(map(as_object, _steps_of(record) or ()))
        is_ours = bool(steps) and steps[0].text("kind") in _KINDS
        own = record.get("task_id" if is_ours else "id")
        name = str(own).strip() and str(own) if isinstance(own, str | int) else ""
        draft = read_list(
            steps,
            task_id=name or (f"{stem}:{number}" if stem else f"trajectory-{digest(record)[:16]}"),
            task=record.text("task"),
            source="steps" if isinstance(record.get("steps"), list) else "messages",
            session_id=origin.session_id or record.text("session_id") or None,
        )
        draft.agent_id = record.text("agent_id") or None
        yield draft.finished(origin.records.skipped - counted)
        counted = origin.records.skipped


def _steps_of(record: JsonDict) -> list[object] | None:
    return next((record.array(key) for key in ("steps", "messages") if isinstance(record.get(key), list)), None)


@dataclass(slots=True)
class _Reader(Session):
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of calls in the list, with their ids in the session: some lists use an id several times."""
    begun: bool = False
    """Whether the agent has said anything yet."""

    def take(self, message: JsonDict, draft: Draft) -> None:
        """Take a message, or a step in this project's own format."""
        if message.text("kind") in _KINDS:
            draft.add(
                _KINDS[message.text("kind")],
                _ROLES.get(message.text("role"), "assistant"),
                message.text("text"),
                at=message.time("at"),
                tool_name=message.text("tool_name"),
                tool_input=message.get("tool_input"),
                call_id=message.text("call_id"),
                is_error=message.flag("is_error"),
                exit_code=message.code("exit_code"),
                interrupted=message.get("interrupted") is True,
            )
            return
        role, self.at = _ROLES.get(message.text("role").lower(), "assistant"), message.time("timestamp")
        text = text_or_json(message.get("content", message.get("text")))
        if role == "tool":
            self._result(message, text)
        elif role == "user":
            self._user(message, text, draft)
        elif role == "system":
            draft.add("message", "system", text, at=self.at)
        else:
            self._agent(message, text, draft)

    def _user(self, message: JsonDict, text: str, draft: Draft) -> None:
        for block in message.objects("content"):
            if block.text("type").endswith("tool_result"):
                self._result(block, text_or_json(block.get("content")))
        if not draft.task:
            draft.task, draft.started_at = text, self.at
        elif self.begun or not _repeats(task_text(text), draft.task):
            draft.add("message", "user", text, at=self.at)

    def _agent(self, message: JsonDict, text: str, draft: Draft) -> None:
        self.begun = True
        if usage := message.object("usage"):
            draft.usage[message.text("id") or f"message-{len(draft.usage)}"] = Usage(
                input_tokens=usage.count("prompt_tokens", "input_tokens"),
                output_tokens=usage.count("completion_tokens", "output_tokens"),
            )
        self.say(message.text("reasoning_content", "reasoning"), thought=True)
        self.say(text or message.text("refusal"))
        for block in message.objects("content"):
            if block.get("type") == "thinking":
                self.say(block.text("thinking"), thought=True)
            elif block.text("type").endswith("tool_use"):
                self._call(block.text("id"), block.text("name"), block.get("input"))
        for call in message.objects("tool_calls"):
            function = call.object("function") or call
            self._call(call.text("id"), function.text("name"), function.get("arguments", function.get("args")))

    def _call(self, named: str, name: str, arguments: object) -> None:
        """Take a call; its arguments come as they are, or as JSON text."""
        given: object = {} if arguments is None else arguments
        if isinstance(arguments, str):
            read = as_object(json_or_none(arguments))
            given = read if read or not arguments.strip("{ }") else {"input": arguments}
        self.ids[named] = self.call(name, given, "" if named in self.tools else named)

    def _result(self, message: JsonDict, text: str) -> None:
        """Take a result, by default of the oldest open call; the message's own fields take precedence over its text."""
        named = message.text("tool_call_id", "tool_use_id")
        call_id = self.ids.get(named, named) if named else self.open_call()
        failed, code, answer = message.flag("is_error", "isError"), None, read_answer(text)
        if "exit_code" in message:
            code = message.code("exit_code")
        else:
            code, text = answer.exit_code, answer.text
            code = exit_code_of(text) if code is None else code
            failed = answer.is_error if failed is None else failed
        self.result(call_id, text, is_error=failed, exit_code=code)


def _repeats(text: str, task: str) -> bool:
    """Whether a message repeats the task, perhaps within a template."""
    asked, said = " ".join(task.split()), " ".join(text.split())
    return said == asked or (len(asked) >= _MIN_QUOTED and asked in said)


OBJECTS = Transcripts(has_steps, _read_objects)
MESSAGES = Transcripts(is_message, _read_messages)
