"""Errors of a trajectory that were resolved, each with what resolved it; how that is told is not here."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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

_NOT_STARTED = frozenset({"missing-command", "missing-script", "bad-arguments", "wrong-folder", "syntax", "timeout"})
"""After one of these it is not known whether the first error is gone."""

_PASSES_WITH_TIME = frozenset({"rate-limit", "timeout", "service-down", "locked"})
"""Errors that may go away when nothing is done but to wait."""

_CHANGING_GIT = frozenset({"git pull", "git checkout", "git switch", "git merge", "git rebase", "git init", "git fetch",
                           "git stash", "git reset", "git config", "git rm", "gh auth"})  # fmt: skip

_SAYS_LITTLE = frozenset(
    {"error", "errors", "failed", "failure", "fatal", "exception", "such", "with", "that", "this", "from", "been",
     "have", "when", "what", "cannot", "could", "does", "must", "missing", "required", "found", "check", "call",
     "needs", "there", "invalid", "expected", "other", "before", "after", "process"}
)  # fmt: skip
_STEM = 4


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
    named = _telling_words(f"{failed.error} {failure.first} {failure.subject}") - _telling_words(_spoken(failed))
    fitting = [
        call for call in deeds
        if (call.waits and failure.kind in _PASSES_WITH_TIME) or named & _telling_words(_spoken(call))
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
    found = re.search(r"\d+(?:\.\d+)?", _spoken(call))
    return float(found.group()) if found else 0.0


def _spoken(call: Call) -> str:
    return call.command.text if call.command else " ".join([call.tool, *map(str, call.input.values())])[:2000]


def _telling_words(text: str) -> set[str]:
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
