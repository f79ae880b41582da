"""Which finished tasks are worth the tokens of a model, by what happened in them; what the agent itself is asked.

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


QUESTION = "swarm-memory asks what this task taught."
"""How the question to the agent begins; by that a transcript's reader knows it again."""


def question(transcript_path: str, task_id: str) -> str:
    """Return what the agent is asked at the end of a task."""
    where = f"transcript_path {transcript_path!r} and task_id {task_id!r}"
    return (
        f"{QUESTION} The user has switched this question on; it comes once a task. If the tools of the MCP server "
        f"swarm-memory are at hand, call one of them once, with {where}: `distill_memories` with your verdict "
        "(Success, Failure or Undecided, by what was seen and not by what was hoped), reasons, and at most three items "
        "that would help the next one who works here, each with a title, when it is of use, and short numbered steps; "
        "no secrets, no names, nothing that holds for this task alone. Where nothing is worth keeping, call "
        "`learn_from_trajectory` with your verdict instead. Do nothing else, and end with one short line."
    )
