"""The memories of a bank on SQLite: each function one call of a thread of it; the rows stand in `memories`."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.server.storage import journal, memories, quota
from swarm_memory.server.storage.engine.access import Access
from swarm_memory.server.storage.search.memories import join, keyword_leg, near_leg, nearest
from swarm_memory.tools.ports.bank import DayLimit, MemoryFilter, SearchQuery, SearchResult, StoredMemory
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection


class SqliteMemories(Access):
    """Searching, reading and writing the memories of one bank, for a store that has its threads."""

    async def search(self, query: SearchQuery) -> SearchResult:
        # The two legs run at the same time.
        near, keywords = await asyncio.gather(
            self.read(lambda connection: near_leg(connection, self.index, query)),
            self.read_beside(lambda connection: keyword_leg(connection, self.index, query)),
        )
        return await self.read(lambda connection: join(connection, self.index, query, near, keywords))

    async def nearest(self, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int) -> list[tuple[str, float]]:
        return await self.read(lambda connection: nearest(connection, self.index, scopes, embedder, vector, k))

    async def get_memories(self, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
        return await self.read(lambda connection: memories.get_memories(connection, scopes, ids))

    async def list_memories(self, scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]:
        return await self.read(lambda connection: memories.list_memories(connection, scopes, which))

    async def memory_history(self, scopes: Sequence[Scope], memory_id: str) -> list[Event]:
        return await self.read(lambda connection: journal.history(connection, scopes, memory_id))

    async def memory_histories(
        self, scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
    ) -> dict[str, list[Event]]:
        return await self.read(lambda connection: journal.histories(connection, scopes, ids, kinds))

    async def add_memories(
        self, memories: Sequence[StoredMemory], embedder: str, limit: DayLimit | None = None
    ) -> list[str]:
        def add(connection: "Connection") -> list[str]:
            writer = self._memory_writer(connection, embedder)
            new = [memory.item for memory in memories if writer.add(memory)]
            if limit is not None:
                quota.count_items(connection, new, limit)
            return [item.id for item in new]

        return await self.write(add)

    async def added_on(self, scope: Scope, at: datetime) -> int:
        return await self.read(lambda connection: quota.added_on(connection, scope, at))

    async def replace_memory(self, memory: StoredMemory, embedder: str, reason: str) -> None:
        def replace(connection: "Connection") -> None:
            self._memory_writer(connection, embedder).replace(memory, reason)
            self.index.tidy(connection)

        await self.write(replace)

    async def set_status(self, scopes: Sequence[Scope], ids: Sequence[str], status: MemoryStatus, reason: str) -> int:
        def change(connection: "Connection") -> int:
            changed = memories.set_status(connection, self.index, scopes, ids, status, reason)
            self.index.tidy(connection)
            return changed

        return await self.write(change)

    def _memory_writer(self, connection: "Connection", embedder: str) -> memories.MemoryWriter:
        return memories.MemoryWriter(connection, self.index, embedder, self.quantization_of(embedder))
