"""Contradictions in the bank: by rules and by a model, linked, and what becomes of a newcomer that has many."""

import asyncio
import random
from dataclasses import replace

import pytest
from clock import NOW
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from scripted_chat import ScriptedAnswer, ScriptedChatModel

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.consolidate.contradictions import MAX_ASKED
from swarm_memory.tools.model.ask import load_prompt
from tests.consolidate.instructions import OTHER_MATTERS, THINGS, VERBS
from tests.consolidate.kept_bank import ADVICE, MIGRATIONS, Kept, opened, own_folder

OLD = (
    ("Always run the migrations before the tests", "1. Keep the schema of the test database new."),
    ("Run the migrations before the tests in CI", "1. Call the migration step of the pipeline."),
)
NEW = (
    "Never run the migrations before the tests in CI",
    "1. Start with the tests.\n2. Never run the migrations before the tests.",
)


def _says(probability: float) -> dict[str, JsonValue]:
    return {"probability": probability, "reason": "both speak of migrations"}


async def _pair(kept: Kept) -> tuple[str, str]:
    older = await kept.add(*ADVICE[0], confidence=0.6)
    newer = await kept.add(MIGRATIONS + " of the shop", "1. Copy the schema.\n2. Start the suite in parallel.")
    return older, newer


async def test_without_a_model_rules_link_the_newer_to_the_older(kept: Kept) -> None:
    older = await kept.add(*OLD[0])
    newer = await kept.add(*NEW)
    done = await consolidate(kept.toolbox)
    (related,) = done.related
    assert (related.link.src_id, related.link.dst_id, related.link.relation) == (newer, older, "contradicts")
    assert related.method == "rules"
    assert related.link.weight >= 0.6
    assert await kept.links(older) == [related.link]
    assert {await kept.status(older), await kept.status(newer)} == {"active"}


async def test_a_newcomer_against_several_well_used_memories_is_quarantined_and_doubted(kept: Kept) -> None:
    old = [await kept.add(*texts, usage_count=4, last_used=NOW) for texts in OLD]
    newer = await kept.add(*NEW, confidence=0.6)
    done = await consolidate(kept.toolbox)
    assert [each.id for each in done.quarantined] == [newer]
    item = await kept.item(newer)
    assert (item.status, item.confidence) == ("quarantined", 0.3)
    assert item.status_reason == f"contradicts {', '.join(sorted(old))}"
    assert all([await kept.status(each) == "active" for each in old])
    await undo_consolidation(kept.toolbox, done.run_id)
    assert (await kept.item(newer)).confidence == 0.6


@pytest.mark.parametrize(
    ("used", "newer_used", "is_doubted"),
    [((6, 0), 0, True), ((5, 0), 0, False), ((2, 2), 0, False), ((4, 4), 5, False)],
    ids=["one that is much used", "one that is well used", "several that are hardly used", "it is well used itself"],
)
async def test_how_much_used_opponents_must_be(
    kept: Kept, used: tuple[int, int], newer_used: int, is_doubted: bool
) -> None:
    for texts, count in zip(OLD, used, strict=True):
        await kept.add(*texts, usage_count=count)
    newer = await kept.add(*NEW, usage_count=newer_used)
    found = (await consolidate(kept.toolbox)).quarantined
    assert [each.id for each in found] == ([newer] if is_doubted else [])


async def test_a_model_that_is_sure_links_the_newer_to_the_older(kept: Kept) -> None:
    older, newer = await _pair(kept)
    chat = ScriptedChatModel([_says(0.8)])
    done = await consolidate(replace(kept.toolbox, chat=chat))
    (related,) = done.related
    assert (related.link.src_id, related.link.dst_id, related.link.relation) == (newer, older, "contradicts")
    assert (related.method, related.link.weight) == ("model", 0.8)
    assert related.prompt_hash == load_prompt("contradiction").hash
    assert related.model == chat.name
    assert done.asked == 1


async def test_a_model_that_is_not_sure_links_nothing(kept: Kept) -> None:
    await kept.add(*OLD[0])
    await kept.add(*NEW)
    done = await consolidate(replace(kept.toolbox, chat=ScriptedChatModel([_says(0.59)])))
    assert done.related == ()


@pytest.mark.parametrize("answer", ["no idea", {"probability": 7.0, "reason": "?"}])
async def test_an_unusable_answer_leaves_the_word_to_the_rules(kept: Kept, answer: ScriptedAnswer) -> None:
    await kept.add(*OLD[0])
    await kept.add(*NEW)
    done = await consolidate(replace(kept.toolbox, chat=ScriptedChatModel([answer, answer, answer])))
    assert [each.method for each in done.related] == ["rules"]
    assert any("rules decided" in notice for notice in done.notices)


async def test_a_model_that_is_gone_is_asked_once_and_named(kept: Kept) -> None:
    await kept.add_all(OLD)
    await kept.add(*NEW)
    chat = ScriptedChatModel([ModelUnavailable("nobody is at home")])
    done = await consolidate(replace(kept.toolbox, chat=chat))
    assert len(chat.requests) == 1
    assert {each.method for each in done.related} == {"rules"}
    assert any("nobody is at home" in notice for notice in done.notices)


async def test_a_model_is_asked_about_so_many_pairs_and_no_more(kept: Kept) -> None:
    await kept.add_all([(f"{MIGRATIONS} of `{thing}`", ADVICE[0][1]) for thing in THINGS[:14]])
    chat = ScriptedChatModel([_says(0.0)] * 200)
    assert (await consolidate(replace(kept.toolbox, chat=chat))).asked == len(chat.requests) == MAX_ASKED


async def test_what_notes_say_stands_fenced_in_the_question(kept: Kept) -> None:
    older, newer = await _pair(kept)
    assert older != newer
    chat = ScriptedChatModel([_says(0.0)])
    await consolidate(replace(kept.toolbox, chat=chat))
    (request,) = chat.requests
    assert MIGRATIONS not in request.system
    assert request.user.count(MIGRATIONS) == 2
    assert request.temperature == 0.0


async def test_a_pair_that_is_linked_is_not_looked_at_again(kept: Kept) -> None:
    await kept.add(*OLD[0])
    await kept.add(*NEW)
    await consolidate(kept.toolbox)
    chat = ScriptedChatModel([_says(0.9)])
    done = await consolidate(replace(kept.toolbox, chat=chat), full=True)
    assert (done.related, done.asked) == ((), 0)


@settings(max_examples=15)
@given(st.integers(0, 2**20))
def test_unrelated_memories_are_never_called_contradictions(seed: int) -> None:
    draw = random.Random(seed)
    things = draw.sample(THINGS, 30)
    texts = [
        (
            f"{draw.choice(('Always', 'Never', 'Do not'))} {draw.choice(VERBS)} the {' '.join(own)}",
            f"1. Mind the {own[0]}.",
        )
        for own in (things[at : at + 3] for at in range(0, 30, 3))
    ]
    texts += [(advice, "1. It saves time.") for pair in draw.sample(OTHER_MATTERS, 2) for advice in pair]

    async def go() -> None:
        with own_folder() as folder:
            async with opened(folder) as kept:
                await kept.add_all(texts)
                done = await consolidate(kept.toolbox, full=True)
                assert [each for each in done.related if each.link.relation == "contradicts"] == []

    asyncio.run(go())
