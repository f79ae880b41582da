"""PostgreSQL compared with SQLite: the same tables, and every query understood."""

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
from swarm_memory.server.storage.postgres import store as postgres_store
from swarm_memory.server.storage.postgres.connection import (
    Place,
    PostgresConnection,
    RawConnection,
    connect,
    postgres_errors,
    set_up,
)
from swarm_memory.server.storage.postgres.store import make_ready

FILES_CARE = {"repair", "takeover", "search"}
"""Query files that only SQLite's file needs, and the one with the parts from which searches are composed."""

INDEXES = {
    *("pattern_fts", "pattern_terms", "passage_fts", "passage_terms", "tool_call_fts", "tool_call_terms"),
    "tool_calls_to_unindex",
}
"""SQLite's tables that are indexes or queue rows for one: PostgreSQL builds its indexes differently."""


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
                continue  # PostgreSQL's index uses another query
            for in_write in (False, True):
                text = postgres.sql_for(query, in_write=in_write)
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
        ("postgresql:/u:secret", ConfigError, "storage.url must be the address"),
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


_BEFORE_8 = """
INSERT INTO scopes (tenant_id, project) VALUES ('default', 'here');
INSERT INTO postings (kind, partition, scope_id, token, block, documents, entries) VALUES
  (1, 1, 1, 'stays', 0, 2, ARRAY[(7::bigint << 24) | (16 << 14) | 4, (8::bigint << 24) | (5 << 14) | 3]),
  (1, 1, 1, 'went', 1, 0, ARRAY[(8::bigint << 24) | (5 << 14) | 3]);
INSERT INTO recent_words (kind, partition, scope_id, seq, sign, length, words, weights) VALUES
  (1, 1, 1, 8, -1, 3, '{stays,went}', '{5,5}'), (1, 1, 1, 9, 1, 2, '{came,stays}', '{10,6}');
CREATE INDEX hnsw_1_1_1 ON item_vectors USING hnsw ((embedding::halfvec(3)) halfvec_cosine_ops);
"""


def test_a_bank_of_an_earlier_version_keeps_its_words_and_loses_its_vector_indexes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = postgres.migrations()
    with lent_database() as url, psycopg.connect(url, autocommit=True) as raw:
        raw.execute(f"DROP SCHEMA {postgres.SCHEMA} CASCADE".encode())
        monkeypatch.setattr(postgres_store, "migrations", lambda: known[:7])
        make_ready(Place(url))
        raw.execute(f"SET search_path = {postgres.SCHEMA}, public; {_BEFORE_8}".encode())
        monkeypatch.setattr(postgres_store, "migrations", lambda: known)
        make_ready(Place(url))
        words = raw.execute("SELECT token, seq, weight, length FROM item_words ORDER BY token, seq").fetchall()
        assert words == [("came", 9, 10, 2), ("stays", 7, 16, 4), ("stays", 9, 6, 2)]
        counts = raw.execute("SELECT token, items FROM word_counts ORDER BY token").fetchall()
        assert counts == [("came", 1), ("stays", 2)]
        assert raw.execute("SELECT to_regclass('hnsw_1_1_1'), to_regclass('postings')").fetchone() == (None, None)
