"""Moving a bank from one engine to the other: every row with its ids, compared on both sides.

Both banks are held still meanwhile, and the target gets all in one transaction: a move that was cut off leaves it as
empty as it was. Indexes are not moved: they are made again from the rows.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from psycopg import sql

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.sqlite.statements import queries, schema_objects
from swarm_memory.server.storage.driver import Connection, Driver, SqliteConnection
from swarm_memory.server.storage.engine.connection import close, storage_errors, write_transaction
from swarm_memory.server.storage.engine.connection import connect as connect_sqlite
from swarm_memory.server.storage.postgres.connection import (
    Cursor,
    Place,
    PostgresConnection,
    RawConnection,
    postgres_errors,
    set_up,
)
from swarm_memory.server.storage.postgres.connection import connect as connect_postgres
from swarm_memory.server.storage.postgres.index import PostgresIndex
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.words import packed

Row: TypeAlias = tuple[Any, ...]

_AT_ONCE = 1000
"""Rows that are sent at once."""

_DERIVED = {"tool_calls_to_unindex", "space_members", "source_space_members"}
"""Tables that an index is, or that count what is in one."""

_OWN_KEYS = ("bank", "forgotten_position", "content", "seal")
"""What each bank knows of itself, in `meta`."""

_WORDS = "words of tool calls"
"""In place of a table: what the index of tool calls holds, which no row says."""


class Table(NamedTuple):
    """A table as both engines have it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The columns by which its rows are in order on both sides."""


class SqliteSide:
    """A bank in a file, within one transaction in which no other process writes to it."""

    def __init__(self, connection: SqliteConnection, driver: Driver) -> None:
        self._connection = connection
        self._driver = driver

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows in the order of the key."""
        if table.name == _WORDS:
            yield from self._connection.execute(
                "SELECT f.rowid, f.tokens FROM tool_call_fts AS f "
                "JOIN tool_calls AS c ON c.seq = f.rowid ORDER BY f.rowid"
            )
            return
        columns, key = ", ".join(table.columns), ", ".join(table.key)
        for row in self._connection.execute(f"SELECT {columns} FROM {table.name} ORDER BY {key}"):  # noqa: S608 - our names
            yield (row[0], packed(row[1])) if table.name == "pattern_tokens" and isinstance(row[1], str) else row

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Write rows."""
        text = "INSERT INTO tool_call_fts (rowid, tokens) VALUES (?, ?)"
        self._connection.executemany(text if table.name == _WORDS else _insert(table, "?"), rows)

    def last_position(self) -> int:
        """Return the greatest position that a memory ever had."""
        noted = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten_position'"
        (last,) = self._connection.execute(
            f"SELECT max(coalesce((SELECT max(seq) FROM patterns), 0), coalesce(({noted}), 0))"  # noqa: S608
        ).fetchone()
        return int(last)

    def begin_after(self, position: int) -> None:
        """Have no later row take a number that was given, and no memory one up to `position`."""
        text = (
            "INSERT INTO meta (key, value) VALUES ('forgotten_position', ?) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        self._connection.execute(text, (str(position),))

    def index(self) -> None:
        """Make the indexes of words and vectors from the rows."""
        _rebuild(Index(self._driver.vec_version is not None, self._driver.reason), self._connection)

    def tables(self) -> list[Table]:
        """Return every table that is moved, those that others name before them."""
        found: list[Table] = []
        for name, statement in schema_objects().items():
            if not statement.startswith("CREATE TABLE") or name in _DERIVED:
                continue
            columns = self._connection.execute(f"PRAGMA table_info({name})").fetchall()
            key = [column for column in sorted(columns, key=lambda each: each[5]) if column[5]]
            names = tuple(column[1] for column in key) or ("seq", "space_id")
            found.append(Table(name, tuple(column[1] for column in columns), names))
        return [*found, Table(_WORDS, ("seq", "tokens"), ("seq",))]


class PostgresSide:
    """A bank in a database, as `SqliteSide` is one in a file."""

    def __init__(self, raw: RawConnection) -> None:
        self._raw = raw

    def rows(self, table: Table) -> Iterator[Row]:
        name = "tool_call_words" if table.name == _WORDS else table.name
        text = f"SELECT {', '.join(table.columns)} FROM {name} ORDER BY {', '.join(table.key)}"  # noqa: S608
        with self._raw.cursor("rows") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(text.encode())
            yield from cursor

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        text, values = _insert(table, "%s"), [tuple(map(_storable, row)) for row in rows]
        if table.name == _WORDS:
            text = (
                "INSERT INTO tool_call_words (seq, scope_id, tokens) "
                "SELECT seq, scope_id, %s FROM tool_calls WHERE seq = %s"
            )
            values = [row[::-1] for row in values]
        cursor = Cursor(self._raw)
        cursor.execute(";\n".join(cursor.mogrify(text.encode(), row) for row in values).encode())

    def last_position(self) -> int:
        (last,) = self._raw.execute(
            "SELECT coalesce(last_value, 0) FROM pg_sequences WHERE schemaname = 'swarm_memory' "
            "AND sequencename = 'patterns_seq_seq'"
        ).fetchone() or (0,)
        return int(last)

    def begin_after(self, position: int) -> None:
        identities = self._raw.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'swarm_memory' AND is_identity = 'YES'"
        ).fetchall()
        for table, column in identities:
            least = position if table == "patterns" else 0
            self._raw.execute(
                sql.SQL(
                    "SELECT setval(pg_get_serial_sequence({}, {}), greatest(coalesce(max({}), 0), {}, 1)) FROM {}"
                ).format(table, column, sql.Identifier(column), least, sql.Identifier(table))
            )

    def index(self) -> None:
        _rebuild(PostgresIndex(searchable=True, reason=""), PostgresConnection(self._raw, in_write=True))


Side: TypeAlias = SqliteSide | PostgresSide


def _rebuild(index: Index, connection: Connection) -> None:
    index.rebuild(connection)
    index.beside(queries("sources")).rebuild(connection)


@contextmanager
def sqlite_side(path: Path, driver: Driver, timeout_s: float) -> Generator[SqliteSide]:
    """Hold a bank in a file open, and its writer lock. Raises `StorageError`."""
    with storage_errors(driver.module, path):
        connection = connect_sqlite(path, driver=driver, timeout_s=timeout_s)
        try:
            with write_transaction(connection, path, timeout_s):
                yield SqliteSide(connection, driver)
        finally:
            close(connection, path)


@contextmanager
def postgres_side(place: Place) -> Generator[PostgresSide]:
    """Hold a bank in a database open, and its tables locked for whoever writes. Raises `StorageError`."""
    with postgres_errors(place), closing(connect_postgres(place)) as raw:
        set_up(raw, place)
        raw.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        tables = [name for name, text in schema_objects().items() if text.startswith("CREATE TABLE")]
        with raw.transaction():
            for table in tables:
                if raw.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,):
                    raw.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(sql.Identifier(table)))
            yield PostgresSide(raw)


def move(source: Side, target: Side, tables: Sequence[Table], report: Callable[[str], object]) -> int:
    """Make the target hold what the source holds, row for row, and its indexes; return how many rows that are.

    Raises `InputError` where the target holds a bank already, `StorageError` when rows differ in the end: then the
    target is to be left as it was.
    """
    if any(True for table in tables for _ in _rows(target, table)):
        raise InputError("there is a bank already: nothing is moved into one that is used")
    total = 0
    for table in tables:
        wanted, written = _rows(source, table), 0
        while rows := list(islice(wanted, _AT_ONCE)):
            target.put(table, rows)
            written += len(rows)
        if written:
            report(f"{table.name}: {counted(written, 'row')} written")
        total += written
    target.begin_after(source.last_position())
    for table in tables:
        for row, there in zip_longest(_rows(source, table), _rows(target, table)):
            if row is None or there is None or tuple(map(_storable, row)) != tuple(map(_storable, there)):
                key = (row or there or ("",))[0]
                raise StorageError(f"a row of {table.name} differs ({key}): nothing was moved")
    report("every row is the same; making the indexes")
    target.index()
    return total


def _rows(side: Side, table: Table) -> Iterator[Row]:
    rows = side.rows(table)
    return (row for row in rows if row[0] not in _OWN_KEYS) if table.name == "meta" else rows


def _storable(value: Any) -> Any:
    """Return a value as both engines can keep it: PostgreSQL's text has no NUL."""
    return value.replace("\0", "") if isinstance(value, str) else value


def _insert(table: Table, mark: str) -> str:
    columns, marks = ", ".join(table.columns), ", ".join([mark] * len(table.columns))
    return f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - names of our own schema
