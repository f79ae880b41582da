"""One open bank, on whichever engine: all of its stores, and what they do together."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Self

from swarm_memory.schema.base import Scope
from swarm_memory.schema.status import StorageHealth
from swarm_memory.schema.team.person import Person
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import WriteBehindQueue
from swarm_memory.server.storage.stores import memories
from swarm_memory.server.storage.stores.forgetting import (
    Traces,
    find_traces,
    find_traces_of_person,
    forget,
    forget_person,
)
from swarm_memory.server.storage.stores.jobs import Jobs
from swarm_memory.server.storage.stores.journal import Benchmarks
from swarm_memory.server.storage.stores.memories import Memories
from swarm_memory.server.storage.stores.review import Review
from swarm_memory.server.storage.stores.rollouts import Rollouts
from swarm_memory.server.storage.stores.sources import Sources
from swarm_memory.server.storage.stores.team.people import FORGOTTEN_PERSON, People, note, take_out_of_team
from swarm_memory.server.storage.stores.team.sharing import SharedMemories, TeamCache
from swarm_memory.server.storage.stores.tool_memory import ToolCalls
from swarm_memory.server.storage.stores.trajectories import Trajectories
from swarm_memory.server.storage.stores.upkeep import Retention, Upkeep, Vectors
from swarm_memory.tools.ports.memories import Forgotten

_PACKED_AT_ONCE = 2_000
"""At most this many items get their handles in one transaction, so that other writers do not wait long."""


class Store(Memories, Trajectories, Jobs, Upkeep, Rollouts):
    """All stores of one bank. `PostgresStore` subclasses it alone, `SqliteStore` together with `BankThreads`."""

    def hold_stores(self) -> None:
        """Make the recorder and the stores that are attributes; the engine must be initialized."""
        self.recorder = WriteBehindQueue(self.write_records)
        self._closed = False
        self._add_parts()

    def _add_parts(self) -> None:
        self.vectors = Vectors(self, self.index)
        self.sources = Sources(self)
        self.tool_memory = ToolCalls(self)
        self.benchmarks = Benchmarks(self)
        self.retention = Retention(self)
        self.review = Review(self)
        self.people = People(self)
        self.team = SharedMemories(self)
        self.team_cache = TeamCache(self)

    def by(self, person_id: str | None) -> Self:
        """Return the same bank, with everything that is written through it attributed to a person."""
        bank = copy(self)
        bank.person_id = person_id
        bank._add_parts()
        return bank

    @abstractmethod
    async def health(self) -> StorageHealth:
        """Return the state of the engine and of its file or database."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Write what is queued, for at most 2 s, and close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await self.recorder.close()
        await self.close_threads()

    async def forget(
        self, scopes: Sequence[Scope], ids: Sequence[str], *, with_trajectories: bool = False
    ) -> Forgotten:
        """Delete memories for good: rows, indexes, their tasks' records, quotes in other texts, free pages, backups.

        A task's record stays if remaining memories rest on it; `with_trajectories` removes its text even then.
        """
        await self.recorder.settle()  # a retrieval that is written later would bring its query back
        # Searching all texts takes longest, and as a read it blocks no writer.
        traces = await self.read(partial(find_traces, scopes=scopes, ids=ids, with_trajectories=with_trajectories))
        forgotten = await self.write(partial(forget, index=self.index, scopes=scopes, traces=traces))
        if forgotten.ids:
            await self.forget_outside(traces)
        return forgotten

    async def forget_person(self, person: Person) -> int:
        """Delete for good, also from backups, a person's name and what they contributed apart from memories.

        Return how many task records lost their text.
        """
        await self.recorder.settle()
        scopes = await self.people.scopes(person.tenant_id)
        traces = await self.read(partial(find_traces_of_person, scopes=scopes, person_id=person.id))

        def forget_all(connection: Connection) -> int:
            records = forget_person(connection, person.id, traces)
            take_out_of_team(connection, person)
            note(connection, person.tenant_id, FORGOTTEN_PERSON, person.id, {})
            return records

        records = await self.write(forget_all)
        await self.forget_outside(traces._replace(ids=(person.id,)))
        return records

    async def forget_outside(self, traces: Traces) -> None:
        """Remove what was forgotten from the files next to the database."""

    async def back_up_day(self, keep: int = 7) -> None:
        """Make today's copy and delete all but the newest `keep`; a bank on a database server is not copied."""

    async def refresh(self) -> int:
        """Fill in what older versions or processes without sqlite-vec left out; return how many indexes were stale."""
        if self.read_only:
            return 0
        if await self.read(memories.has_handles_due):
            await self._make_handles()
        lacking = [index for index in (self.index, self.sources.index) if await self.read(index.lacks)]
        return sum([await self.write(index.refresh) for index in lacking])

    async def _make_handles(self) -> None:
        after: int | None = 0
        while after is not None:
            after = await self.write(partial(memories.make_handles, after=after, limit=_PACKED_AT_ONCE))

    async def reindex(self) -> None:
        """Rebuild the handles, the keyword indexes and the vector indexes from the plain tables."""
        await self._make_handles()
        for index in (self.index, self.sources.index):
            await self.write(index.rebuild)

    async def drop_other_spaces(self, embedder: str, dimensions: int) -> list[str]:
        """Delete the vectors of all embedders but `embedder` and the light one; return the names of those deleted."""
        kept = {(embedder, dimensions), *([(self.light.name, self.light.dimensions)] if self.light else [])}
        drops = [partial(index.drop_spaces_but, kept=kept) for index in (self.index, self.sources.index)]
        return list(dict.fromkeys([model for drop in drops for model in await self.write(drop)]))
