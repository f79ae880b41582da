"""The errors of a trajectory: each with all calls that failed so, what was done in between, and what ended it."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import ne
from typing import NamedTuple

from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import Failure, classify, error_key
from swarm_memory.tools.trajectory.intent import same_intent
from swarm_memory.tools.trajectory.phrasing import folder_of, show_command

_FAR = 40
"""A success so many calls later is of something else."""

_PREREQUISITES = frozenset(
    {"missing-module", "missing-command", "service-down", "port-in-use", "not-logged-in", "missing-setting", "locked"}
)
"""Errors that keep a command from starting: when it then fails further on, this one was resolved."""

_NOT_STARTED = frozenset({"missing-command", "bad-arguments", "wrong-folder", "syntax", "timeout"})
"""After one of these it is not known whether the first error is gone."""

_CHANGING_GIT = frozenset({"git pull", "git checkout", "git switch", "git merge", "git rebase", "git init", "git fetch",
                           "git stash", "git reset", "git config", "git rm", "gh auth"})  # fmt: skip

_LOOKS = frozenset({"search", "read", "print"})
"""Purposes of commands that did nothing where they showed nothing."""

_MIN_QUOTED = 12


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

    @property
    def same_call(self) -> bool:
        """Whether the very same call succeeded in the end, so that the deeds between are what helped."""
        return shape(self.failed) == shape(self.success)

    @property
    def is_slip(self) -> bool:
        """Whether the command that was not found was only mistyped: nobody makes that slip again by heart."""
        name, command = self.failure.subject, self.success.command
        if self.failure.kind != "missing-command" or not name or command is None:
            return False
        return any(_is_mistyped(name, word) for word in command.text.split())


def _is_mistyped(written: str, meant: str) -> bool:
    """Whether letters are turned round, or one within the word is left out, one too many or another: not `python3`."""
    if written == meant or sorted(written) == sorted(meant):
        return written != meant
    if not written or not meant or (written[0], written[-1]) != (meant[0], meant[-1]):
        return False
    if len(written) == len(meant):
        return sum(map(ne, written, meant)) == 1
    long, short = sorted((written, meant), key=len, reverse=True)
    return any(long[:at] + long[at + 1 :] == short for at in range(1, len(long) - 1))


class Mark(NamedTuple):
    """What makes two failures of one trajectory the same error of the same thing."""

    name: str
    """The command, as `Command.name` says it, or the tool."""
    key: tuple[str, str]
    """As `error_key` says it of the error's line."""


@dataclass(frozen=True, slots=True)
class Error:
    """One error: all calls that failed so, and what became of it."""

    calls: tuple[Call, ...]
    """Those of one intent that failed in the same way, the first of them first. Each failed call is of one error."""
    failure: Failure
    ended_by: Call | None
    """The first later call that got past it, however much later; None: nothing did, it stayed open."""
    repair: Repair | None
    """What lies between, where `ended_by` came soon enough to be of the same thing."""
    asked_for: bool = False
    """It stands in the task: to see it is what was asked for, and no fault."""

    @property
    def is_open(self) -> bool:
        return self.ended_by is None

    @property
    def mark(self) -> Mark:
        return mark_of(self.calls[-1])


def errors_of(calls: Sequence[Call], task: str = "") -> tuple[Error, ...]:
    """Return every error of a trajectory, by its first call.

    A call of the same intent got past an error when it succeeded. One that failed in another way got past it only
    where the first error had kept this very call from starting, never came back, and the call did succeed in the end.
    A call that failed in the same way is an attempt at that error and begins none of its own; one that failed in
    another way is an error of its own, with what ended that.
    """
    found: list[Error] = []
    taken = set[int]()
    for index, call in enumerate(calls):
        if not call.failed or index in taken:
            continue
        alike = _alike(calls, index)
        end = _end(call, alike, calls)
        attempts = [at for at in alike if calls[at].failed and (end is None or at < end)]
        same = [index, *(at for at in attempts if same_error(call, calls[at]))]
        taken.update(same)
        following = next((calls[at] for at in alike if at > same[-1]), None)
        found.append(
            Error(
                calls=tuple(calls[at] for at in same),
                failure=classify(call.error),
                ended_by=calls[end] if end is not None else _late_end(calls, same[-1], following),
                repair=_repair(calls, index, attempts, end) if end is not None else None,
                asked_for=_stands_in(call, task),
            )
        )
    return tuple(found)


def _alike(calls: Sequence[Call], index: int) -> list[int]:
    """Return the later calls of the same intent, until none comes for so long that the next is of something else."""
    found: list[int] = []
    last = index
    for at in range(index + 1, len(calls)):
        if at - last >= _FAR:
            break
        if same_intent(calls[index], calls[at]):
            found.append(at)
            last = at if calls[at].failed and same_error(calls[index], calls[at]) else last
    return found


def _late_end(calls: Sequence[Call], last: int, following: Call | None) -> Call | None:
    """Return what got past an error that nothing near ended: a success far off, or a failure that is new.

    `following` is the next call of the same intent: where it failed in another way, the next error of a chain.
    """
    failed, later = calls[last], calls[last + 1 :]
    found = next((call for call in later if _succeeds(failed, call) and same_intent(failed, call)), None)
    if found is not None or following is None or not following.failed or not _got_further(failed, following):
        return found
    return None if any(call.failed and same_error(call, following) for call in calls[:last]) else following


def _got_further(failed: Call, other: Call) -> bool:
    """Whether a call that failed too was at least started, where the first error had kept it from that."""
    kept_from_it = failed.command is not None and classify(failed.error).kind in _PREREQUISITES
    return kept_from_it and classify(other.error).kind not in _NOT_STARTED and same_intent(failed, other)


def _stands_in(call: Call, task: str) -> bool:
    """Whether the task quotes an error; one word of it is none."""
    told = " ".join(call.error.split()).strip(" .:")
    return len(told) >= _MIN_QUOTED and " " in told and told in " ".join(task.split())


def _repair(calls: Sequence[Call], index: int, attempts: Sequence[int], end: int) -> Repair:
    failed, failure = calls[index], classify(calls[index].error)
    start = max([index, *(at for at in attempts if same_error(failed, calls[at]))])
    vain = {shape(call): call for call in _done(calls, index, start)}
    done = _done(calls, start, _next_error(attempts, start, end)) or _done(calls, start, end)
    deeds = [call for call in done if shape(call) not in vain] or done
    helped = {shape(call) for call in deeds}
    return Repair(
        failed=failed,
        attempts=tuple(calls[at] for at in attempts),
        deeds=tuple(deeds),
        vain=tuple(call for what, call in vain.items() if what not in helped),
        success=calls[end],
        failure=failure,
    )


def _done(calls: Sequence[Call], start: int, end: int) -> list[Call]:
    return [calls[at] for at in range(start + 1, end) if changes_something(calls[at])]


def _next_error(attempts: Sequence[int], start: int, end: int) -> int:
    """Return where another error showed instead of the one that was seen last at `start`; `end` where none did.

    What was done after that mended the other one.
    """
    return next((at for at in attempts if at > start), end)


def _end(failed: Call, alike: Sequence[int], calls: Sequence[Call]) -> int | None:
    """Return the first of the calls of the same intent that got past the error."""
    ended = next((at for at in alike if _succeeds(failed, calls[at])), None)
    if ended is None:
        return None
    tries = [at for at in alike if at < ended and calls[at].failed]
    again = max((at for at in tries if same_error(failed, calls[at])), default=-1)
    return next((at for at in tries if at > again and _got_further(failed, calls[at])), ended)


def same_error(left: Call, right: Call) -> bool:
    """Whether two calls failed in the same way: the same kind of error about the same thing."""
    return error_key(left.error) == error_key(right.error)


def mark_of(call: Call) -> Mark:
    """Return what failed, and with which error: each is a lesson of its own."""
    return Mark(call.name, error_key(call.error))


def _succeeds(failed: Call, other: Call) -> bool:
    if other.failed or other.observation is None or other.refused or other.is_background:
        return False
    if other.empty and (other.command.purpose in _LOOKS if other.command else not other.writes):
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
