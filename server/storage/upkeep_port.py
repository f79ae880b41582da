"""The upkeep of the bank on SQLite: each function one call of a thread of it; the rows stand in `consolidation`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryLink
from swarm_memory.server.storage import consolidation, reembed
from swarm_memory.server.storage.engine.access import Access
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.ports.upkeep import (
    PendingUpkeep,
    UpkeepBatch,
    UpkeepItem,
    UpkeepState,
    UpkeepUndone,
    UpkeepWritten,
)

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection


class SqliteUpkeep(Access):
    """What a consolidation reads and writes in one bank, for a store that has its threads."""

    async def upkeep_state(self, scope: Scope) -> UpkeepState:
        return await self.read(lambda connection: consolidation.upkeep_state(connection, scope))

    async def pending_upkeep(self, scope: Scope, embedder: str, most: int) -> PendingUpkeep:
        return await self.read(lambda connection: consolidation.pending_upkeep(connection, scope, embedder, most))

    async def upkeep_items(
        self, scope: Scope, embedder: str, dimensions: int, *, after: int, limit: int
    ) -> list[UpkeepItem]:
        return await self.read(
            lambda connection: consolidation.items_after(connection, scope, embedder, dimensions, after, limit)
        )

    async def upkeep_items_of(
        self, scope: Scope, embedder: str, dimensions: int, ids: Sequence[str]
    ) -> list[UpkeepItem]:
        return await self.read(lambda connection: consolidation.items_of(connection, scope, embedder, dimensions, ids))

    async def memory_links(self, scope: Scope, ids: Sequence[str]) -> list[MemoryLink]:
        return await self.read(lambda connection: consolidation.links_of(connection, scope, ids))

    async def write_upkeep(self, scope: Scope, batch: UpkeepBatch) -> UpkeepWritten:
        return await self.write(lambda connection: consolidation.write(connection, self.index, scope, batch))

    async def finish_upkeep(
        self, scope: Scope, run_id: str, at: datetime, consolidated: int, summary: Mapping[str, JsonValue]
    ) -> None:
        def finish(connection: "Connection") -> None:
            consolidation.finish(connection, scope, run_id, at, consolidated, summary)
            self.index.tidy(connection)

        await self.write(finish)

    async def unembedded(self, scope: Scope, limit: int, after: int) -> list[tuple[int, str, str]]:
        return await self.read(lambda connection: reembed.unembedded(connection, scope, limit, after))

    async def put_first_vectors(self, embedder: str, vectors: Mapping[str, Vector]) -> int:
        quantization = self.quantization_of(embedder)
        return await self.write(
            lambda connection: reembed.put_first_vectors(connection, self.index, embedder, vectors, quantization)
        )

    async def upkeep_batches(self, scope: Scope, run_id: str) -> list[int]:
        return await self.read(lambda connection: consolidation.batches(connection, scope, run_id))

    async def undo_upkeep(self, scope: Scope, run_id: str, batch: int, at: datetime) -> UpkeepUndone:
        return await self.write(lambda connection: consolidation.undo(connection, self.index, scope, run_id, batch, at))
