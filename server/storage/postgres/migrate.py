"""The schema of a database, made or brought up to date once, however many servers open it at a time; and its roles,
which see the tenants and projects that they are admitted to and nothing else.
"""

import re
import secrets
from collections.abc import Sequence
from urllib.parse import quote

from psycopg import conninfo, sql

from swarm_memory.schema.errors import ConfigError, InputError, StorageError
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


_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_READ_ONLY = ("admissions", "schema_migrations")
"""Tables that only who owns the bank writes."""


def admit(place: Place, name: str, tenant_id: str, projects: Sequence[str] = ()) -> str | None:
    """Admit a role, which is made where it is not there, to a tenant, or to some of its projects alone.

    `place` is as the bank's owner reaches it. Returns the URL of a new role, with its password, which is kept nowhere;
    None for one that was there. Raises `InputError` for a name that is none, and as `postgres_errors`.
    """
    if not _NAME.fullmatch(name):
        raise InputError("the name of a role has small letters, digits and _, and begins with no digit")
    make_ready(place)
    with postgres_errors(place), connect(place) as raw:
        set_up(raw, place)
        with raw.transaction():
            password = _make(raw, name)
            for project in projects or (None,):
                raw.execute(
                    "INSERT INTO admissions (role, tenant_id, project) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (name, tenant_id, project),
                )
    return None if password is None else _url_of(place.url, name, password)


def _make(raw: RawConnection, name: str) -> str | None:
    role, schema = sql.Identifier(name), sql.Identifier(SCHEMA)
    known = raw.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    if known is not None and known[0]:
        raise InputError(f"{name} is held by no row-level security (a superuser, or BYPASSRLS): take another name")
    password = secrets.token_urlsafe(24) if known is None else None
    if password is not None:
        raw.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
    rows = sql.SQL("SELECT, INSERT, UPDATE, DELETE")
    for statement in (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT {rows} ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT {rows} ON TABLES TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE ON SEQUENCES TO {role}",
    ):
        raw.execute(sql.SQL(statement).format(schema=schema, role=role, rows=rows))
    for table in _READ_ONLY:
        held = sql.SQL("REVOKE INSERT, UPDATE, DELETE ON {}.{} FROM {}")
        raw.execute(held.format(schema, sql.Identifier(table), role))
    return password


def _url_of(url: str, name: str, password: str) -> str:
    parts = {key: str(value) for key, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    host, port, dbname = (parts.pop(key, "") for key in ("host", "port", "dbname"))
    parts.pop("user", None)
    parts.pop("password", None)
    if host.startswith("/"):
        parts["host"], host = host, ""
    asked = "&".join(f"{key}={quote(value)}" for key, value in parts.items())
    where = f"{host}:{port}" if port else host
    return f"postgresql://{name}:{password}@{where}/{quote(dbname)}{'?' if asked else ''}{asked}"
