"""Which SQLite library this process uses and how sqlite-vec gets into it.

The ladder: `pysqlite3` (a recent SQLite of its own), `stdlib` (where it may load extensions), `ctypes` (the stdlib's
library, sqlite-vec registered from outside), `scan` (no sqlite-vec at all).
"""

import importlib
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from swarm_memory.schema.errors import ConfigError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    SqliteConnection: TypeAlias = sqlite3.Connection

    class Cursor(Protocol):
        """What a statement gave."""

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
        """What the stores ask of a connection, on either engine; its parameters are as sqlite3 has them."""

        @property
        def OperationalError(self) -> type[Exception]:  # noqa: N802 - as sqlite3 names it
            """What it raises where a table is not there."""
            ...

        def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
        def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor: ...


DRIVERS = ("pysqlite3", "stdlib", "ctypes", "scan")
OLDEST_SQLITE = (3, 38, 0)
"""The first that hands a virtual table all values of an `IN` at once."""

_NO_PACKAGE = "the package sqlite-vec is not installed (there is none for this platform, or it was left out)"


class Driver(NamedTuple):
    """What this process uses of SQLite."""

    name: str
    reason: str
    """Why this one and none before it."""
    module: ModuleType
    """A DB-API module: `sqlite3` or its namesake of pysqlite3."""
    sqlite_version: str
    vec_version: str | None
    """Of sqlite-vec; None with `scan`."""
    vec_library: Path | None
    """What each connection loads; None where nothing needs loading."""

    @property
    def wal_reset_safe(self) -> bool:
        """Whether this SQLite has the fix of the WAL-reset bug (3.51.3, 3.50.7, 3.44.6)."""
        version = _numbers(self.sqlite_version)
        return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)

    def prepare(self, connection: "SqliteConnection") -> None:
        """Load sqlite-vec into a connection, and forbid loading anything else."""
        if self.vec_library is not None:
            connection.enable_load_extension(True)
            connection.load_extension(str(self.vec_library.with_suffix("")))
            connection.enable_load_extension(False)


class _Impossible(Exception):
    """Why a driver cannot be used."""


@cache
def choose(wanted: str = "auto") -> Driver:
    """Return the first driver that works, or the one that is wanted.

    Raises `ConfigError` that names the reasons when the wanted one, or none at all, can be used.
    """
    if wanted not in ("auto", *DRIVERS):
        raise ConfigError(f"storage.sqlite is {wanted!r}: it must be auto or one of {', '.join(DRIVERS)}")
    misses: list[str] = []
    for name in DRIVERS if wanted == "auto" else (wanted,):
        try:
            driver = _opened(name)
        except _Impossible as reason:
            misses.append(f"{name}: {reason}")
        else:
            why = "; ".join((driver.reason, *misses)) if wanted == "auto" else f"{driver.reason}; it was asked for"
            return driver._replace(reason=why)
    hint = "unset SWARM_MEMORY_SQLITE" if wanted != "auto" else "install Python with SQLite 3.38 or newer and FTS5"
    raise ConfigError(f"no usable SQLite ({'; '.join(misses)}): {hint}")


@cache
def plain_module(wanted: str = "auto") -> ModuleType:
    """Return the DB-API module that `choose` would take, without trying sqlite-vec: for what needs no vectors."""
    if wanted in ("auto", "pysqlite3", "scan"):
        try:
            return _pysqlite3()
        except _Impossible:
            pass
    return _stdlib()


def _opened(name: str) -> Driver:
    match name:
        case "pysqlite3":
            return _loading(name, _pysqlite3(), "a recent SQLite that loads sqlite-vec")
        case "stdlib":
            return _loading(name, _stdlib(), "Python's own SQLite loads sqlite-vec")
        case "ctypes":
            module = _stdlib()
            _register(module, _vec_library())
            return _tried(name, module, "sqlite-vec is registered in the library of Python's sqlite3", None)
        case _:
            module = plain_module()
            return Driver(name, "every vector is compared, without sqlite-vec", module, _usable(module), None, None)


def _pysqlite3() -> ModuleType:
    try:
        module = importlib.import_module("pysqlite3.dbapi2")
    except ImportError as error:
        raise _Impossible(f"pysqlite3 cannot be imported ({error})") from error
    if _numbers(module.sqlite_version) < OLDEST_SQLITE:
        raise _Impossible(f"SQLite {module.sqlite_version} is older than 3.38")
    return module


def _stdlib() -> ModuleType:
    try:
        return importlib.import_module("sqlite3.dbapi2")
    except ImportError as error:
        raise _Impossible(f"this Python has no sqlite3 ({error})") from error


def _loading(name: str, module: ModuleType, reason: str) -> Driver:
    if not hasattr(module.Connection, "enable_load_extension"):
        raise _Impossible("this build of Python forbids loading extensions")
    return _tried(name, module, reason, _vec_library())


def _tried(name: str, module: ModuleType, reason: str, library: Path | None) -> Driver:
    """Return the driver if a connection of it can really search vectors."""
    version = _usable(module)
    driver = Driver(name, reason, module, version, None, library)
    try:
        with closing(module.connect(":memory:")) as connection:
            driver.prepare(connection)
            (vec_version,) = connection.execute("SELECT vec_version()").fetchone()
    except module.Error as error:
        raise _Impossible(f"sqlite-vec cannot be loaded ({error})") from error
    return driver._replace(vec_version=str(vec_version))


def _usable(module: ModuleType) -> str:
    """Return the module's version of SQLite. Raises `_Impossible` when it is too old or has no FTS5."""
    version: str = module.sqlite_version
    if _numbers(version) < OLDEST_SQLITE:
        raise _Impossible(f"SQLite {version} is older than 3.38")
    with closing(module.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text, content='')")
        except module.Error as error:
            raise _Impossible(f"SQLite {version} has no FTS5 ({error})") from error
    return version


def _vec_library() -> Path:
    """Find vec0's shared library without importing its package, which would import numpy."""
    from importlib.util import find_spec  # not needed by hook commands

    spec = find_spec("sqlite_vec")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for suffix in (".so", ".dylib", ".dll"):
            library = Path(folder, f"vec0{suffix}")
            if library.is_file():
                return library
    raise _Impossible(_NO_PACKAGE)


def _register(module: ModuleType, library: Path) -> None:
    """Have every later connection of the stdlib's SQLite begin with sqlite-vec.

    Only where it is certain that the symbols are of that very library, and that it hands extensions its functions: one
    built with OMIT_LOAD_EXTENSION would crash.
    """
    import ctypes

    with closing(module.connect(":memory:")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
        (source_id,) = connection.execute("SELECT sqlite_source_id()").fetchone()
    if "OMIT_LOAD_EXTENSION" in options:
        raise _Impossible("this SQLite was built without extensions")
    sqlite = _same_library(source_id)
    try:
        entry = ctypes.CDLL(str(library)).sqlite3_vec_init
    except (OSError, AttributeError) as error:
        raise _Impossible(f"{library} cannot be loaded ({error})") from error
    status = sqlite.sqlite3_auto_extension(ctypes.cast(entry, ctypes.c_void_p))
    if status != 0:
        raise _Impossible(f"sqlite3_auto_extension answered {status}")


def _same_library(source_id: str) -> Any:
    """Return the shared library that `_sqlite3` runs on, as a ctypes handle."""
    import ctypes

    built = importlib.import_module("_sqlite3")
    path: str | None = getattr(built, "__file__", None)
    names = ("sqlite3.dll",) if sys.platform == "win32" else (path, None)
    for name in names:
        try:
            handle = ctypes.CDLL(name)
            handle.sqlite3_sourceid.restype = ctypes.c_char_p
            if handle.sqlite3_sourceid() == source_id.encode():
                handle.sqlite3_auto_extension.argtypes = [ctypes.c_void_p]
                return handle
        except (OSError, AttributeError):
            continue
    raise _Impossible("the SQLite library of Python's sqlite3 cannot be reached from outside")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
