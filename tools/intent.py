"""Whether two calls are after the same thing, so that the success of one answers the failure of the other."""

from swarm_memory.tools.calls import Call
from swarm_memory.tools.commands import CHECKS, Command
from swarm_memory.tools.failures import classify

_NOT_STARTED = frozenset({"missing-module", "missing-command", "missing-script", "wrong-folder", "bad-arguments"})
"""Errors after which another runner of the same kind may do what the first could not."""


def same_intent(failed: Call, other: Call) -> bool:
    """Whether `other` tries what `failed` tried: the same command or tool, with the same or other arguments."""
    if failed.command is None or other.command is None:
        return failed.command is other.command and failed.tool == other.tool and _same_object(failed, other)
    left, right = failed.command, other.command
    if left.name and left.name == right.name:
        return left.purpose in CHECKS or words_shared(left, right) >= 0.5
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


def _same_object(left: Call, right: Call) -> bool:
    if left.target and right.target:
        return left.target == right.target or set(left.input) == set(right.input)
    return bool(set(left.input) & set(right.input)) or not left.input
