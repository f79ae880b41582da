"""Searching a real bank, on every driver: exact neighbours and filters, keyword scores, the same everywhere."""

import math
import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import mul
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item, rewrite

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.server.storage.search import index
from swarm_memory.server.storage.search.vectors import decode, encode
from swarm_memory.server.storage.search.words import MAX_POSTINGS, SIDE_BY_SIDE, keyword_scores
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.ports.memories import ANY, SearchFilter, SearchQuery, StoredMemory
from swarm_memory.tools.retrieve.rank import ideal_keyword_score

WORDS = "retry cache lock token shell parse index merge branch deploy timeout header cookie proxy queue batch".split()  # noqa: SIM905


def many(count: int, **fields: Any) -> list[MemoryItem]:
    rng = random.Random(5)
    return [
        made_item(" ".join(rng.choices(WORDS, k=4)), content=f"{number}. do it", **fields) for number in range(count)
    ]


def exact(memories: list[StoredMemory], query: Any) -> dict[str, float]:
    """Return the cosine of every vector as it is stored, by id."""
    own = kept(query)
    pairs = [(each.item.id, kept(each.vector)) for each in memories if each.vector is not None]
    return {memory_id: sum(map(mul, own, vector)) for memory_id, vector in pairs}


def kept(vector: Any) -> list[float]:
    """Return a vector as it is stored in 8 bits, scaled to unit length."""
    numbers = decode(encode([vector], "int8")[0], "int8")
    return [number / math.hypot(*numbers) for number in numbers]


def best(cosines: dict[str, float], k: int) -> set[str]:
    return set(sorted(cosines, key=lambda memory_id: -cosines[memory_id])[:k])


async def test_every_candidate_with_a_vector_has_its_cosine_whichever_leg_found_it(open_bank: Any) -> None:
    memories = [stored(each, NUMBERS) for each in many(60)]
    query = NUMBERS.vector("anything")
    expected = exact(memories, query)
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, query, ("retri", "cach"), 8))
    by_vector = best(expected, 8)
    by_keyword = {each.id for each in found.candidates if each.keyword is not None}
    assert {each.id for each in found.candidates} == by_vector | by_keyword
    assert by_keyword - by_vector
    for each in found.candidates:
        assert each.cosine == pytest.approx(expected[each.id], abs=1e-4)
        vector = each.read_vector()
        assert vector is not None
        assert sum(map(mul, kept(query), vector)) / math.hypot(*vector) == pytest.approx(each.cosine, abs=1e-4)
        assert each.keyword is None or each.keyword > 0


async def test_what_was_written_without_sqlite_vec_is_found_by_vector_as_soon_as_it_is_back(
    open_bank: Any, driver_name: str
) -> None:
    first, second, gone = many(3)
    async with open_bank() as store:
        await store.add_memories([stored(each, NUMBERS) for each in (first, gone)], NUMBERS.name)
        async with open_bank(sqlite="scan") as other:
            await other.add_memories([stored(second, NUMBERS)], NUMBERS.name)
            await other.forget([HERE], [gone.id])
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("q"), (), 5))
        assert {each.id for each in found.candidates} == {first.id, second.id}
        assert found.legs == ("exact_scan",)
        assert found.notices
    async with open_bank() as store:
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("q"), (), 5))
        assert {each.id for each in found.candidates} == {first.id, second.id}
        assert found.legs == (("exact_scan",) if driver_name == "scan" else ("vector",))
        assert bool(found.notices) == (driver_name == "scan")


async def test_filters_narrow_the_search_itself_and_not_its_result(store: Any) -> None:
    rare = many(3, domain="rare", tags=("a", "b"), provenance=Provenance(task_id="t1", agent_id="coder"))
    rare = [each.model_copy(update={"title": "lock " + each.title}) for each in rare]
    common = [*many(80, tags=("a",)), *(made_item(f"lock lock lock {number}") for number in range(20))]
    await store.add_memories([stored(each, NUMBERS) for each in (*rare, *common)], NUMBERS.name)
    wanted = {each.id for each in rare}

    async def ids(pool: int = 3, **fields: Any) -> set[str]:
        query = SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("q"), ("lock",), pool, SearchFilter(**fields))
        return {each.id for each in (await store.search(query)).candidates}

    assert await ids(domain="rare") == wanted
    assert await ids(tags=("b", "a")) == wanted
    assert await ids(tags=("b", "c")) == set()
    assert await ids(agent_id="coder") == await ids(domain="rare", agent_id="coder") == wanted
    assert await ids(agent_id="coder", domain="common") == await ids(agent_id="tester") == set()
    await store.set_status([HERE], [rare[0].id], "archived", "a test")
    edited = rare[1].model_copy(update={"provenance": Provenance(agent_id="tester"), "domain": "common"})
    await rewrite(store, stored(edited, NUMBERS), NUMBERS.name, "a test")
    assert await ids(agent_id="coder") == await ids(domain="rare") == {rare[2].id}
    assert await ids(agent_id="tester") == await ids(domain="common") == {rare[1].id}


async def test_each_scope_gives_a_pool_of_its_own(store: Any) -> None:
    shared = Scope(project=GLOBAL_PROJECT)
    few, plenty = many(2, domain="d"), many(50, scope=shared, domain="d")
    await store.add_memories([stored(each, NUMBERS) for each in (*few, *plenty)], NUMBERS.name)
    for only in (ANY, SearchFilter(domain="d")):
        found = await store.search(SearchQuery((HERE, shared), NUMBERS.name, NUMBERS.vector("q"), (), 4, only))
        assert [each.project for each in found.candidates].count("here") == 2
        assert [each.project for each in found.candidates].count(GLOBAL_PROJECT) == 4
        assert found.documents == 52


async def test_items_of_another_embedder_or_dimension_are_found_by_keywords_and_counted(store: Any) -> None:
    wide, other = replace(NUMBERS, dimensions=24), replace(NUMBERS, name="other", quantization="float32")
    ours, wider, theirs, none = (made_item(f"lock number {name}") for name in ("one", "two", "three", "four"))
    await store.add_memories([stored(ours, NUMBERS), stored(none)], NUMBERS.name)
    await store.add_memories([stored(wider, wide)], wide.name)
    await store.add_memories([stored(theirs, other)], other.name)
    for asked in (NUMBERS, wide, other):
        found = await store.search(SearchQuery((HERE,), asked.name, asked.vector("q"), ("lock",), 5))
        assert len(found.candidates) == 4
        assert sum(each.cosine is not None for each in found.candidates) == 1
        assert any("3 memories have no vector" in notice and "reembed" in notice for notice in found.notices)
    unknown = replace(NUMBERS, name="unknown", dimensions=3)
    found = await store.search(SearchQuery((HERE,), "unknown", unknown.vector("q"), ("lock",), 5))
    assert len(found.candidates) == 4
    assert await store.nearest([HERE], "unknown", unknown.vector("q"), 5) == []


async def test_reembedding_moves_every_item_to_the_new_space_in_steps(open_bank: Any) -> None:
    items = [*many(5), made_item("put aside", status="archived")]
    new = replace(NUMBERS, dimensions=20)  # the same name: the old vectors are replaced, not kept as well
    async with open_bank() as store:
        await store.add_memories([stored(each, NUMBERS) for each in items], NUMBERS.name)
    after = 0
    while True:
        async with open_bank(embedder=new) as store:  # interrupted after each step
            batch = await store.vectors.without_vector(new.name, new.dimensions, 2, after)
            if not batch:
                break
            after = batch[-1][0]
            vectors = {seq: new.vector(text) for seq, text in batch}
            assert await store.vectors.put_vectors(new.name, vectors) == len(batch)
    async with open_bank(embedder=new) as store:
        found = await store.nearest([HERE], new.name, new.vector(items[0].embedding_text), 9)
        assert len(found) == 5
        assert found[0][0] == items[0].id
        assert await store.nearest([HERE], NUMBERS.name, NUMBERS.vector("q"), 9) == []
        assert await store.drop_other_spaces(new.name, new.dimensions) == [NUMBERS.name]
        assert (await store.statistics(HERE, new.name)).not_embedded == 0
        assert len(await store.nearest([HERE], new.name, new.vector("q"), 9)) == 5


async def test_holes_in_the_vector_index_are_closed(
    store: SqliteStore, driver_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_SMALL_INDEX_SLOTS", 128)
    items = many(200)
    await store.add_memories([stored(each, NUMBERS) for each in items], NUMBERS.name)
    await store.forget([HERE], [each.id for each in items[50:]])
    assert len(await store.nearest([HERE], NUMBERS.name, NUMBERS.vector("q"), 500)) == 50
    if driver_name != "scan":
        slots = "SELECT sum(size) FROM vec_1_chunks"
        assert await store.read(lambda connection: connection.execute(slots).fetchone()) <= (128,)


async def test_the_rarest_words_of_a_long_query_are_searched_and_all_are_counted(open_bank: Any) -> None:
    common = [f"common{number}" for number in range(12)]
    count = MAX_POSTINGS // 8
    memories = [
        StoredMemory(each, None, (*common, *(("rare",) if number == 7 else ())), (), ())
        for number, each in enumerate(many(count))
    ]
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, None, (*common, "rare"), 3))
    assert memories[7].item.id in {each.id for each in found.candidates}
    assert found.document_frequency == {**dict.fromkeys(common, count), "rare": 1}
    assert found.legs == ("keyword",)


async def test_upper_case_and_other_scripts_in_tokens_match_themselves(store: Any) -> None:
    memory = StoredMemory(made_item("A title"), None, ("HTTP", "データ", "ß"), (), ())
    await store.add_memories([memory], NUMBERS.name)
    for token in ("HTTP", "http", "データ", "ß"):
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, None, (token,), 3))
        assert [each.id for each in found.candidates] == [memory.item.id], token
    assert (await store.search(SearchQuery((HERE,), NUMBERS.name, None, ("デー",), 3))).candidates == ()


def test_eight_bits_keep_the_direction() -> None:
    rng = random.Random(2)
    values = array("f", [rng.gauss(0, 1) for _ in range(64)])
    length = sum(a * a for a in values) ** 0.5
    unit = array("f", [a / length for a in values])
    assert sum(map(mul, unit, kept(unit))) > 0.999
    assert decode(encode([unit], "float32")[0], "float32") == unit


def bm25(documents: int, frequency: Mapping[str, int], items: Sequence[str]) -> list[float | None]:
    return [score for score, _ in keyword_scores(documents, frequency, items)]


def test_bm25_is_that_of_the_formula() -> None:
    scores = bm25(10, {"lock": 2, "retri": 5}, ["retri lock lock x", "retri", "none of it"])
    mean = (4 + 1 + 3) / 3
    idf = {"lock": math.log(1 + 8.5 / 2.5), "retri": math.log(1 + 5.5 / 5.5)}

    def part(token: str, times: int, length: int) -> float:
        return idf[token] * times * 1.9 / (times + 0.9 * (0.4 + 0.6 * length / mean))

    assert scores == pytest.approx([part("lock", 2, 4) + part("retri", 1, 4), part("retri", 1, 1), None])


def test_words_that_stand_side_by_side_in_the_query_and_in_an_item_count_more() -> None:
    frequency = {"lock": 2, "file": 3, "retri": 3}
    side_by_side, apart, of_two_fields = bm25(9, frequency, ["x lock file y", "file lock x y", "x lock\nfile y"])
    assert side_by_side is not None
    assert side_by_side > (apart or 0.0)
    assert apart == of_two_fields


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=12), min_size=1, max_size=12))
def test_no_text_exceeds_the_ideal_by_more_than_words_side_by_side_can_add(texts: list[list[str]]) -> None:
    frequency = {token: sum(token in text for text in texts) for token in "abcdef"}
    found = bm25(len(texts), frequency, [" ".join(text) for text in texts])
    best = max((score for score in found if score is not None), default=0.0)
    assert best <= (1 + 2 * SIDE_BY_SIDE) * ideal_keyword_score(len(texts), frequency)
