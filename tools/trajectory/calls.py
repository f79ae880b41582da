"""The tool calls of a trajectory, each with its result: whether it failed, and what a check reported."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from pydantic import JsonValue

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.model.parse import json_or_none
from swarm_memory.tools.trajectory.checks import CheckResult, read_check, read_tool_check
from swarm_memory.tools.trajectory.failures import (
    SHOWS_TEXT,
    Signature,
    command_text,
    error_line,
    key_line,
    signature_of,
)
from swarm_memory.tools.trajectory.shell import Command, Part, parse_command

_FILE_KEYS = ("file_path", "path", "notebook_path", "filename", "file", "target_file", "relative_path")
"""Arguments that name a file."""

_VERB = re.compile(r"[a-z]+(?:_[a-z]+){0,2}")
_WRITING_TOOL = re.compile(
    r"(?i)(?:multi|notebook)?edit|(?:fs_)?write|create|update|delete|insert|remove|add|set|send|post|put|apply"
    r"|(?:str_?|search_)?replace|undo|append|rename|patch"
)
LOOKING_TOOL = re.compile(
    r"(?i)search|look_?up|retriev|fetch|browse|query|find|grep|glob|(?:^|_)(?:get|read|list|open)(?:_|$)"
)
"""Matches the names of tools that search or read."""

_ACTING_TOOL = re.compile(
    r"(?i)^(?!(?:calculate|check|compute|count|describe|run|show|think|view|wait)_)"
    r"(?!(?:attempt|complete|end|final|give|task|transfer|escalate|hand)_)[a-z]+_"
)
"""A tool named by a verb and its object, such as `cancel_order`, unless the verb changes nothing or ends the task."""

_REFUSED = re.compile(
    r"(?i)user doesn't want to (?:proceed|take this action)|tool use was rejected|request interrupted by user"
    r"|user chose to stay in plan mode|user (?:rejected|declined|denied)"
)
_WAITING_TOOL = re.compile(r"(?i)^(?:wait|sleep|pause|delay|back_?off)(?:_\w+)?$")
_ERROR_START = re.compile(
    r"^\W{0,3}(?:<tool_use_error>|(?:\w+\.)*\w*(?:Error|Exception)\b|error\b|fatal:|traceback \(most recent|invalid\b"
    r"|failed\b|failure\b|unknown (?:command|tool|skill)|unrecognized|permission denied|access denied"
    r"|unauthorized|forbidden|not allowed|no such (?:file|tool|element)|could not (?!find)|cannot\b|unable to"
    r"|bad request|timed? ?out|service (?:busy|unavailable)|internal server error|too many requests|mcp error\b)",
    re.I,
)
_ERROR_LINE = re.compile(
    r"(?m)^(?:Traceback \(most recent call last\):|.{0,120}: (?:command not found|No such file or directory"
    r"|Permission denied|Is a directory|Not a directory)$|(?:\w+\.)*\w+(?:Error|Exception): .*|npm ERR! .*|fatal: .*"
    r"|error(?:\[\w+\])?: .*|E: .*|Segmentation fault.*|Killed$|panic: .*)"
)
_EMPTY = re.compile(
    r"(?i)^\W{0,3}(?:no (?:more )?(?:results?|matches|files?|pages?|data|records?|items?|hits)\b|could not find"
    r"|nothing (?:was )?found|nothing to|not found|0 (?:results?|matches|rows|hits)\b|none found|there are no)"
    r"|^\s*(?:\[\]|\{\}|null|none|n/a|\"\"|)[\s.!]*$"
)
_RESULT_FIELDS = ("results", "result", "items", "data", "matches", "hits", "documents", "rows", "content")
_PRINTED_ERROR = re.compile(r"\s*\w*(?:Result|Response)\(.*\bis_?[Ee]rror=True\b", re.S)
"""A Model Context Protocol result that reports an error, as Python prints it."""

_IS_ERROR = re.compile(r"(?i)\bis_?error\W{1,4}true\b")
_MAX_ANSWER = 200_000
_QUIET_EXIT = frozenset({"search", "print"})


@dataclass(frozen=True)
class Call:
    """One tool call and its observation."""

    position: int
    """Index of the call's step in the trajectory."""
    step: Step
    observation: Step | None
    end: int
    """Index of the observation's step, or of the call's step when there is no observation."""

    @property
    def tool(self) -> str:
        return self.step.tool_name or ("shell" if self.command else "action")

    @cached_property
    def name(self) -> str:
        """A short name for the call: the command's name, or the tool's."""
        return self.command.name if self.command else self.tool

    @property
    def input(self) -> Mapping[str, JsonValue]:
        return self.step.tool_input or {}

    @property
    def output(self) -> str:
        return self.observation.text if self.observation else ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the call's step and of its observation."""
        return (self.step.id, self.observation.id) if self.observation else (self.step.id,)

    @cached_property
    def command(self) -> Command | None:
        """The shell command that the call runs; None for any other kind of tool."""
        text = command_text(self.step.tool_name, self.input, self.step.text)
        return parse_command(text) if text and text.strip() else None

    @property
    def _main(self) -> Part | None:
        return self.command.main if self.command else None

    @property
    def verb(self) -> str:
        """What the call does: the tool's own name, or the `command` or `action` given to a tool that offers several."""
        act = self._named("command", "action")
        is_act = self.file and _VERB.fullmatch(act)
        return act if is_act else (self.step.tool_name or "").rpartition("__")[2]

    @property
    def file(self) -> str:
        """The file that one of the arguments names; empty when none does."""
        return self._named(*_FILE_KEYS)

    def _named(self, *keys: str) -> str:
        return next((value for key in keys if isinstance(value := self.input.get(key), str)), "")

    @property
    def exit_code(self) -> int | None:
        return self.observation.exit_code if self.observation else None

    @property
    def refused(self) -> bool:
        """Whether the user, not the tool, said no."""
        shown = self.observation is not None and self.observation.is_error is not False
        return shown and bool(_REFUSED.search(self.output[:400]))

    @cached_property
    def check(self) -> CheckResult | None:
        """The result of a test, build or lint run, by a command or a tool; None for any other call."""
        if self.observation is None or self.refused or self.is_background:
            return None
        if self.command is None:
            return read_tool_check(self.tool, self.output, says_error(self.output) or self.reported)
        return read_check(self.command, self.output, self.reported)

    @property
    def is_background(self) -> bool:
        """Whether the host only started the command, in the background."""
        return bool(re.match(r"(?i)command (?:is )?running in (?:the )?background", self.output))

    @property
    def reported(self) -> bool | None:
        """Whether the host or the exit code says it failed; None where neither says anything."""
        return self.exit_code != 0 if self.exit_code is not None else self.observation and self.observation.is_error

    @cached_property
    def failed(self) -> bool:
        """Whether the call did not do its job, as far as the host, the exit code or the tool's own words show.

        A search that exits with 1 and prints no error has only found nothing: it has not failed, nor has a probe. Text
        that a command was asked to show is never an error. A host may report success for a result marked as an error.
        """
        if self.observation is None or self.refused or (self._main and self._main.is_probe):
            return False
        if self.check is not None and (self.check.passed is not None or self.check.summary):
            return self.check.passed is False
        purpose = self.command.purpose if self.command else None
        if self.reported:
            return purpose not in _QUIET_EXIT or (self.exit_code or 1) != 1 or self._complains
        may_say = self.reported is None or self._hides_exit_code or _IS_ERROR.search(self.output[-_MAX_ANSWER:])
        return purpose not in SHOWS_TEXT and bool(may_say) and self._complains

    @property
    def _hides_exit_code(self) -> bool:
        """Whether the reported exit code belongs to a part that does not matter: for `deploy | tail`, to `tail`."""
        return bool(self.command and self._main and not self.command.exit_code_is_of(self._main))

    @property
    def went_through(self) -> bool:
        """Whether the host or the call's own exit code reports success; output alone is no proof of that."""
        is_left_out = self.failed or self.refused or self.is_background or self._hides_exit_code
        return self.reported is False and not is_left_out

    @property
    def _complains(self) -> bool:
        is_printed = self.command is not None and self.reported is not False
        return says_error(self.output) or (is_printed and bool(_ERROR_LINE.search(self.output[-3000:])))

    @cached_property
    def error(self) -> str:
        """The line of the output that says what went wrong; empty when it did not fail."""
        return error_line(self.output) if self.failed else ""

    @cached_property
    def signature(self) -> Signature | None:
        """The signature that identifies its error; None when the call did not fail, or the error says nothing."""
        return signature_of(self.name, key_line(self.output)) if self.failed else None

    @property
    def writes(self) -> bool:
        """Whether it changes something: a file, a record."""
        if self.command is not None:
            return self.command.purpose == "edit"
        name = self.verb
        acts = _ACTING_TOOL.match(name) and not LOOKING_TOOL.search(name)
        return bool(_WRITING_TOOL.match(name) or acts)

    @property
    def waits(self) -> bool:
        """Whether the call waits for some time."""
        if self.command is None:
            return _WAITING_TOOL.match(self.tool) is not None
        return any(part.purpose == "wait" for part in self.command.parts)


def _answer(output: str) -> dict[str, object]:
    """Return the fields of an output that is a JSON object; an empty dict for any other output."""
    is_object = output.lstrip()[:1] == "{" and len(output) <= _MAX_ANSWER
    return cast("dict[str, object]", json_or_none(output) or {}) if is_object else {}


def says_error(output: str) -> bool:
    """Whether a tool's output is an error, by its first words or by a field of JSON or of a printed result."""
    fields = _answer(output)
    status = str(fields.get("status", "")).lower()
    named = any(fields.get(name) for name in ("error", "errors", "exception"))
    denied = any(fields.get(name) is False for name in ("success", "passed"))
    said = denied or fields.get("isError") is True or status in ("error", "failed", "failure")
    return named or said or bool(_ERROR_START.match(output) or _PRINTED_ERROR.match(output[:_MAX_ANSWER]))


def says_nothing(output: str) -> bool:
    """Whether a tool's output reports that nothing was found."""
    if _EMPTY.match(output):
        return True
    fields = _answer(output)
    found = [fields[name] for name in _RESULT_FIELDS if name in fields]
    return bool(found) and not any(found)


def calls_of(trajectory: Trajectory) -> tuple[Call, ...]:
    """Join each tool call to its observation: by call id, else to the next observation before the following call."""
    steps, ends, waiting = trajectory.steps, dict[int, int](), dict[str, list[int]]()
    for at, step in enumerate(steps):
        same = waiting.setdefault(step.call_id or "", [])
        if step.kind == "tool_call":
            if not step.call_id:
                same.clear()
            same.append(at)
        elif step.kind == "observation" and same:
            ends[same.pop(0)] = at
    return tuple(
        Call(at, step, steps[ends[at]] if at in ends else None, ends.get(at, at))
        for at, step in enumerate(steps)
        if step.kind == "tool_call"
    )
