"""What the operations need from outside: time, the project's folder, and one store of all its ports."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from swarm_memory.schema.team.person import Person
from swarm_memory.tools.ports.credit import Credits
from swarm_memory.tools.ports.jobs import JobQueue
from swarm_memory.tools.ports.journal import BenchmarkStore, Journal
from swarm_memory.tools.ports.memories import MemoryStore
from swarm_memory.tools.ports.rollouts import RolloutStore
from swarm_memory.tools.ports.sources import SourceStore
from swarm_memory.tools.ports.team.people import PeopleStore
from swarm_memory.tools.ports.team.sharing import TeamStore
from swarm_memory.tools.ports.tool_memory import ToolMemoryStore
from swarm_memory.tools.ports.trajectories import TrajectoryStore
from swarm_memory.tools.ports.upkeep import Retention, Review, Upkeep, Vectors

T = TypeVar("T")


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...


class Project(Protocol):
    """The folder of a project. What cannot be read is not there; nothing is raised."""

    @property
    def root(self) -> Path:
        """Where it lies."""
        ...

    def has(self, anchor: str) -> bool:
        """Return whether something that a memory names (`Provenance.anchors`) is there now.

        Some microseconds, where nothing has changed since it was read last.
        """
        ...

    async def looked(self, look: Callable[[], T], limit_s: float) -> T | None:
        """Return what a function gives that asks what there `has`; None where it takes longer, and then it is left."""
        ...

    async def lasting(self, files: Collection[str]) -> frozenset[str]:
        """Return those of the files that Git keeps; all of them where the folder is no working tree of Git's."""
        ...

    async def moved(self, files: Collection[str]) -> Mapping[str, str]:
        """Return where Git says that files went which are there no more, by their former paths."""
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

    @property
    def people(self) -> PeopleStore: ...

    @property
    def person_id(self) -> str | None:
        """For whom it writes; None: the bank's own user."""
        ...

    def by(self, person_id: str | None) -> "Store":
        """Return the same bank, what is written to which a person wrote."""
        ...

    @property
    def team(self) -> TeamStore: ...

    async def forget_person(self, person: Person) -> int:
        """Delete for good what somebody brought besides memories, and their name, backups too.

        Return how many records of tasks lost their text.
        """
        ...

    async def close(self) -> None:
        """Write what is queued (at most 2 s) and close."""
        ...
