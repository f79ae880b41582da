"""What binds a bank to this user: a keyed sum over its rows, which every commit of ours updates.

Anyone who can write the project's file (a pull, an archive, `cp`, `rsync`) may know an older copy of it, with its id
and all of its content. A mark that is kept in the file alone proves nothing: it must cover the rows, and its key must
be kept elsewhere. Each row is hashed with a secret from the bank's private record. Triggers of the connection add and
subtract these hashes in the transaction that changes the rows; at its end the sum is numbered and sealed. What a kill
or a power cut leaves is therefore always sealed, whoever else was writing. All rows are read only if the files are not
as noted after our last write: inode, size, and time of change, which no program can set. An older file of ours is
refused by its number, which is noted too.

Not covered: indexes, vectors, tags and handles, which are made from the rows, and counters in `meta`.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path

from swarm_memory.schema.errors import StoreUntrusted
from swarm_memory.schema.sqlite.statements import newest_version, schema_objects
from swarm_memory.server.storage.driver import SqliteConnection
from swarm_memory.server.storage.engine import registry

DERIVED = frozenset({
    "meta", "vector_spaces", "space_members", "pattern_embeddings", "pattern_tokens", "pattern_tags", "handles",
    "source_spaces", "source_space_members", "passage_embeddings", "passage_tokens",
    "tool_calls_to_unindex", "team_revisions",
})  # fmt: skip
"""Tables that are not covered. Whether a table is listed may never change: existing banks are sealed that way."""

_MODULUS = 2**256
_LOOKS = 5
"""At most this many times all rows are read, while processes that open and close the bank checkpoint its log."""
_SEALED = "SELECT c.value, s.value FROM meta AS c JOIN meta AS s ON s.key = 'seal' WHERE c.key = 'content'"
_PUT = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


def install_triggers(connection: SqliteConnection, secret: str) -> None:
    """Make everything that the connection writes from now on update the sum."""
    key = bytes.fromhex(secret)
    connection.create_function("tallied", -1, partial(_tallied, key), deterministic=True)
    connection.create_function("sealed", 2, partial(_sealed, key, newest_version()), deterministic=True)
    for table, names in _covered(connection):
        old, new = ([f"{row}.{name}" for name in names] for row in ("OLD", "NEW"))
        for event, less, more in (("INSERT", [], new), ("DELETE", old, []), ("UPDATE", old, new)):
            rows = ", ".join(less + more)
            connection.execute(
                f"CREATE TEMP TRIGGER tally_{event}_{table} AFTER {event} ON main.{table} BEGIN "  # noqa: S608 - our own names
                f"UPDATE meta SET value = tallied(value, '{table}', {len(less)}, {rows}) WHERE key = 'content'; END"
            )


def create_seal(connection: SqliteConnection, secret: str) -> int:
    """Seal whatever is in the bank; return the seal's number. Call it within a write transaction."""
    key = bytes.fromhex(secret)
    total = _total(connection, key)
    connection.execute(_PUT, ("content", total))
    connection.execute(_PUT, ("seal", _sealed(key, _version_of(connection), 1, total)))
    return 1


def seal(connection: SqliteConnection) -> int:
    """Seal what the transaction wrote; return the seal's number.

    Raises `StoreUntrusted` when a newer version has changed the schema meanwhile: its rows would be summed wrongly.
    """
    total, sealed = connection.execute(_SEALED).fetchone()
    number = int(sealed.split()[0])
    if total != sealed.split()[1]:
        if _version_of(connection) != newest_version():
            raise StoreUntrusted("a newer swarm-memory has changed the bank: restart this process")
        number += 1
        connection.execute("UPDATE meta SET value = sealed(?, ?) WHERE key = 'seal'", (number, total))
    return number


def is_intact(connection: SqliteConnection, database: Path) -> bool:
    """Whether what a connection sees is what this user last left at a path; also True for a bank never bound.

    Unless the files are as they were noted, all rows are read, and then the files are noted.
    """
    secret = registry.secret_of(database)
    if not secret or (registry.noted_number(database) >= 0 and registry.is_as_noted(database)):
        return True
    for _ in range(_LOOKS):
        noted, seen = registry.noted_number(database), registry.status_of(database)  # before the rows: others may write
        number = sealed_number(connection, secret)
        if number is None or number < noted:
            return False
        if registry.status_of(database) == seen:
            registry.note(database, number, seen)
        if registry.is_as_noted(database):  # or another process wrote, and noted that
            break
    return True


def sealed_number(connection: SqliteConnection, secret: str) -> int | None:
    """Return the number of the bank's seal; None if the rows do not match the seal."""
    key = bytes.fromhex(secret)
    connection.execute("BEGIN")
    try:
        content, sealed = connection.execute(_SEALED).fetchone() or ("", "")
        total, version = _total(connection, key), _version_of(connection)
    finally:
        connection.execute("ROLLBACK")
    number = str(sealed).partition(" ")[0]
    is_ours = content == total and sealed == _sealed(key, version, number, total)
    return int(number) if is_ours else None


def _version_of(connection: SqliteConnection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _covered(connection: SqliteConnection) -> Iterator[tuple[str, list[str]]]:
    """Yield each covered table that the bank has, with its columns."""
    for table, sql in schema_objects().items():
        if sql.startswith("CREATE TABLE ") and table not in DERIVED:
            names = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
            if names:
                yield table, names


def _total(connection: SqliteConnection, key: bytes) -> str:
    total = 0
    for table, names in _covered(connection):
        rows = connection.execute(f"SELECT {', '.join(names)} FROM {table} NOT INDEXED")  # noqa: S608 - our own names
        total += sum(_hashed(key, table, row) for row in rows)
    return f"{total % _MODULUS:064x}"


def _tallied(key: bytes, total: str, table: str, less: int, *rows: object) -> str:
    """Subtract the row made of the first `less` values from the sum, and add the row made of the others."""
    found = int(total, 16)
    if less:
        found -= _hashed(key, table, rows[:less])
    if more := rows[less:]:
        found += _hashed(key, table, more)
    return f"{found % _MODULUS:064x}"


def _hashed(key: bytes, table: str, row: tuple[object, ...]) -> int:
    encoded = ascii((table, *row)).encode()  # the same in every Python version; what `repr` escapes is not
    return int.from_bytes(blake2b(encoded, key=key, digest_size=32).digest())


def _sealed(key: bytes, version: int, number: object, total: str) -> str:
    """Return the seal kept in the bank: the number, the sum, and a MAC of both and of the schema's version."""
    return f"{number} {total} {blake2b(f'{version} {number} {total}'.encode(), key=key).hexdigest()}"
