"""Reads a host's SQLite file as data: nothing in it is run or changed, and each statement has a time limit."""

import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.records import MAX_LINE_CHARS, JsonDict

TIMEOUT_S = 20.0
"""Seconds for one statement: a file may be crafted so that one never ends."""

MAX_ROWS = 200_000
_STEPS_BETWEEN_LOOKS = 10_000
_MAGIC = b"SQLite format 3\0"
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)


def is_host_database(path: Path) -> bool:
    """Whether a file is a host's database, by name and first bytes. A bank is not opened: that would drop its locks."""
    if path.suffix != ".db" or path.name == "memory.db" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _may(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


class Database:
    """A database that is open for reading."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._deadline = 0.0
        connection.text_factory = partial(bytes.decode, errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE_CHARS)
        connection.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS_BETWEEN_LOOKS)
        self.tables = frozenset(
            str(name)
            for name, made in self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'", ())
            if not str(made).upper().startswith("CREATE VIRTUAL")
        )
        """The names of its tables, without views and virtual tables, which run code."""
        connection.set_authorizer(_may)

    def rows(self, statement: str, values: Sequence[str | int] = ()) -> list[JsonDict]:
        """Return at most `MAX_ROWS` rows, keyed by column name: new versions add columns."""
        self._connection.row_factory = sqlite3.Row
        return [JsonDict(zip(row.keys(), tuple(row), strict=True)) for row in self._rows(statement, values)]

    def value(self, statement: str, key: str | int) -> object:
        """Return the first column of the first row; None if there is no row or the value is too large."""
        try:
            row = next(iter(self._rows(statement, (key,))), None)
        except sqlite3.DataError:
            return None
        return None if row is None else row[0]

    def _rows(self, statement: str, values: Sequence[str | int]) -> list[sqlite3.Row]:
        self._deadline = time.monotonic() + TIMEOUT_S
        return self._connection.execute(statement, values).fetchmany(MAX_ROWS)


@contextmanager
def open_database(path: Path, tables: frozenset[str]) -> Generator[Database]:
    """Open a file that has `tables`, read-only. Raises `InputError` if it cannot be read, or not in time.

    A file without a write-ahead log next to it is not in use and is read as it is; otherwise the log is read too.
    """
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    try:
        uri = f"{path.absolute().as_uri()}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=5.0, check_same_thread=False)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            database = Database(connection)
            if missing := tables - database.tables:
                raise InputError(f"{str(path)!r} has no table {', '.join(sorted(missing))}")
            yield database
    except sqlite3.Error as error:
        raise InputError(f"{str(path)!r} cannot be read as a database: {error}") from error
