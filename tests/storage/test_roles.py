"""Database roles: one admitted to a tenant can neither see nor change anything of another, even with plain SQL."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from clock import NOW
from indexed_items import NUMBERS, stored
from made_items import made_item
from postgres_server import lent_database
from psycopg import conninfo, sql

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StoreReadOnly
from swarm_memory.schema.source import Passage
from swarm_memory.server.storage.postgres.connection import Place, RawConnection, connect, set_up
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.records import Aging, UpkeepBatch
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

OURS, THEIRS = Scope(tenant_id="ours", project="shop"), Scope(tenant_id="theirs", project="shop")
ROLE = f"ours_{os.getpid()}"
"""The name is unique because roles belong to the whole server, on which other processes test too."""
PAGE = Path(__file__).parents[2] / "docs" / "TEAM.md"
DROP = f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}".encode()
FOR_ALL = {"schema_migrations", "vector_spaces", "source_spaces"}
"""Tables that say nothing about anybody."""

ASKED = """
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class AS c
WHERE c.relnamespace = 'swarm_memory'::regnamespace AND c.relkind = 'r'
"""


@pytest.fixture
def owner() -> Iterator[Place]:
    """An empty bank, as its owner reaches it, without the role of an earlier test."""
    with lent_database() as url:
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute("DELETE FROM swarm_memory.admissions WHERE role = %s", (ROLE,))
            if raw.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                raw.execute(DROP)
        yield Place(url)
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute(DROP)


def admitted(owner: Place, *projects: str) -> Place:
    """Make a role with the SQL in docs/TEAM.md, admitted to a tenant or some of its projects; return its place."""
    script = PAGE.read_text("utf-8").partition("```sql\n")[2].partition("```")[0]
    grants, admission = script.replace("acme_memory", ROLE).replace("'acme'", "'ours'").rsplit("INSERT", 1)
    with psycopg.connect(owner.url, autocommit=True) as raw:
        raw.execute(grants.encode())
        for each in projects or (None,):
            raw.execute(f"INSERT{admission if each is None else admission.replace('NULL', repr(each))}".encode())
    return Place(conninfo.make_conninfo(owner.url, user=ROLE, password="a long one"))


@pytest.fixture
def place(owner: Place) -> Place:
    """The same bank, as a role that is admitted to one tenant reaches it."""
    return admitted(owner)


AGED = UpkeepBatch("run_1", NOW, aging=(None, Aging(at=NOW)))
"""Writes a row of `meta`."""


async def opened(place: Place) -> PostgresStore:
    return await open_postgres(place, pool_size=2, embedder=NUMBERS)


async def fill(place: Place, scope: Scope) -> str:
    item = made_item(f"Retry the upload of {scope.tenant_id}", scope=scope, tags=("net",))
    async with await opened(place) as store:
        await store.add_memories([stored(item, NUMBERS)], NUMBERS.name)
        await store.write_upkeep(scope, AGED)
    return item.id


def rows(raw: RawConnection, table: str) -> int:
    (count,) = raw.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone() or (0,)
    return int(count)


async def test_a_role_sees_and_changes_by_sql_only_what_is_of_its_tenant(owner: Place, place: Place) -> None:
    theirs = await fill(owner, THEIRS)
    with connect(owner) as raw, connect(place) as held:
        set_up(raw, owner)
        set_up(held, place)
        filled = {name for name, *_ in raw.execute(ASKED).fetchall() if rows(raw, name)} - FOR_ALL - {"admissions"}
        assert {"patterns", "pattern_tokens", "pattern_embeddings", "item_vectors", "item_words"} <= filled
        assert {"events", "scopes", "meta"} <= filled
        assert {name: rows(held, name) for name in filled} == dict.fromkeys(filled, 0)
        before = {name: rows(raw, name) for name in filled}
        (scope_id,) = raw.execute("SELECT max(id) FROM scopes").fetchone() or (0,)
        for name in filled:
            held.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        held.execute("DELETE FROM vector_spaces")
        assert held.execute("UPDATE patterns SET status = 'archived'").rowcount == 0
        assert {name: rows(raw, name) for name in filled} == before
        for forbidden in (
            "ALTER TABLE patterns DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE patterns NO FORCE ROW LEVEL SECURITY",
            "DROP POLICY admitted ON patterns",
            f"INSERT INTO admissions (role) VALUES ('{ROLE}')",
            "INSERT INTO scopes (tenant_id, project) VALUES ('theirs', 'another')",
            f"INSERT INTO events (scope_id, type, data, created_at) VALUES ({scope_id}, 'x', '{{}}', '')",
            "CREATE TABLE taken (x INT)",
            "SET ROLE postgres",
            "SET row_security = off; SELECT * FROM patterns",
        ):
            with pytest.raises(psycopg.Error):
                held.execute(forbidden.encode())
    async with await opened(place) as store:
        assert await store.get_memories([THEIRS], [theirs]) == []
        with pytest.raises(StoreReadOnly, match="row-level security"):
            await store.write_upkeep(THEIRS, AGED)


async def test_every_table_is_held_for_its_owner_too(owner: Place, place: Place) -> None:
    with connect(owner) as raw:
        held = {name: (on, forced) for name, on, forced in raw.execute(ASKED).fetchall() if name not in FOR_ALL}
    assert held.pop("admissions") == (True, False)  # the bank's owner admits roles
    assert {name for name, state in held.items() if state != (True, True)} == set()


async def test_a_role_works_in_its_own_tenant_as_an_owner_does(owner: Place, place: Place) -> None:
    await fill(owner, THEIRS)
    mine = await fill(place, OURS)
    async with await opened(place) as store:
        (found,) = await store.get_memories([OURS, THEIRS], [mine])
        assert found.title == "Retry the upload of ours"
        assert [each for each, _ in await store.nearest([OURS, THEIRS], NUMBERS.name, NUMBERS.vector("x"), 5)] == [mine]
        assert await store.set_status([OURS], [mine], "archived", "old") == 1
        assert (await store.forget([OURS], [mine])).ids == (mine,)
        health = await store.health()
        assert health.notices == ()
    async with await opened(owner) as store:
        assert "row-level security" in (await store.health()).notices[0]


def test_a_role_that_is_admitted_to_projects_sees_no_other_of_the_tenant(owner: Place) -> None:
    with connect(owner) as raw, connect(admitted(owner, "shop", "yard")) as held:
        set_up(raw, owner)
        set_up(held, owner)
        for project in ("shop", "yard", "mill"):
            raw.execute("INSERT INTO scopes (tenant_id, project) VALUES ('ours', %s)", (project,))
        assert held.execute("SELECT project FROM scopes ORDER BY project").fetchall() == [("shop",), ("yard",)]


async def test_a_role_searches_what_is_of_its_tenant_alone(owner: Place, place: Place) -> None:
    theirs = await fill(owner, THEIRS)
    items = [made_item(f"Retry upload {number}", scope=OURS) for number in range(80)]
    query = SearchQuery((OURS, THEIRS), NUMBERS.name, NUMBERS.vector("upload"), ("upload", "79"), 100)
    passages = [Passage(kind="document", group="a", position=n, title="T", content="c") for n in range(2)]
    group = StoredGroup("a", "h", ("a",), tuple(StoredPassage(each, None, ("a",), (), ("b",)) for each in passages))
    async with await opened(place) as store:
        await store.add_memories([stored(each, NUMBERS) for each in items[:66]], NUMBERS.name)
        for each in items[66:]:
            await store.add_memories([stored(each, NUMBERS)], NUMBERS.name)
        await store.sources.write_groups(SourceKey(OURS, "document", "/d"), [group], NUMBERS.name)
        found = await store.search(query)
        assert {each.id for each in found.candidates} == {each.id for each in items}
        assert theirs not in {each.id for each in found.candidates}
        assert (found.documents, found.document_frequency) == (80, {"upload": 80, "79": 1})
        passages = SearchQuery((OURS,), NUMBERS.name, None, ("b",), 5)
        assert len((await store.sources.search(passages, ("document",), {})).candidates) == 2
