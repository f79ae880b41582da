"""What all hosts' transcript readers share: prompts become tasks; calls and results become steps, within limits."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypedDict, Unpack, get_args

from pydantic import JsonValue

from swarm_memory.schema.trajectory import Label, Role, Step, StepKind, Trajectory, TrajectorySource, Usage
from swarm_memory.server.hosts.records import JsonDict, Records, all_text, as_object, sanitize_json
from swarm_memory.tools.guard.redact import MAX_READ_CHARS, MAX_STEPS, bounded_input, json_size
from swarm_memory.tools.model.parse import json_or_none
from swarm_memory.tools.promote.marks import ids_in
from swarm_memory.tools.text.cleaning import NOTES_OPEN, clean
from swarm_memory.tools.trajectory.tasks import (
    continues,
    find_memory_ids,
    is_own_tool,
    is_task_prompt,
    session_task_id,
    strip_notes,
    task_text,
)

_SAYING = ("remember", "distill_memories", "learn_from_trajectory")
"""Those of our tools with which an agent reports how its current task ended."""

MAX_KEPT_CHARS = 12_000_000
"""The most characters of all steps of one trajectory together, in addition to the limit on their number."""

_EXIT_CODE = re.compile(r"\s*(?:Error: )?Exit code (-?\d{1,10})\b")


def exit_code_of(text: str) -> int | None:
    """Return the code of a tool's answer that begins with `Exit code N`; None for any other."""
    return int(match[1]) if (match := _EXIT_CODE.match(text)) else None


_MAX_JSON_CHARS = 2_000_000
_MAX_LINE_CHARS = 400
_EXIT_LINE = re.compile(
    r"[\[(<]?(?:(?:the )?(?:command|process)(?: -?\d{1,9})? )?(?:(?:completed|finished|exited|failed|ended) )?"
    r"(?:with )?(?:(?:exit|return)[ _-]?(?:code|status)|(?<=exited with )code)[ \t]{0,3}[:=]?[ \t]{0,3}"
    r"(?P<code>-?\d{1,10})[.)\]>]{0,3}",
    re.IGNORECASE,
)
"""Matches a whole line that reports the exit code."""

_LEAD = re.compile(r"\A\s{0,40}(?:command |tool |code )?output:[ \t]{0,40}\n?", re.IGNORECASE)
_CODE_KEYS = ("exit_code", "exitCode", "returncode")
_RESULT_KEYS = frozenset({*_CODE_KEYS, "stdout", "stderr", "output", "command", "duration", "status", "success"})


class Answer(NamedTuple):
    """What a call returned."""

    text: str
    """The output without the wording around it."""
    exit_code: int | None = None
    is_error: bool | None = None


def read_answer(text: str) -> Answer:
    """Read JSON that has an exit code or MCP's `isError`; otherwise look for an exit code in the last or first line."""
    if text.lstrip().startswith("{") and len(text) <= _MAX_JSON_CHARS:
        result = as_object(json_or_none(text))
        code = next((code for key in _CODE_KEYS if (code := result.code(key)) is not None), None)
        failed = result.flag("isError", "is_error")
        if code is not None or failed is not None:
            shown, parts = "", [result.text(key) for key in ("stdout", "output", "stderr")]
            if blocks := result.array("content"):
                shown = all_text(blocks)
            elif result.keys() <= _RESULT_KEYS:  # else it holds more than an output
                shown = "\n".join(filter(None, parts))
            return Answer(shown or text, code, failed)
    body = text.strip()
    before, _, last = body.rpartition("\n")
    first, _, after = body.partition("\n")
    for line, rest in ((last, before), (first, after)):
        ended = _EXIT_LINE.fullmatch(line.strip()) if len(line) <= _MAX_LINE_CHARS else None
        if ended is not None:
            return Answer(_LEAD.sub("", rest, count=1), int(ended["code"]))
    return Answer(text)


class CallStatus(TypedDict, total=False):
    """How a call ended."""

    is_error: bool | None
    exit_code: int | None
    interrupted: bool


class StepDetails(CallStatus, total=False):
    """What a step has besides its text, as in the transcript."""

    tool_name: str
    call_id: str
    tool_input: object


@dataclass(slots=True)
class Draft:
    """A trajectory in the making. Texts come in cleaned, without our own notes, and cut to what redaction has to read.

    The first and last steps are kept: those that do not fit are dropped from the middle and counted.
    """

    task_id: str
    task: str
    source: TrajectorySource
    session_id: str | None = None
    agent_id: str | None = None
    usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """Token counts by message id, each from the message's last line."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    injected: dict[str, None] = field(default_factory=dict[str, None])
    outcome: Label | None = None
    added: int = 0
    dropped: int = 0
    _head: list[Step] = field(default_factory=list[Step])
    _tail: deque[Step] = field(default_factory=deque[Step])
    _head_chars: int = 0
    _tail_chars: int = 0

    def add(
        self, kind: StepKind, role: Role, text: str = "", *, at: datetime | None = None, **details: Unpack[StepDetails]
    ) -> None:
        """Append a step; an empty message or thought is left out."""
        text = self._own_words_out(text)
        if not text.strip() and kind in ("message", "thought"):
            return
        name, call_id = details.get("tool_name"), details.get("call_id")
        self.added += 1
        step = Step(
            id=f"s{self.added}",
            kind=kind,
            role=role,
            text=clean(text, MAX_READ_CHARS),
            tool_name=clean(name, 300) if name else None,
            tool_input=self._tool_input(details.get("tool_input")),
            call_id=clean(call_id, 200) if call_id else None,
            is_error=details.get("is_error"),
            exit_code=details.get("exit_code"),
            interrupted=details.get("interrupted", False),
            at=at,
        )
        self._keep(step)
        self.ended_at = at or self.ended_at

    def _keep(self, step: Step) -> None:
        size, half = _size(step), MAX_STEPS // 2
        if not self._tail and len(self._head) < half and self._head_chars + size <= MAX_KEPT_CHARS // 2:
            self._head.append(step)
            self._head_chars += size
            return
        self._tail.append(step)
        self._tail_chars += size
        while len(self._tail) > MAX_STEPS - half or self._tail_chars > MAX_KEPT_CHARS // 2:
            self._tail_chars -= _size(self._tail.popleft())
            self.dropped += 1

    def finished(self, skipped_lines: int) -> Trajectory:
        """Return the trajectory."""
        task = clean(self._own_words_out(self.task).strip(), MAX_READ_CHARS)
        usage = {name: sum(getattr(each, name) for each in self.usage.values()) for name in Usage.model_fields}
        return Trajectory(
            task_id=clean(self.task_id, 500) or "task",
            task=task,
            steps=(*self._head, *self._tail),
            session_id=self.session_id,
            outcome=self.outcome,
            agent_id=self.agent_id,
            source=self.source,
            started_at=self.started_at,
            ended_at=self.ended_at,
            usage=Usage.model_validate(usage),
            injected_memory_ids=tuple(self.injected),
            skipped_lines=skipped_lines,
            dropped_steps=self.dropped,
        )

    def _own_words_out(self, text: str) -> str:
        text, ids = strip_notes(text)
        self.injected.update(dict.fromkeys(ids))
        return text

    def _tool_input(self, value: object) -> dict[str, JsonValue] | None:
        if value is None:
            return None
        kept = sanitize_json(value, lambda text: clean(self._own_words_out(text), MAX_READ_CHARS))
        if json_size(kept) > 2 * MAX_READ_CHARS:  # else a few such steps would push all others out
            kept = bounded_input(kept)
        return kept if isinstance(kept, dict) else {"input": kept}


def _size(step: Step) -> int:
    return len(step.text) + json_size(step.tool_input) + 500


_ARGUMENTS: Mapping[str, str] = {
    "filePath": "file_path", "absolute_path": "file_path", "oldString": "old_string", "newString": "new_string",
}  # fmt: skip
"""Some hosts' names of arguments, with their names in our trajectories."""


@dataclass(slots=True)
class Session:
    """The state of reading a session. A host's reader passes it what was said and done, in order.

    Anything before the first prompt belongs to no task and is left out. With `agent_id` the session is a subagent's:
    one task, whatever is said in it.
    """

    source: TrajectorySource
    session_id: str | None = None
    agent_id: str | None = None
    fallback_id: str | None = None
    """The session's id where its records name none."""
    draft: Draft | None = None
    ended: Draft | None = None
    """The task that the last prompt ended, until `read` yields it."""
    number: int = 0
    detour: bool = False
    """Whether one of the host's own commands is running: what the agent does for it belongs to no task."""
    noted: dict[str, None] = field(default_factory=dict[str, None])
    """Ids of memories that were injected before a task began."""
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """Tool names of the running task, by call id."""
    counted: int = 0
    """How many of the skipped records earlier tasks have already reported."""
    codes_decide: bool = True
    """Whether its exit code decides if a command failed; Claude Code reports that itself."""
    answered: set[str] = field(default_factory=set[str])
    """Ids of the task's calls that have an observation: a resumed session has some twice."""
    at: datetime | None = None
    """The time of the record being read."""

    @property
    def running(self) -> Draft | None:
        """The task that the current actions belong to; None during a detour."""
        return None if self.detour else self.draft

    def note(self, text: str) -> None:
        """Take what the host put into the context, and record the ids of the memories in our notes and skills in it."""
        ids = [*(strip_notes(text)[1] if NOTES_OPEN in text else ()), *ids_in(text)]
        (self.noted if self.draft is None else self.draft.injected).update(dict.fromkeys(ids))

    def prompt(self, raw: str) -> bool:
        """Take what the user typed, which continues the task or begins one; return whether it asks for something."""
        if not is_task_prompt(raw):
            return False
        text, self.detour = task_text(raw), False
        if self.draft is not None and (self.agent_id is not None or continues(text, self.draft.task)):
            self.note(raw)
            self.add("message", "user", text)
            return True
        self.ended, self.number = self.draft, self.number + 1
        self.session_id = self.session_id or self.fallback_id
        session = self.session_id or "session"
        self.draft = Draft(
            task_id=f"{session}:agent-{self.agent_id}" if self.agent_id else session_task_id(session, self.number),
            task=text,
            source=self.source,
            session_id=self.session_id,
            agent_id=self.agent_id,
            started_at=self.at,
            ended_at=self.at,
            injected=self.noted,
        )
        self.noted, self.tools, self.answered = {}, {}, set()
        self.note(raw)
        return True

    def add(self, kind: StepKind, role: Role, text: str = "", **details: Unpack[StepDetails]) -> None:
        """Append a step to the running task."""
        if self.running is not None:
            self.running.add(kind, role, text, at=self.at, **details)

    def say(self, text: str, *, thought: bool = False) -> None:
        """Take what the agent said or thought."""
        self.add("thought" if thought else "message", "assistant", text)

    def stop(self, text: str, *, failed: bool = False) -> None:
        """Record that the user interrupted the work, or with `failed` that the host's connection to the model did."""
        if failed:
            self.add("message", "system", text, is_error=True)
        else:
            self.add("message", "user", text, interrupted=True)

    def call(self, name: str, given: object, call_id: str) -> str:
        """Take a call and return its id; a call without an id gets one, and a repeated call is left out.

        A call of one of our own tools is not a step of the task, but may report how the task ended.
        """
        call_id = call_id or f"call-{len(self.tools) + 1}"
        if self.running is None or call_id in self.tools:
            return call_id
        self.tools[call_id] = name or "tool"
        said = as_object(given)
        if not is_own_tool(name):
            given = {_ARGUMENTS.get(key, key): each for key, each in said.items()} or given
            self.add("tool_call", "assistant", tool_name=self.tools[call_id], tool_input=given, call_id=call_id)
        elif name.endswith(_SAYING):
            for label in get_args(Label):
                if label in (said.get("outcome"), said.get("verdict")):
                    self.running.outcome = label
        return call_id

    def open_call(self) -> str:
        """Return the id of the oldest call without a result, or an empty one, for a result that names no call."""
        return next((each for each in self.tools if each not in self.answered), "")

    def result(self, call_id: str, text: str, **ended: Unpack[CallStatus]) -> None:
        """Take the result of a call, once. With `codes_decide` a nonzero exit code means failure, whatever is said."""
        code = ended.get("exit_code")
        if code is not None and not ended.get("is_error") and self.codes_decide:
            ended["is_error"] = code != 0
        if self.running is None or call_id in self.answered:
            return
        self.answered.add(call_id)
        name = self.tools.get(call_id, "")
        if not is_own_tool(name):
            self.note(text)
            self.add("observation", "tool", task_text(text), tool_name=name, call_id=call_id, **ended)
        elif name.endswith("retrieve_memories"):
            self.running.injected.update(dict.fromkeys(find_memory_ids(text)))

    def read(
        self, records: Iterable[JsonDict], source: Records, take: Callable[[JsonDict], bool]
    ) -> Iterator[Trajectory]:
        """Yield each task as soon as the next one begins. `take` returns whether it recognizes a record.

        Unrecognized records are counted as skipped, together with the lines of `source` that could not be read.
        """
        for record in records:
            is_known = take(record)  # it may count parts of the record by itself
            source.skipped += not is_known
            if self.ended is not None:
                yield self.ended.finished(source.skipped - self.counted)
                self.ended, self.counted = None, source.skipped
        if self.draft is not None:
            yield self.draft.finished(source.skipped - self.counted)
            self.counted = source.skipped
