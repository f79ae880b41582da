"""What the operations need from outside: time, and one store of all its ports. No adapter is known here."""

from datetime import datetime
from typing import Protocol

from swarm_memory.tools.ports.credit import Credits
from swarm_memory.tools.ports.jobs import JobQueue
from swarm_memory.tools.ports.journal import BenchmarkStore, Journal
from swarm_memory.tools.ports.memories import MemoryStore
from swarm_memory.tools.ports.rollouts import RolloutStore
from swarm_memory.tools.ports.sources import SourceStore
from swarm_memory.tools.ports.tool_memory import ToolMemoryStore
from swarm_memory.tools.ports.trajectories import TrajectoryStore
from swarm_memory.tools.ports.upkeep import Retention, Review, Upkeep, Vectors


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...


class Store(MemoryStore, TrajectoryStore, JobQueue, Journal, Credits, RolloutStore, Upkeep, Protocol):
    """All of it, in one database."""

    @property
    def vectors(self) -> Vectors:
        """Those of the memories."""
        ...

    @property
    def tool_memory(self) -> ToolMemoryStore: ...

    @property
    def sources(self) -> SourceStore: ...

    @property
    def benchmarks(self) -> BenchmarkStore: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def review(self) -> Review: ...

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close."""
        ...
