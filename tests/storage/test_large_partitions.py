"""Large partitions on every driver: codes find what comparing all finds, and stay in step with the items."""

from pathlib import Path
from typing import Any

import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item, rewrite

from swarm_memory.schema.errors import StoreUntrusted
from swarm_memory.schema.source import Passage
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import connect
from swarm_memory.server.storage.search import index, vectors, words
from swarm_memory.tools.ports.memories import SearchFilter, SearchQuery
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

MANY = 120


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LARGE", 60)
    monkeypatch.setattr(vectors, "MIN_RESCORED", 8)
    monkeypatch.setattr(vectors, "RESCORED_FOR_ONE", 8)


def look(database: Path, driver_name: str, sql: str) -> Any:
    connection = connect(database, driver=choose(driver_name), read_only=True)
    try:
        return connection.execute(sql).fetchone()
    finally:
        connection.close()


@pytest.fixture
def searchable(driver_name: str) -> str:
    if choose(driver_name).vec_version is None:
        pytest.skip("without sqlite-vec every vector is compared")
    return driver_name


async def test_a_bank_that_grows_large_is_searched_by_codes_and_finds_the_same(
    open_bank: Any, searchable: str, database: Path
) -> None:
    memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(MANY)]
    async with open_bank() as store:
        for start in range(0, MANY, 30):
            await store.add_memories(memories[start : start + 30], NUMBERS.name)
        for number in range(20):
            query = NUMBERS.vector(f"query {number}")
            cosines = {
                each.item.id: sum(a * b for a, b in zip(query, each.vector or (), strict=True)) for each in memories
            }
            exact = sorted(cosines, key=lambda memory_id: -cosines[memory_id])[:3]
            found = [memory_id for memory_id, _ in await store.nearest([HERE], NUMBERS.name, query, 10)]
            assert found[0] == exact[0]
            assert set(exact) <= set(found)
    assert look(database, searchable, "SELECT count(*) FROM codes_vec_1_rowids") == (MANY,)


async def test_what_leaves_the_bank_leaves_its_codes_and_comes_back_with_them(
    open_bank: Any, searchable: str, database: Path
) -> None:
    memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(MANY)]
    ids = [each.item.id for each in memories]
    own = memories[5].vector
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        assert await store.set_status([HERE], ids[:40], "archived", "a test") == 40
        assert ids[5] not in [found for found, _ in await store.nearest([HERE], NUMBERS.name, own, 20)]
        assert len((await store.forget([HERE], ids[100:])).ids) == 20
        assert look(database, searchable, "SELECT count(*) FROM codes_vec_1_rowids") == (60,)
        assert await store.set_status([HERE], ids[:40], "active", "a test") == 40
        assert (await store.nearest([HERE], NUMBERS.name, own, 1))[0][0] == ids[5]
        await store.reindex()
        assert (await store.nearest([HERE], NUMBERS.name, own, 1))[0][0] == ids[5]
    assert look(database, searchable, "SELECT count(*) FROM codes_vec_1_rowids") == (100,)


async def test_what_a_process_without_sqlite_vec_wrote_gets_its_codes_later(open_bank: Any, searchable: str) -> None:
    memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(MANY)]
    async with open_bank() as store:
        await store.add_memories(memories[:80], NUMBERS.name)
    async with open_bank(sqlite="scan") as store:
        await store.add_memories(memories[80:], NUMBERS.name)
    async with open_bank() as store:
        last = memories[-1]
        assert (await store.nearest([HERE], NUMBERS.name, last.vector, 1))[0][0] == last.item.id


async def test_a_table_that_only_looks_like_codes_is_refused(open_bank: Any, searchable: str, database: Path) -> None:
    async with open_bank() as store:
        await store.add_memories([stored(made_item("One"), NUMBERS)], NUMBERS.name)
    driver = choose(searchable)
    connection = connect(database, driver=driver)
    connection.execute("CREATE TABLE codes_vec_1 (part INTEGER, trap TEXT DEFAULT (zeroblob(9)))")
    connection.close()
    with pytest.raises(StoreUntrusted, match="codes_vec_1"):
        async with open_bank():
            pass


@pytest.mark.parametrize("compared", [20_000, 5], ids=["each compared", "by codes"])
async def test_a_filter_narrows_the_search_of_a_large_bank(
    open_bank: Any, searchable: str, compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "LARGE", compared)
    memories = [
        stored(made_item(f"Strategy {number}", domain="rare" if number % 20 == 0 else None), NUMBERS)
        for number in range(MANY)
    ]
    rare = {each.item.id for each in memories if each.item.domain == "rare"}
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        query = SearchQuery((HERE,), NUMBERS.name, memories[1].vector, (), 4, SearchFilter("rare"))
        found = await store.search(query)
    assert len(found.candidates) == 4
    assert {each.id for each in found.candidates} <= rare


async def test_the_count_of_a_common_word_is_kept_until_much_of_the_bank_has_changed(
    open_bank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "COMMON", 10)
    monkeypatch.setattr(words, "MOVED", 2.5 / MANY)

    def more(count: int) -> Any:
        contents = ("Rarest." if number == 0 else "Nothing else." for number in range(count))
        return [stored(made_item("Common", content=content), NUMBERS) for content in contents]

    counts: list[dict[str, int]] = []
    async with open_bank() as store, open_bank() as other:
        await store.add_memories(more(MANY), NUMBERS.name)
        query = SearchQuery((HERE,), NUMBERS.name, None, ("common", "rarest", "nowher"), 10)
        for added in (0, 2, 1):
            await other.add_memories(more(added), NUMBERS.name)
            counts.append(dict((await store.search(query)).document_frequency))
    assert counts[0] == {"common": MANY, "rarest": 1, "nowher": 0}
    assert counts[1] == {"common": MANY, "rarest": 2, "nowher": 0}, "what is rare is counted each time"
    assert counts[2] == {"common": MANY + 3, "rarest": 3, "nowher": 0}


async def test_the_count_of_a_common_word_follows_a_bank_that_changes_and_stays_as_large(
    open_bank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "COMMON", 10)

    def titled(title: str) -> Any:
        return [stored(made_item(title, content="Nothing else."), NUMBERS) for _ in range(MANY // 2)]

    former, query = titled("Former"), SearchQuery((HERE,), NUMBERS.name, None, ("former", "later"), 10)
    async with open_bank() as store, open_bank() as other:
        await store.add_memories(former, NUMBERS.name)
        assert dict((await store.search(query)).document_frequency) == {"former": MANY // 2, "later": 0}
        await other.add_memories(titled("Later"), NUMBERS.name)
        await other.set_status((HERE,), [each.item.id for each in former], "archived", "a test")
        assert dict((await store.search(query)).document_frequency) == {"former": 0, "later": MANY // 2}


async def test_words_are_counted_again_after_another_process_edited_a_memory(open_bank: Any) -> None:
    former = made_item("Retry a locked database")
    edited = former.model_copy(update={"title": "Escape the shell", "content": "1. Quote it"})
    async with open_bank() as store, open_bank() as other:
        await store.add_memories([stored(former, NUMBERS)], NUMBERS.name)
        query = SearchQuery((HERE,), NUMBERS.name, None, ("lock", "shell"), 10)
        counts = [dict((await store.search(query)).document_frequency) for _ in range(2)]
        for text in (edited, former):
            await rewrite(other, stored(text, NUMBERS), NUMBERS.name, "was wrong")
            counts.append(dict((await store.search(query)).document_frequency))
    first, second = {"lock": 1, "shell": 0}, {"lock": 0, "shell": 1}
    assert counts == [first, first, second, first]


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM codes_vec_1 WHERE rowid = 7",
        "UPDATE pattern_embeddings SET vector = (SELECT vector FROM pattern_embeddings WHERE seq = 3) WHERE seq = 9",
        "DELETE FROM codes_vec_1",
    ],
)
async def test_codes_out_of_step_are_seen_and_made_again(open_bank: Any, searchable: str, harm: str) -> None:
    def harmed(connection: Any) -> None:
        connection.execute(harm)

    async with open_bank() as store:
        memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(MANY)]
        await store.add_memories(memories, NUMBERS.name)
        assert (await store.inspect()).sound
        await store.write(harmed)
        (fault,) = (await store.inspect()).indexes
        assert "codes" in fault
        await store.reindex()
        assert (await store.inspect()).sound


async def test_a_source_that_grows_large_while_it_is_indexed_has_a_code_for_each_passage(
    open_bank: Any, searchable: str, database: Path
) -> None:
    def group(number: int) -> StoredGroup:
        name = f"tool{number}"
        passage = Passage(kind="tool", group=name, position=0, title=name)
        return StoredGroup(name, "1", (name,), (StoredPassage(passage, NUMBERS.vector(name), (name,), (), ()),))

    async with open_bank() as store:
        for start in range(0, MANY, 40):
            groups = [group(number) for number in range(start, start + 40)]
            await store.sources.write_groups(SourceKey(HERE, "tool", "list.json"), groups, NUMBERS.name)
        query = SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("tool77"), (), 5)
        found = await store.sources.search(query, ("tool",), {})
        best = max(found.candidates, key=lambda each: each.cosine or 0.0)
        assert (best.title, found.documents, found.notices) == ("tool77", MANY, ())
    assert look(database, searchable, "SELECT count(*) FROM codes_source_vec_1_rowids") == (MANY,)
    assert look(database, searchable, "SELECT count(*) FROM source_vec_1_rowids") == (0,)
