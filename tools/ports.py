"""What the operations need from outside: time, and one store of all its ports. No adapter is known here."""

from datetime import datetime
from typing import Protocol

from swarm_memory.tools.benchmark_ports import BenchmarkStore
from swarm_memory.tools.job_ports import JobQueue
from swarm_memory.tools.journal_ports import Journal
from swarm_memory.tools.memory_ports import MemoryStore
from swarm_memory.tools.outcome_ports import Credits
from swarm_memory.tools.rollout_ports import RolloutStore
from swarm_memory.tools.source_ports import SourceStore
from swarm_memory.tools.tool_memory_ports import ToolMemoryStore
from swarm_memory.tools.trajectory_ports import TrajectoryStore
from swarm_memory.tools.upkeep_ports import Upkeep


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...


class Store(MemoryStore, TrajectoryStore, JobQueue, Journal, Credits, RolloutStore, Upkeep, Protocol):
    """All of it, in one database."""

    @property
    def tool_memory(self) -> ToolMemoryStore: ...

    @property
    def sources(self) -> SourceStore: ...

    @property
    def benchmarks(self) -> BenchmarkStore: ...

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close."""
        ...
