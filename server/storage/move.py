"""Moving a bank from one engine to the other: every row with its ids, compared on both sides until none differs.

Each table is read on both sides in the order of its key. What the target lacks, or has otherwise, is written, some rows
at a time; so a move that was cut off goes on where it stood when it is asked for again. Indexes are not moved: they are
made again from the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from psycopg import sql

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.sqlite.statements import schema_objects
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine.connection import connect as connect_sqlite
from swarm_memory.server.storage.engine.connection import storage_errors, write_transaction
from swarm_memory.server.storage.engine.registry import identity
from swarm_memory.server.storage.postgres.connection import Cursor, Place, postgres_errors, set_up
from swarm_memory.server.storage.postgres.connection import connect as connect_postgres
from swarm_memory.server.storage.search.packed import packed

Row: TypeAlias = tuple[Any, ...]
Tell: TypeAlias = Callable[[str], object]

_AT_ONCE = 1000
"""Rows that are written in one transaction: what a cut-off move has to do again."""

_DERIVED = {"tool_calls_to_unindex", "coded_partitions", "space_members", "source_space_members"}
"""Tables that an index is, or that count what is in one."""

_OWN_KEYS = ("bank", "moved", "forgotten_position")
"""What each bank knows of itself, in `meta`."""

_WORDS = "words of tool calls"
"""In place of a table: what the index of tool calls holds, which no row tells."""


class Table(NamedTuple):
    """A table as both engines have it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The columns by which its rows are in order on both sides."""

    def key_of(self, row: Row) -> Row:
        """Return the values of the key."""
        return tuple(row[self.columns.index(name)] for name in self.key)


class Side(ABC):
    """One of the two banks; it is read as of one moment."""

    @abstractmethod
    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows in the order of the key, as of now."""

    @abstractmethod
    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Write rows, each in place of one of the same key, in one transaction."""

    @abstractmethod
    def drop(self, table: Table, rows: Sequence[Row]) -> None:
        """Delete rows by their keys."""

    @abstractmethod
    def mark(self) -> str | None:
        """Return which bank is being moved here; None where none is. Raises `StorageError`."""

    @abstractmethod
    def put_mark(self, bank: str | None) -> None:
        """Write it, or take it away where the move is done."""

    @abstractmethod
    def name(self) -> str:
        """Return what no other bank is called."""

    @abstractmethod
    def last_position(self) -> int:
        """Return the greatest position that a memory ever had."""

    @abstractmethod
    def begin_after(self, position: int) -> None:
        """Have no later row take a number that was given, and no memory one up to `position`."""


class SqliteSide(Side):
    """A bank in a file."""

    def __init__(self, path: Path, driver: Driver, timeout_s: float) -> None:
        self._path = path
        self._driver = driver
        self._timeout_s = timeout_s
        self._reader = connect_sqlite(path, driver=driver, read_only=True, timeout_s=timeout_s)
        self._writer = None

    def rows(self, table: Table) -> Iterator[Row]:
        if table.name == _WORDS:
            yield from self._reader.execute(
                "SELECT f.rowid, f.tokens FROM tool_call_fts AS f "
                "JOIN tool_calls AS c ON c.seq = f.rowid ORDER BY f.rowid"
            )
            return
        columns, key = ", ".join(table.columns), ", ".join(table.key)
        for row in self._reader.execute(f"SELECT {columns} FROM {table.name} ORDER BY {key}"):  # noqa: S608 - our names
            yield (row[0], packed(row[1])) if table.name == "pattern_tokens" and isinstance(row[1], str) else row

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        with self._writing() as connection:
            if table.name == _WORDS:
                connection.executemany("DELETE FROM tool_call_fts WHERE rowid = ?", [row[:1] for row in rows])
                connection.executemany("INSERT INTO tool_call_fts (rowid, tokens) VALUES (?, ?)", rows)
            else:
                connection.executemany(_upsert(table, "?"), rows)

    def drop(self, table: Table, rows: Sequence[Row]) -> None:
        name, key = ("tool_call_fts", ("rowid",)) if table.name == _WORDS else (table.name, table.key)
        where = " AND ".join(f"{each} = ?" for each in key)
        with self._writing() as connection:
            connection.executemany(f"DELETE FROM {name} WHERE {where}", map(table.key_of, rows))  # noqa: S608

    def mark(self) -> str | None:
        row = self._reader.execute("SELECT value FROM meta WHERE key = 'moved'").fetchone()
        return None if row is None else row[0]

    def put_mark(self, bank: str | None) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM meta WHERE key = 'moved'")
            if bank is not None:
                connection.execute("INSERT INTO meta (key, value) VALUES ('moved', ?)", (bank,))

    def name(self) -> str:
        return identity(self._reader)

    def last_position(self) -> int:
        noted = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten_position'"
        (last,) = self._reader.execute(
            f"SELECT max(coalesce((SELECT max(seq) FROM patterns), 0), coalesce(({noted}), 0))"  # noqa: S608
        ).fetchone()
        return int(last)

    def begin_after(self, position: int) -> None:
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('forgotten_position', ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (str(position),),
            )

    def tables(self) -> list[Table]:
        """Return every table that is moved, those that others name before them."""
        found: list[Table] = []
        for name, statement in schema_objects().items():
            if not statement.startswith("CREATE TABLE") or name in _DERIVED:
                continue
            columns = self._reader.execute(f"PRAGMA table_info({name})").fetchall()
            key = [column for column in sorted(columns, key=lambda each: each[5]) if column[5]]
            names = tuple(column[1] for column in key) or ("seq", "space_id")
            found.append(Table(name, tuple(column[1] for column in columns), names))
        return [*found, Table(_WORDS, ("seq", "tokens"), ("seq",))]

    def close(self) -> None:
        """Close both connections."""
        self._reader.close()
        if self._writer is not None:
            self._writer.close()

    @contextmanager
    def _writing(self) -> Generator[Any]:
        if self._writer is None:
            self._writer = connect_sqlite(self._path, driver=self._driver, timeout_s=self._timeout_s)
        with write_transaction(self._writer, self._path, self._timeout_s):
            yield self._writer


class PostgresSide(Side):
    """A bank in a database."""

    def __init__(self, place: Place) -> None:
        self._reader, self._writer = connect_postgres(place), connect_postgres(place)
        for raw in (self._reader, self._writer):
            set_up(raw, place)
            raw.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")

    def rows(self, table: Table) -> Iterator[Row]:
        name = "tool_call_words" if table.name == _WORDS else table.name
        text = f"SELECT {', '.join(table.columns)} FROM {name} ORDER BY {', '.join(table.key)}"  # noqa: S608
        with self._reader.transaction(), self._reader.cursor("rows") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(text.encode())
            yield from cursor

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        if table.name == _WORDS:
            text = (
                "INSERT INTO tool_call_words (seq, scope_id, tokens) "
                "SELECT seq, scope_id, %s FROM tool_calls WHERE seq = %s "
                "ON CONFLICT (seq) DO UPDATE SET tokens = excluded.tokens"
            )
            self._each(text, [(tokens, seq) for seq, tokens in rows])
        else:
            self._each(_upsert(table, "%s"), [tuple(map(_storable, row)) for row in rows])

    def drop(self, table: Table, rows: Sequence[Row]) -> None:
        name = "tool_call_words" if table.name == _WORDS else table.name
        where = " AND ".join(f"{each} = %s" for each in table.key)
        self._each(f"DELETE FROM {name} WHERE {where}", map(table.key_of, rows))  # noqa: S608

    def mark(self) -> str | None:
        row = self._reader.execute("SELECT value FROM meta WHERE key = 'moved'").fetchone()
        return None if row is None else str(row[0])

    def put_mark(self, bank: str | None) -> None:
        with self._writer.transaction():
            self._writer.execute("DELETE FROM meta WHERE key = 'moved'")
            if bank is not None:
                self._writer.execute("INSERT INTO meta (key, value) VALUES ('moved', %s)", (bank,))

    def name(self) -> str:
        (told,) = self._reader.execute(
            "SELECT system_identifier || '/' || current_database() FROM pg_control_system()"
        ).fetchone() or ("",)
        return str(told)

    def last_position(self) -> int:
        (last,) = self._reader.execute(
            "SELECT coalesce(last_value, 0) FROM pg_sequences WHERE schemaname = 'swarm_memory' "
            "AND sequencename = 'patterns_seq_seq'"
        ).fetchone() or (0,)
        return int(last)

    def begin_after(self, position: int) -> None:
        identities = self._writer.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'swarm_memory' AND is_identity = 'YES'"
        ).fetchall()
        for table, column in identities:
            least = position if table == "patterns" else 0
            self._writer.execute(
                sql.SQL(
                    "SELECT setval(pg_get_serial_sequence({}, {}), greatest(coalesce(max({}), 0), {}, 1)) FROM {}"
                ).format(table, column, sql.Identifier(column), least, sql.Identifier(table))
            )

    def close(self) -> None:
        """Close both connections."""
        self._reader.close()
        self._writer.close()

    def _each(self, text: str, rows: Iterable[Row]) -> None:
        with self._writer.transaction():
            cursor = Cursor(self._writer)
            statements = [cursor.mogrify(text.encode(), row) for row in rows]
            cursor.execute(";\n".join(statements).encode())


@contextmanager
def sqlite_side(path: Path, driver: Driver, timeout_s: float) -> Generator[SqliteSide]:
    """Hold a bank in a file open. Raises `StorageError`."""
    with storage_errors(driver.module, path), closing(SqliteSide(path, driver, timeout_s)) as side:
        yield side


@contextmanager
def postgres_side(place: Place) -> Generator[PostgresSide]:
    """Hold a bank in a database open. Raises `StorageError`."""
    with postgres_errors(place), closing(PostgresSide(place)) as side:
        yield side


def move(source: Side, target: Side, tables: Sequence[Table], tell: Tell, reindex: Callable[[], None]) -> int:
    """Make the target hold what the source holds, row for row, and its indexes; return how many rows that are.

    Raises `InputError` where the target holds another bank, `StorageError` when rows differ in the end: then the source
    was written to meanwhile, and a second move goes on.
    """
    bank = source.name()
    being_moved = target.mark()
    if being_moved is None and any(True for table in tables for _ in _rows(target, table)):
        raise InputError("there is a bank already: nothing is moved into one that is used")
    if being_moved not in (None, bank):
        raise InputError("another bank is being moved there: move that one to its end, or take an empty place")
    target.put_mark(bank)
    extra: list[tuple[Table, Row]] = []
    for table in tables:
        if written := _bring(source, target, table, extra):
            tell(f"{table.name}: {counted(written, 'row')} written")
    for table, row in reversed(extra):
        target.drop(table, [row])
    target.begin_after(source.last_position())
    total = 0
    for table in tables:
        differing = next(_differences(source, target, table), None)
        if differing is not None:
            raise StorageError(
                f"a row of {table.name} differs ({table.key_of(differing[1])}): something writes to a bank that is "
                "being moved; end what does, and move again: only what differs is moved"
            )
        total += sum(1 for _ in _rows(source, table))
    tell("every row is the same; making the indexes again")
    reindex()
    target.put_mark(None)
    return total


def _bring(source: Side, target: Side, table: Table, extra: list[tuple[Table, Row]]) -> int:
    written = 0
    wanted = (row for is_wanted, row in _kept_apart(_differences(source, target, table), table, extra) if is_wanted)
    while rows := list(islice(wanted, _AT_ONCE)):
        target.put(table, rows)
        written += len(rows)
    return written


def _kept_apart(
    differences: Iterator[tuple[bool, Row]], table: Table, extra: list[tuple[Table, Row]]
) -> Iterator[tuple[bool, Row]]:
    for is_wanted, row in differences:
        if not is_wanted:
            extra.append((table, row))
        yield is_wanted, row


def _differences(source: Side, target: Side, table: Table) -> Iterator[tuple[bool, Row]]:
    """Yield what differs: (True, row) that the target must have, (False, row) that it must not."""
    mine, theirs = _rows(source, table), _rows(target, table)
    wanted, found = next(mine, None), next(theirs, None)
    while wanted is not None or found is not None:
        if found is None or (wanted is not None and table.key_of(wanted) < table.key_of(found)):
            assert wanted is not None
            yield True, wanted
            wanted = next(mine, None)
        elif wanted is None or table.key_of(found) < table.key_of(wanted):
            yield False, found
            found = next(theirs, None)
        else:
            if tuple(map(_storable, wanted)) != tuple(map(_storable, found)):
                yield True, wanted
            wanted, found = next(mine, None), next(theirs, None)


def _rows(side: Side, table: Table) -> Iterator[Row]:
    rows = side.rows(table)
    return (row for row in rows if row[0] not in _OWN_KEYS) if table.name == "meta" else iter(rows)


def _storable(value: Any) -> Any:
    """Return a value as both engines can keep it: PostgreSQL's text has no NUL."""
    return value.replace("\0", "") if isinstance(value, str) else value


def _upsert(table: Table, mark: str) -> str:
    columns, marks = ", ".join(table.columns), ", ".join([mark] * len(table.columns))
    others = [name for name in table.columns if name not in table.key]
    changed = ", ".join(f"{name} = excluded.{name}" for name in others)
    then = f"UPDATE SET {changed}" if others else "NOTHING"
    into = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - names of our own schema
    return f"{into} ON CONFLICT ({', '.join(table.key)}) DO {then}"
