"""What a harness says back: the output of a call, how it ended, and what the harness ran by itself."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from swarm_memory.server.hosts.plain import words
from swarm_memory.server.hosts.plain.acts import sections
from swarm_memory.server.hosts.records import JsonObject, all_text, as_bool, as_list, as_object, as_text
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.trajectory.files import same_file

_MAX_JSON_CHARS = 2_000_000
_HEAD_CHARS, _TAIL_CHARS = 400, 2000
_MAX_CODE = 10**10
_MAX_STATE_LINES, _MAX_RUNS = 8, 20


def _any_of(patterns: Sequence[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


_LEAD = re.compile(
    rf"\s{{0,40}}\*{{0,2}}{_any_of(words.ANSWER_LEADS)}\*{{0,2}}[ \t]{{0,4}}:\*{{0,2}}[ \t]{{0,40}}\n?", re.I
)
_RETURN_TAG = re.compile(r"<(returncode|return_code|exit_code)>\s{0,8}(-?\d{1,10})\s{0,8}</\1>\s{0,8}")
_OUTPUT_TAGS = ("output", "stdout", "tool_response", "result")
_STATE = re.compile(_any_of(words.STATE_LINES), re.I)
_EXIT = re.compile(words.EXIT_LINE, re.I)
_STOPPED = re.compile(rf"\W{{0,6}}{_any_of(words.TIMED_OUT)}", re.I)
_SHOWN_FILE = re.compile(r"\[File: [^\n]{1,500}? \(\d{1,9} lines(?: total)?\)\]")
_APPLIED = re.compile(_any_of(words.APPLIED), re.I)
_REFUSED = re.compile(rf"\W{{0,6}}{_any_of(words.REFUSED)}", re.I)
_TELLS_OF_EDIT = re.compile(
    r"(?i)appl|updat|edited|wrote|creat|patch|modif|match|hunk|conform|verbatim|replac|not found|edit"
)
_REMINDER = re.compile(rf"\W{{0,6}}{_any_of(words.REMINDERS)}", re.I)
_RUN_HEAD = re.compile(rf"^[ \t]{{0,80}}{_any_of(words.RUN_HEADS)}[ \t]{{0,80}}$", re.I | re.M)
_RETURN_CODE = re.compile(r"[^\n]{0,200}\breturn code: (-?\d{1,10})", re.I)
_TIMED_OUT = re.compile(words.RUN_TIMED_OUT, re.I)
_PRINTED_RESULT = re.compile(r"\bisError[\"']?[=:] ?(True|true|False|false)\b")
_RESULT_KEYS = frozenset(
    {"exit_code", "exitcode", "returncode", "return_code", "stdout", "stderr", "output", "command", "duration",
     "duration_s", "duration_ms", "timed_out", "status", "success", "exception_info"}
)  # fmt: skip
_CODE_KEYS = ("exit_code", "exitCode", "exitcode", "returncode", "return_code")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a harness."""

    text: str
    """Without what the harness puts around an output."""
    exit_code: int | None = None
    is_error: bool | None = None
    is_wrapped: bool = False
    """Whether the harness's own words stand around it."""

    @property
    def details(self) -> JsonObject:
        """What it says of the call's end."""
        return {"exit_code": self.exit_code, "is_error": self.is_error}


def read_answer(text: str) -> Answer:
    """Read an answer: JSON results, return codes in tags or lines, what stands before and after the output."""
    told = _result(text)
    if told is not None:
        return told
    lead = _LEAD.match(text)
    body = text[lead.end() :] if lead else text
    tag = _RETURN_TAG.search(body[:_HEAD_CHARS])
    if tag is not None:
        body = body[: tag.start()] + body[tag.end() :]
    body, is_tagged = _untagged(body)
    answer = _without_state(Answer(body, int(tag[2]) if tag else None, is_wrapped=bool(lead or tag or is_tagged)))
    if _STOPPED.match(answer.text):
        return replace(answer, is_error=True, is_wrapped=True)
    return replace(answer, is_wrapped=answer.is_wrapped or bool(_SHOWN_FILE.search(answer.text[:_HEAD_CHARS])))


def as_code(value: object) -> int | None:
    """Return `value` where it can be an exit code, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_CODE else None


def is_reminder(text: str) -> bool:
    """Tell whether a message in the user's name is a harness's: nothing could be run, or it begins again."""
    return _REMINDER.match(text) is not None


def _untagged(text: str) -> tuple[str, bool]:
    """Take a tag off that stands around the whole."""
    stripped = text.strip()
    for name in _OUTPUT_TAGS:
        if stripped.startswith(f"<{name}>"):
            return stripped.removeprefix(f"<{name}>").removesuffix(f"</{name}>").strip("\n"), True
    return text, False


def _without_state(answer: Answer) -> Answer:
    """Take off the last lines that tell of the shell, and read exit codes from first and last lines."""
    text, code = answer.text.strip("\n").rstrip(), answer.exit_code
    is_wrapped = answer.is_wrapped
    for _ in range(_MAX_STATE_LINES):
        start = text.rfind("\n", max(0, len(text) - _TAIL_CHARS)) + 1
        line = text[start:].strip() if len(text) - start < _TAIL_CHARS else ""
        state = _STATE.fullmatch(line)
        ended = _EXIT.fullmatch(line) if state is None else None
        if state is None and ended is None:
            break
        code = int(ended["code"]) if ended and code is None else code
        is_wrapped = is_wrapped or bool(ended) or line.startswith(("(", "["))
        text = text[:start].rstrip()
    first, _, rest = text.lstrip().partition("\n")
    ended = _EXIT.fullmatch(first.strip()) if len(first) < _HEAD_CHARS else None
    if ended is not None and code is None:
        lead = _LEAD.match(rest)
        code, text, is_wrapped = int(ended["code"]), rest[lead.end() if lead else 0 :], True
    return replace(answer, text=text, exit_code=code, is_wrapped=is_wrapped)


def _result(text: str) -> Answer | None:
    """Read a JSON object that tells how a call ended, or an MCP result as JSON or as printed; None for another text."""
    if len(text) > _MAX_JSON_CHARS:
        return None
    start = text.lstrip()
    if start.startswith("{"):
        return _json_result(as_object(json_in(text)), text)
    printed = _PRINTED_RESULT.search(text[-200:])
    if printed and start.startswith(("meta=", "content=[", "CallToolResult(", "[TextContent(")):
        return Answer(text, is_error=printed[1].lower() == "true", is_wrapped=True)
    return None


def _json_result(told: JsonObject, text: str) -> Answer | None:
    code = next((code for key in _CODE_KEYS if (code := as_code(told.get(key))) is not None), None)
    failed = as_bool(told.get("isError", told.get("is_error")))
    blocks = as_list(told.get("content"))
    if code is None and failed is None:
        return None
    if blocks and failed is not None:
        text = all_text(blocks) or text
    elif told.keys() <= _RESULT_KEYS:
        text = "\n".join(filter(None, (as_text(told.get(key)) for key in ("stdout", "output", "stderr")))) or text
        text = text if text.strip() else ""
    return Answer(text, code, failed, is_wrapped=True)


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """What an answer says of edits."""

    applied: dict[str, str]
    """By file: the line that says so; the empty name stands for an edit of a file that is not named."""
    refused: dict[str, str]

    @property
    def is_told(self) -> bool:
        """Whether it says anything of an edit."""
        return bool(self.applied or self.refused)

    def names(self, file: str) -> bool:
        """Whether it says anything of an edit of this file."""
        return any(file and name and same_file(name, file) for name in (*self.applied, *self.refused))

    def of(self, file: str) -> tuple[str, bool] | None:
        """Return what is said of a file's edit, and whether that is an error; None where nothing is."""
        for said, is_error in ((self.refused, True), (self.applied, False)):
            named = next((line for name, line in said.items() if file and name and same_file(name, file)), None)
            if named is not None:
                return named, is_error
        if self.refused and not self.applied:
            return next(iter(self.refused.values())), True
        if "" in self.applied:
            return self.applied[""], False
        return None


def edit_outcome(text: str) -> EditOutcome:
    """Read from the lines of an answer which edits were made, and which were not."""
    found = EditOutcome({}, {})
    for line in text.split("\n"):
        if len(line) > 700 or not _TELLS_OF_EDIT.search(line):
            continue
        refused = _REFUSED.match(line)
        match = refused or _APPLIED.match(line)
        if match is not None:
            name = next(filter(None, match.groups()), "").strip("`'\".,:;")
            (found.refused if refused else found.applied).setdefault(name, line)
    return found


@dataclass(frozen=True, slots=True)
class HarnessRun:
    """A command that the harness ran by itself."""

    command: str
    answer: Answer


def harness_runs(text: str) -> tuple[str, list[HarnessRun]]:
    """Split a text at the commands that a harness ran by itself: what stands before them, and each with its output."""
    runs: list[HarnessRun] = []
    before = text
    for head, output in sections(itertools.islice(_RUN_HEAD.finditer(text), _MAX_RUNS), text):
        before = before if runs else text[: head.start()].strip()
        tail = output.strip()[-_TAIL_CHARS:].split("\n")
        codes = [match for line in tail if (match := _RETURN_CODE.match(line))]
        failed = True if head["failed"] or any(map(_TIMED_OUT.match, tail)) else None
        answer = Answer(output.strip(), int(codes[-1][1]) if codes else None, failed)
        runs.append(HarnessRun(next(filter(None, head.groups())).strip(), answer))
    return before, runs
