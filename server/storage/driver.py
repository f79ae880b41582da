"""The choice of the SQLite library: one that can load sqlite-vec, else Python's own with an exact scan."""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from swarm_memory.schema.errors import ConfigError

if TYPE_CHECKING:
    import sqlite3

SqliteConnection: TypeAlias = "sqlite3.Connection"


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    @property
    def lastrowid(self) -> int | None: ...
    @property
    def description(self) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What the stores need from a connection, on either engine; parameters are as in sqlite3."""

    @property
    def OperationalError(self) -> type[Exception]:  # noqa: N802 - as sqlite3 names it
        """The error that is raised when a table does not exist."""
        ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor: ...


DRIVERS = ("pysqlite3", "stdlib", "scan")
"""The first two load sqlite-vec: pysqlite3 brings a recent SQLite, and Python's own works if its build allows it."""

OLDEST_SQLITE = (3, 38, 0)
"""The first version that passes all values of an `IN` to a virtual table together."""


class Driver(NamedTuple):
    """The SQLite library that this process uses."""

    name: str
    reason: str
    """Why this driver was chosen, and why those before it were not."""
    module: ModuleType
    """A DB-API module: that of `sqlite3` or of `pysqlite3`."""
    sqlite_version: str
    vec_version: str | None
    """The version of sqlite-vec; None with `scan`."""
    vec_library: str | None
    """The extension that each connection loads; None with `scan`."""

    @property
    def wal_reset_safe(self) -> bool:
        """Whether this SQLite has the fix for the WAL-reset bug (3.51.3, 3.50.7, 3.44.6)."""
        version = _numbers(self.sqlite_version)
        return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)

    def prepare(self, connection: SqliteConnection) -> None:
        """Load sqlite-vec into a connection, and forbid loading anything else."""
        if self.vec_library is not None:
            connection.enable_load_extension(True)
            connection.load_extension(self.vec_library)
            connection.enable_load_extension(False)


class _Impossible(Exception):
    """Why a driver cannot be used."""


@cache
def choose(wanted: str = "auto") -> Driver:
    """Return the first driver that works, or the wanted one.

    Raises `ConfigError`, with the reasons, when the wanted driver, or every driver, is unusable.
    """
    if wanted not in ("auto", *DRIVERS):
        raise ConfigError(f"storage.sqlite is {wanted!r}: it must be auto or one of {', '.join(DRIVERS)}")
    is_auto = wanted == "auto"
    misses: list[str] = []
    for name in DRIVERS if is_auto else (wanted,):
        try:
            driver = _opened(name)
        except _Impossible as reason:
            misses.append(f"{name}: {reason}")
        else:
            why = "; ".join((driver.reason, *misses)) if is_auto else f"{driver.reason}; it was asked for"
            return driver._replace(reason=why)
    hint = "install Python with SQLite 3.38 or newer and FTS5" if is_auto else "unset SWARM_MEMORY_SQLITE"
    raise ConfigError(f"no usable SQLite ({'; '.join(misses)}): {hint}")


def _opened(name: str) -> Driver:
    """Return a driver after a test that its connections can search vectors, by index or by scan."""
    if name == "scan":
        module = _module("sqlite3.dbapi2")
        return Driver(name, "every vector is compared, without sqlite-vec", module, module.sqlite_version, None, None)
    is_own = name == "stdlib"
    module = _module("sqlite3.dbapi2" if is_own else "pysqlite3.dbapi2")
    if not hasattr(module.Connection, "enable_load_extension"):
        raise _Impossible("this build of Python does not allow loading extensions")
    reason = "Python's own SQLite loads sqlite-vec" if is_own else "a recent SQLite that loads sqlite-vec"
    try:
        vec_library: str = importlib.import_module("sqlite_vec").loadable_path()
    except ImportError as error:
        raise _Impossible("the package sqlite-vec is not installed: there is none for this platform") from error
    driver = Driver(name, reason, module, module.sqlite_version, None, vec_library)
    try:
        with closing(module.connect(":memory:")) as connection:
            driver.prepare(connection)
            (vec_version,) = connection.execute("SELECT vec_version()").fetchone()
    except module.Error as error:
        raise _Impossible(f"sqlite-vec cannot be loaded ({error})") from error
    return driver._replace(vec_version=str(vec_version))


def _module(name: str) -> ModuleType:
    """Return a DB-API module. Raises `_Impossible` if it is missing, or its SQLite is too old or has no FTS5."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise _Impossible(f"{name} cannot be imported ({error})") from error
    version: str = module.sqlite_version
    if _numbers(version) < OLDEST_SQLITE:
        raise _Impossible(f"SQLite {version} is older than 3.38")
    with closing(module.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text, content='')")
        except module.Error as error:
            raise _Impossible(f"SQLite {version} has no FTS5 ({error})") from error
    return module


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
