"""Made-up memories, and a way to put them into a bank."""

from datetime import UTC, datetime
from typing import Any

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.store import Store
from swarm_memory.server.storage.stores.memories import replace_item
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox

HERE = Scope(project="here")


def made_item(title: str, **fields: Any) -> MemoryItem:
    """Return an item; fields that are not given have defaults."""
    given: dict[str, Any] = {
        "id": new_id("rm"),
        "scope": HERE,
        "content": f"1. {title}, then look again",
        "confidence": 0.5,
        "created_at": datetime.now(UTC),
    }
    return MemoryItem(title=title, **(given | fields))


async def put(toolbox: Toolbox, *items: MemoryItem) -> list[str]:
    """Write items unchanged, bypassing every gate; return their ids."""
    return await toolbox.store.add_memories(await prepare(toolbox, items), toolbox.embedder.name)


async def rewrite(store: Store, memory: StoredMemory, embedder: str, reason: str = "a test") -> None:
    """Replace a stored memory with a new version."""

    def replace(connection: Connection) -> None:
        replace_item(connection, store, memory, embedder, reason)
        store.index.tidy(connection)

    await store.write(replace)
