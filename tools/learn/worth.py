"""Which finished tasks are worth a model's tokens, by what happened in them; the question to the agent itself."""

from collections.abc import Iterable, Sequence

from swarm_memory.tools.text.intent import asks_each_time, asks_to_be_kept
from swarm_memory.tools.trajectory.tasks import feedback

LONG, LONG_S = 12, 300.0
"""How many calls, or seconds, make a task worth it whatever came of them."""


def is_worth_asking(failed: Sequence[bool], said: Iterable[str], seconds: float = 0.0) -> bool:
    """Whether a task may have taught something: it was long, something failed in it, or the user corrected it or laid
    down a rule.

    `failed` says for each tool call whether it failed; `said` is what the user said in the task. Without any call there
    is nothing to judge.
    """
    if not failed:
        return False
    spoken = any(feedback(text) == "correction" or asks_each_time(text) or asks_to_be_kept(text) for text in said)
    return any(failed) or len(failed) >= LONG or seconds >= LONG_S or spoken


QUESTION = "swarm-memory: what did this task teach"
"""The beginning of the question to the agent, by which a reader of transcripts recognizes it."""


def question(known: Sequence[str] = ()) -> str:
    """Return the question to the agent at the end of a task; `known` are titles of memories on its subject.

    The host shows it to the user too, so it is short; the server's instructions say what makes a good note.
    """
    already = f" Known already: {'; '.join(known)}." if known else ""
    return (
        f"{QUESTION} that somebody new here would lose five minutes without, and that code and README do not say? Call "
        "`mcp__swarm-memory__remember` once (load it first if your tools are deferred), then end without more text: "
        '{"outcome": "Success", "notes": [{"title": "Lease first", "when": "Before `parcelctl send`", "note": '
        '"`parcelctl lease` first, else `E17`."}]}, or `outcome` alone.'
        f"{already}"
    )
