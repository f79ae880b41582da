"""PostgreSQL beside SQLite: the same tables, every query understood, and a bank goes there and back with every row."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest
from indexed_items import NUMBERS, stored
from laid_bank import laid
from made_items import HERE, made_item
from postgres_server import lent_database

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ConfigError, InputError, StorageError, StoreBusy
from swarm_memory.schema.postgres import statements as postgres
from swarm_memory.schema.source import Passage
from swarm_memory.schema.sqlite import statements as sqlite
from swarm_memory.schema.sqlite.statements import Query, queries
from swarm_memory.schema.tool_memory import Evaluation, ToolCall
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import migrate
from swarm_memory.server.storage.move import Side, Table, move, postgres_side, sqlite_side
from swarm_memory.server.storage.postgres import store as postgres_store
from swarm_memory.server.storage.postgres.connection import (
    Place,
    PostgresConnection,
    RawConnection,
    connect,
    postgres_errors,
    set_up,
)
from swarm_memory.server.storage.postgres.store import make_ready, open_postgres
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.records import EvaluatedCall, Trials
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

FILES_CARE = {"repair", "takeover", "search"}
"""Rooms of what SQLite's file alone needs, and of the parts that searches are put together from."""

INDEXES = {
    *("pattern_fts", "pattern_terms", "passage_fts", "passage_terms", "tool_call_fts", "tool_call_terms"),
    "tool_calls_to_unindex",
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


AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
ODD = 'a "quoted" % text: with\nlines, \\u0000, \x01 and ümläuts'


async def fill(store: Any) -> list[str]:
    """Write rows of many kinds."""
    items = [made_item(f"Retry the upload {number}", tags=("net",), content=ODD) for number in range(3)]
    other = made_item("Close the file", scope=Scope(tenant_id="other", project="shop"), status="archived")
    await store.add_memories([stored(each, NUMBERS) for each in (*items, other)], NUMBERS.name)
    await store.forget([HERE], [items[2].id])
    call = ToolCall(scope=HERE, tool_name="Bash", input=ODD, success=True, created_at=AT, session_id="s", call_id="c")
    await store.tool_memory.add_calls([call], 100)
    good = Evaluation(score=1.0, summary="listed", evaluation="it did", method="evidence")
    await store.tool_memory.save_evaluations(HERE, [EvaluatedCall(1, good, ("list",))], {}, now=AT, retry_after_s=60)
    passage = Passage(kind="document", group="a.md", position=0, title="Uploads", content=ODD)
    upload = StoredPassage(passage, NUMBERS.vector("up"), (), (), ("upload",))
    await store.sources.write_groups(
        SourceKey(HERE, "document", "/docs"), [StoredGroup("a.md", "h", ("a",), (upload,))], NUMBERS.name
    )
    await store.save_trials(HERE, Trials(frozenset({"upload"})))
    return [each.id for each in items[:2]]


async def answers(store: Any) -> list[Any]:
    """Return what the store says of what it holds, by its indexes and by its rows."""
    query = SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("upload"), ("retri", "upload"), 5)
    found = await store.search(query)
    ids = sorted(each.id for each in found.candidates)
    past = await store.tool_memory.past_calls(HERE, ("list",), None)
    said: list[Any] = [ids, found.documents, found.document_frequency, await store.get_memories([HERE], ids)]
    return [*said, past, await store.statistics(HERE, NUMBERS.name), await store.trials(HERE)]


def moved(path: Path, place: Place, *, back: bool = False, report: Callable[[str], object] = len) -> int:
    with sqlite_side(path, choose(), 2.0) as own, postgres_side(place) as served:
        sides = (served, own) if back else (own, served)
        return move(*sides, own.tables(), report)


def rows_of(side: Side, tables: list[Table]) -> dict[str, list[Any]]:
    own = ("bank", "forgotten_position", "content", "seal")
    return {each.name: [row for row in side.rows(each) if row[0] not in own] for each in tables}


def test_a_bank_comes_back_from_postgresql_as_it_went_and_answers_the_same_there(tmp_path: Path, place: Place) -> None:
    first, second = (laid(tmp_path / name / "memory.db", "auto") for name in ("first", "second"))
    said: list[list[Any]] = []

    async def ask(store: Any, *, filled: bool = False) -> None:
        await (fill(store) if filled else anyio.lowlevel.checkpoint())
        said.append(await answers(store))
        await store.close()

    async def on_file(path: Path, *, filled: bool = False) -> None:
        await ask(await open_store(path, embedder=NUMBERS), filled=filled)

    async def on_server() -> None:
        store: Any = await open_postgres(place, pool_size=2, embedder=NUMBERS)
        (newest,) = await store.add_memories([stored(made_item("Later"), NUMBERS)], NUMBERS.name)
        await store.forget([HERE], [newest])
        await ask(store)

    anyio.run(lambda: on_file(first, filled=True))
    assert moved(first, place) > 20
    with sqlite_side(first, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 4, "a position that was forgotten is not given again"
    with pytest.raises(InputError, match="there is a bank already"):
        moved(first, place)
    anyio.run(on_server)
    moved(second, place, back=True)
    with sqlite_side(second, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 5
    anyio.run(lambda: on_file(second))
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize("meddles", [False, True])
def test_a_move_that_was_cut_off_or_went_wrong_leaves_nothing_there_and_can_be_done_again(
    tmp_path: Path, place: Place, meddles: bool
) -> None:
    path = laid(tmp_path / "memory.db", "auto")

    async def filled() -> None:
        async with await open_store(path, embedder=NUMBERS) as store:
            await fill(store)

    class CutOff(Exception):
        pass

    anyio.run(filled)
    with sqlite_side(path, choose(), 2.0) as own, postgres_side(place) as served:
        tables = own.tables()
    (meta,) = (each for each in tables if each.name == "meta")

    def cut_off(text: str) -> None:
        if text.startswith("words of"):
            raise CutOff

    def meddle(text: str) -> None:
        if text.startswith("words of"):
            served.put(meta, [("aging:1", "{}")])

    with (
        pytest.raises(StorageError if meddles else CutOff, match="a row of meta differs" if meddles else None),
        sqlite_side(path, choose(), 2.0) as own,
        postgres_side(place) as served,
    ):
        move(own, served, tables, meddle if meddles else cut_off)
    with postgres_side(place) as served:
        assert not any(rows_of(served, tables).values())
    assert moved(path, place) > 20


def test_nobody_writes_to_a_bank_that_is_being_moved(tmp_path: Path, place: Place) -> None:
    path = laid(tmp_path / "memory.db", "auto")

    async def write(store: Any) -> None:
        async with store:
            await store.save_trials(Scope(), Trials(frozenset({"upload"})))

    async def try_both() -> None:
        with pytest.raises(StoreBusy):
            await write(await open_store(path, embedder=NUMBERS, busy_timeout_s=0.1))
        impatient = place._replace(busy_timeout_s=0.1)
        with pytest.raises(StoreBusy):
            await write(await open_postgres(impatient, embedder=NUMBERS))

    anyio.run(open_and_close, place)
    with sqlite_side(path, choose(), 2.0), postgres_side(place):
        anyio.run(try_both)


async def open_and_close(place: Place) -> None:
    """Have the schema made."""
    async with await open_postgres(place, embedder=NUMBERS):
        pass


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
