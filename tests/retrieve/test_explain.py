"""A search says of everything that it considered why it is shown or not, and leaves no trace."""

from dataclasses import replace

import pytest
from still_bank import Add

from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.retrieve import Explanation, explain, retrieve
from swarm_memory.tools.toolbox import Toolbox

CHECKED = Provenance(judge="evidence")
QUERY = "handle the login flow with CSRF tokens"
LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")


def why(explained: Explanation, memory_id: str) -> str:
    every = {each.memory.item.id: each for each in explained.considered}
    return every[memory_id].why or ""


def with_settings(toolbox: Toolbox, **changes: object) -> Toolbox:
    settings = toolbox.settings.model_copy(update={"retrieve": toolbox.settings.retrieve.model_copy(update=changes)})
    return replace(toolbox, settings=settings)


async def test_it_tells_the_very_answer_and_the_parts_that_sum_to_each_score(toolbox: Toolbox, add: Add) -> None:
    for at in range(4):
        await add(f"{LOGIN[0]} in form {at}", LOGIN[1], project="*" if at else "shop", provenance=CHECKED)
    explained, given = await explain(toolbox, QUERY), await retrieve(toolbox, QUERY)
    assert explained.found.preamble == given.preamble
    assert explained.found.memories == given.memories
    shown = [each for each in explained.considered if each.place]
    assert [each.memory for each in shown] == list(given.memories)
    assert [each.place for each in shown] == [1, 2, 3]
    for each in explained.considered:
        assert sum(value for _, value in each.parts) == pytest.approx(each.memory.score, abs=2e-3)
    (behind,) = [each for each in explained.considered if not each.place]
    assert behind.why


async def test_use_may_stand_for_reliability_in_place_of_confidence(toolbox: Toolbox, add: Add) -> None:
    believed = await add(*LOGIN, confidence=0.9, provenance=CHECKED)
    used = await add(*LOGIN, confidence=0.3, usage_count=98, provenance=CHECKED)
    by_use = with_settings(toolbox, reliability="usage", delta=0.0)
    by_default = with_settings(toolbox, delta=0.0)
    scores = {each.memory.item.id: dict(each.parts) for each in (await explain(by_use, QUERY)).considered}
    assert (scores[believed]["usage"], scores[used]["usage"]) == pytest.approx((0.1 * 1 / 2, 0.1 * 99 / 100))
    assert "confidence" not in scores[used]
    order = [[each.item.id for each in (await retrieve(box, QUERY)).memories] for box in (by_default, by_use)]
    assert order == [[believed, used], [used, believed]]


async def test_it_is_not_recorded_and_no_use_is_counted(toolbox: Toolbox, add: Add) -> None:
    shown = await add(*LOGIN)
    await explain(toolbox, QUERY)
    await toolbox.store.injections(toolbox.scope, "t1")  # what is queued is written
    assert (await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)).retrievals == 0
    assert [each.usage_count for each in await toolbox.store.get_memories((toolbox.scope,), [shown])] == [0]


async def test_the_floor_and_the_distance_are_named_with_their_figures(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    other = await add("Rotate certificates of the kubernetes cluster")
    assert why(await explain(toolbox, QUERY), other).startswith("too far from the query: it has 0.")
    assert why(await explain(toolbox, "paint a wall green with tokens"), other).startswith("below the floor: the best")


async def test_each_stage_says_what_it_left_behind(toolbox: Toolbox, add: Add) -> None:
    sure = await add(*LOGIN, confidence=0.9, provenance=CHECKED)
    against = await add(f"{LOGIN[0]} by hand", LOGIN[1], confidence=0.2, provenance=CHECKED)
    link = MemoryLink(src_id=against, dst_id=sure, relation="contradicts", weight=0.9)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", toolbox.clock.now(), (), (link,)))
    explained = await explain(toolbox, QUERY)
    assert why(explained, against) == f'"{LOGIN[0]}" says otherwise, and is more certain or newer'
    problem = await add(f"Unsolved: {LOGIN[0]}", LOGIN[1], tags=("open-problem",), outcome="Failure")
    assert why(await explain(toolbox, QUERY), problem) == "it is about an error that was never resolved: no advice"


async def test_the_second_that_nobody_vouches_for_gives_way_to_a_verified_one(toolbox: Toolbox, add: Add) -> None:
    unsure = Provenance(distiller="model", judge="model")
    doubtful = [await add(*LOGIN, confidence=0.9, provenance=unsure) for _ in range(2)]
    await add(f"{LOGIN[0]} on the phone", LOGIN[1], confidence=0.1, provenance=CHECKED)
    explained = await explain(with_settings(toolbox, delta=0.0), QUERY, k=2)
    assert sum("vouches for it" in why(explained, each) for each in doubtful) == 1


async def test_what_fits_but_not_into_the_budget_is_named(toolbox: Toolbox, add: Add) -> None:
    for at in range(5):
        await add(f"{LOGIN[0]} {at} " + "with care " * 15, LOGIN[1], provenance=CHECKED)
    explained = await explain(with_settings(toolbox, token_budget=110, delta=0.0), QUERY, k=5)
    left = [each for each in explained.considered if not each.place]
    assert left
    assert {each.why for each in left} == {"it fits the query, but not into what is left of the 110 tokens"}


async def test_what_says_much_of_a_better_one_gives_way_to_another_subject(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN, confidence=0.9, provenance=CHECKED)
    twin = await add(*LOGIN, confidence=0.7, provenance=CHECKED)
    await add("Refresh CSRF tokens when a login expires", "1. Ask for a fresh page.", provenance=CHECKED)
    explained = await explain(with_settings(toolbox, delta=1.0), QUERY, k=2)
    assert why(explained, twin) == "it repeats much of what a better one says: other subjects come first"
