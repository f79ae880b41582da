"""The care of a bank's file in SQLite."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings
from swarm_memory.server.storage.care.repair import Repaired, repair
from swarm_memory.server.storage.care.restore import Restored, restore
from swarm_memory.server.storage.care.takeover import ForeignBank, look, take_over
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine.backup import Backup, abandoned_copies, backup_folder, list_backups
from swarm_memory.server.storage.inspection import Inspection
from swarm_memory.server.storage.store import SqliteStore, open_store
from swarm_memory.tools.ports.models import Embedder


@dataclass(frozen=True)
class SqliteCare:
    """Opens the bank for what it is asked, and closes it again; nothing is opened before."""

    database: Path
    settings: Settings
    scope: Scope
    make_embedder: Callable[[], Embedder]

    @property
    def backup_folder(self) -> Path:
        """Where copies are kept by themselves."""
        return backup_folder(self.database)

    def backups(self) -> list[Backup]:
        """Return the copies in that folder, newest first."""
        return list_backups(self.database)

    def damaged_files(self) -> list[Path]:
        """Return the damaged banks that were put aside."""
        return sorted(self.database.parent.glob(f"{self.database.name}.corrupt-*[Z]"))

    def half_copies(self) -> list[Path]:
        """Return the half copies of the bank that a killed process left: of a backup, a repair or a restoring."""
        return abandoned_copies(self.database)

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use, to `target` or into the folder; return where the checked copy is.

        Raises `InputError` for a taken name.
        """
        async with await self._store() as store:
            return await store.back_up(target)

    async def inspect(self) -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        async with await self._store() as store:
            return await store.inspect()

    def restore(self, source: Path | None = None) -> Restored:
        """Put a backup in the bank's place, as `care.restore` says."""
        return restore(self.database, source, self._driver(), self.settings.storage.busy_timeout_s)

    def repair(self) -> Repaired:
        """Mend the bank, as `care.repair` says."""
        return repair(self.database, self._driver(), self.settings.storage.busy_timeout_s)

    def look_at_foreign(self) -> ForeignBank:
        """Look at a bank that was not made here by this user, as `care.takeover` says."""
        return look(self.database, self._driver(), self.settings)

    def take_over(self) -> ForeignBank:
        """Put a new bank of what is in such a one in its place, and trust that. Its vectors are still to be made."""
        return take_over(self.database, self._driver(), self.settings, self.scope)

    def _driver(self) -> Driver:
        return choose(self.settings.storage.sqlite)

    async def _store(self) -> SqliteStore:
        storage, embedder = self.settings.storage, self.make_embedder()
        timeout_s = storage.busy_timeout_s
        return await open_store(self.database, sqlite=storage.sqlite, busy_timeout_s=timeout_s, embedder=embedder)
