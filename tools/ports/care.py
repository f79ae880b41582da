"""What looks after the file of a bank: backups, restoring, repair, inspection, taking over a foreign one."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

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


class Care(Protocol):
    """The file of one bank. All errors are `StorageError`s unless said otherwise."""

    @property
    def backup_folder(self) -> Path:
        """Where copies are kept by themselves."""
        ...

    def backups(self) -> list[Backup]:
        """Return the copies in that folder, newest first."""
        ...

    def damaged_files(self) -> list[Path]:
        """Return the damaged banks that were put aside."""
        ...

    def half_copies(self) -> list[Path]:
        """Return the half copies of the bank that a killed process left: of a backup, a repair or a restoring."""
        ...

    def drop_half_copies(self) -> list[Path]:
        """Delete them, and return what was deleted."""
        ...

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use, to `target` or into the folder; return where the checked copy is.

        Raises `InputError` for a taken name.
        """
        ...

    def restore(self, source: Path | None = None) -> Restored:
        """Put a copy of a backup, or of the newest, in the bank's place.

        Processes that have the bank open go over to the new file at their next call. Raises `NotFoundError` without a
        backup, `StoreDamaged` for an unsound one, `StoreUntrusted`, `StoreBusy`.
        """
        ...

    def repair(self) -> Repaired:
        """Find what is wrong with the bank and mend it. No other process may write meanwhile.

        Raises `StoreDamaged` when nothing can be read from the file any more: then it is left as it is, and a backup
        is the way back; `StoreUntrusted`, `StoreBusy`, `StoreReadOnly`.
        """
        ...

    async def inspect(self) -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        ...

    def look_at_foreign(self) -> ForeignBank:
        """Look at a bank that was not made here by this user, in a copy.

        Raises `InputError` where the bank is trusted, `StoreUntrusted` when it is no bank of ours.
        """
        ...

    def take_over(self) -> ForeignBank:
        """Put a new bank of what is in such a one in its place, and trust that. Its vectors are still to be made.

        Raises as `look_at_foreign`, `StoreBusy`, `StoreReadOnly`.
        """
        ...
