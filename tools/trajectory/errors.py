"""The errors of a trajectory, each with all calls that failed with it, what was done in between, and what ended it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from swarm_memory.tools.trajectory.calls import Call, says_nothing
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.failures import Failure, classify, error_key
from swarm_memory.tools.trajectory.phrasing import folder_of, show_command
from swarm_memory.tools.trajectory.shell import CHECKS, Command

_FAR = 40
"""A success this many calls later is about something else."""

_CHANGING_GIT = frozenset({"git pull", "git checkout", "git switch", "git merge", "git rebase", "git init", "git fetch",
                           "git stash", "git reset", "git config", "git rm", "gh auth"})  # fmt: skip

_VERB = re.compile(r"[a-z][a-z-]+")
LOOKS = frozenset({"search", "read", "print"})
"""Purposes of commands that achieved nothing if they showed nothing."""


@dataclass(frozen=True, slots=True)
class Repair:
    """An error, the attempts that did not help, what was done, and the call that then got past it."""

    failed: Call
    attempts: tuple[Call, ...]
    """Later calls of the same intent that failed too."""
    actions: tuple[Call, ...]
    """Calls between the last failure and the success, without those known not to have helped."""
    vain: tuple[Call, ...]
    """Calls made before another attempt that still failed in the same way."""
    success: Call
    """The call that got past the error. It may have failed differently, if a later call of that intent succeeded."""
    failure: Failure


@dataclass(frozen=True, slots=True)
class Error:
    """One error: all calls that failed with it, and how it ended."""

    calls: tuple[Call, ...]
    """The calls of one intent that failed in the same way, in order. Each failed call belongs to one error."""
    repair: Repair | None
    """What ended it; None: it stayed open."""


def errors_of(calls: Sequence[Call]) -> tuple[Error, ...]:
    """Return every error of a trajectory, ordered by its first call.

    A call of the same intent got past an error if it succeeded. One that failed differently also did, if something had
    been done before it, the first error never came back, and a call of that intent succeeded in the end. A call that
    failed in the same way is another attempt at that error and does not begin one of its own.
    """
    found: list[Error] = []
    taken = set[int]()
    for index, call in enumerate(calls):
        if not call.failed or index in taken:
            continue
        alike = _alike(calls, index)
        ended = next((at for at in alike if _succeeds(call, calls[at])), None)
        attempts = [at for at in alike if calls[at].failed and (ended is None or at < ended)]
        same = [index, *(at for at in attempts if same_error(call, calls[at]))]
        taken.update(same)
        repair = None
        if ended is not None:
            end = next((at for at in attempts if at > same[-1] and _done(calls, same[-1], at)), ended)
            repair = _repair(calls, same, [at for at in attempts if at < end], end)
        found.append(Error(tuple(calls[at] for at in same), repair))
    return tuple(found)


def _alike(calls: Sequence[Call], index: int) -> list[int]:
    """Return the later calls of the same intent that come fewer than `_FAR` calls after the error last occurred."""
    found: list[int] = []
    last = index
    for at in range(index + 1, len(calls)):
        if at - last >= _FAR:
            break
        if same_intent(calls[index], calls[at]):
            found.append(at)
            last = at if calls[at].failed and same_error(calls[index], calls[at]) else last
    return found


def _repair(calls: Sequence[Call], same: Sequence[int], attempts: Sequence[int], end: int) -> Repair:
    """Return the repair of an error that occurred at the indexes `same` and was overcome at the index `end`."""
    failed = calls[same[0]]
    vain = {shape(call): call for call in _done(calls, same[0], same[-1])}
    done = _done(calls, same[-1], end)
    actions = [call for call in done if shape(call) not in vain] or done
    helped = {shape(call) for call in actions}
    return Repair(
        failed=failed,
        attempts=tuple(calls[at] for at in attempts),
        actions=tuple(actions),
        vain=tuple(call for what, call in vain.items() if what not in helped),
        success=calls[end],
        failure=classify(failed.error),
    )


def _done(calls: Sequence[Call], start: int, end: int) -> list[Call]:
    return [calls[at] for at in range(start + 1, end) if may_have_effect(calls[at])]


def same_intent(failed: Call, other: Call) -> bool:
    """Whether `other` tries what `failed` tried: the same command or tool, with the same or other arguments."""
    left, right = failed.command, other.command
    if left is None or right is None:
        if left is not right or failed.tool != other.tool:
            return False
        if failed.writes and failed.file and other.file:  # an edit is about its file, whichever folder was tried first
            return PurePosixPath(failed.file).name == PurePosixPath(other.file).name
        return bool(set(failed.input) & set(other.input)) or not failed.input
    if left.name and left.name == right.name:
        if left.purpose in CHECKS:
            one, two = selection_of(failed), selection_of(other)
            return one.covers(two) or two.covers(one)
        return _same_arguments(left, right)
    return _does_again(left, right) or _does_again(right, left)


def _does_again(left: Command, right: Command) -> bool:
    """Whether `right` does what `left` was to do: behind a prefix, with more options, or by another program."""
    mine, others = (command.main.words if command.main else () for command in (left, right))
    return len(mine) > 1 and (set(mine) <= set(others) or mine[1:] == others[1:])


def _same_arguments(left: Command, right: Command) -> bool:
    """Whether half or more of the arguments outside the name are shared, and the first verbs do not differ."""
    own = left.name.split()[-1]
    given = (command.main.words[1:] if command.main else () for command in (left, right))
    one, two = ([word for word in words if not word.endswith(own)] for words in given)
    verbs = {next(filter(_VERB.fullmatch, words), "") for words in (one, two)} - {""}
    shared, least = len({*one} & {*two}), min(len({*one}), len({*two}))
    # Where one has no such arguments, the name itself has to say what is done, as `git push` does.
    return one == two or (len(verbs) < 2 and 2 * shared >= least and (least > 0 or " " in left.name))


def same_error(left: Call, right: Call) -> bool:
    """Whether two calls failed in the same way: the same kind of error about the same thing."""
    return error_key(left.error) == error_key(right.error)


def _succeeds(failed: Call, other: Call) -> bool:
    if other.failed or other.observation is None or other.refused or other.is_background:
        return False
    if says_nothing(other.output) and (other.command.purpose in LOOKS if other.command else not other.writes):
        return False
    return failed.check is None or bool(other.check and other.check.passed)


def may_have_effect(call: Call) -> bool:
    """Whether a call may be what made the difference: it changed something, ran something, or let time pass."""
    if call.failed or call.observation is None or call.refused:
        return False
    if call.waits:
        return True
    if call.command is None:
        return call.writes
    return call.command.purpose in ("install", "edit", "run", "build", "other") or call.command.name in _CHANGING_GIT


def shape(call: Call) -> str:
    """Return a key that is equal for calls that look alike: shown command line and folder, or tool and input."""
    if call.command is None:
        return f"{call.tool}\n{json.dumps(call.input, sort_keys=True, default=str)}"
    return f"{folder_of(call.command.text)}:{show_command(call.command.text)}"
