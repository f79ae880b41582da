"""How the database stands as this process sees it. It changes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.storage.engine.driver import Driver
from swarm_memory.server.storage.engine.filesystem import remote_kind
from swarm_memory.server.storage.search.index import all_spaces

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection


def health(connection: "Connection", database: Path, driver: Driver, read_only: bool, dropped: int) -> StorageHealth:
    """Return the rung, the versions, the size, and what is less than usual. `dropped`: retrievals not recorded."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    notices: list[str] = []
    if driver.vec_version is None:
        notices.append(f"sqlite-vec is not loaded ({driver.reason}): every vector is compared one by one")
    if read_only:
        notices.append("the bank can only be read: nothing is learned and no use is counted")
    if kind := remote_kind(database):
        notices.append(
            f"the bank lies on a file system of type {kind}: it is kept with a rollback journal in the place of the "
            "log, and locks are only as good as that file system's; put it on a local disk (storage.db)"
        )
    if dropped:
        notices.append(f"{dropped} retrievals were not recorded: the database was busy for too long")
    stale = [space.model for space in all_spaces(connection) if space.stale]
    if stale and driver.vec_version is not None:
        notices.append(f"the vector index of {', '.join(stale)} is not up to date: run `swarm-memory reembed`")
    return StorageHealth(
        path=str(database),
        driver=driver.rung,
        driver_reason=driver.reason,
        sqlite_version=driver.sqlite_version,
        sqlite_vec_version=driver.vec_version,
        vector_search="vec0" if driver.vec_version else "exact_scan",
        wal_reset_safe=driver.wal_reset_safe,
        schema_version=version,
        read_only=read_only,
        size_bytes=sum(_size(database.with_name(database.name + suffix)) for suffix in ("", "-wal")),
        notices=tuple(notices),
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
