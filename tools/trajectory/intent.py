"""Whether two calls are after the same thing, so that the success of one answers the failure of the other."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.shell import CHECKS, Command

_NOT_STARTED = frozenset({"missing-module", "missing-command", "missing-script", "wrong-folder", "bad-arguments"})
"""Errors after which another runner of the same kind may do what the first could not."""

_MIN_SHARED = 0.5
_SCRIPT = re.compile(r"\.(?:py|js|ts|mjs|rb|sh|php|pl|jar)$")
_VERB = re.compile(r"[a-z][a-z-]+")
_MISTYPED = 0.7
_PATH = re.compile(r"[/.]|::")


def same_intent(failed: Call, other: Call) -> bool:
    """Whether `other` tries what `failed` tried: the same command or tool, with the same or other arguments."""
    if failed.command is None or other.command is None:
        return failed.command is other.command and failed.tool == other.tool and _same_object(failed, other)
    left, right = failed.command, other.command
    if left.name and left.name == right.name:
        return _may_check_same(left, right) if left.purpose in CHECKS else _same_arguments(left, right)
    if left.purpose != right.purpose:
        return words_shared(left, right) >= 0.6
    if left.purpose in CHECKS:
        return classify(failed.error).kind in _NOT_STARTED
    if left.purpose in ("install", "run") and left.main and right.main and left.main.subcommand:
        return left.main.subcommand == right.main.subcommand
    return words_shared(left, right) >= 0.6


def words_shared(left: Command, right: Command) -> float:
    """Return the share of the shorter command's words that the other has too; one word alone counts for nothing."""
    mine = {word for part in left.parts for word in part.words}
    others = {word for part in right.parts for word in part.words}
    shared = len(mine & others)
    return shared / min(len(mine), len(others)) if shared >= 2 or mine == others else 0.0


def repeats(failed: Call, other: Call) -> bool:
    """Whether a command does all that a failed one was to do, and perhaps more: with a prefix, with other options."""
    if failed.command is None or other.command is None:
        return failed.key == other.key
    return _arguments(failed.command) <= _arguments(other.command)


def varied_words(calls: Sequence[Call], task: str) -> frozenset[str]:
    """Return the words by which commands of one kind differ when the task itself names them all.

    The task asked for the same thing of several objects: which of them a call was about is nothing to learn.
    """
    spoken = [call.command.main.words for call in calls if call.command and call.command.main]
    found: set[str] = set()
    for number, left in enumerate(spoken):
        for right in spoken[:number]:
            if len(left) != len(right) or left[0] != right[0]:
                continue
            pairs = [(one, two) for one, two in zip(left, right, strict=True) if one != two]
            if len(pairs) == 1 and all(_stands_in(word, task) for word in pairs[0]):
                found.update(pairs[0])
    return frozenset(found)


def _stands_in(word: str, task: str) -> bool:
    return len(word) >= 3 and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", task) is not None


def _same_arguments(left: Command, right: Command) -> bool:
    """Whether enough of the arguments are the same: the program, and the script that it runs, say nothing of them.

    Two subcommands do two different things; one that was only mistyped is the same.
    """
    verbs = [_verb(command) for command in (left, right)]
    if all(verbs) and SequenceMatcher(None, verbs[0], verbs[1]).ratio() < _MISTYPED:
        return False
    mine, others = _arguments(left), _arguments(right)
    if not mine or not others:
        return mine == others
    return len(mine & others) / min(len(mine), len(others)) >= _MIN_SHARED


def _verb(command: Command) -> str:
    """The first argument where it reads like the name of a subcommand."""
    main = command.main
    rest = main.words[1:] if main else ()
    rest = rest[1:] if rest and _SCRIPT.search(rest[0]) else rest
    return rest[0] if rest and _VERB.fullmatch(rest[0]) else ""


def _arguments(command: Command) -> set[str]:
    main = command.main
    if main is None:
        return set()
    rest = main.words[1:]
    return set(rest[1:] if rest and _SCRIPT.search(rest[0]) else rest)


def _may_check_same(left: Command, right: Command) -> bool:
    """Two runs of a check are of the same thing unless each names files and none of them is the other's."""
    mine, others = _files(left), _files(right)
    if not mine or not others:
        return True
    return any(one.startswith(two) or two.startswith(one) for one in mine for two in others)


def _files(command: Command) -> set[str]:
    """The files and folders that a check was told to look at; those after an option may be its value."""
    words = command.main.words[1:] if command.main else ()
    return {
        word.removeprefix("./")
        for before, word in zip(("", *words), words, strict=False)
        if _PATH.search(word) and not word.startswith("-") and not before.startswith("-")
    }


def _same_object(left: Call, right: Call) -> bool:
    if left.target and right.target:
        return left.target == right.target or set(left.input) == set(right.input)
    return bool(set(left.input) & set(right.input)) or not left.input
