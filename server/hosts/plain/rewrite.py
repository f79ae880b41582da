"""Messages of agents that act in plain text, as the same messages with tool calls and their answers.

Structure decides, not the data set: an act counts only where the next message of a tool, or of a harness that speaks as
the user, answers it. Where a list has real tool calls nothing is read from its texts.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from swarm_memory.schema.trajectory import Role
from swarm_memory.server.hosts.plain.acts import (
    Act,
    Form,
    Said,
    bracketed_act,
    command_act,
    fenced_act,
    fences,
    is_command,
    json_acts,
    labelled,
    may_be_command,
    named_acts,
    react_acts,
    tagged_acts,
    without_thinking,
)
from swarm_memory.server.hosts.plain.answers import Answer, edit_outcome, harness_runs, is_reminder, read_answer
from swarm_memory.server.hosts.plain.edits import edit_acts, whole_files
from swarm_memory.server.hosts.plain.events import as_messages
from swarm_memory.server.hosts.plain.words import ARGUMENT, SHELL
from swarm_memory.server.hosts.records import JsonObject, as_list, as_object, as_text, text_of

TOOL_CALLS_MARK = "[tool_calls]"
ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "gpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "environment", "observation"), "tool"),
    **dict.fromkeys(("system", "developer", "exit"), "system"),
}

_HEAD_MESSAGES, _HEAD_CHARS = 40, 4_000_000
_MAX_RUN = 50
"""So many messages of an agent in a row wait for an answer."""

_MIN_IN_STEP = 3
_SURE_FORMS: frozenset[Form] = frozenset({"call", "edit", "react"})
"""Forms that are nothing else, even where nothing follows."""

_MAX_SAID_OF_EDIT = 4000
_OPENING_WORDS = ("```", "terminal", "shell", "bash", "command", "action:")


def with_calls(messages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the messages; what an agent does in plain text stands as tool calls in them."""
    own = (message for message in messages if message.get("is_demo") is not True)
    stream = itertools.chain.from_iterable(map(as_messages, own))
    head: list[JsonObject] = []
    chars = 0
    for message in stream:
        head.append(message)
        chars += len(_text(message))
        if len(head) >= _HEAD_MESSAGES or chars > _HEAD_CHARS:
            break
    everything = itertools.chain(head, stream)
    if any(map(_is_structured, head)):
        yield from everything
        return
    has_edits = any(_role(message) == "assistant" and edit_acts(_text(message)).acts for message in head)
    rewriter = _Rewriter(_who_answers(head), has_edits)
    for message in everything:
        yield from rewriter.read(message)
    yield from rewriter.end()


def _role(message: JsonObject) -> Role | None:
    return ROLES.get(as_text(message.get("role")).lower())


def _text(message: JsonObject) -> str:
    return text_of(message.get("content", message.get("text"))).replace("\r\n", "\n")


def _is_structured(message: JsonObject) -> bool:
    """Tell whether a message holds a real call or the result of one, or is a step of ours."""
    if any(message.get(key) for key in ("kind", "tool_calls", "function_call", "tool_call_id", "tool_use_id")):
        return True
    blocks = map(as_object, as_list(message.get("content")))
    if any(as_text(block.get("type")).endswith(("tool_use", "tool_result")) for block in blocks):
        return True
    return _role(message) == "assistant" and TOOL_CALLS_MARK in _text(message)


Speaker = Literal["tool", "harness", "wrapping harness"]
"""Who answers: a tool, a harness that speaks as the user, one of which few answers are seen, each in its wrapper."""


def _who_answers(head: list[JsonObject]) -> Speaker:
    """Tell who answers. A harness speaks as the user where it wraps what it says, or each message is one act."""
    if any(_role(message) == "tool" for message in head):
        return "tool"
    acting = wrapped = plain = 0
    for message, following in itertools.pairwise(head):
        if _role(message) != "assistant" or _role(following) != "user":
            continue
        said, answer = _read(_text(message)), _text(following)
        if not said.acts or is_reminder(answer):
            plain += not is_reminder(answer)
            continue
        acting += 1
        wrapped += _is_wrapped(answer)
    opening = " ".join(_text(message) for message in head[:2] if _role(message) != "assistant").lower()
    in_step = acting >= _MIN_IN_STEP and not plain and any(word in opening for word in _OPENING_WORDS)
    if in_step or (wrapped >= _MIN_IN_STEP and 2 * wrapped >= acting):
        return "harness"
    return "wrapping harness" if wrapped else "tool"


def _is_wrapped(text: str) -> bool:
    """Tell whether the words of a harness stand in or around a text."""
    return read_answer(text).is_wrapped or edit_outcome(text).is_told or bool(harness_runs(text)[1])


def _read(text: str, *, with_fences: bool = True) -> Said:
    """Take a message apart by the surest form that it holds; `with_fences` tells whether a fence may be a command."""
    said, thought = without_thinking(text)
    in_lines = (react_acts, fenced_act) if with_fences else ()
    for parse in (tagged_acts, edit_acts, json_acts, named_acts, *in_lines):
        found = parse(said)
        if found.acts:
            return Said(found.prose, _both(thought, found.thought), found.acts)
    return _talk(text)


def _talk(text: str) -> Said:
    """Take a message apart that does nothing: one under labels of thoughts alone says nothing."""
    said, thought = without_thinking(text)
    before, parts = labelled(said)
    if parts and not before and all(part.kind == "thought" for part in parts):
        return Said("", _both(thought, *(part.body for part in parts)))
    return Said(said, thought)


def _both(*texts: str) -> str:
    """Return the texts that are not empty, a line for each."""
    return "\n".join(filter(None, texts))


@dataclass(slots=True)
class _Rewriter:
    speaker: Speaker
    has_edits: bool
    is_structured: bool = False
    run: list[JsonObject] = field(default_factory=list[JsonObject])
    """Messages of the agent that nothing has followed yet."""
    open: deque[tuple[str, Act]] = field(default_factory=deque[tuple[str, Act]])
    """Calls without an answer, each with its id."""
    answered: set[Form] = field(default_factory=set[Form])
    """Forms of acts that were answered."""
    made: int = 0

    def read(self, message: JsonObject) -> Iterator[JsonObject]:
        """Yield what a message and those that waited for it have become."""
        role = _role(message)
        self.is_structured = self.is_structured or _is_structured(message)
        if self.is_structured:
            yield from self._as_prose()
            yield message
        elif role == "assistant":
            self.open.clear()
            self.run.append(message)
            while len(self.run) > _MAX_RUN or sum(len(_text(each)) for each in self.run[:-1]) > _HEAD_CHARS:
                yield _prose(self.run.pop(0))
        elif role == "tool" or (role == "user" and self._is_answer(_text(message))):
            yield from self._answered(message, role)
        else:
            yield from self._as_prose()
            is_harness = role == "user" and is_reminder(_text(message))
            yield {**message, "role": "system"} if is_harness else message

    def end(self) -> Iterator[JsonObject]:
        """Yield what is left: acts of a form that was answered before count, and what ends the task."""
        for message in self.run:
            said = self._read(message, is_last=message is self.run[-1])
            counts = bool(said.acts) and all(map(self._counts_unanswered, said.acts))
            yield self._acting(message, said) if counts else _prose(message)
        self.run.clear()

    def _is_answer(self, text: str) -> bool:
        """Whether what stands in the user's name is a harness's answer."""
        if not self.run and not self.made:
            return False
        return self.speaker == "harness" or (self.speaker == "wrapping harness" and _is_wrapped(text))

    def _counts_unanswered(self, act: Act) -> bool:
        """Whether an act that nothing follows was made: a command in a fence at the end may be a part of the answer."""
        return bool(self.answered) and (act.ends_task or (act.form in self.answered and act.form in _SURE_FORMS))

    def _as_prose(self) -> Iterator[JsonObject]:
        yield from map(_prose, self.run)
        self.run.clear()
        self.open.clear()

    def _read(self, message: JsonObject, *, is_last: bool, is_wrapped: bool = True) -> Said:
        said = _read(_text(message), with_fences=is_wrapped or not self.has_edits)
        if not said.acts and is_last:
            said = _bare(said, is_usual="bare" in self.answered)
        return said

    def _acting(self, message: JsonObject, said: Said) -> JsonObject:
        made = [(self._next_id(), act) for act in said.acts if not act.is_answer]
        self.open.extend(made)
        prose = _both(said.prose, *(as_text(act.arguments["input"]) for act in said.acts if act.is_answer))
        calls = [_call(call_id, act) for call_id, act in made]
        return {**message, "content": prose, **_thinking(message, said.thought), "tool_calls": calls}

    def _next_id(self) -> str:
        self.made += 1
        return f"text-{self.made}"

    def _answered(self, message: JsonObject, role: Role) -> Iterator[JsonObject]:
        text = _text(message)
        if is_reminder(text) and (role == "user" or (self.run and len(list(fences(_text(self.run[-1])))) != 1)):
            yield from self._as_prose()
            yield {**message, "role": "system"}
            return
        answer = read_answer(text)
        for waiting in self.run:
            is_last = waiting is self.run[-1]
            said = self._read(waiting, is_last=is_last and role == "tool", is_wrapped=answer.is_wrapped)
            if is_last and all(act.form in ("fence", "bare") for act in said.acts):
                written = whole_files(_text(waiting), text)
                said = Said(_text(waiting), said.thought, written) if written else said
            yield self._acting(waiting, said) if said.acts else _prose(waiting)
        self.run.clear()
        if self.open and not all(act.form == "edit" for _, act in self.open):
            yield from self._answer(message, answer)
            return
        before, runs = harness_runs(text)
        if self.open:
            yield from self._answer_edits(message, read_answer(before) if runs else answer)
        elif before or not runs:
            yield {**message, "role": role, "content": before}
        for run in runs:
            call_id = self._next_id()
            act = Act(SHELL, {ARGUMENT[SHELL]: run.command}, "call")
            yield {**message, "role": "system", "content": "", "tool_calls": [_call(call_id, act)]}
            yield _result(message, call_id, run.answer)

    def _answer(self, message: JsonObject, answer: Answer) -> Iterator[JsonObject]:
        """Yield the answer of the oldest open call; a harness that speaks as the user answers all at once."""
        call_id, act = self.open.popleft()
        self.answered.add(act.form)
        yield _result(message, call_id, answer)
        if self.speaker != "tool":
            self.open.clear()

    def _answer_edits(self, message: JsonObject, answer: Answer) -> Iterator[JsonObject]:
        """Yield the answers of edits that were written together: of each what is said of its file."""
        before, outcome, edits = answer.text, edit_outcome(answer.text), list(self.open)
        self.open.clear()
        self.answered.add("edit")
        if not outcome.is_told:
            yield _result(message, edits[0][0], answer)
            return
        for call_id, act in edits:
            line, is_error = outcome.of(act.file) or ("", None)
            if is_error is not None:
                start = before.find(line) if len(edits) > 1 else 0
                shown = line if len(edits) > 1 and not is_error else before[start : start + _MAX_SAID_OF_EDIT]
                yield _result(message, call_id, Answer(shown, answer.exit_code, is_error))


def _prose(message: JsonObject) -> JsonObject:
    said = _talk(_text(message))
    if {"action", "observation"} <= {part.kind for part in labelled(said.prose)[1]}:
        return {**message, "role": "transcript"}
    return {**message, "content": said.prose, **_thinking(message, said.thought)}


def _bare(said: Said, *, is_usual: bool) -> Said:
    """Read a message that is nothing but a command, or a call in brackets; where that is usual it need not be known."""
    text = said.prose.strip()
    is_one = may_be_command(text) if is_usual else is_command(text)
    act = bracketed_act(text) or (command_act(text, SHELL, "bare") if is_one else None)
    return Said("", said.thought, [act]) if act is not None else said


def _thinking(message: JsonObject, thought: str) -> JsonObject:
    own = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    return {"reasoning_content": _both(own, thought)} if thought else {}


def _call(call_id: str, act: Act) -> JsonObject:
    return {"id": call_id, "function": {"name": act.name, "arguments": act.arguments}}


def _result(message: JsonObject, call_id: str, answer: Answer) -> JsonObject:
    return {**message, "role": "tool", "tool_call_id": call_id, "content": answer.text, "name": "", **answer.details}
