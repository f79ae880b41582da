"""A search of the same memories on SQLite and on PostgreSQL: the same results, scores and order."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from indexed_items import NUMBERS, stored
from made_items import made_item, rewrite

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.memories import ANY, SearchFilter, SearchQuery, SearchResult, View
from swarm_memory.tools.ports.sources import SourceKey, SourceResult, StoredGroup, StoredPassage
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox

ENGINES = ("auto", "postgres")
HERE, EVERYWHERE, THERE = (Scope(project=name) for name in ("here", GLOBAL_PROJECT, "there"))
WORDS = "retry cache lock token shell parse index merge branch deploy timeout header cookie proxy queue batch".split()  # noqa: SIM905
OLD = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def stores(bank_on: Any) -> AsyncGenerator[list[Any]]:
    """The same empty bank on each engine."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(bank_on(engine)()) for engine in ENGINES]


def shown(found: SearchResult) -> dict[str, tuple[Any, ...]]:
    return {each.id: (each.project, each.words, each.priority, each.is_strategy) for each in found.candidates}


def assert_same(one: SearchResult, other: SearchResult) -> None:
    assert (one.documents, one.document_frequency) == (other.documents, other.document_frequency)
    assert one.notices == other.notices
    assert shown(one) == shown(other)
    theirs = {each.id: each for each in other.candidates}
    for each in one.candidates:
        twin = theirs[each.id]
        unused = {"usage_count": 0, "last_used": None}
        assert each.read_item().model_copy(update=unused) == twin.read_item().model_copy(update=unused)
        assert each.keyword == pytest.approx(twin.keyword)
        assert (each.cosine, *each.views) == pytest.approx((twin.cosine, *twin.views), abs=1e-5)


def sampled_items(count: int) -> list[Any]:
    rng = random.Random(3)
    items: list[Any] = []
    for number in range(count):
        scope = rng.choices((HERE, EVERYWHERE, THERE), (80, 10, 10))[0]
        items.append(
            made_item(
                " ".join(rng.choices(WORDS, k=4)),
                content=f"{number}. {' '.join(rng.choices(WORDS, range(16, 0, -1), k=rng.randint(4, 20)))}",
                scope=scope,
                tags=tuple(rng.sample(("net", "git", "ci"), rng.randint(0, 2))),
                domain=rng.choice((None, "web", "shell")),
                status=rng.choice(("active", "active", "active", "archived", "quarantined")),
                confidence=rng.random(),
                usage_count=number % 5,
                created_at=OLD,
                provenance=Provenance(task_id=f"t{number % 7}", agent_id=rng.choice((None, "a"))),
            )
        )
    return items


async def test_the_same_bank_is_retrieved_from_in_the_same_order(stores: list[Any]) -> None:
    items = sampled_items(110)
    memories = [stored(each, NUMBERS if number % 9 else None) for number, each in enumerate(items)]
    filters = (
        ANY,
        SearchFilter(domain="web"),
        SearchFilter(tags=("net",)),
        SearchFilter(agent_id="a", domain="shell"),
        SearchFilter(domain="none of them"),
    )
    one, other = stores
    for store in (one, other):
        for start in (0, 3, 4, 60):
            end = {0: 3, 3: 4, 4: 60}.get(start, len(memories))
            await store.add_memories(memories[start:end], NUMBERS.name)
        ids = [each.id for each in items]
        await store.set_status([HERE], ids[10:14], "archived", "old")
        await store.set_status([HERE, EVERYWHERE], ids[12:30], "active", "good after all")
    asked = SearchQuery((HERE, EVERYWHERE), NUMBERS.name, None, query_tokens(" ".join(WORDS)), 500, ANY)
    uses = [{each.id: each.usage_count for each in (await store.search(asked)).candidates} for store in (one, other)]
    assert uses[0] == uses[1] == {each.id: each.usage_count for each in items if each.id in uses[0]}
    assert set(uses[0].values()) == {0, 1, 2, 3, 4}
    settings = Settings(retrieve=RetrieveSettings(pool=50))  # so deep that the pool's cutoff decides nothing
    boxes = [Toolbox(store, NUMBERS, SystemClock(), settings, HERE) for store in (one, other)]
    for number, only in enumerate(filters):
        text = f"{' '.join(WORDS[number : number + 5])} once more. Then {WORDS[-number]} {WORDS[number - 3]} again."
        vector = NUMBERS.vector(text)
        views = (View(NUMBERS.name, NUMBERS.vector("part")), View("of another model", vector))
        for pool in (8, 500):
            scopes = (HERE, EVERYWHERE)
            query = SearchQuery(scopes, NUMBERS.name, vector, query_tokens(text), pool, only, views)
            found = [await store.search(query) for store in (one, other)]
            if pool == 500:  # everything that passes the filter
                assert_same(*found)
        chosen = [await retrieve(box, text, k=8, only=only) for box in boxes]
        assert [each.item.id for each in chosen[0].memories] == [each.item.id for each in chosen[1].memories]
        assert bool(chosen[0].memories) == (only.domain != "none of them")
        scores = [[each.score for each in answer.memories] for answer in chosen]
        # The keyword pool is cut off slightly differently: SQLite's index weighs words by the bank, not by the scope.
        assert scores[0] == pytest.approx(scores[1], abs=2e-3)
        near = [await store.nearest([HERE], NUMBERS.name, vector, 20) for store in (one, other)]
        assert [each for each, _ in near[0]] == [each for each, _ in near[1]]


async def test_of_one_scope_the_pool_of_words_is_that_of_sqlites_index(stores: list[Any]) -> None:
    items = [each.model_copy(update={"scope": HERE, "status": "active"}) for each in sampled_items(120)]
    for store in stores:
        await store.add_memories([stored(each) for each in items], NUMBERS.name)
    for number in range(10):
        tokens = tokenize(" ".join(WORDS[number : number + 4]))
        found = [await store.search(SearchQuery((HERE,), NUMBERS.name, None, tokens, 10)) for store in stores]
        assert_same(*found)


ODD = st.text(st.sampled_from("ab Zß\u0130ǅ漢字한é\u0301🙂\u200d_-'\"%:?{}\\\n\t\x01\u2003\x85"), max_size=12)
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), ODD), min_size=1, max_size=6).map(" ".join)
CHANGES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(("archived", "active", "edited")), TEXTS), max_size=8)


@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(texts=st.lists(TEXTS, min_size=1, max_size=10), changes=CHANGES, asked=TEXTS)
def test_whatever_is_written_changed_and_asked_both_find_the_same(
    bank_on: Any, texts: list[str], changes: list[Any], asked: str
) -> None:
    items: list[Any] = [
        made_item(text.strip() or "-", content=text.strip() or "-", domain=text or None) for text in texts
    ]

    async def answer(engine: str, project: str) -> SearchResult:
        scope = Scope(project=project)
        mine: list[Any] = [each.model_copy(update={"scope": scope, "id": f"{each.id}{project}"}) for each in items]
        async with bank_on(engine)() as store:
            for each in mine:
                await store.add_memories([stored(each, NUMBERS)], NUMBERS.name)
            for place, change, text in changes:
                item = mine[place % len(mine)]
                if change != "edited":
                    await store.set_status([scope], [item.id], change, "so")
                    continue
                (now,) = await store.get_memories([scope], [item.id])
                edited = now.model_copy(update={"content": text.strip() or "-"})
                await rewrite(store, stored(edited, NUMBERS), NUMBERS.name, "better")
            query = SearchQuery((scope,), NUMBERS.name, NUMBERS.vector(asked), tokenize(asked), 50)
            return await store.search(query)

    project = f"p{len(PROJECTS)}"
    PROJECTS.append(project)
    first, second = (asyncio.run(answer(engine, project)) for engine in ENGINES)
    assert_same(first, second)


PROJECTS: list[str] = []


def passage(group: str, position: int, text: str) -> StoredPassage:
    made = Passage(kind="document", group=group, position=position, title=f"{group} {position}", content=text)
    return StoredPassage(made, NUMBERS.vector(text), tokenize(made.title), (), tokenize(text))


async def test_passages_are_found_alike_with_their_neighbours(stores: list[Any]) -> None:
    rng = random.Random(9)
    groups = [
        StoredGroup(
            f"{name}.md",
            name,
            (name,),
            tuple(passage(f"{name}.md", n, " ".join(rng.choices(WORDS, k=9))) for n in range(6)),
        )
        for name in "abcdefgh"
    ]
    answers: list[list[SourceResult]] = []
    for store in stores:
        key = SourceKey(HERE, "document", "/docs")
        await store.sources.write_groups(key, groups[:5], NUMBERS.name)
        await store.sources.write_groups(key, groups[3:], NUMBERS.name)
        assert await store.sources.remove_groups(key, ["a.md", "no.md"]) == 1
        answers.append([])
        for words, pool, far in (("retry cache", 3, 1), ("merge queue batch", 60, 0), ("nothing", 2, 9)):
            vector, near = NUMBERS.vector(words), dict[SourceKind, int]({"document": far} if far else {})
            scopes = (HERE, EVERYWHERE)
            query = SearchQuery(scopes, NUMBERS.name, vector, tokenize(words), pool)
            answers[-1].append(await store.sources.search(query, ("document",), near))
    for one, other in zip(*answers, strict=True):
        assert (one.documents, one.document_frequency) == (other.documents, other.document_frequency)
        assert one.legs == other.legs
        places = [{(each.title, each.position): each for each in answer.candidates} for answer in (one, other)]
        assert places[0].keys() == places[1].keys()
        for place, each in places[0].items():
            twin = places[1][place]
            assert each[4:8] == twin[4:8]
            assert each.cosine == pytest.approx(twin.cosine, abs=1e-5)


async def test_writers_of_one_scope_at_once_lose_no_word_and_no_count(bank_on: Any) -> None:
    items = [made_item(f"word{n % 3} other{n}") for n in range(40)]
    async with bank_on("postgres")() as store:
        await asyncio.gather(*(store.add_memories([stored(each, NUMBERS)], NUMBERS.name) for each in items))
        await asyncio.gather(*(store.set_status([HERE], [each.id], "archived", "so") for each in items[::4]))
        found = await store.search(SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("q"), ("word0", "word1"), 100))
        assert found.documents == 30
        left = [each for number, each in enumerate(items) if number % 4]
        expected = {word: sum(word in each.title for each in left) for word in ("word0", "word1")}
        assert found.document_frequency == expected
        assert {each.id for each in found.candidates} == {each.id for each in left}
        before = await store.search(SearchQuery((HERE,), NUMBERS.name, None, ("word2",), 100))
        await store.write(store.index.rebuild)
        assert_same(before, await store.search(SearchQuery((HERE,), NUMBERS.name, None, ("word2",), 100)))


async def test_forgotten_words_stand_in_no_table_of_the_search(bank_on: Any) -> None:
    items = [made_item(f"common secret{n}") for n in range(12)]
    async with bank_on("postgres")() as store:
        for each in items:
            await store.add_memories([stored(each, NUMBERS)], NUMBERS.name)
        await store.forget([HERE], [items[1].id, items[11].id])
        words = "SELECT token FROM item_words UNION SELECT token FROM word_counts"

        def read(connection: Any) -> list[tuple[Any, ...]]:
            return connection.raw.execute(words).fetchall()

        rows = await store.read(read)
        assert {f"secret{n}" for n in range(12) if n not in (1, 11)} | {"common"} <= {token for (token,) in rows}
        assert not {"secret1", "secret11"} & {token for (token,) in rows}
