"""Which finished tasks are worth the tokens of a model: decided by what happened in them, without one.

A hook reads this too: the standard library alone.
"""

from collections.abc import Iterable, Sequence

from swarm_memory.tools.trajectory.tasks import feedback

LONG = 12
"""Calls from which a task is worth it whatever came of them."""

ENOUGH = 4
"""Calls from which a failed one makes it so: below that a slip was put right at once."""


def is_worth_asking(failed: Sequence[bool], said: Iterable[str]) -> bool:
    """Tell whether a model is asked about a task: it is long, something failed in it, or the user corrected it.

    `failed` says of each call of a tool whether it failed; `said` is what the user said after the task. Without any
    call there is nothing to judge.
    """
    if not failed:
        return False
    eventful = any(failed) and len(failed) >= ENOUGH
    return eventful or len(failed) >= LONG or any(feedback(text) == "correction" for text in said)
