"""What learning reads and writes: trajectories, verdicts and what was drawn from them. No adapter is known here."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.ports.memories import StoredMemory


class TriedWay(NamedTuple):
    """What a task showed of a memory that tells a way past an error."""

    signature: str
    """The digest of the error's; empty where the task did not meet it."""
    memory_id: str
    worked: bool = True
    """False: it was done, and the error came again; or the task did without."""


class KnownWay(NamedTuple):
    """A memory that ended an error, as often as tasks showed it."""

    signature: str
    memory_id: str
    worked: int
    """Tasks in which it did."""
    tried: int
    """Tasks in which it was tried; 0: nobody counted."""


class LearnRecord(NamedTuple):
    """All that one run of the loop writes, in one transaction."""

    scope: Scope
    run_id: str
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    embedder: str
    memories: tuple[StoredMemory, ...]
    reinforced: tuple[str, ...]
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float
    at: datetime
    ways_out: tuple[TriedWay, ...] = ()
    """Of memories new and known."""
    new_per_day: int | None = None
    """So much may be added in a day; None: it is not counted."""

    @property
    def counted(self) -> int:
        """What of the day's quota it takes: a task that taught nothing new takes room too."""
        return max(1, len(self.memories))


class LearnedBefore(NamedTuple):
    """What is known of a trajectory that was learned from."""

    trajectory_id: str
    run_id: str
    verdict: Verdict
    memory_ids: tuple[str, ...]


class TrajectoryStore(Protocol):
    """What was done, and what was learned from it."""

    async def learned_before(self, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
        """Return what was learned from exactly this trajectory of this task."""
        ...

    async def save_learning(self, record: LearnRecord) -> tuple[str, ...]:
        """Write trajectory, verdict, items and events in one transaction.

        Items that an earlier version of the same task gave, and that this one did not give again or reinforce, are
        archived as superseded; their ids are returned.
        """
        ...

    async def recent_tasks(self, scope: Scope, limit: int, chars: int) -> list[str]:
        """Return so many characters of each of the tasks that were learned from or judged last."""
        ...

    async def common_words(self, scope: Scope) -> frozenset[str]:
        """Return the words that were last noted to stand in most tasks of the project."""
        ...

    async def put_common_words(self, scope: Scope, words: Sequence[str]) -> None:
        """Note them."""
        ...

    async def save_verdict(self, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict) -> str:
        """Keep a trajectory with its verdict, which replaces an earlier one on the same; return the id it is kept by.

        One that was learned from keeps the verdict that was learned with.
        """
        ...

    async def known_ways(self, scope: Scope, signatures: Sequence[str]) -> list[KnownWay]:
        """Return the active memories of the project and the global scope that ended such errors, the surest first."""
        ...

    async def ways_beside(self, scope: Scope, memory_ids: Sequence[str]) -> list[KnownWay]:
        """Return what `known_ways` does of the errors that these memories ended."""
        ...

    async def get_trajectory(self, scope: Scope, trajectory_id: str) -> tuple[Trajectory, Verdict | None] | None:
        """Look up by trajectory id, or by task id for the newest of that task."""
        ...
