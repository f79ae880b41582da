"""The care of a bank's file in SQLite."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.care.restore import restore
from swarm_memory.server.storage.care.takeover import look, take_over
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine.backup import abandoned_copies, backup_folder, list_backups
from swarm_memory.server.storage.store import SqliteStore, open_store
from swarm_memory.tools.ports.care import Backup, ForeignBank, Inspection, Repaired, Restored
from swarm_memory.tools.ports.models import Embedder


class SqliteCare:
    """Opens the bank for what it is asked, and closes it again; nothing is opened before."""

    def __init__(self, database: Path, settings: Settings, scope: Scope, make_embedder: Callable[[], Embedder]) -> None:
        self._database = database
        self._settings = settings
        self._scope = scope
        self._make_embedder = make_embedder

    @property
    def backup_folder(self) -> Path:
        """Where copies are kept by themselves."""
        return backup_folder(self._database)

    def backups(self) -> list[Backup]:
        """Return the copies in that folder, newest first."""
        return list_backups(self._database)

    def damaged_files(self) -> list[Path]:
        """Return the damaged banks that were put aside."""
        return sorted(self._database.parent.glob(f"{self._database.name}.corrupt-*[Z]"))

    def half_copies(self) -> list[Path]:
        """Return the half copies of the bank that a killed process left: of a backup, a repair or a restoring."""
        return abandoned_copies(self._database)

    def drop_half_copies(self) -> list[Path]:
        """Delete them, and return what was deleted."""
        found = self.half_copies()
        for path in found:
            path.unlink(missing_ok=True)
        return found

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use, to `target` or into the folder; return where the checked copy is.

        Raises `InputError` for a taken name.
        """
        async with self._store() as store:
            return await store.back_up(target)

    def restore(self, source: Path | None = None) -> Restored:
        """Put a copy of a backup, or of the newest, in the bank's place.

        Processes that have the bank open go over to the new file at their next call. Raises `NotFoundError` without a
        backup, `StoreDamaged` for an unsound one, `StoreUntrusted`, `StoreBusy`.
        """
        return restore(self._database, source, self._driver(), self._settings.storage.busy_timeout_s)

    def repair(self) -> Repaired:
        """Find what is wrong with the bank and mend it. No other process may write meanwhile.

        Raises `StoreDamaged` when nothing can be read from the file any more: then it is left as it is, and a backup
        is the way back; `StoreUntrusted`, `StoreBusy`, `StoreReadOnly`.
        """
        return repair(self._database, self._driver(), self._settings.storage.busy_timeout_s)

    def look_at_foreign(self) -> ForeignBank:
        """Look at a bank that was not made here by this user, in a copy.

        Raises `InputError` where the bank is trusted, `StoreUntrusted` when it is no bank of ours.
        """
        return look(self._database, self._driver(), self._settings)

    def take_over(self) -> ForeignBank:
        """Put a new bank of what is in such a one in its place, and trust that. Its vectors are still to be made.

        Raises as `look_at_foreign`, `StoreBusy`, `StoreReadOnly`.
        """
        return take_over(self._database, self._driver(), self._settings, self._scope)

    async def inspect(self) -> Inspection:
        """Look for damage and for indexes out of step; it reads the whole bank."""
        async with self._store() as store:
            return await store.inspect()

    def _driver(self) -> Driver:
        return choose(self._settings.storage.sqlite)

    @asynccontextmanager
    async def _store(self) -> AsyncGenerator[SqliteStore]:
        storage = self._settings.storage
        store = await open_store(
            self._database, sqlite=storage.sqlite, busy_timeout_s=storage.busy_timeout_s, embedder=self._make_embedder()
        )
        async with store:
            yield store
