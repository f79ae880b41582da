"""Memory items in a real bank, on every driver: written, read, edited, set aside, forgotten."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item, rewrite

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StoreDamaged
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.server.storage.stores.rows import item_of
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord, SearchFilter, SearchQuery, StoredMemory
from swarm_memory.tools.text.tokens import query_tokens


def asked(here: Scope, embedder: Any, text: str, pool: int = 50, **fields: Any) -> SearchQuery:
    return SearchQuery((here,), embedder.name, embedder.vector(text), query_tokens(text), pool, SearchFilter(**fields))


@pytest.mark.parametrize("status", ["archived", "quarantined"])
async def test_an_item_leaves_both_indexes_with_its_status_and_comes_back_with_it(store: Any, status: Any) -> None:
    gone, kept = made_item("Retry a locked database"), made_item("Fetch the token first")
    await store.add_memories([stored(gone, NUMBERS), stored(kept, NUMBERS)], NUMBERS.name)
    assert await store.set_status([HERE], [gone.id, "rm_none"], status, "tried") == 1
    found = await store.search(asked(HERE, NUMBERS, "locked database token"))
    assert [each.id for each in found.candidates] == [kept.id]
    assert found.document_frequency["lock"] == 0
    assert await store.nearest([HERE], NUMBERS.name, NUMBERS.vector(gone.embedding_text), 5) != []
    assert gone.id not in dict(await store.nearest([HERE], NUMBERS.name, NUMBERS.vector("x"), 5))
    (put_aside,) = await store.get_memories([HERE], [gone.id])
    assert (put_aside.status, put_aside.status_reason) == (status, "tried")
    assert await store.set_status([HERE], [gone.id], "active", "back") == 1
    found = await store.search(asked(HERE, NUMBERS, "locked database"))
    assert {each.id for each in found.candidates} == {gone.id, kept.id}
    kinds = [event.kind for event in await store.memory_history([HERE], gone.id)]
    assert kinds == ["reasoning_memory.created", f"reasoning_memory.{status}", "reasoning_memory.active"]


async def test_an_edited_item_is_found_by_its_new_words_only_and_its_former_text_is_kept(store: Any) -> None:
    former = made_item("Retry a locked database", tags=("db",))
    changed = former.model_copy(update={"title": "Escape the shell", "content": "1. Quote it", "tags": ("sh",)})
    await store.add_memories([stored(former, NUMBERS)], NUMBERS.name)
    await rewrite(store, stored(changed, NUMBERS), NUMBERS.name, "was wrong")
    assert await store.get_memories([HERE], [former.id]) == [changed]
    found = await store.search(asked(HERE, NUMBERS, "locked shell"))
    assert found.document_frequency == {"lock": 0, "shell": 1}
    (near,) = await store.nearest([HERE], NUMBERS.name, NUMBERS.vector(changed.embedding_text), 1)
    assert near[1] == pytest.approx(1.0, abs=1e-3)
    assert await store.list_memories([HERE], MemoryFilter(tags=("db",))) == []
    edit = (await store.memory_history([HERE], former.id))[-1]
    assert edit.kind == "reasoning_memory.edited"
    assert "locked database" in str(edit.data["pattern_data"])


async def test_the_same_words_are_looked_for_without_reading_every_memory(open_bank: Any) -> None:
    query = queries("memories")["said_in_as_many_characters"]
    values = {"scope_id": 1, "characters": 5, "words": '"s1xmigrat"'}
    store: SqliteStore
    async with open_bank() as store:
        plan = await store.read(lambda bank: bank.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
    looks = [line for *_, line in plan if line.startswith(("SEARCH", "SCAN"))]
    assert [line.partition(" USING ")[2] or line for line in looks] == [
        "INTEGER PRIMARY KEY (rowid=?)",
        "SCAN pattern_fts VIRTUAL TABLE INDEX 0:M3",
        "INDEX patterns_by_standing (scope_id=? AND standing=?)",
        "INDEX patterns_by_scope (scope_id=? AND status=?)",  # for what is held back
        "INDEX patterns_by_heard (scope_id=? AND status=?)",
    ]


async def test_what_is_forgotten_leaves_no_byte_in_any_file(open_bank: Any, database: Path) -> None:
    secret = made_item("Zanzibar heliotrope", content="Zanzibarheliotrope quixotically", tags=("heliotropetag",))
    kept = made_item("Retry a locked database")
    half = [f"backups/memory-20260501T120000.000000Z-asked.db.77.part{end}" for end in ("", "-journal")]
    async with open_bank() as store:
        await store.add_memories([stored(secret, NUMBERS), stored(kept, NUMBERS)], NUMBERS.name)
        (database.parent / "backups").mkdir()
        for left in (*half, "memory.db.restoring-77", "memory.db.repairing-77-wal"):  # left by killed processes
            (database.parent / left).write_bytes(b"half of Zanzibar heliotrope")
        edited = secret.model_copy(update={"content": "Zanzibar once more"})
        await rewrite(store, stored(edited, NUMBERS), NUMBERS.name, "shorter")
        assert len((await store.forget([HERE], [secret.id])).ids) == 1
        assert len((await store.forget([HERE], [secret.id])).ids) == 0
        vector = NUMBERS.vector(secret.embedding_text)
        assert await store.nearest([HERE], NUMBERS.name, vector, 5) != []
    held = b"".join(path.read_bytes() for path in database.parent.rglob("*") if path.is_file())
    assert b"locked database" in held
    for word in (b"anzibar", b"heliotrop", b"quixotic"):
        assert word not in held.lower()


async def test_a_text_is_looked_for_as_unicode_folds_it(store: Any) -> None:
    written = made_item("Straße sperren")
    await store.add_memories([stored(written, NUMBERS)], NUMBERS.name)
    assert await store.list_memories([HERE], MemoryFilter(text="STRASSE")) == [written]


async def test_a_retrieval_is_recorded_behind_the_readers_back(open_bank: Any) -> None:
    used, unused = made_item("Retry once"), made_item("Fetch the token")
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    record = RetrievalRecord("rt_1", HERE, "how to retry", {used.id: 0.9}, 3.5, at, task_id="t9")
    async with open_bank() as store:
        await store.add_memories([stored(used, NUMBERS), stored(unused, NUMBERS)], NUMBERS.name)
        await store.record_retrieval(record)
        await store.record_retrieval(record)
    async with open_bank() as store:
        first, second = await store.get_memories([HERE], [used.id, unused.id])
        assert (first.usage_count, first.last_used) == (2, at)
        assert (second.usage_count, second.last_used) == (0, None)
        assert (await store.statistics(HERE, NUMBERS.name)).retrievals == 2
        (event, _) = await store.memory_history([HERE], "rt_1")
        assert event.data["scores"] == {used.id: 0.9}


async def test_statistics_count_one_scope(store: Any) -> None:
    written = [
        stored(made_item("Retry once"), NUMBERS),
        stored(made_item("Escape it", outcome="Failure")),
        stored(made_item("Old one", status="archived"), NUMBERS),
        stored(made_item("Elsewhere", scope=Scope(project="there")), NUMBERS),
    ]
    empty = await store.statistics(HERE, NUMBERS.name)
    assert (empty.memories["active"], empty.projects) == (0, {})
    await store.add_memories(written, NUMBERS.name)
    counts = await store.statistics(HERE, NUMBERS.name)
    assert counts.memories == {"active": 2, "quarantined": 0, "archived": 1}
    assert counts.embedded == {NUMBERS.name: 1}
    assert counts.not_embedded == 1
    assert counts.new_since_consolidation == 2
    assert counts.projects == {HERE.project: 2, "there": 1}


HOSTILE = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(HOSTILE, st.sampled_from(["'; DROP TABLE patterns;--", '"a" OR b*', "\x00NUL\x00", "NEAR(a b)"])))
def test_any_text_is_kept_as_it_is_and_breaks_no_query(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    import asyncio

    from swarm_memory.server.storage.sqlite import open_store

    async def round_trip() -> None:
        written = made_item("A title", content="abc " + text, description=text, tags=(text,), domain=text)
        scope = written.scope
        store = await open_store(tmp_path_factory.mktemp("bank") / "memory.db", embedder=NUMBERS)
        try:
            await store.add_memories([stored(written, NUMBERS)], NUMBERS.name)
            assert await store.get_memories([scope], [written.id]) == [written]
            raw = SearchQuery((scope,), NUMBERS.name, NUMBERS.vector(text), (text, *query_tokens(text)), 5)
            assert [each.id for each in (await store.search(raw)).candidates] == [written.id]
            narrowed = SearchQuery((scope,), NUMBERS.name, None, ("abc",), 5, SearchFilter(text, (text,)))
            assert [each.id for each in (await store.search(narrowed)).candidates] == [written.id]
            assert await store.list_memories([scope], MemoryFilter(text=text)) == [written]
        finally:
            await store.close()

    asyncio.run(round_trip())


async def test_a_lone_surrogate_is_refused_and_nothing_is_written(store: Any) -> None:
    good = made_item("Retry once")
    bad = StoredMemory(made_item("Other"), None, ("ok",), (), ("bad\ud800",))
    with pytest.raises(InputError, match="token"):
        await store.add_memories([stored(good, NUMBERS), bad], NUMBERS.name)
    assert await store.list_memories([HERE], MemoryFilter()) == []
    with pytest.raises(InputError, match="surrogate"):
        await store.get_memories([HERE], ["\ud800"])
    query = SearchQuery((HERE,), NUMBERS.name, None, ("\ud800", "retri"), 5)
    assert (await store.search(query)).candidates == ()


def test_a_row_that_cannot_be_an_item_is_said_to_be_damage_whichever_column_is_wrong() -> None:
    text = '{"title":"T","description":"","content":"C","source":{"outcome":"Success"},"tags":["a"],"domain":null}'
    row = ("rm_1", "default", "here", text, 0.5, 2, "2026-01-01T00:00:00Z", None, "active", None, "Failure")
    sound = item_of(row)
    assert sound == MemoryItem.model_validate(sound.model_dump())
    assert sound.outcome == "Failure"
    assert sound.model_copy(update={"title": "U"}).title == "U"
    assert sound.provenance == Provenance()
    source = '{"outcome":"Success"}'
    of_task = text.replace(source, '{"task_id":"t","evidence":["s1"],"judge":"agent","hearsay":true}')
    source_of = item_of((*row[:3], of_task, *row[4:])).provenance
    assert source_of == Provenance(task_id="t", evidence=("s1",), judge="agent", repeats_shown=True)
    assert source_of.model_dump(exclude_unset=True).keys() == {"task_id", "evidence", "judge", "hearsay"}
    sources = ('{"judge":"nobody"}', '{"evidence":"s1"}', '{"distiller":null}', '{"task_id":5}', "[]", "null")
    wrong: dict[int, tuple[Any, ...]] = {
        0: (None, 7),
        3: (
            *("{", "[]", text.replace('"C"', "1"), text.replace('"a"', "{}"), text.replace('"title"', '"name"'), None),
            *(text.replace(source, each) for each in sources),
        ),
        4: (1.5, -0.1, math.nan, "much", None),
        5: (-1, 1.5, "2", None),
        6: ("yesterday", "2026-01-01T00:00:00", None, 5),
        7: ("", "2026-01-01T00:00:00"),
        8: ("gone", None),
        9: (3,),
        10: ("success", None),
    }
    for column, values in wrong.items():
        for value in values:
            with pytest.raises(StoreDamaged, match="does not match what was written"):
                item_of((*row[:column], value, *row[column + 1 :]))


async def test_damaged_tokens_are_found_and_made_again(open_bank: Any, driver_name: str, database: Path) -> None:
    memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(3)]
    store: SqliteStore
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        damage = "UPDATE pattern_tokens SET tokens = x'0011' WHERE seq = 2"
        await store.write(lambda connection: connection.execute(damage).rowcount)
        assert [fault for fault in (await store.inspect()).indexes if "tokens" in fault]
        query = SearchQuery(scopes=(HERE,), embedder=NUMBERS.name, vector=None, tokens=("strategi",), pool=5)
        with pytest.raises(StoreDamaged, match="doctor --repair"):
            await store.search(query)
    repair(database, choose(driver_name), 5.0)
    async with open_bank() as store:
        assert (await store.inspect()).sound
        assert len((await store.search(query)).candidates) == 3
