"""The schema of a database, made or brought up to date once, however many servers open it at a time."""

from swarm_memory.schema.errors import ConfigError, StorageError
from swarm_memory.schema.postgres.statements import SCHEMA, migrations
from swarm_memory.server.storage.postgres.connection import Place, RawConnection, connect, postgres_errors, set_up

OLDEST = 15
"""Views that run with the rights of who reads them came with PostgreSQL 15."""

_LOCK = 0x53574D4D
"""The advisory lock of who changes the schema: `SWMM`."""


def make_ready(place: Place) -> None:
    """Make the schema, or bring it up to date, where it is not.

    Raises `ConfigError` for a server that is too old or lacks pgvector, `StorageError` for a schema of a newer version.
    """
    with postgres_errors(place), connect(place) as raw:
        set_up(raw, place)
        if raw.info.server_version < OLDEST * 10_000:
            raise ConfigError(f"{place} is PostgreSQL {raw.info.server_version // 10_000}: {OLDEST} or newer is needed")
        newest = len(migrations())
        found = version(raw)
        if found > newest:
            raise StorageError(f"{place} holds a bank of a newer version of swarm-memory: update this one")
        if found < newest:
            _migrate(raw, place)


def version(raw: RawConnection) -> int:
    """Return the number of the last migration; 0 where there is no bank."""
    if raw.execute("SELECT to_regclass('schema_migrations')").fetchone() == (None,):
        return 0
    row = raw.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return 0 if row is None else int(row[0])


def _migrate(raw: RawConnection, place: Place) -> None:
    raw.execute("SET statement_timeout = 0; SET lock_timeout = 0")
    raw.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    try:
        if version(raw) == 0:
            _begin(raw, place)
        for migration in migrations()[version(raw) :]:
            with raw.transaction():
                raw.execute(migration.script.encode())
                raw.execute(
                    "INSERT INTO schema_migrations (version, name) VALUES (%s, %s)", (migration.number, migration.name)
                )
    finally:
        if not raw.closed:
            raw.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))


def _begin(raw: RawConnection, place: Place) -> None:
    vector = "SELECT installed_version IS NOT NULL FROM pg_available_extensions WHERE name = 'vector'"
    found = raw.execute(vector).fetchone()
    if found is None:
        raise ConfigError(f"{place} has no pgvector: install it there (https://github.com/pgvector/pgvector)")
    if not found[0]:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    raw.execute(
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS {SCHEMA}.schema_migrations ("
        "version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())".encode()
    )
