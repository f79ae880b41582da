"""Lists of chat messages with tool calls, and objects of {id, task, steps}, as trajectories."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import get_args

from swarm_memory.schema.base import digest
from swarm_memory.schema.trajectory import Role, StepKind, Trajectory, TrajectorySource, Usage
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import Record, as_list, as_object, as_text, text_of
from swarm_memory.server.hosts.session import Draft, Session, exit_code_of, read_answer
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.trajectory.tasks import task_text

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model"), "assistant"),
    **dict.fromkeys(("tool", "function"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_KINDS: dict[object, StepKind] = {kind: kind for kind in get_args(StepKind)}

_MIN_QUOTED = 60
"""A shorter task may be part of another sentence by chance."""

_SAID = ("content", "text", "tool_calls", "reasoning_content", "reasoning", "refusal")
"""Where a message says something; an output may be empty text."""


def is_message(record: Record) -> bool:
    """Tell whether a record is one message: a role with a content or with tool calls."""
    return bool(record.text("role")) and ("content" in record or "tool_calls" in record)


def is_step(record: Mapping[str, object]) -> bool:
    """Tell whether a record is a message, or a step as this project writes it: who acted, and what was said or done."""
    if record.get("kind") in _KINDS:
        return any(record.get(key) is not None for key in ("text", "tool_name", "tool_input"))
    return bool(as_text(record.get("role"))) and any(record.get(key) is not None for key in _SAID)


def has_steps(record: Record) -> bool:
    """Tell whether a record holds a whole trajectory: one without any step, or with some that say something."""
    given = _steps_of(record)
    return given is not None and (not given or any(is_step(as_object(each)) for each in given))


def read_list(
    messages: Iterable[Record],
    *,
    task_id: str,
    task: str = "",
    source: TrajectorySource = "messages",
    session_id: str | None = None,
) -> Draft:
    """Return the draft of one trajectory. Without a `task` the first message of the user is the task."""
    draft = Draft(task_id, task, source, session_id=session_id)
    reader = _Reader(Session(source, session_id, draft=draft), draft)
    for message in messages:
        reader.read(message)
    return draft


def _read_messages(messages: Iterator[Record], origin: Origin) -> Iterator[Trajectory]:
    """Yield the one trajectory of a list that stands one message a line."""
    named = origin.session_id or origin.stem
    said = filter(is_message, messages)
    draft = read_list(said, task_id=named or "messages", session_id=origin.session_id)
    if named is None:
        draft.task_id = f"messages-{digest(draft.task)[:16]}"
    yield draft.finished(origin.records.skipped)


def _read_objects(objects: Iterator[Record], origin: Origin) -> Iterator[Trajectory]:
    """Yield the trajectory of each object; one without an id is named by the file and its place, or what it holds."""
    counted, stem = 0, origin.session_id or origin.stem
    for number, record in enumerate(objects, start=1):
        if not has_steps(record):
            origin.records.skipped += 1
            continue
        name = f"{stem}:{number}" if stem else f"trajectory-{digest(record)[:16]}"
        yield _read_object(record, origin, name).finished(origin.records.skipped - counted)
        counted = origin.records.skipped


def _read_object(record: Record, origin: Origin, fallback_id: str) -> Draft:
    steps = as_list(_steps_of(record))
    is_ours = bool(steps) and as_object(steps[0]).get("kind") in _KINDS
    own = record.get("task_id" if is_ours else "id")
    draft = read_list(
        map(as_object, steps),
        task_id=str(own) if isinstance(own, str | int) and str(own).strip() else fallback_id,
        task=record.text("task"),
        source="steps" if isinstance(record.get("steps"), list) else "messages",
        session_id=origin.session_id or record.text("session_id") or None,
    )
    draft.agent_id = record.text("agent_id") or None
    return draft


def _steps_of(record: Record) -> list[object] | None:
    return next((record.array(key) for key in ("steps", "messages") if isinstance(record.get(key), list)), None)


@dataclass(slots=True)
class _Reader:
    """Where the reading of a message list stands."""

    session: Session
    draft: Draft
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """By the id that a call has in the list: the one it has in its session. Some lists use an id several times."""
    begun: bool = False
    """Whether the agent has said anything."""

    def read(self, message: Record) -> None:
        if message.get("kind") in _KINDS:
            self._own_step(message)
            return
        role, at = _ROLES.get(message.text("role").lower(), "assistant"), message.time("timestamp")
        text = text_of(message.get("content", message.get("text")))
        if role == "tool":
            self._result(message, text, at)
        elif role == "user":
            self._user(message, text, at)
        elif role == "system":
            self.draft.add("message", "system", text, at=at)
        else:
            self._agent(message, text, at)

    def _own_step(self, step: Record) -> None:
        self.draft.add(
            _KINDS[step.get("kind")],
            _ROLES.get(step.text("role"), "assistant"),
            step.text("text"),
            at=step.time("at"),
            tool_name=step.text("tool_name"),
            tool_input=step.get("tool_input"),
            call_id=step.text("call_id"),
            is_error=step.flag("is_error"),
            exit_code=step.code("exit_code"),
            interrupted=step.get("interrupted") is True,
        )

    def _user(self, message: Record, text: str, at: datetime | None) -> None:
        for block in message.objects("content"):
            if block.text("type").endswith("tool_result"):
                self._result(block, text_of(block.get("content")), at)
        if not self.draft.task:
            self.draft.task, self.draft.started_at = text, at
        elif self.begun or not _repeats(task_text(text), self.draft.task):
            self.draft.add("message", "user", text, at=at)

    def _agent(self, message: Record, text: str, at: datetime | None) -> None:
        self.begun = True
        if usage := message.object("usage"):
            self._usage(message, usage)
        thought = message.text("reasoning_content", "reasoning")
        self.session.say(thought, at, thought=True)
        self.session.say(text or message.text("refusal"), at)
        for block in message.objects("content"):
            if block.get("type") == "thinking":
                self.session.say(block.text("thinking"), at, thought=True)
            elif block.text("type").endswith("tool_use"):
                self._call(block, block.get("input"), at)
        for call in message.objects("tool_calls"):
            function = call.object("function") or call
            self._call(Record({**function, "id": call.get("id")}), function.get("arguments", function.get("args")), at)

    def _call(self, call: Record, arguments: object, at: datetime | None) -> None:
        named = call.text("id")
        own = "" if named in self.session.tools else named
        self.ids[named] = self.session.call(call.text("name"), _arguments(arguments), own, at)

    def _result(self, message: Record, text: str, at: datetime | None) -> None:
        """Take a result, of the oldest open call where it names none; what the message says comes before its text."""
        named = message.text("tool_call_id", "tool_use_id")
        call_id = self.ids.get(named, named) if named else self.session.open_call()
        failed, code, answer = message.flag("is_error", "isError"), None, read_answer(text)
        if "exit_code" in message:
            code = message.code("exit_code")
        else:
            code, text = answer.exit_code, answer.text
            code = exit_code_of(text) if code is None else code
            failed = answer.is_error if failed is None else failed
        self.session.result(call_id, text, at, is_error=failed, exit_code=code)

    def _usage(self, message: Record, usage: Record) -> None:
        key = message.text("id") or f"message-{len(self.draft.usage)}"
        self.draft.usage[key] = Usage(
            input_tokens=usage.count("prompt_tokens", "input_tokens"),
            output_tokens=usage.count("completion_tokens", "output_tokens"),
        )


def _arguments(arguments: object) -> object:
    """Return the arguments of a call as an object: they come as JSON text, or as they are."""
    if not isinstance(arguments, str):
        return arguments if arguments is not None else {}
    parsed = as_object(json_in(arguments))
    return parsed if parsed or not arguments.strip("{ }") else {"input": arguments}


def _repeats(text: str, task: str) -> bool:
    """Tell whether a message is the task once more, perhaps within a template."""
    asked, said = " ".join(task.split()), " ".join(text.split())
    return said == asked or (len(asked) >= _MIN_QUOTED and asked in said)


OBJECTS = Transcripts(has_steps, _read_objects)
MESSAGES = Transcripts(is_message, _read_messages)
