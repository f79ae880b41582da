"""Which memories are proven, and which that are in files no longer earn their place there, and why."""

from collections.abc import Collection, Iterable, Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.sqlite.events import PROMOTED
from swarm_memory.tools.consolidate.aging import WORTH_KEEPING
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

MIN_OUTCOMES = 3
"""Of fewer tasks since a memory was promoted nothing is said."""

MOST_OF = 0.5
"""Of the tasks that used a proven memory surely more succeeded."""

MOST = 10_000
"""So many of the newest memories are looked at for what is proven."""


async def proven(toolbox: Toolbox) -> list[str]:
    """Return the active memories of which tasks made use that mostly succeeded, at 95 %. Raises `StorageError`."""
    items = await toolbox.store.list_memories((toolbox.scope,), MemoryFilter(limit=MOST))
    histories = await toolbox.store.memory_histories((toolbox.scope,), [item.id for item in items], (CREDITED,))
    uses = {memory_id: _labels(each for each in some if _is_use(each)) for memory_id, some in histories.items()}
    return [each for each, ends in uses.items() if ends and wilson(ends.count("Success"), len(ends)).low > MOST_OF]


async def not_paying(toolbox: Toolbox, promoted: Collection[str]) -> dict[str, str]:
    """Return why promoted memories are to be demoted, by id; nothing is said of those that are not in this bank.

    One is withdrawn, or hardly believed any more, or more of the tasks that read it since failed than succeeded. Raises
    `StorageError`.
    """
    if not promoted:
        return {}
    readable = toolbox.readable
    items = await toolbox.store.get_memories(readable, sorted(promoted))
    histories = await toolbox.store.memory_histories(readable, [item.id for item in items], (PROMOTED, CREDITED))
    reasons = {item.id: _why(toolbox, item, histories[item.id]) for item in items}
    return {memory_id: why for memory_id, why in reasons.items() if why is not None}


def _why(toolbox: Toolbox, item: MemoryItem, history: Sequence[Event]) -> str | None:
    if item.status != "active":
        return f"it is {item.status}{f': {item.status_reason}' if item.status_reason else ''}"
    if item.confidence < WORTH_KEEPING and not item.provenance.is_users_word:
        return f"its confidence has fallen to {item.confidence:.2f}, and {WORTH_KEEPING:.2f} is worth keeping"
    since = max((place for place, event in enumerate(history) if event.kind == PROMOTED), default=-1)
    labels = _labels(history[since + 1 :])
    failed, succeeded = labels.count("Failure"), labels.count("Success")
    if failed + succeeded < MIN_OUTCOMES or failed <= succeeded:
        return None
    return f"{failed} of {failed + succeeded} tasks that had it since it was promoted failed"


def _is_use(event: Event) -> bool:
    return event.data.get("method", "none") != "none"


def _labels(events: Iterable[Event]) -> list[str]:
    """Return the last verdict of each task that was decided."""
    last = {str(event.data.get("task_id")): str(event.data.get("label")) for event in events}
    return [label for label in last.values() if label != "Undecided"]
