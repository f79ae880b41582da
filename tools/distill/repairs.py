"""Errors of a trajectory that were resolved, what resolved them, and which arguments made the difference."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import Failure, classify, error_key
from swarm_memory.tools.trajectory.intent import repeats, same_intent
from swarm_memory.tools.trajectory.phrasing import folder_of, show_command, show_file

_FAR = 40
"""A success so many calls later is of something else."""

_DOCUMENT = re.compile(
    r"(?i)(?:readme|contributing|install|makefile|changelog|docs?/.*)(?:\.\w+)?$|(?:^|/)package\.json$"
)
_PREREQUISITES = frozenset(
    {"missing-module", "missing-command", "service-down", "port-in-use", "not-logged-in", "missing-setting", "locked"}
)
"""Errors that keep a command from starting: when it then fails further on, this one was resolved."""

_NOT_STARTED = frozenset({"missing-command", "bad-arguments", "wrong-folder", "syntax", "timeout"})
"""After one of these it is not known whether the first error is gone."""

PASSES_WITH_TIME = frozenset({"rate-limit", "timeout", "service-down", "locked"})
"""Errors that may go away when nothing is done but to wait."""

_CHANGING_GIT = frozenset({"git pull", "git checkout", "git switch", "git merge", "git rebase", "git init", "git fetch",
                           "git stash", "git reset", "git config", "git rm", "gh auth"})  # fmt: skip

_SAYS_LITTLE = frozenset(
    {"error", "errors", "failed", "failure", "fatal", "exception", "such", "with", "that", "this", "from", "been",
     "have", "when", "what", "cannot", "could", "does", "must", "missing", "required", "found", "check", "call",
     "needs", "there", "invalid", "expected", "other", "before", "after", "process"}
)  # fmt: skip
_STEM = 4

_MAX_VALUE, _MAX_ANSWER = 24, 20_000
_TOKEN = re.compile(r"[A-Za-z][\w.-]*")
"""What may be a code that a tool takes: one word; never an amount, a date, a sentence."""

_MIN_FOUND = 3
"""A shorter value stands in too many answers to say where it came from, unless it is the whole answer."""


@dataclass(frozen=True, slots=True)
class Repair:
    """An error, the attempts that did not help, what was done, and the call that then succeeded."""

    failed: Call
    attempts: tuple[Call, ...]
    """Later calls of the same intent that failed too."""
    deeds: tuple[Call, ...]
    """What was done between the last failure and the success, without what is known not to have helped."""
    vain: tuple[Call, ...]
    """What was done before another attempt that still failed in the same way."""
    success: Call
    failure: Failure
    told_by: str = ""
    """The document that was read between, in which the way out stood; empty where none was."""

    @property
    def same_call(self) -> bool:
        """Whether the very same call succeeded in the end, so that the deeds between are what helped."""
        return shape(self.failed) == shape(self.success)


def find_repairs(calls: Sequence[Call]) -> list[Repair]:
    """Return each error that a later call got past, with what lies between.

    A call of the same intent got past an error when it succeeded. One that failed in another way got past it only
    where the first error had kept this very call from starting, never came back, and the call did succeed in the end.
    A call that failed in the same way is an attempt at that error and begins no repair of its own; one that failed in
    another way has an error of its own, and a repair of its own.
    """
    found: list[Repair] = []
    taken = set[int]()
    for index, call in enumerate(calls):
        if not call.failed or index in taken:
            continue
        alike = [at for at in range(index + 1, min(len(calls), index + _FAR)) if same_intent(call, calls[at])]
        end = _end(call, alike, calls)
        if end is None:
            continue
        attempts = [at for at in alike if at < end and calls[at].failed]
        taken.update(at for at in attempts if same_error(call, calls[at]))
        found.append(_repair(calls, index, attempts, end))
    return found


def _repair(calls: Sequence[Call], index: int, attempts: Sequence[int], end: int) -> Repair:
    failed, failure = calls[index], classify(calls[index].error)
    start = max([index, *(at for at in attempts if same_error(failed, calls[at]))])
    vain = _once(calls[at] for at in range(index + 1, start) if changes_something(calls[at]))
    done = [calls[at] for at in range(start + 1, end) if changes_something(calls[at])]
    tried = {shape(call) for call in vain}
    deeds = [call for call in done if shape(call) not in tried] or done
    helped = {shape(call) for call in deeds}
    return Repair(
        failed=failed,
        attempts=tuple(calls[at] for at in attempts),
        deeds=tuple(_telling(deeds, failed, failure, calls[end])),
        vain=tuple(call for call in vain if shape(call) not in helped),
        success=calls[end],
        failure=failure,
        told_by=next((name for at in range(end - 1, start, -1) if (name := _document(calls[at]))), ""),
    )


def _end(failed: Call, alike: Sequence[int], calls: Sequence[Call]) -> int | None:
    """Return the first of the calls of the same intent that got past the error."""
    ended = next((at for at in alike if _succeeds(failed, calls[at])), None)
    if ended is None:
        return None
    failure = classify(failed.error)
    if failure.kind not in _PREREQUISITES or failed.command is None:
        return ended
    tries = [at for at in alike if at < ended and calls[at].failed]
    again = max((at for at in tries if same_error(failed, calls[at])), default=-1)
    started = (
        at for at in tries
        if at > again and classify(calls[at].error).kind not in _NOT_STARTED and repeats(failed, calls[at])
    )  # fmt: skip
    return next(started, ended)


def same_error(left: Call, right: Call) -> bool:
    """Whether two calls failed in the same way: the same kind of error about the same thing."""
    return error_key(left.error) == error_key(right.error)


def mark_of(call: Call) -> tuple[str, tuple[str, str]]:
    """Return what failed, and with which error: each is a lesson of its own."""
    return call.command.name if call.command else call.tool, error_key(call.error)


def _succeeds(failed: Call, other: Call) -> bool:
    if other.failed or other.empty or other.observation is None or other.refused or other.is_background:
        return False
    return failed.check is None or bool(other.check and other.check.passed)


def changes_something(call: Call) -> bool:
    """Whether a call may be what made the difference: it changed something, ran something, or let time pass."""
    if call.failed or call.observation is None or call.refused:
        return False
    if call.waits:
        return True
    if call.command is None:
        return call.writes
    return call.command.purpose in ("install", "edit", "run", "build", "other") or call.command.name in _CHANGING_GIT


def shape(call: Call) -> str:
    """What makes two calls the same for a reader: the command line as it is shown, and its folder."""
    return f"{folder_of(call.command.text)}:{show_command(call.command.text)}" if call.command else call.key


def _once(calls: Iterable[Call]) -> list[Call]:
    return list({shape(call): call for call in calls}.values())


def _telling(deeds: Sequence[Call], failed: Call, failure: Failure, success: Call) -> list[Call]:
    """Leave out bystanders: where some deeds fit the error, the others only happened to lie between.

    A deed fits when it waits and the error passes with time, or when it names what the error names. Where the error
    names an option that was then left out, that was the way out. Of several pauses the longest is the surest.
    """
    if left_out(failed, success):
        return []
    if failure.kind == "rate-limit" and (waits := [call for call in deeds if call.waits]):
        return [max(waits, key=_seconds)]
    if len(deeds) < 2:
        return list(deeds)
    named = telling_words(f"{failed.error} {failure.first} {failure.subject}") - telling_words(spoken(failed))
    fitting = [
        call for call in deeds
        if (call.waits and failure.kind in PASSES_WITH_TIME) or named & telling_words(spoken(call))
    ]  # fmt: skip
    return fitting or list(deeds)


def left_out(failed: Call, success: Call) -> str:
    """Return the option of a failed command that its error names and that the successful one does without."""
    if failed.command is None or success.command is None:
        return ""
    after = {word for part in success.command.parts for word in part.words}
    options = [word for part in failed.command.parts for word in part.words if word.startswith("--")]
    gone = [word.split("=")[0] for word in options if word not in after]
    return next((word for word in gone if re.search(rf"(?<!\S)\W?{re.escape(word)}(?![\w-])", failed.error)), "")


def _seconds(call: Call) -> float:
    found = re.search(r"\d+(?:\.\d+)?", spoken(call))
    return float(found.group()) if found else 0.0


def spoken(call: Call) -> str:
    """Return a call in its own words: the command line, or the tool with its arguments."""
    return call.command.text if call.command else " ".join([call.tool, *map(str, call.input.values())])[:2000]


def telling_words(text: str) -> set[str]:
    """The stems (of four letters) of a text's words that may name a thing."""
    words = re.findall(r"[a-z]{4,}", text.lower())
    return {word[:_STEM] for word in words if word not in _SAYS_LITTLE}


def _document(call: Call) -> str:
    """Return the name of the document that a call read: a README, a help text."""
    if call.failed or call.observation is None:
        return ""
    if call.command is not None:
        if any(
            word in ("--help", "-h", "help") or part.program == "man"
            for part in call.command.parts
            for word in part.words
        ):
            return f"`{show_command(call.command.text, limit=60)}`"
        words = [word for part in call.command.parts if part.purpose == "read" for word in part.words[1:]]
    else:
        words = [] if call.writes else [str(call.input.get("file_path") or call.input.get("path") or "")]
    return next((f"`{show_file(word)}`" for word in words if _DOCUMENT.search(word)), "")


@dataclass(frozen=True, slots=True)
class Change:
    """One argument that differs between the last refused call and the one that went through."""

    path: str
    """Such as `payments[].amount`."""
    value: JsonValue
    """What went through; None where it was left out."""
    refused: tuple[str, ...]
    """Values that may be told and were refused in the same argument."""
    source: str = ""
    """The tool whose answer held the value before; empty where none did."""
    is_named: bool = False
    """Whether the error names it."""
    is_code: bool = False
    """Whether the value may be told: a code of the tool's own, and nothing of this task."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit(".", 1)[-1].removesuffix("[]")

    @property
    def is_left_out(self) -> bool:
        return self.value is None


def telling_changes(repair: Repair, calls: Sequence[Call], task: str, particulars: Sequence[str]) -> tuple[Change, ...]:
    """Return the arguments that may have made the difference between the refused calls and the one that went through.

    The last call with the same error is the nearest to that one, so that fewest bystanders differ. Where the error
    names some of the arguments the others are bystanders.
    """
    alike = [repair.failed, *(call for call in repair.attempts if same_error(repair.failed, call))]
    nearest = _nearest(alike, repair.success)
    changes = [_change(path, value, repair, calls, task, particulars) for path, value in nearest]
    named = tuple(change for change in changes if change.is_named)
    return named or tuple(changes)


def _nearest(failed: Sequence[Call], success: Call) -> list[tuple[str, JsonValue]]:
    """Return what differs from the last refused call; where that gave nothing, from the first."""
    for call in (failed[-1], failed[0]):
        found = dict(_differences(call.input, success.input))
        if found:
            return list(found.items())
    return []


def _change(
    path: str,
    value: JsonValue,
    repair: Repair,
    calls: Sequence[Call],
    task: str,
    particulars: Sequence[str],
) -> Change:
    name = path.rsplit(".", 1)[-1].removesuffix("[]")
    is_named = f" {_plain(name)} " in f" {_plain(repair.failed.error)} "
    source = _source(value, repair.success, calls)
    others = [
        other
        for call in (repair.failed, *repair.attempts)
        for key, other in _leaves(call.input)
        if key == path and other != value
    ]
    is_code = is_named and not source and _speaks_of(name, repair) and _may_be_told(value, task, particulars)
    refused = dict.fromkeys(str(other) for other in others if _may_be_told(other, task, particulars))
    return Change(path, value, tuple(refused) if is_code else (), source, is_named, is_code)


def _plain(text: str) -> str:
    """The words of a text, without the ending of the plural."""
    return " ".join(re.sub(r"s$", "", word) for word in re.split(r"[\W_]+", text.lower()) if word)


def _speaks_of(name: str, repair: Repair) -> bool:
    """Whether an error speaks of an argument as such, and not of a thing that happens to have the same name."""
    word = re.escape(name)
    spoken = rf"['\"`]{word}['\"`]|\b(?:field|parameter|argument|property|key) {word}\b"
    judged = rf"\b{word}(?::| is | must | has to | should | may | cannot )"
    named = "_" in name and any(name in call.error for call in (repair.failed, *repair.attempts))
    return named or any(re.search(f"{spoken}|{judged}", call.error) for call in (repair.failed, *repair.attempts))


def _may_be_told(value: JsonValue, task: str, particulars: Sequence[str]) -> bool:
    """Whether a value is a code of the tool: nothing that the task gave, that names a person or a record."""
    if isinstance(value, bool):
        return True
    text = value if isinstance(value, str) else ""
    return (
        0 < len(text) <= _MAX_VALUE
        and _TOKEN.fullmatch(text) is not None
        and text not in particulars
        and not re.search(rf"(?i)(?<!\w){re.escape(text)}(?!\w)", task)
        and len(re.findall(r"\d", text)) <= 2
    )


def _source(value: JsonValue, success: Call, calls: Sequence[Call]) -> str:
    """Return the other tool whose answer held the value last before it was used; a plain word has no source."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not re.search(r"\d", text):
        return ""
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    earlier = [
        call for call in calls if call.position < success.position and not call.failed and call.tool != success.tool
    ]
    holds = (
        call.tool for call in reversed(earlier)
        if call.output.strip() == text or (len(text) >= _MIN_FOUND and whole.search(call.output[:_MAX_ANSWER]))
    )  # fmt: skip
    return next(holds, "")


def _leaves(given: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for part in value:
                yield from _leaves(part, f"{prefix}{key}[].") if isinstance(part, dict) else [(f"{prefix}{key}", part)]
        else:
            yield f"{prefix}{key}", value


def _differences(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], prefix: str = ""
) -> Iterator[tuple[str, JsonValue]]:
    """Yield the paths of the arguments that differ, each with its new value: None where it was left out."""
    for key in after:
        old, new = before.get(key), after[key]
        path = f"{prefix}{key}"
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{path}.")
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = [(left, right) for left, right in zip(old, new, strict=True) if left != right]
            inner = [
                inside
                for left, right in pairs
                if isinstance(left, dict) and isinstance(right, dict)
                for inside in _differences(left, right, f"{path}[].")
            ]
            yield from inner or [(path, new)]
        else:
            yield path, new
    yield from ((f"{prefix}{key}", None) for key in before if key not in after)
