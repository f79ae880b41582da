"""What a call is after: the same thing as another call, or what the task itself names."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.text.names import spans, stands_in
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.checks import LOOKS_ONLY
from swarm_memory.tools.trajectory.shell import CHECKS, Command, Part, parse_command

_VERB = re.compile(r"[a-z][a-z-]+")
_NO_GOAL = CHECKS | {"print", "search", "read", "wait"}
_MIN_WORDS = 2
_MAX_TASK_WORDS = 40
"""A longer task asks for more than the one call."""


def same_intent(failed: Call, other: Call) -> bool:
    """Whether `other` tries what `failed` tried: the same command or tool, with the same or other arguments."""
    left, right = failed.command, other.command
    if left is None or right is None:
        return left is right and failed.tool == other.tool and _same_object(failed, other)
    if left.name and left.name == right.name:
        if left.purpose in CHECKS:
            one, two = selection_of(failed), selection_of(other)
            return one.covers(two) or two.covers(one)
        return _same_arguments(left, right)
    return _does_again(left, right) or _does_again(right, left)


def _does_again(left: Command, right: Command) -> bool:
    """Whether one command line does what the other was to do: behind a prefix, with options, by another program."""
    mine, others = (command.main.words if command.main else () for command in (left, right))
    return len(mine) > 1 and (set(mine) <= set(others) or mine[1:] == others[1:])


def _same_arguments(left: Command, right: Command) -> bool:
    """Whether half of the arguments beside what the name holds are the same, and the first word, which may be a verb.

    Where one has none, the name has to say what is done: `git push`.
    """
    own = left.name.split()[-1]
    given = (command.main.words[1:] if command.main else () for command in (left, right))
    one, two = ([word for word in words if not word.endswith(own)] for words in given)
    verbs = {next(filter(_VERB.fullmatch, words), "") for words in (one, two)} - {""}
    shared, least = len({*one} & {*two}), min(len({*one}), len({*two}))
    return one == two or (len(verbs) < 2 and 2 * shared >= least and (least > 0 or " " in left.name))


def _same_object(left: Call, right: Call) -> bool:
    """What an edit is of is its file, wherever that was looked for first."""
    if left.writes and left.file and right.file:
        return PurePosixPath(left.file).name == PurePosixPath(right.file).name
    return bool(set(left.input) & set(right.input)) or not left.input


def goals_reached(trajectory: Trajectory, calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return of each command that the task names its last call, where all of them went through; else nothing.

    A command of the same program that was never called has not gone through. Checks are left out: their results are
    evidence of their own.
    """
    last: dict[str, Call] = {}
    named = {span: parse_command(span).main for span in spans(trajectory.task)}
    for call in calls:
        for name in (name for name, wanted in named.items() if call.command and _does(call.command, wanted)):
            if call.went_through or (call.failed and not _still_holds(last.get(name), call, calls)):
                last[name] = call
    if not last and len(trajectory.task.split()) <= _MAX_TASK_WORDS:
        return tuple([call for call in calls if _uses_named_program(call, trajectory.task)][-1:])
    programs = {name.split()[0] for name in last}
    missing = any(name not in last and " " in name and name.split()[0] in programs for name in named)
    return () if missing or any(call.failed for call in last.values()) else tuple(last.values())


def _uses_named_program(call: Call, task: str) -> bool:
    """Whether a program that a task names was run on two things at least that it names, and its exit code was 0."""
    for part in call.command.parts if call.command else ():
        is_named = part.purpose in ("run", "other") and len(part.program) > 2 and stands_in(task, part.program)
        given = {word for each in part.words[1:] for word in re.findall(r"[A-Za-z]\w{3,}|\d+(?:\.\d+)+", each)}
        if is_named and call.command and sum(stands_in(task, word) for word in given) >= _MIN_WORDS:
            reported = call.reported
            return call.command.code_of(part, call.output, reported) is False
    return False


def _still_holds(before: Call | None, failed: Call, calls: Sequence[Call]) -> bool:
    """Whether a thing went through before, and nothing was written until it was called once more and refused."""
    if before is None or not before.went_through:
        return False
    return not any(call.writes and not call.failed for call in calls if before.end < call.position < failed.position)


def _does(command: Command, wanted: Part | None) -> bool:
    """Whether a part of the command line is the wanted one, perhaps with more options, and the exit code is its own."""
    if wanted is None or wanted.purpose in _NO_GOAL:
        return False
    for part in command.parts:
        more = set(part.words) - set(wanted.words)
        same = part.program == wanted.program and set(wanted.words) <= set(part.words)
        if same and command.exit_code_is_of(part) and not any(LOOKS_ONLY.fullmatch(word) for word in more):
            return True
    return False
