"""Roles of a database that see the tenants, and the projects, they are admitted to and nothing else."""

import re
import secrets
from collections.abc import Sequence
from urllib.parse import quote

from psycopg import conninfo, sql

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.postgres.statements import SCHEMA
from swarm_memory.server.storage.postgres.connection import Place, RawConnection, connect, postgres_errors, set_up
from swarm_memory.server.storage.postgres.migrate import make_ready

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
