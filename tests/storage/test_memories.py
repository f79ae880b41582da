"""Memory items in a real bank, on every driver: written, read, edited, put aside, forgotten."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_items import rewrite

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StorageError, StoreDamaged
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.server.storage.stores.rows import item_of
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord, SearchFilter, SearchQuery, StoredMemory
from swarm_memory.tools.text.tokens import query_tokens

Make = Callable[..., MemoryItem]
WithIndexes = Callable[..., StoredMemory]


def asked(here: Scope, embedder: Any, text: str, pool: int = 50, **fields: Any) -> SearchQuery:
    return SearchQuery((here,), embedder.name, embedder.vector(text), query_tokens(text), pool, SearchFilter(**fields))


async def test_many_written_at_once_stand_in_the_bank_as_if_each_was_written_by_itself(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    there, statuses = Scope(project="there"), ("active", "quarantined", "archived")
    items = [
        item(f"Retry a locked database {n}", scope=(here, there)[n % 2], tags=("a", f"t{n}"), status=statuses[n % 3])
        for n in range(60)
    ]
    memories = [with_indexes(each, embedder) for each in items]
    memories = [each._replace(vector=None) if n % 5 == 4 else each for n, each in enumerate(memories)]
    async with open_bank() as store:
        assert await store.add_memories(memories[:2], embedder.name) == [each.item.id for each in memories[:2]]
        written = await store.add_memories([*memories, memories[7]], embedder.name)
        assert written == [each.item.id for each in memories[2:]]
        assert (await store.inspect()).sound
        waiting = next(each for each in memories if each.item.status == "quarantined" and each.item.scope == here)
        await store.set_status([here], [waiting.item.id], "active", "restored")
        active = {each.item.id for each in memories if each.item.status == "active" and each.item.scope == here}
        found = await store.search(asked(here, embedder, "retry the locked database", 100))
        assert {each.id for each in found.candidates} == active | {waiting.item.id}
        assert (await store.get_memories([here], [waiting.item.id]))[0].tags == waiting.item.tags
        assert (await store.inspect()).sound


async def test_nothing_of_another_project_or_tenant_is_seen(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    own = item("Retry a locked database")
    others = [
        item("Retry a locked database", scope=Scope(project="there")),
        item("Retry a locked database", scope=Scope(tenant_id="other", project="here")),
    ]
    async with open_bank() as store:
        await store.add_memories([with_indexes(each, embedder) for each in (own, *others)], embedder.name)
        found = await store.search(asked(here, embedder, "locked database"))
        assert [each.id for each in found.candidates] == [own.id]
        assert found.documents == 1
        assert found.document_frequency == {"lock": 1, "databas": 1}
        assert await store.get_memories([here], [each.id for each in others]) == []
        assert len((await store.forget([here], [each.id for each in others])).ids) == 0
        assert [each.id for each in await store.list_memories([here], MemoryFilter())] == [own.id]


@pytest.mark.parametrize("status", ["archived", "quarantined"])
async def test_an_item_leaves_both_indexes_with_its_status_and_comes_back_with_it(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes, status: Any
) -> None:
    gone, kept = item("Retry a locked database"), item("Fetch the token first")
    async with open_bank() as store:
        await store.add_memories([with_indexes(gone, embedder), with_indexes(kept, embedder)], embedder.name)
        assert await store.set_status([here], [gone.id, "rm_none"], status, "tried") == 1
        found = await store.search(asked(here, embedder, "locked database token"))
        assert [each.id for each in found.candidates] == [kept.id]
        assert found.document_frequency["lock"] == 0
        assert await store.nearest([here], embedder.name, embedder.vector(gone.embedding_text), 5) != []
        assert gone.id not in dict(await store.nearest([here], embedder.name, embedder.vector("x"), 5))
        (put_aside,) = await store.get_memories([here], [gone.id])
        assert (put_aside.status, put_aside.status_reason) == (status, "tried")
        assert await store.set_status([here], [gone.id], "active", "back") == 1
        found = await store.search(asked(here, embedder, "locked database"))
        assert {each.id for each in found.candidates} == {gone.id, kept.id}
        kinds = [event.kind for event in await store.memory_history([here], gone.id)]
        assert kinds == ["reasoning_memory.created", f"reasoning_memory.{status}", "reasoning_memory.active"]


async def test_an_edited_item_is_found_by_its_new_words_only_and_its_former_text_is_kept(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    former = item("Retry a locked database", tags=("db",))
    changed = former.model_copy(update={"title": "Escape the shell", "content": "1. Quote it", "tags": ("sh",)})
    async with open_bank() as store:
        await store.add_memories([with_indexes(former, embedder)], embedder.name)
        await rewrite(store, with_indexes(changed, embedder), embedder.name, "was wrong")
        assert await store.get_memories([here], [former.id]) == [changed]
        found = await store.search(asked(here, embedder, "locked shell"))
        assert found.document_frequency == {"lock": 0, "shell": 1}
        (near,) = await store.nearest([here], embedder.name, embedder.vector(changed.embedding_text), 1)
        assert near[1] == pytest.approx(1.0, abs=1e-3)
        assert await store.list_memories([here], MemoryFilter(tags=("db",))) == []
        edit = (await store.memory_history([here], former.id))[-1]
        assert edit.kind == "reasoning_memory.edited"
        assert "locked database" in str(edit.data["pattern_data"])


async def test_the_same_words_are_looked_for_without_reading_every_memory(open_bank: Any) -> None:
    query, values = queries("memories")["said_in_as_many_characters"], {"scope_id": 1, "characters": 5}
    store: SqliteStore
    async with open_bank() as store:
        plan = await store.read(lambda bank: bank.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
    looks = [line for *_, line in plan if line.startswith(("SEARCH", "SCAN"))]
    assert [line.split(" USING INDEX ")[1] for line in looks] == [
        "patterns_by_standing (scope_id=? AND standing=?)",
        "patterns_by_scope (scope_id=? AND status=?)",  # of what is held back
        "patterns_by_heard (scope_id=? AND status=?)",
    ]


async def test_what_has_a_tag_is_found_without_reading_every_memory(open_bank: Any) -> None:
    query = f"EXPLAIN QUERY PLAN {queries('memories')['active_with_tags']}"
    store: SqliteStore
    async with open_bank() as store:
        plan = await store.read(lambda bank: bank.execute(query, {"scopes": "[]", "tags": "[]"}).fetchall())
    looks = [line for *_, line in plan if line.startswith(("SEARCH", "SCAN"))]
    assert any("pattern_tags_by_tag (tag=?)" in line for line in looks)
    assert not any("patterns_by_scope" in line or line.startswith("SCAN p") for line in looks)


async def test_what_is_forgotten_leaves_no_byte_in_any_file(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes, database: Path
) -> None:
    secret = item("Zanzibar heliotrope", content="Zanzibarheliotrope quixotically", tags=("heliotropetag",))
    kept = item("Retry a locked database")
    half = [f"backups/memory-20260501T120000.000000Z-asked.db.77.part{end}" for end in ("", "-journal")]
    async with open_bank() as store:
        await store.add_memories([with_indexes(secret, embedder), with_indexes(kept, embedder)], embedder.name)
        (database.parent / "backups").mkdir()
        for left in (*half, "memory.db.restoring-77", "memory.db.repairing-77-wal"):  # of processes that were killed
            (database.parent / left).write_bytes(b"half of Zanzibar heliotrope")
        edited = secret.model_copy(update={"content": "Zanzibar once more"})
        await rewrite(store, with_indexes(edited, embedder), embedder.name, "shorter")
        assert len((await store.forget([here], [secret.id])).ids) == 1
        assert len((await store.forget([here], [secret.id])).ids) == 0
        vector = embedder.vector(secret.embedding_text)
        assert await store.nearest([here], embedder.name, vector, 5) != []
    held = b"".join(path.read_bytes() for path in database.parent.rglob("*") if path.is_file())
    assert b"locked database" in held
    for word in (b"anzibar", b"heliotrop", b"quixotic"):
        assert word not in held.lower()


async def test_a_text_that_was_changed_behind_the_banks_back_is_found(
    open_bank: Any, embedder: Any, item: Make, with_indexes: WithIndexes, database: Path, driver_name: str
) -> None:
    good, bad = item("Retry once"), item("Fetch the token")
    async with open_bank() as store:
        await store.add_memories([with_indexes(good, embedder), with_indexes(bad, embedder)], embedder.name)
        assert (await store.inspect()).memories == ()
    connection = choose(driver_name).module.connect(database)
    connection.execute("UPDATE patterns SET pattern_data = replace(pattern_data, 'Fetch', 'Steal')")
    connection.commit()
    connection.close()
    async with open_bank() as store:
        assert (await store.inspect()).memories == (bad.id,)


async def test_a_text_is_looked_for_as_unicode_folds_it(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    written = item("Straße sperren")
    async with open_bank() as store:
        await store.add_memories([with_indexes(written, embedder)], embedder.name)
        assert await store.list_memories([here], MemoryFilter(text="STRASSE")) == [written]


async def test_a_retrieval_is_recorded_behind_the_readers_back(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    used, unused = item("Retry once"), item("Fetch the token")
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    record = RetrievalRecord("rt_1", here, "how to retry", {used.id: 0.9}, 3.5, at, task_id="t9")
    async with open_bank() as store:
        await store.add_memories([with_indexes(used, embedder), with_indexes(unused, embedder)], embedder.name)
        await store.record_retrieval(record)
        await store.record_retrieval(record)
    async with open_bank() as store:
        first, second = await store.get_memories([here], [used.id, unused.id])
        assert (first.usage_count, first.last_used) == (2, at)
        assert (second.usage_count, second.last_used) == (0, None)
        assert (await store.statistics(here, embedder.name)).retrievals == 2
        (event, _) = await store.memory_history([here], "rt_1")
        assert event.data["scores"] == {used.id: 0.9}


async def test_statistics_count_one_scope(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    written = [
        with_indexes(item("Retry once"), embedder),
        with_indexes(item("Escape it", outcome="Failure")),
        with_indexes(item("Old one", status="archived"), embedder),
        with_indexes(item("Elsewhere", scope=Scope(project="there")), embedder),
    ]
    async with open_bank() as store:
        empty = await store.statistics(here, embedder.name)
        assert (empty.memories["active"], empty.mean_confidence, empty.consolidation_due) == (0, None, False)
        await store.add_memories(written, embedder.name)
        counts = await store.statistics(here, embedder.name)
        assert counts.memories == {"active": 2, "quarantined": 0, "archived": 1}
        assert counts.by_outcome == {"Success": 1, "Failure": 1}
        assert counts.embedded == {embedder.name: 1}
        assert counts.not_embedded == 1
        assert counts.new_since_consolidation == 2
        await store.add_memories([with_indexes(item(f"Number {n}"), embedder) for n in range(18)], embedder.name)
        assert (await store.statistics(here, embedder.name)).consolidation_due


HOSTILE = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(HOSTILE, st.sampled_from(["'; DROP TABLE patterns;--", '"a" OR b*', "\x00NUL\x00", "NEAR(a b)"])))
def test_any_text_is_kept_as_it_is_and_breaks_no_query(
    text: str, tmp_path_factory: pytest.TempPathFactory, embedder: Any, item: Make, with_indexes: WithIndexes
) -> None:
    import asyncio

    from swarm_memory.server.storage.store import open_store

    async def round_trip() -> None:
        written = item("A title", content="abc " + text, description=text, tags=(text,), domain=text)
        scope = written.scope
        store = await open_store(tmp_path_factory.mktemp("bank") / "memory.db", embedder=embedder)
        try:
            await store.add_memories([with_indexes(written, embedder)], embedder.name)
            assert await store.get_memories([scope], [written.id]) == [written]
            raw = SearchQuery((scope,), embedder.name, embedder.vector(text), (text, *query_tokens(text)), 5)
            assert [each.id for each in (await store.search(raw)).candidates] == [written.id]
            narrowed = SearchQuery((scope,), embedder.name, None, ("abc",), 5, SearchFilter(text, (text,)))
            assert [each.id for each in (await store.search(narrowed)).candidates] == [written.id]
            assert await store.list_memories([scope], MemoryFilter(text=text)) == [written]
        finally:
            await store.close()

    asyncio.run(round_trip())


async def test_a_lone_surrogate_is_refused_and_nothing_is_written(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes
) -> None:
    good = item("Retry once")
    bad = StoredMemory(item("Other"), None, ("ok",), (), ("bad\ud800",))
    async with open_bank() as store:
        with pytest.raises(InputError, match="token"):
            await store.add_memories([with_indexes(good, embedder), bad], embedder.name)
        assert await store.list_memories([here], MemoryFilter()) == []
        with pytest.raises(InputError, match="surrogate"):
            await store.get_memories([here], ["\ud800"])
        query = SearchQuery((here,), embedder.name, None, ("\ud800", "retri"), 5)
        assert (await store.search(query)).candidates == ()


@pytest.mark.parametrize(
    "vector",
    [[float("nan")] * 16, [float("inf")] + [0.0] * 15, [0.0] * 16, [1.0] * 16],
    ids=["nan", "inf", "zero", "long"],
)
async def test_a_vector_that_cannot_be_right_is_refused_on_write_and_on_query(
    open_bank: Any, embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes, vector: list[float]
) -> None:
    from array import array

    good = with_indexes(item("Retry once"), embedder)
    bad = with_indexes(item("Other"))._replace(vector=array("f", vector))
    async with open_bank() as store:
        with pytest.raises(StorageError, match="refused"):
            await store.add_memories([good, bad], embedder.name)
        assert await store.list_memories([here], MemoryFilter()) == []
        await store.add_memories([good], embedder.name)
        with pytest.raises(StorageError, match="refused"):
            await store.search(SearchQuery((here,), embedder.name, array("f", vector), (), 5))


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
            with pytest.raises(StoreDamaged, match="is not what was written"):
                item_of((*row[:column], value, *row[column + 1 :]))
