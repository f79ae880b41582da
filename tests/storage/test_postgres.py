"""PostgreSQL beside SQLite: the same tables and columns, and every query understood by the real server."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from postgres_server import lent_database

from swarm_memory.schema.errors import ConfigError, InputError, StorageError
from swarm_memory.schema.postgres import statements as postgres
from swarm_memory.schema.sqlite import statements as sqlite
from swarm_memory.schema.sqlite.statements import Query, queries
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import migrate
from swarm_memory.server.storage.postgres.connection import (
    Place,
    PostgresConnection,
    RawConnection,
    connect,
    postgres_errors,
    set_up,
)

FILES_CARE = {"codes", "repair", "takeover", "search"}
"""Rooms of what SQLite's file alone needs, and of the parts that searches are put together from."""

INDEXES = {
    *("pattern_fts", "pattern_terms", "passage_fts", "passage_terms", "tool_call_fts", "tool_call_terms"),
    *("coded_partitions", "tool_calls_to_unindex"),
}
"""Tables of SQLite's that are indexes or wait for one: here an index is made otherwise."""


def _subjects(of: ModuleType) -> set[str]:
    return {path.stem.removeprefix("queries_") for path in Path(str(of.__file__)).parent.glob("queries_*.sql")}


@pytest.fixture
def raw() -> Iterator[RawConnection]:
    """A connection to an empty bank."""
    with lent_database() as url, connect(place := Place(url)) as connection:
        set_up(connection, place)
        yield connection


def _names_an_index(text: str) -> bool:
    return "{" in text or any(re.search(rf"\b{name}", text) for name in (*INDEXES, "sqlite_master"))


def test_postgresql_understands_every_query_that_it_may_be_given(raw: RawConnection) -> None:
    known = 0
    for subject in sorted((_subjects(sqlite) | _subjects(postgres)) - FILES_CARE):
        own = postgres.queries(subject)
        of_sqlite = queries(subject) if subject in _subjects(sqlite) else {}
        for name, query in {**own, **of_sqlite}.items():
            if name not in own and _names_an_index(query):
                continue  # the index of PostgreSQL asks otherwise
            for in_write in (False, True):
                text = postgres.text_of(query, in_write=in_write)
                named = set(re.findall(r"%\((\w+)\)s", text))
                values = dict.fromkeys(named) if named else [None] * text.count("%s")
                try:
                    raw.execute(f"EXPLAIN {text}".encode(), values)
                except psycopg.Error as error:
                    raise AssertionError(f"{subject}.{name}: {error}") from error
                known += 1
    assert known > 500


def test_each_query_of_postgresql_stands_in_for_one_of_sqlites() -> None:
    for subject in _subjects(postgres) & _subjects(sqlite):
        names = {name.removesuffix(postgres.IN_WRITE) for name in postgres.queries(subject)}
        assert names <= queries(subject).keys(), subject


def test_both_schemas_have_the_same_tables_and_columns(raw: RawConnection) -> None:
    connection = choose().module.connect(":memory:", isolation_level=None)
    migrate(connection)
    tables = connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    shadow = {name for name, _ in tables if re.match(r"(\w+_fts)_", name)}
    internal = {"partitioned_tokens", *INDEXES, *shadow}
    of_sqlite = {
        name: {column[1] for column in connection.execute(f"PRAGMA table_info({name})")}
        for name, _ in tables
        if name not in internal and not name.startswith("sqlite_")
    }
    connection.close()
    rows = raw.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'swarm_memory'"
    ).fetchall()
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    assert {name: found.get(name) for name in of_sqlite} == of_sqlite


def test_a_text_without_a_name_is_refused(raw: RawConnection) -> None:
    with pytest.raises(TypeError, match="no name"):
        PostgresConnection(raw).execute("SELECT 1")


def test_a_text_keeps_its_percent_signs_casts_and_literals() -> None:
    text = "SELECT a::int, ':b' FROM t WHERE c LIKE '5%' AND d = :d -- :e ?\nAND f % 2 = ?"
    assert postgres.with_placeholders(text) == (
        "SELECT a::int, ':b' FROM t WHERE c LIKE '5%%' AND d = %(d)s -- :e ?\nAND f %% 2 = %s"
    )


@pytest.mark.parametrize(
    ("url", "kind", "said"),
    [
        ("postgresql://u:secret@127.0.0.1:1/bank", StorageError, "bank at 127.0.0.1:1 does not answer"),
        ("postgresql:/u:secret", ConfigError, "storage.url is no address"),
    ],
)
def test_an_error_says_where_and_never_the_password(url: str, kind: type[Exception], said: str) -> None:
    place = Place(url)

    def reach() -> None:
        with postgres_errors(place):
            place.check()
            connect(place)

    with pytest.raises(kind, match=said) as raised:
        reach()
    assert "secret" not in str(raised.value)


def test_a_nul_is_refused_with_the_reason(raw: RawConnection) -> None:
    query = Query("SELECT ?")
    query.name = "test.nul"
    with pytest.raises(InputError, match="NUL"), postgres_errors(Place("")):
        PostgresConnection(raw).execute(query, ("a\0b",))
