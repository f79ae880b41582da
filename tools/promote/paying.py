"""Which memories are proven, and which that stand in files no longer earn their place there, and why."""

from collections.abc import Collection, Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Lift
from swarm_memory.schema.sqlite.events import PROMOTED
from swarm_memory.tools.credit.lift import lift_report
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.toolbox import Toolbox

MIN_OUTCOMES = 3
"""Of fewer tasks since a memory was promoted nothing is said."""


async def proven(toolbox: Toolbox) -> list[str]:
    """Return the memories that the lots prove to help: the lower bound of their lift is above 0. `StorageError`."""
    return [lift.of for lift in (await lift_report(toolbox)).memories if lift.worth == "proven"]


async def not_paying(toolbox: Toolbox, promoted: Collection[str]) -> dict[str, str]:
    """Return why promoted memories are to be demoted, by id; nothing is said of those that are not in this bank.

    One is withdrawn, or hardly believed any more, or more of the tasks that read it since failed than succeeded, or it
    was proven when it was promoted and is no longer. Raises `StorageError`.
    """
    if not promoted:
        return {}
    readable = toolbox.readable
    items = await toolbox.store.get_memories(readable, sorted(promoted))
    histories = await toolbox.store.memory_histories(readable, [item.id for item in items], (PROMOTED, CREDITED))
    lifts = {lift.of: lift for lift in (await lift_report(toolbox)).memories}
    reasons = {item.id: _why(toolbox, item, histories[item.id], lifts.get(item.id)) for item in items}
    return {memory_id: why for memory_id, why in reasons.items() if why is not None}


def _why(toolbox: Toolbox, item: MemoryItem, history: Sequence[Event], lift: Lift | None) -> str | None:
    if item.status != "active":
        return f"it is {item.status}{f': {item.status_reason}' if item.status_reason else ''}"
    least = toolbox.settings.consolidate.min_confidence_keep
    if item.confidence < least and not item.provenance.is_users_word:
        return f"its confidence has fallen to {item.confidence:.2f}, and {least:.2f} is worth keeping"
    promoted = [event for event in history if event.kind == PROMOTED]
    if promoted and promoted[-1].data.get("proven") and lift is not None and lift.worth != "proven":
        return f"it was proven when it was promoted; now: {lift.says}"
    since = max((place for place, event in enumerate(history) if event.kind == PROMOTED), default=-1)
    labels = {str(event.data.get("task_id")): event.data.get("label") for event in history[since + 1 :]}
    failed, succeeded = (list(labels.values()).count(label) for label in ("Failure", "Success"))
    if failed + succeeded < MIN_OUTCOMES or failed <= succeeded:
        return None
    return f"{failed} of {failed + succeeded} tasks that had it since it was promoted failed"
