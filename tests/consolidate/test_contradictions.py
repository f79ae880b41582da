"""Contradictions: what word rules and a model say about two instructions, links, and what becomes of both."""

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
from swarm_memory.tools.text.opposition import LIGHT, NEGATED, TURNED, opposition
from swarm_memory.tools.text.tokens import tokenize
from tests.consolidate.instructions import OTHER_MATTERS, THINGS, VERBS
from tests.consolidate.kept_bank import ADVICE, MIGRATIONS, Kept, own_bank

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


async def test_a_model_that_is_sure_links_the_newer_to_the_older_and_one_that_is_not_links_nothing(kept: Kept) -> None:
    older, newer = await _pair(kept)
    unsure = replace(kept.toolbox, chat=ScriptedChatModel([_says(0.59)]))
    assert (await consolidate(unsure, dry_run=True)).related == ()
    chat = ScriptedChatModel([_says(0.8)])
    done = await consolidate(replace(kept.toolbox, chat=chat))
    (related,) = done.related
    assert (related.link.src_id, related.link.dst_id, related.link.relation) == (newer, older, "contradicts")
    assert (related.method, related.link.weight) == ("model", 0.8)
    assert related.prompt_hash == load_prompt("contradiction").hash
    assert related.model == chat.name
    assert done.asked == 1
    (request,) = chat.requests
    assert (MIGRATIONS in request.system, request.user.count(MIGRATIONS)) == (False, 2), "what notes say is fenced"


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


async def test_a_pair_that_is_linked_is_not_looked_at_again(kept: Kept) -> None:
    await kept.add(*OLD[0])
    await kept.add(*NEW)
    await consolidate(kept.toolbox)
    chat = ScriptedChatModel([_says(0.9)])
    done = await consolidate(replace(kept.toolbox, chat=chat), full=True)
    assert (done.related, done.asked) == ((), 0)


@settings(max_examples=5)
@given(st.integers(0, 2**20))
async def test_unrelated_memories_are_never_called_contradictions(seed: int) -> None:
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
    async with own_bank() as kept:
        await kept.add_all(texts)
        done = await consolidate(kept.toolbox, full=True)
    assert [each for each in done.related if each.link.relation == "contradicts"] == []


OPPOSITES = (
    ("Always run the migrations before the deploy", "Never run the migrations before the deploy"),
    ("Do not retry a POST request after a timeout", "Retry a POST request after a timeout"),
    ("Use mocks in the integration tests", "Avoid mocks in the integration tests"),
    ("Pin the versions of all dependencies", "Don't pin the versions of dependencies"),
    ("Commit the lock file to the repository.", "The lock file should not be committed to the repository."),
    ("Store the session token in local storage", "Do not store session tokens in local storage."),
    ("Enable the query cache in production", "Disable the query cache in production"),
    ("Run the linter before you commit", "Run the linter after you commit"),
    ("Increase the timeout of the client", "Decrease the timeout of the client"),
    ("Turn on strict mode of the compiler", "Turn off strict mode of the compiler"),
    ("Use npm ci and not npm install in CI", "Use npm install and not npm ci in CI"),
    ("Mock the clock, not the scheduler", "Mock the scheduler, not the clock"),
    ("Search for all callers of the function", "Do not search for all callers of the function"),
    ("Make the folder of the file first", "Do not make the folder of the file"),
    ("Load the images lazily in the gallery", "Load the images eagerly in the gallery"),
)
AGREEMENTS = (
    ("Never skip the tests before a release", "Always run the tests before a release"),
    ("Never disable the query cache in production", "Enable the query cache in production"),
    ("Check the exit code of the command", "Never ignore the exit code of the command"),
    ("Never commit secrets to the repository", "Do not commit secrets to the repository"),
    ("Use a mutex rather than a spin lock", "Use a mutex"),
    ("Use a mutex, not a spin lock", "Do not use a spin lock but a mutex"),
    ("Use npm ci and not npm install in CI", "Install in CI with npm ci, not with npm install"),
)

SAYING_NOTHING = (
    "always never not use using make making ensure sure do please try consider need want should must be able "
    "avoid skip refrain better best good practice remember take care perform executing run running again"
)


def test_words_that_say_that_something_is_to_be_done_are_kept_as_their_stems() -> None:
    assert frozenset(tokenize(SAYING_NOTHING)) == LIGHT


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposite_instructions_are_seen_from_both_sides(one: str, other: str) -> None:
    assert opposition(one, other) == opposition(other, one) >= 0.6
    assert opposition(one, other) in (pytest.approx(NEGATED), pytest.approx(TURNED))


@pytest.mark.parametrize(("one", "other"), [*AGREEMENTS, *OTHER_MATTERS])
def test_a_double_negation_and_other_objects_conditions_and_exceptions_do_not_contradict(one: str, other: str) -> None:
    assert opposition(one, other) < 0.6


def test_an_opposite_step_is_found_in_the_midst_of_others() -> None:
    one = "Release safely\n1. Read the change log.\n2. Run the smoke tests on the staging server.\n3. Tag it."
    other = "Release fast\n1. Do not run the smoke tests on the staging server.\n2. Push the tag."
    assert opposition(one, other) >= 0.6


def test_functions_that_return_opposites_say_nothing_against_each_other() -> None:
    one = "def is_even(number):\n    if number % 2:\n        return False\n    return True"
    other = "def any_odd(numbers):\n\tfor each in numbers:\n\t\tif each % 2: return True\n\treturn False"
    assert opposition(one, other) == 0.0
    assert opposition("Ask first:\n```\nenable cache\n```", "Ask first:\n```\ndisable cache\n```") == 0.0
    assert opposition("1. Ship.\n    - Run the tests first", "1. Tag.\n    - Never run the tests first") >= 0.6


def test_what_the_rules_do_not_reach_is_left_unsaid() -> None:
    assert opposition("Deploy on Fridays", "Fridays are a bad day for a release") == 0.0
    assert opposition("Set the limit to 10 connections", "Set the limit to 100 connections") == 0.0
