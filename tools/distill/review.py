"""Memories that a task was shown and followed in vain: the first time this happens, a person reviews them."""

import asyncio
from datetime import datetime

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.credit.outcome import ADVERSE, SENTENCE
from swarm_memory.tools.distill.fixes import may_come_again
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.retrieve.preamble import helps
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import code_spans
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.reading import Reading

_UNUSABLE = frozenset({"missing-command", "missing-file", "bad-arguments"})
"""Kinds of errors of a command that no longer exists, or is no longer written that way."""

_OUTSIDE = frozenset({
    "network", "rate-limit", "service-down", "port-in-use", "permission", "not-logged-in", "locked", "disk-full",
    "timeout", "bad-arguments",
})  # fmt: skip
"""Kinds of errors that say nothing about what was done before."""


async def send_for_review(toolbox: Toolbox, reading: Reading, verdict: Verdict) -> None:
    """Quarantine, with the reason, memories that a failed task was shown and followed in vain, the first time they are.

    Exempt are what the user said, restored or kept, what helped more tasks than not, and fixes, which are counted by
    their own errors. Raises `StorageError`.
    """
    task_id = reading.trajectory.task_id
    shown = await toolbox.store.injections(toolbox.scope, task_id)
    since = {**shown.beside, **shown.given}
    if verdict.label != "Failure" or not since:
        return
    for item in await toolbox.store.get_memories((toolbox.scope,), list(since)):
        is_open = item.status == "active" and item.status_reason is None and item.provenance.priority <= 0
        if not is_open or item.use != "strategy":
            continue
        command = await asyncio.to_thread(followed_in_vain, reading, item, since[item.id])
        if command is None:
            continue
        events = (await toolbox.store.memory_histories((toolbox.scope,), [item.id], (CREDITED,)))[item.id]
        others = [event.data for event in events if event.data.get("task_id") != task_id]
        used = [each.get("label") for each in others if each.get("method", "none") != "none"]
        if not helps(used.count("Success"), len(used) + 1):
            why = f"a task followed it without success: {redact(command).text!r} ({task_id})"
            await toolbox.store.set_status((toolbox.scope,), [item.id], "quarantined", one_line(why, 400))


def followed_in_vain(reading: Reading, item: MemoryItem, since: datetime | None) -> str | None:
    """Return a command that a task ran in vain after it was shown a memory that advises the command; else None.

    In vain: it could not be run as written, and nothing that the memory names went through. Or the other commands that
    the memory names all failed from then on, by no outside cause such as the network or a limit. Sentences that warn
    advise nothing. A failing check, or a fault in the agent's own work, says nothing about a memory.
    """
    advising = "\n".join(each for each in SENTENCE.split(item.advice) if not ADVERSE.search(each))
    advised = {" ".join(span.split()) for span in code_spans(advising)}

    def is_named(call: Call) -> bool:
        return any(f"{span} ".startswith(f"{_named(call)} ") for span in advised)

    went_through = any(not call.failed and is_named(call) for call in reading.calls)
    for at, call in enumerate(reading.calls):
        text = " ".join(call.command.text.split()) if call.command else ""
        if text not in advised or (since is not None and call.step.at is not None and call.step.at < since):
            continue
        if call.failed:
            if classify(call.error).kind in _UNUSABLE and not went_through:
                return text
            continue
        concerned = [
            each
            for each in reading.calls[at + 1 :]
            if each.command and each.check is None and is_named(each) and _named(each) != _named(call)
        ]
        if concerned and all(
            each.failed and may_come_again(each, reading) and classify(each.error).kind not in _OUTSIDE
            for each in concerned
        ):
            return text
    return None


def _named(call: Call) -> str:
    """Return what a command runs, as a text names it: its script, or its program with the subcommand."""
    words = call.command.main.words if call.command and call.command.main else ()
    return call.name if " " in call.name or "." in call.name else " ".join(words[:2])
