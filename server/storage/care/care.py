"""The care of a bank's SQLite file: backup, repair, restore, and taking over a bank that was not made here.

Such a bank is examined in a copy, each memory is screened as if it were new, and then the bank is signed. It came with
a clone or an archive, or the user moved it; there is no telling which. None of its indexes, vectors, tokens, links,
jobs or sources is taken over, nor any history that would vouch for a memory; indexes and tokens are made again.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StoreDamaged, StoreUntrusted
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.location import state_folder
from swarm_memory.server.storage.care.repair import (
    Repaired,
    Restored,
    carry_over,
    drop_orphans,
    make_tokens,
    put_in_place,
    remove,
    repair,
    restore,
)
from swarm_memory.server.storage.driver import Driver, SqliteConnection, choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.backup import Backup, abandoned_copies, list_backups
from swarm_memory.server.storage.engine.binding import sealed_number
from swarm_memory.server.storage.engine.connection import (
    check_content,
    check_path,
    close,
    connect,
    open_read_only,
    storage_errors,
    write_transaction,
)
from swarm_memory.server.storage.engine.files import make_folder, writer_lock
from swarm_memory.server.storage.inspection import Inspection
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.server.storage.stores.rows import item_of, pattern_row
from swarm_memory.tools.guard.gate import admit_memory
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.text.cleaning import is_memory_id

_QUERIES = queries("takeover")
_TAKEN = (
    "scopes", "patterns", "task_trajectories", "performance_metrics", "events", "tool_calls", "tool_call_tasks",
    "trimmed_tool_calls", "tool_memories",
)  # fmt: skip
SET_ASIDE = "untrusted"


class ForeignBankContents(NamedTuple):
    """What is in a bank that was not made here by this user."""

    memories: tuple[MemoryItem, ...]
    """As they would be taken over: unverified, and quarantined with the reason where they look like an attack."""
    faulty: int
    """How many memories cannot be read as such and are left out."""
    trajectories: int
    calls: int
    jobs: int
    """How many jobs wait in it; none of them is taken over."""
    kept: Path | None = None
    """Where the bank's old file is after it was taken over."""


@contextmanager
def _opened_copy(database: Path, driver: Driver) -> Generator["SqliteConnection"]:
    """Open a private copy without a journal, so that nothing is played back over the user's files."""
    if not check_path(database):
        raise InputError(f"there is no bank at {database}")
    make_folder(state_folder())
    with tempfile.TemporaryDirectory(prefix="look-", dir=state_folder()) as folder:
        copy = Path(folder) / database.name
        for suffix in ("", "-wal"):
            # No connection of this process has the file open: it may be read.
            if (beside := database.with_name(database.name + suffix)).exists():
                shutil.copyfile(beside, copy.with_name(copy.name + suffix), follow_symlinks=False)
        with closing(open_read_only(driver.module, copy)) as connection:
            if check_content(connection, database) == "new":
                raise InputError(f"{database} is empty: delete it")
            record = None
            with suppress(StoreUntrusted):
                record = registry.check(database)
            # Known means that none of the checks of the files, the bank's id and its rows would refuse to open it.
            is_known = record is not None and (not record.banks or registry.identity(connection) in record.banks)
            secret = registry.secret_of(database)
            noted = registry.noted_number(database)
            if is_known and (not secret or (sealed_number(connection, secret) or -1) >= noted):
                raise InputError(f"{database} was made here by this user: it is trusted already")
            yield connection


def _content(foreign: SqliteConnection, settings: Settings, name: str) -> ForeignBankContents:
    """Return what a bank holds, each item as if nobody vouched for it: its texts are cleaned, redacted and screened."""
    counts = {query: foreign.execute(_QUERIES[query]).fetchone()[0] for query in ("trajectories", "calls", "jobs")}
    items: list[MemoryItem] = []
    faulty = 0
    for row in foreign.execute(_QUERIES["memories"]):
        try:
            item = item_of(row)
            if not is_memory_id(item.id):
                raise InputError("its id is none of ours")
            origin = item.provenance.model_copy(update={"imported_from": f"bank:{name}", "distiller": "imported"})
            items.append(admit_memory(dict(item), origin, settings))
        except (StoreDamaged, InputError):
            faulty += 1
    return ForeignBankContents(tuple(items), faulty, counts["trajectories"], counts["calls"], counts["jobs"])


def _carry_over(
    foreign: SqliteConnection, target: SqliteConnection, fresh: Path, items: tuple[MemoryItem, ...], here: Scope
) -> None:
    """Copy the rows to take over; write `items` over their own rows, and drop memories that are not among them."""
    target.execute("PRAGMA foreign_keys = OFF")
    with write_transaction(target, fresh, 10.0):
        carry_over(foreign, target, _TAKEN)
        for query in ("forget_who_vouched", "forget_summaries"):
            target.execute(_QUERIES[query])
        known = {row[0]: row[1:] for row in target.execute(_QUERIES["places"])}
        for item in items:
            seq, scope_id, updated_at = known.pop(item.id)
            target.execute(_QUERIES["put_memory"], pattern_row(item, scope_id, updated_at))
            target.executemany(queries("memories")["add_tag"], ((seq, tag) for tag in item.tags))
        target.executemany(_QUERIES["drop_memory"], ((seq,) for seq, _, _ in known.values()))
        make_tokens(target)
        drop_orphans(target)
        target.execute(_QUERIES["rename_only_project"], {"tenant_id": here.tenant_id, "project": here.project})
    target.execute("PRAGMA foreign_keys = ON")


@dataclass(frozen=True)
class SqliteCare:
    """Opens the bank for each request and closes it afterwards; nothing is opened before."""

    database: Path
    settings: Settings
    scope: Scope
    make_embedder: Callable[[], Embedder]

    def backups(self) -> list[Backup]:
        """Return the copies in the bank's folder and the daily ones, newest first."""
        return list_backups(self.database)

    def damaged_files(self) -> list[Path]:
        """Return the damaged banks that were set aside."""
        return sorted(self.database.parent.glob(f"{self.database.name}.corrupt-*[Z]"))

    def half_copies(self) -> list[Path]:
        """Return the half copies of the bank that a killed process left: of a backup, repair, restore or takeover."""
        return abandoned_copies(self.database)

    async def back_up(self, target: Path | None = None) -> Path:
        """Copy the bank while it is in use, to `target` or into the folder; return the checked copy's path.

        Raises `InputError` for a taken name.
        """
        async with await self._store() as store:
            return await store.back_up(target)

    async def inspect(self) -> Inspection:
        """Check for damage and for indexes out of step; this reads the whole bank."""
        async with await self._store() as store:
            return await store.inspect()

    def restore(self, source: Path | None = None) -> Restored:
        """Put a backup in the bank's place, as `repair.restore` describes."""
        return restore(self.database, source, self._driver(), self.settings.storage.busy_timeout_s)

    def repair(self) -> Repaired:
        """Repair the bank, as `repair.repair` describes."""
        return repair(self.database, self._driver(), self.settings.storage.busy_timeout_s)

    def look_at_foreign(self) -> ForeignBankContents:
        """Return what is in a bank that was not made here by this user, without changing it.

        Raises `StoreUntrusted` if it is not one of our banks, or holds more; `InputError` if it needs no trust.
        """
        driver = self._driver()
        with storage_errors(driver.module, self.database), _opened_copy(self.database, driver) as foreign:
            return _content(foreign, self.settings, self.database.name)

    def take_over(self) -> ForeignBankContents:
        """Replace such a bank with a new, signed one of its content; return what was taken, and where the old one is.

        If the bank has only one project, it is renamed to the project here. Raises as `look_at_foreign` does, and
        `StoreBusy`, `StoreReadOnly`. The vectors are left to the caller.
        """
        driver, database = self._driver(), self.database
        fresh = database.with_name(f"{database.name}.trusting-{os.getpid()}")
        try:
            with storage_errors(driver.module, database), _opened_copy(database, driver) as foreign:
                taken = _content(foreign, self.settings, database.name)
                target = connect(fresh, driver=driver)
                try:
                    _carry_over(foreign, target, fresh, taken.memories, self.scope)
                    with write_transaction(target, fresh, 10.0):
                        Index(driver.vec_version is not None, driver.reason).rebuild(target)
                finally:
                    close(target, fresh)
                with writer_lock(database, self.settings.storage.busy_timeout_s):
                    kept = put_in_place(database, fresh, keep=True, aside=SET_ASIDE)
        finally:
            remove(fresh)
        return taken._replace(kept=kept)

    def _driver(self) -> Driver:
        return choose(self.settings.storage.sqlite)

    async def _store(self) -> SqliteStore:
        storage, embedder = self.settings.storage, self.make_embedder()
        timeout_s = storage.busy_timeout_s
        return await open_store(self.database, sqlite=storage.sqlite, busy_timeout_s=timeout_s, embedder=embedder)
