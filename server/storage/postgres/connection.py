"""A connection to PostgreSQL in the form that the stores use: queries by name, SQLite's placeholders, our errors."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import conninfo, errors
from psycopg.adapt import AdaptersMap, Dumper, Loader

from swarm_memory.schema.errors import (
    ConfigError,
    InputError,
    StorageError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
)
from swarm_memory.schema.postgres.statements import SCHEMA, sql_for
from swarm_memory.schema.sqlite.statements import Query

_SENT_AT_ONCE = 500
"""At most this many rows of `executemany` go in one message: over a network each message costs a round trip."""

_REFUSALS = ("authentication failed", "no pg_hba.conf entry", "does not exist", "is not permitted to log in")

_GONE_AFTER_S = 15
"""Seconds to wait for a network that does not answer, where the system lets that be set."""


class Place(NamedTuple):
    """Where a database is, and how long to wait for it."""

    url: str
    """It may contain a password, so it appears in no message."""
    connect_timeout_s: float = 3.0
    statement_timeout_s: float = 30.0
    busy_timeout_s: float = 10.0

    def __str__(self) -> str:
        """Return the name that messages use for it."""
        parts = conninfo.conninfo_to_dict(self.url)
        host, port = parts.get("host") or parts.get("hostaddr") or "this machine", parts.get("port")
        return f"{parts.get('dbname') or parts.get('user') or 'the database'} at {host}{f':{port}' if port else ''}"

    def check(self) -> None:
        """Raise `ConfigError` when the URL is not valid."""
        try:
            conninfo.conninfo_to_dict(self.url)
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                "storage.url must be the address of a PostgreSQL database: postgresql://USER:PASSWORD@HOST/DATABASE"
            ) from error


class LostInCommit(StorageError):
    """The connection broke while a change was being committed: whether it was committed is unknown."""


RawConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


class _Number(Loader):
    """PostgreSQL sums whole numbers as `numeric`: this turns them back into what they were."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


class _Flag(Dumper):
    """Sends booleans as numbers, because the columns are numbers: SQLite has no booleans."""

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"

    quote = dump


_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_loader("numeric", _Number)
_ADAPTERS.register_dumper(bool, _Flag)


def connect(place: Place) -> RawConnection:
    """Connect. Raises what psycopg raises."""
    return RawConnection.connect(
        place.url,
        autocommit=True,
        cursor_factory=Cursor,
        context=_ADAPTERS,
        connect_timeout=max(2, round(place.connect_timeout_s)),  # libpq takes no less
        application_name="swarm-memory",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=_GONE_AFTER_S * 1000,
    )


def set_up(raw: RawConnection, place: Place) -> None:
    """Set the time limits and the schema search path of a new connection."""
    milliseconds = {
        "statement_timeout": place.statement_timeout_s,
        "lock_timeout": place.busy_timeout_s,
        "idle_in_transaction_session_timeout": 2 * place.statement_timeout_s,
    }
    limits = "; ".join(f"SET {name} = {round(each * 1000)}" for name, each in milliseconds.items())
    # Short queries gain nothing by being compiled.
    raw.execute(f"SET search_path = {SCHEMA}, public; SET jit = off; {limits}".encode())


class Cursor(psycopg.ClientCursor[tuple[Any, ...]]):
    """The result of a statement, with the interface of sqlite3's cursor."""

    @property
    def lastrowid(self) -> int | None:
        """The position that a statement with RETURNING returned; None if it wrote nothing."""
        if self.rowcount < 1:
            return None
        self.scroll(0, "absolute")  # it may be read more than once
        (position, *_) = self.fetchone() or (None,)
        return position


class PostgresConnection:
    """psycopg's connection, which takes the same `Query` values as SQLite's."""

    OperationalError: type[Exception] = psycopg.Error

    def __init__(self, raw: RawConnection, *, in_write: bool = False) -> None:
        self.raw = raw
        self._in_write = in_write

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run a query by its name. Raises `TypeError` for a text without a name."""
        return Cursor(self.raw).execute(self._text(sql), parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor:
        """Run a query once for each row of parameters."""
        cursor, text = Cursor(self.raw), self._text(sql)
        rows = list(parameters)
        for start in range(0, len(rows), _SENT_AT_ONCE):
            statements = [cursor.mogrify(text, row) for row in rows[start : start + _SENT_AT_ONCE]]
            cursor.execute(";\n".join(statements).encode())
        return cursor

    def search(self, text: bytes, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a search."""
        return psycopg.Cursor(self.raw).execute(text, parameters, binary=True).fetchall()

    def _text(self, sql: str) -> bytes:
        if not isinstance(sql, Query):
            raise TypeError(f"a query that has no name cannot be run on PostgreSQL: {sql[:80]!r}")
        return sql_for(sql, in_write=self._in_write).encode()


@contextmanager
def postgres_errors(place: Place) -> Generator[None]:
    """Translate what psycopg raises into our errors, none of which contains the URL."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, place) from error
    except UnicodeEncodeError as error:
        raise InputError("a text contains a lone surrogate: it is not valid Unicode and cannot be stored") from error


def translated(error: psycopg.Error, place: Place) -> StorageError | InputError | ConfigError:
    """Return our own error for one of psycopg's."""
    said = (error.diag.message_primary or str(error).strip() or type(error).__name__).splitlines()[0]
    match error:
        case psycopg.DataError() if "NUL" in str(error):
            return InputError("a text contains a NUL character, which PostgreSQL cannot store")
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(f"{place} is busy with the same memories: nothing was written; try again")
        case errors.QueryCanceled():
            return StoreBusy(f"{place} took longer than {place.statement_timeout_s:g} s: {said}")
        case errors.ReadOnlySqlTransaction():
            return StoreReadOnly(f"{place} is read-only, as a standby is: name the server that can be written to")
        case errors.InsufficientPrivilege():
            return StoreReadOnly(f"this role may not do that in {place} ({said}): ask the owner of the database")
        case errors.DiskFull():
            return StoreFull(f"the disk of {place} is full: nothing was written; free some space and try again")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreDamaged(f"{place} is damaged ({said}): restore it as its own documentation describes")
        case psycopg.OperationalError() if _is_refused(error):
            said = said.rpartition("FATAL:")[2].strip()
            return ConfigError(f"{place} refused the login ({said}): correct storage.url")
        case psycopg.OperationalError() if "too many" in said:
            return StoreBusy(
                f"{place} accepts no more connections: lower storage.pool_size, or raise its max_connections"
            )
        case psycopg.OperationalError():
            return StorageError(f"the database {place} does not answer: {said}")
        case _:
            return StorageError(f"{place}: {said}")


def is_lost(error: BaseException | None) -> bool:
    """Whether an error means only that the connection was lost or never made."""
    if not isinstance(error, psycopg.OperationalError) or _is_refused(error):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def _is_refused(error: psycopg.Error) -> bool:
    """Whether the database answered but refused this user: a retry does not help."""
    return isinstance(error, psycopg.OperationalError) and any(sign in str(error) for sign in _REFUSALS)


COLLISIONS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""Errors of a transaction rolled back because another came first: run again, it sees what the other wrote."""
