"""What a call is after: the same thing as another call, or what the task itself names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import holds, names, selection_of
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import without_cd
from swarm_memory.tools.trajectory.shell import CHECKS, Command, Part, parse_command

_NOT_STARTED = frozenset({"missing-module", "missing-command", "wrong-folder", "bad-arguments"})
"""Errors after which another runner of the same kind may do what the first could not."""

_MIN_SHARED = 0.5
_SCRIPT = re.compile(r"\.(?:py|js|ts|mjs|rb|sh|php|pl|jar)$")
_VERB = re.compile(r"[a-z][a-z-]+")
_SPAN = re.compile(r"`([^`\n]{2,300})`")
_NO_GOAL = frozenset({"print", "search", "read", "wait"})
_LOOKS_ONLY = re.compile(r"--?(?:h|help|version|dry-run|n|list|check-only|whatif|what-if)")
"""Options with which a command only says what it would do."""

_HANDS_IN = re.compile(r"(?i)^(?:submit|report|answer|finish|hand_in|send|post|reply|comment|respond|say)(?![a-z])")
"""Tools that take an answer or a message: that it was taken does not say that it is right."""

_MIN_WORDS = 2
"""A command that stands in the task without marks must be as long as this, or a word of prose would be one."""

_MAX_TASK_WORDS = 40
"""A longer task asks for more than the one call."""


def same_intent(failed: Call, other: Call) -> bool:
    """Whether `other` tries what `failed` tried: the same command or tool, with the same or other arguments."""
    left, right = failed.command, other.command
    if left is None or right is None:
        return left is right and failed.tool == other.tool and _same_object(failed, other)
    if failed.opened or other.opened:
        return failed.opened == other.opened
    if left.purpose in CHECKS and right.purpose in CHECKS:
        if left.name == right.name:
            return _may_check_same(failed, other)
        return left.purpose == right.purpose and classify(failed.error).kind in _NOT_STARTED
    if left.name and left.name == right.name:
        return _same_arguments(left, right)
    return _does_again(left, right) or _does_again(right, left)


def _does_again(left: Command, right: Command) -> bool:
    """Whether one command line does what the other was to do: behind a prefix, with options, by another program."""
    mine, others = (command.main.words if command.main else () for command in (left, right))
    return len(mine) > 1 and (set(mine) <= set(others) or mine[1:] == others[1:])


def _same_arguments(left: Command, right: Command) -> bool:
    """Whether enough of the arguments are the same: the program, and the script that it runs, say nothing of them.

    Two subcommands do two different things.
    """
    one, two = _arguments(left), _arguments(right)
    verbs = [given[0] for given in (one, two) if given and _VERB.fullmatch(given[0])]
    if len(set(verbs)) > 1:
        return False
    mine, others = set(one), set(two)
    if not mine or not others:
        return mine == others
    return len(mine & others) / min(len(mine), len(others)) >= _MIN_SHARED


def _arguments(command: Command) -> tuple[str, ...]:
    rest = command.main.words[1:] if command.main else ()
    return rest[1:] if rest and _SCRIPT.search(rest[0]) else rest


def _may_check_same(left: Call, right: Call) -> bool:
    """Two runs of a check are of the same thing unless each names files and none of them is the other's."""
    mine, others = selection_of(left).paths, selection_of(right).paths
    return not mine or not others or any(holds(one, two) or holds(two, one) for one in mine for two in others)


def _same_object(left: Call, right: Call) -> bool:
    """What an edit is of is its file, wherever that was looked for first."""
    if left.writes and left.file and right.file:
        return PurePosixPath(left.file).name == PurePosixPath(right.file).name
    if left.target and right.target and left.target == right.target:
        return True
    return bool(set(left.input) & set(right.input)) or not left.input


@dataclass(frozen=True, slots=True)
class Goals:
    """The calls that did what the task names."""

    reached: tuple[Call, ...]
    """Of each thing named, the last call, where it went through."""
    refused: tuple[Call, ...]
    """Of each thing named, the last call, where it failed."""
    missing: tuple[str, ...]
    """What the task names beside these, of the same program, and was never called."""

    @property
    def met(self) -> bool:
        """Whether all that the task names went through in the end."""
        return bool(self.reached) and not self.refused and not self.missing


def goals_of(trajectory: Trajectory, calls: Sequence[Call]) -> Goals:
    """Return what became of the commands and tools that the task names; nothing where it names none that was called.

    Checks are left out: their results are evidence of their own. That a tool took what it was given counts only where
    it was seen to refuse something: one that takes everything proves nothing.
    """
    last: dict[str, Call] = {}
    for call in calls:
        for name in _named_by(call, trajectory.task):
            if call.went_through or (call.failed and not _still_holds(last.get(name), call, calls)):
                last[name] = call
    able_to_refuse = {call.tool for call in calls if call.failed}
    counted = {name: call for name, call in last.items() if call.command or call.failed or call.tool in able_to_refuse}
    if not counted and len(trajectory.task.split()) <= _MAX_TASK_WORDS:
        reached = [call for call in calls if _uses_named_program(call, trajectory.task)][-1:]
        return Goals(tuple(reached), (), ())
    return Goals(
        reached=tuple(call for call in counted.values() if call.went_through),
        refused=tuple(call for call in counted.values() if call.failed),
        missing=tuple(_missing(trajectory.task, counted)),
    )


def _uses_named_program(call: Call, task: str) -> bool:
    """Whether a program that a task names was run on two things at least that it names, and its exit code was 0."""
    for part in call.command.parts if call.command else ():
        is_named = part.purpose in ("run", "other") and len(part.program) > 2 and names(task, part.program)
        given = {word for each in part.words[1:] for word in re.findall(r"[A-Za-z]\w{3,}|\d+(?:\.\d+)+", each)}
        if is_named and call.command and sum(names(task, word) for word in given) >= _MIN_WORDS:
            reported = call.reported
            return call.command.code_of(part, call.output, reported) is False
    return False


def _still_holds(before: Call | None, failed: Call, calls: Sequence[Call]) -> bool:
    """Whether a thing went through before, and nothing was written until it was called once more and refused."""
    if before is None or not before.went_through:
        return False
    return not any(call.writes and not call.failed for call in calls if before.end < call.position < failed.position)


def _named_by(call: Call, task: str) -> Iterator[str]:
    """Yield what of the task's words a call does."""
    if call.command is None:
        named = "_" in call.tool or f"`{call.tool}`" in task
        if named and not hands_in(call) and names(task, call.tool):
            yield call.tool
        return
    for span in _spans(task):
        wanted = parse_command(span).main
        if wanted is not None and _does(call.command, wanted):
            yield span
    text = without_cd(call.command.text)
    if len(text.split()) >= _MIN_WORDS and text in task and f"`{text}`" not in task and _is_goal(call.command.main):
        yield text


def hands_in(call: Call) -> bool:
    """Whether a call hands in an answer, a report or a message, or ends the task: it is taken whatever it says."""
    return call.ends_task or (call.command is None and bool(_HANDS_IN.search(call.tool)))


def _spans(task: str) -> list[str]:
    return list(dict.fromkeys(span.strip() for span in _SPAN.findall(task)))


def _is_goal(part: Part | None) -> bool:
    return part is not None and part.purpose not in _NO_GOAL and part.purpose not in CHECKS


def _does(command: Command, wanted: Part) -> bool:
    """Whether a part of the command line is the wanted one, perhaps with more options, and the exit code is its own."""
    if not _is_goal(wanted):
        return False
    for part in command.parts:
        more = set(part.words) - set(wanted.words)
        same = part.program == wanted.program and set(wanted.words) <= set(part.words)
        if same and command.exit_code_is_of(part) and not any(_LOOKS_ONLY.fullmatch(word) for word in more):
            return True
    return False


def _missing(task: str, called: dict[str, Call]) -> Iterator[str]:
    """Yield the named commands of a program that was called, and were not called themselves."""
    programs = {name.split()[0] for name in called}
    yield from (span for span in _spans(task) if span not in called and " " in span and span.split()[0] in programs)
