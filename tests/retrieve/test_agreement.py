"""Two memories that contradict each other never come back together, in an answer or in a briefing."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from clock import NOW

from swarm_memory.schema.memory import MemoryItem, MemoryLink, Provenance
from swarm_memory.tools.consolidate.consolidate import undo_consolidation
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

Add = Callable[..., Awaitable[str]]

DO = ("Run the migrations before the tests", "1. Run the migrations before the tests in the shop.")
NOT = ("Never run the migrations before the tests", "1. Do not run the migrations before the tests in the shop.")
QUERY = "run the migrations before the tests of the shop"


async def test_the_surer_of_two_opposites_comes_and_says_that_another_note_differs(toolbox: Toolbox, add: Add) -> None:
    surer = await add(*DO, confidence=0.8)
    await add(*NOT, confidence=0.5, created_at=NOW + timedelta(days=1))
    found = await retrieve(toolbox, QUERY)
    (memory,) = found.memories
    assert (memory.item.id, memory.contradicts) == (surer, (NOT[0],))
    assert f'Another note says otherwise and is left out: "{NOT[0]}"' in found.preamble
    assert found.reason == "2 of 2 memories in project 'shop' and the global scope fit; 1 left out, for another of " \
        "them says otherwise"  # fmt: skip


async def test_of_two_that_are_as_sure_the_newer_one_comes(toolbox: Toolbox, add: Add) -> None:
    newer = await add(*NOT, confidence=0.52, created_at=NOW)
    await add(*DO, confidence=0.54, created_at=NOW - timedelta(days=9))
    assert [each.item.id for each in (await retrieve(toolbox, QUERY)).memories] == [newer]


async def test_the_users_word_stands_against_a_surer_and_newer_memory(toolbox: Toolbox, add: Add) -> None:
    said = await add(*NOT, confidence=0.5, created_at=NOW - timedelta(days=9), provenance=Provenance(distiller="user"))
    await add(*DO, confidence=0.9)
    assert [each.item.id for each in (await retrieve(toolbox, QUERY)).memories] == [said]


async def test_what_a_model_found_to_contradict_is_known_by_its_link(toolbox: Toolbox, add: Add) -> None:
    one = await add("Copy the schema before the tests of the shop", confidence=0.9)
    other = await add("Start the tests of the shop from an empty schema")
    query = "tests of the shop and their schema"
    assert len((await retrieve(toolbox, query)).memories) == 2
    links = (MemoryLink(src_id=other, dst_id=one, relation="contradicts", weight=0.9),)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", NOW, (), links))
    (memory,) = (await retrieve(toolbox, query)).memories
    assert memory.item.id == one


async def test_a_briefing_holds_one_of_two_and_says_that_another_differs(toolbox: Toolbox, add: Add) -> None:
    await add(*DO, confidence=0.7)
    await add("Ask before a release")
    new = await add(*NOT, confidence=0.7)
    items = await toolbox.store.get_memories((toolbox.scope,), [new])
    await link_contradictions(toolbox, await prepare(toolbox, items), "run_1")

    async def titles() -> dict[str, str]:
        return {item.title: item.content for item in await toolbox.store.surest_memories(toolbox.scope, 5)}

    assert set(await titles()) == {NOT[0], "Ask before a release"}
    assert (await titles())[NOT[0]].endswith(f'\nAnother note says otherwise and is left out: "{DO[0]}"')
    await undo_consolidation(toolbox, "run_1")
    assert len(await titles()) == 3


@pytest.mark.parametrize("text", [DO, ("Run the linter before the tests", "1. Run the linter.")])
async def test_what_agrees_is_not_linked(toolbox: Toolbox, add: Add, text: tuple[str, str]) -> None:
    await add(*DO)
    new = await add(*text)
    items: list[MemoryItem] = await toolbox.store.get_memories((toolbox.scope,), [new])
    await link_contradictions(toolbox, await prepare(toolbox, items), "run_1")
    assert await toolbox.store.memory_links(toolbox.readable, [each.id for each in items]) == []
    assert len((await retrieve(toolbox, f"{DO[0]}, and: {text[0]}")).memories) == 2
