"""How the bank stands and how its answers are made; it measures nothing itself."""

from swarm_memory.schema.status import MemoryStatus
from swarm_memory.tools.metrics import memory_effect
from swarm_memory.tools.toolbox import Toolbox


async def memory_status(toolbox: Toolbox, *, version: str, notices: tuple[str, ...] = ()) -> MemoryStatus:
    """Return health, counts and the settings in force, secrets masked. Raises `StorageError`."""
    storage = await toolbox.store.health()
    statistics = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    if statistics.not_embedded:
        reach = f"{statistics.not_embedded} memories have no vector of {toolbox.embedder.name}: only keywords find them"
        notices = (*notices, f"{reach}; run `swarm-memory reembed`")
    return MemoryStatus(
        version=version,
        storage=storage,
        statistics=statistics,
        embedder=toolbox.embedder.name,
        judge="evidence",
        effect=await memory_effect(toolbox),
        settings=toolbox.settings.model_dump(mode="json"),
        notices=(*storage.notices, *notices),
    )
