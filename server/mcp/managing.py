"""One entry for all that `manage_memories` can do; the rules are those of the operations."""

from typing import Literal, TypeAlias

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryStatus
from swarm_memory.server.mcp.answers import EventView, ManageAnswer, MemoryView
from swarm_memory.tools.memories import edit as memories
from swarm_memory.tools.ports.bank import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

Action: TypeAlias = Literal["list", "get", "edit", "forget", "restore", "quarantine", "archive", "history"]

_STATUS_OF: dict[str, MemoryStatus] = {"restore": "active", "quarantine": "quarantined", "archive": "archived"}


async def manage(
    toolbox: Toolbox,
    action: Action,
    ids: tuple[str, ...],
    which: MemoryFilter,
    change: memories.MemoryChange,
    reason: str | None,
) -> ManageAnswer:
    """Do one action. Raises `InputError` that names the argument to change, `NotFoundError`."""
    match action:
        case "list":
            found = await memories.list_memories(toolbox, which)
            return ManageAnswer(action=action, memories=[MemoryView.of(item, full=False) for item in found])
        case "get":
            found = await memories.get_memories(toolbox, ids)
            return ManageAnswer(action=action, memories=[MemoryView.of(item, full=True) for item in found])
        case "edit":
            changed = await memories.edit_memory(toolbox, _single(ids), change, reason)
            return ManageAnswer(action=action, memories=[MemoryView.of(changed, full=True)], changed=1)
        case "history":
            events = await memories.memory_history(toolbox, _single(ids))
            return ManageAnswer(action=action, events=[EventView.of(event) for event in events])
        case "forget":
            forgotten = await memories.forget_memories(toolbox, ids)
            left = list(memories.what_stayed(forgotten, "forget these too and it goes"))
            return ManageAnswer(action=action, changed=len(forgotten.ids), left=left or None)
        case "restore" | "quarantine" | "archive":
            count = await memories.set_memory_status(toolbox, ids, _STATUS_OF[action], reason, by_hand=False)
            return ManageAnswer(action=action, changed=count)


def _single(ids: tuple[str, ...]) -> str:
    if len(ids) != 1:
        raise InputError(f"ids must name exactly one memory for this action, not {len(ids)}")
    return ids[0]
