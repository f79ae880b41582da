"""Bringing a bank's schema up to date: numbered migrations, each in a transaction of its own. It opens no file."""

from typing import TYPE_CHECKING

from swarm_memory.schema.sqlite.statements import Migration, migrations

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection


def migrate(connection: "Connection") -> int:
    """Apply what is missing; return how many migrations that were. The caller holds the writer lock."""
    return sum(_apply(connection, migration) for migration in migrations())


def _apply(connection: "Connection", migration: Migration) -> bool:
    """Apply one migration unless it is there: the version is looked at again inside the exclusive transaction."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        missing = version < migration.number
        if missing:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {migration.number:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return missing
