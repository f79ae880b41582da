"""The steps of one task, collected within the limits of what is kept, and how a call ended by what its text says."""

import re
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypedDict, Unpack, get_args

from pydantic import JsonValue

from swarm_memory.schema.trajectory import Label, Role, Step, StepKind, Trajectory, TrajectorySource, Usage
from swarm_memory.server.hosts.records import Record, all_text, as_object, bounded_json, json_size
from swarm_memory.tools.guard.redact import MAX_STEP_CHARS, MAX_STEPS
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.trajectory.tasks import strip_notes

_SAYING = ("remember", "distill_memories", "learn_from_trajectory")
"""Our tools by which an agent says how the task ended that it works on."""

MAX_KEPT_CHARS = 12_000_000
"""Of all steps of one trajectory together, beside the limit of steps."""

MAX_TASK_CHARS = 20_000

_EXIT_CODE = re.compile(r"\s*(?:Error: )?Exit code (-?\d{1,10})\b")


def exit_code_of(text: str) -> int | None:
    """Return the code of a tool's answer that begins with `Exit code N`."""
    match = _EXIT_CODE.match(text)
    return int(match[1]) if match else None


_MAX_JSON_CHARS = 2_000_000
_MAX_LINE_CHARS = 400
_EXIT_LINE = re.compile(
    r"[\[(<]?(?:(?:the )?(?:command|process)(?: -?\d{1,9})? )?(?:(?:completed|finished|exited|failed|ended) )?"
    r"(?:with )?(?:(?:exit|return)[ _-]?(?:code|status)|(?<=exited with )code)[ \t]{0,3}[:=]?[ \t]{0,3}"
    r"(?P<code>-?\d{1,10})[.)\]>]{0,3}",
    re.IGNORECASE,
)
"""A whole line that gives the exit code."""

_LEAD = re.compile(r"\A\s{0,40}(?:command |tool |code )?output:[ \t]{0,40}\n?", re.IGNORECASE)
_CODE_KEYS = ("exit_code", "exitCode", "returncode")
_RESULT_KEYS = frozenset({*_CODE_KEYS, "stdout", "stderr", "output", "command", "duration", "status", "success"})


class Answer(NamedTuple):
    """What a call gave."""

    text: str
    """Without the words around an output."""
    exit_code: int | None = None
    is_error: bool | None = None


def read_answer(text: str) -> Answer:
    """Read JSON that gives an exit code or MCP's `isError`; else the exit code in the last or the first line."""
    if text.lstrip().startswith("{") and len(text) <= _MAX_JSON_CHARS:
        result = as_object(json_in(text))
        code = next((code for key in _CODE_KEYS if (code := result.code(key)) is not None), None)
        failed = result.flag("isError", "is_error")
        if code is not None or failed is not None:
            return Answer(_output_in(result) or text, code, failed)
    body = text.strip()
    before, _, last = body.rpartition("\n")
    first, _, after = body.partition("\n")
    for line, rest in ((last, before), (first, after)):
        ended = _EXIT_LINE.fullmatch(line.strip()) if len(line) <= _MAX_LINE_CHARS else None
        if ended is not None:
            return Answer(_LEAD.sub("", rest, count=1), int(ended["code"]))
    return Answer(text)


def _output_in(result: Record) -> str:
    """Return what a result as JSON shows; empty where it holds more than an output."""
    if blocks := result.array("content"):
        return all_text(blocks)
    if not result.keys() <= _RESULT_KEYS:
        return ""
    return "\n".join(filter(None, (result.text(key) for key in ("stdout", "output", "stderr"))))


class StepDetails(TypedDict, total=False):
    """What a step has beside its text, as it is in the transcript: the tool, and how its call ended."""

    tool_name: str
    call_id: str
    tool_input: object
    is_error: bool | None
    exit_code: int | None
    interrupted: bool


@dataclass(slots=True)
class Draft:
    """A trajectory in the making. Texts are cleaned, shortened and freed of our own notes as they come in.

    Of its steps the beginning and the end are kept: what does not fit falls out of the middle, and is counted.
    """

    task_id: str
    task: str
    source: TrajectorySource
    session_id: str | None = None
    agent_id: str | None = None
    usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """By message id: the counts of its last line."""
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
        """Append a step; one that would say nothing is left out."""
        text = self._own_words_out(text)
        if not text.strip() and kind in ("message", "thought"):
            return
        name, call_id = details.get("tool_name"), details.get("call_id")
        self.added += 1
        step = Step(
            id=f"s{self.added}",
            kind=kind,
            role=role,
            text=clean(text, MAX_STEP_CHARS),
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

    def own_call(self, name: str, given: object) -> None:
        """Take a call of one of our tools: it is no step of the task, but may say how that ended."""
        said = as_object(given) if name.endswith(_SAYING) else Record()
        for label in get_args(Label):
            if label in (said.get("outcome"), said.get("verdict")):
                self.outcome = label

    def finished(self, skipped_lines: int) -> Trajectory:
        """Return the trajectory."""
        task = clean(self._own_words_out(self.task), MAX_TASK_CHARS).strip()
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
        kept = bounded_json(value, lambda text: clean(self._own_words_out(text), MAX_STEP_CHARS))
        if json_size(kept) > 2 * MAX_STEP_CHARS:
            kept = bounded_json(kept, lambda text: clean(text, MAX_STEP_CHARS // 20))
        return kept if isinstance(kept, dict) else {"input": kept}


def _size(step: Step) -> int:
    return len(step.text) + json_size(step.tool_input) + 500
