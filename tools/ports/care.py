"""What looks after the file of a bank: backups, restoring, repair, inspection, taking over a foreign one."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from swarm_memory.schema.memory import MemoryItem


class Backup(NamedTuple):
    """One copy in the folder of copies."""

    path: Path
    made: datetime
    reason: str
    size_bytes: int


class Restored(NamedTuple):
    """What was put in the bank's place."""

    source: Path
    kept: Path | None
    """Where what stood there is now: a backup too, or `<name>.corrupt-<time>` when it is damaged; None without any."""


class Inspection(NamedTuple):
    """What is wrong with a bank; all empty: it is sound."""

    pages: tuple[str, ...] = ()
    """What SQLite says of its pages and keys."""
    memories: tuple[str, ...] = ()
    """Ids of memories whose text is not what was written."""
    trajectories: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    """What the indexes and counts hold wrongly; they can be made again from the rows."""
    vectors: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    """(model, dimensions, positions) of vectors of which nobody can tell whether they or the index are right."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not (self.pages or self.memories or self.trajectories or self.indexes)


class Repaired(NamedTuple):
    """What was done; without actions nothing was wrong."""

    actions: tuple[str, ...] = ()
    kept: Path | None = None
    """What stood there before."""


class ForeignBank(NamedTuple):
    """What is in a bank that was not made here by this user."""

    memories: "tuple[MemoryItem, ...]"
    """As they would be taken over: unverified, and those that look like an attack in quarantine with the reason."""
    faulty: int
    """Memories that cannot be read as such, and are left out."""
    trajectories: int
    calls: int
    jobs: int
    """Jobs that wait in it; none of them is taken over."""
    kept: Path | None = None
    """Where it is once it was taken over."""
