"""The operation `retrieve` on a real bank: what is shown, when a fix is, and never two that contradict each other."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from clock import NOW
from counting import DownEmbedder
from made_items import made_item, put
from still_bank import Add

from swarm_memory.schema.errors import InputError, StoreReadOnly
from swarm_memory.schema.memory import FIX, OPEN_PROBLEM, MemoryItem, MemoryLink, Provenance
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.tools.consolidate.consolidate import undo_consolidation
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.ports.memories import KnownFix, RetrievalRecord, SearchFilter
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import MAX_QUERY_CHARS, Unasked, retrieve
from swarm_memory.tools.text.cleaning import parse_ids
from swarm_memory.tools.toolbox import Toolbox

PAGES = ("Handle pagination with cursors", "1. Read next_cursor.\n2. Stop when it repeats.")
LOGIN = ("Handle login flows with CSRF tokens", "1. Load the page and parse the token.\n2. Attach it to the POST.")
DEADLOCK = ("Diagnose database deadlocks", "1. Read the lock table.\n2. Order the updates by primary key.")


def with_settings(toolbox: Toolbox, **changes: Any) -> Toolbox:
    return replace(toolbox, settings=Settings(retrieve=RetrieveSettings(**changes)))


async def test_the_memory_that_fits_comes_first_with_its_parts_and_a_preamble(toolbox: Toolbox, add: Add) -> None:
    ids = [await add(*each) for each in (PAGES, LOGIN, DEADLOCK)]
    found = await retrieve(toolbox, "the login form answers 403, its CSRF token is missing")
    first = found.memories[0]
    assert first.item.id == ids[1]
    assert first.parts.keyword is not None
    assert first.parts.cosine is not None
    assert first.parts.relevance == 1.0
    assert first.score == pytest.approx(0.65 + 0.05 + 0.10 * 0.5)
    assert LOGIN[0] in found.preamble
    assert parse_ids(found.preamble) == tuple(each.item.id for each in found.memories)
    assert found.embedder == toolbox.embedder.name
    assert "keyword" in found.legs
    assert len(found.legs) == 2
    assert found.latency_ms > 0


async def test_an_empty_bank_says_so(toolbox: Toolbox) -> None:
    found = await retrieve(toolbox, "how to paginate")
    assert (found.memories, found.preamble) == ((), "")
    assert "no memories yet" in (found.reason or "")
    assert "'shop'" in (found.reason or "")


async def test_where_nobody_asked_and_nothing_fits_the_answer_is_empty_and_says_why(toolbox: Toolbox, add: Add) -> None:
    for each in (PAGES, LOGIN):
        await add(*each)
    found = await retrieve(toolbox, "bake sourdough bread overnight", unasked=Unasked())
    assert (found.memories, found.preamble) == ((), "")
    assert "no match among 2 memories" in (found.reason or "")
    assert "the best scored" in (found.reason or "")


async def test_whoever_asks_gets_the_nearest_of_the_rest_too_marked_and_behind_a_line(
    toolbox: Toolbox, add: Add
) -> None:
    ids = [await add(*each) for each in (PAGES, LOGIN, DEADLOCK)]
    found = await retrieve(toolbox, "handle pagination: read next_cursor", k=2)
    assert [each.fits for each in found.memories] == ["likely", "unlikely"]
    assert found.memories[0].item.id == ids[0]
    assert (found.reason or "").startswith("1 of 3 memories")
    fits, _, rest = found.preamble.partition("The nearest of the rest; they probably do not fit")
    assert PAGES[0] in fits
    assert found.memories[1].item.title in rest
    nothing = await retrieve(toolbox, "bake sourdough bread overnight", k=3, task_id="t1")
    assert {each.item.id for each in nothing.memories} == {*ids}
    assert {each.fits for each in nothing.memories} == {"unlikely"}
    assert (nothing.reason or "").startswith("no match among 3 memories")
    assert not (await toolbox.store.injections(toolbox.scope, "t1")).given, "what probably does not fit is not credited"


async def test_the_first_five_are_the_same_however_many_are_asked_for(toolbox: Toolbox) -> None:
    notes, said = Provenance(distiller="agent", judge="agent"), Provenance(distiller="user")
    memories = [
        made_item(
            f"{'Never r' if at % 9 == 4 else 'R'}etry step {at % 13} of the upload {at % 7}",
            content=f"1. Wait {at} seconds.\n2. Send part {at % 5} again.",
            provenance=said if at % 11 == 3 else notes if at % 2 else Provenance(judge="evidence"),
            confidence=(at * 37 % 100) / 100,
            scope=toolbox.scope,
        )
        for at in range(70)
    ]
    await put(toolbox, *memories)
    for query in ("retry the upload 3", "wait before step 4 is sent again", "part 2 of the upload fails", "bread"):
        few, more, many = [await retrieve(toolbox, query, k=k) for k in (5, 10, 50)]
        assert len(many.memories) == 50
        first = [each.item.id for each in few.memories]
        assert len(first) == 5
        assert [each.item.id for each in more.memories[:5]] == first
        assert [each.item.id for each in many.memories[:5]] == first


@pytest.mark.parametrize(
    ("query", "k", "said"),
    [
        *(("anything", k, r"k is .* from 1 to 50") for k in (0, -1, 51, 5000)),
        *((query, 3, "query is empty") for query in ("", "   \n", "\u200b\x00")),
    ],
)
async def test_a_k_out_of_range_and_a_blank_query_are_refused(toolbox: Toolbox, query: str, k: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        await retrieve(toolbox, query, k=k)


async def test_a_query_of_stop_words_is_answered_by_the_vectors(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    found = await retrieve(with_settings(toolbox, min_cosine=0.0), "what should I do with this")
    assert len(found.memories) == 1
    assert found.memories[0].parts.keyword is None


async def test_a_very_long_query_is_cut_and_says_so(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN)
    words = " ".join(f"word{at}" for at in range(40_000))
    found = await retrieve(toolbox, f"login flows with CSRF tokens: parse the token of the page. {words}")
    assert [each.item.id for each in found.memories] in ([memory_id], [])
    assert any(f"{MAX_QUERY_CHARS:,}" in notice for notice in found.notices)
    assert any("distinct words" in notice for notice in found.notices)
    assert found.latency_ms < 2000


async def test_archived_and_quarantined_memories_never_come(toolbox: Toolbox, add: Add) -> None:
    for status in ("archived", "quarantined"):
        await add(*LOGIN, status=status)
    assert (await retrieve(toolbox, LOGIN[0])).memories == ()


async def test_the_project_comes_before_the_global_scope(toolbox: Toolbox, add: Add) -> None:
    shared = await add(*LOGIN, project="*")
    own = await add(*LOGIN)
    found = await retrieve(toolbox, LOGIN[0])
    assert [each.item.id for each in found.memories] == [own, shared]
    assert found.memories[0].score - found.memories[1].score == pytest.approx(
        0.05 + found.memories[1].parts.diversity_penalty
    )


async def test_domain_tags_and_agent_narrow_the_answer(toolbox: Toolbox, add: Add) -> None:
    plain = await add(*LOGIN)
    marked = await add(
        *LOGIN, domain="web", tags=("auth", "csrf"), provenance=Provenance(task_id="t1", agent_id="codex")
    )

    async def ids(**narrowed: Any) -> set[str]:
        return {each.item.id for each in (await retrieve(toolbox, LOGIN[0], only=SearchFilter(**narrowed))).memories}

    assert await ids() == {plain, marked}
    assert await ids(domain="web") == {marked}
    assert await ids(tags=("auth",)) == {marked}
    assert await ids(tags=["auth", "other"]) == set()
    assert await ids(agent_id="codex") == {marked}


async def test_confidence_and_age_decide_between_equals(toolbox: Toolbox, add: Add) -> None:
    now = toolbox.clock.now()
    old = await add(*LOGIN, created_at=now - timedelta(days=45))
    sure = await add(*LOGIN, confidence=0.9)
    future = await add(*LOGIN, created_at=now + timedelta(days=3650), confidence=0.1)
    found = {each.item.id: each for each in (await retrieve(toolbox, LOGIN[0])).memories}
    assert found[old].parts.recency == pytest.approx(0.5)
    assert found[future].parts.recency == 1.0
    assert max(found.values(), key=lambda each: each.score).item.id == sure


async def test_ten_relevant_memories_among_two_hundred_are_the_ten_that_come(toolbox: Toolbox) -> None:
    subjects = ("bread", "tides", "chess", "violins", "glaciers", "beekeeping", "pottery", "comets", "saffron", "poems")
    fitting = [(f"Renew TLS certificates, case {at}", f"1. Check the expiry date.\n2. Renew {at}.") for at in range(10)]
    others = [(f"About {each} number {at}", f"1. Look at the {each}.") for each in subjects for at in range(19)]
    made = [made_item(title, content=content, scope=toolbox.scope) for title, content in (*fitting, *others)]
    relevant = (await put(toolbox, *made))[:10]
    found = await retrieve(toolbox, "renew an expired TLS certificate", k=10)
    assert {each.item.id for each in found.memories} == {*relevant}


async def test_an_embedder_that_fails_leaves_the_keywords_and_is_named(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN)
    found = await retrieve(replace(toolbox, embedder=DownEmbedder()), "login csrf tokens")
    assert [each.item.id for each in found.memories] == [memory_id]
    assert found.legs == ("keyword",)
    assert found.memories[0].parts.cosine is None
    (notice,) = [each for each in found.notices if "keywords only" in each]
    assert "a1B2a1B2" not in notice
    nothing = await retrieve(replace(toolbox, embedder=DownEmbedder()), "what should I do")
    assert (nothing.memories, bool(nothing.notices), bool(nothing.reason)) == ((), True, True), "no words either"


async def test_a_retrieval_is_recorded_with_its_scores_and_without_secrets(
    toolbox: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = await add(*LOGIN)
    records: list[RetrievalRecord] = []

    async def heard(record: RetrievalRecord) -> None:
        records.append(record)

    monkeypatch.setattr(toolbox.store, "record_retrieval", heard)
    secret = "ghp_" + "a1B2c3D4e5" * 4
    found = await retrieve(toolbox, f"login csrf token {secret[:40]}", task_id="t", session_id="s")
    (record,) = records
    assert record.retrieval_id == found.retrieval_id
    assert dict(record.scores) == {memory_id: found.memories[0].score}
    assert secret[:40] not in record.query
    assert secret[:40] not in found.query
    assert (record.task_id, record.session_id, record.scope) == ("t", "s", toolbox.scope)


async def test_a_bank_that_cannot_be_written_still_answers_and_says_so(
    toolbox: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(*LOGIN)

    async def refused(record: RetrievalRecord) -> None:
        raise StoreReadOnly("read-only file system")

    monkeypatch.setattr(toolbox.store, "record_retrieval", refused)
    found = await retrieve(toolbox, LOGIN[0])
    assert found.memories
    assert any("not recorded" in notice for notice in found.notices)


async def test_the_preamble_keeps_to_the_token_budget_of_the_settings(toolbox: Toolbox, add: Add) -> None:
    for at in range(10):
        await add(
            f"Login strategy number {at}", "\n".join(f"{step}. Check the login token {step}." for step in range(90))
        )
    found = await retrieve(with_settings(toolbox, token_budget=200), "login strategy token", k=10)
    assert len(found.memories) == 10
    assert len(found.preamble) < 1200


WAY = {
    "title": "Start the database before `shipctl migrate`",
    "content": "1. Run `shipctl up db`.\n2. Run `shipctl migrate` again.",
    "description": 'Of use when `shipctl migrate` ends with "could not reach the ledger at all".',
    "tags": (FIX, "error"),
    "domain": "shell.shipctl",
}
OPEN = {**WAY, "title": 'Not solved yet: "could not reach the ledger"', "tags": (OPEN_PROBLEM,)}


@pytest.mark.parametrize("query", ["shipctl must release the shop", "why could it not reach the ledger today"])
async def test_a_fix_is_shown_if_its_program_or_its_error_is_mentioned(toolbox: Toolbox, add: Add, query: str) -> None:
    shown = await add(**WAY)
    assert [each.item.id for each in (await retrieve(toolbox, query)).memories] == [shown]


async def test_nearness_alone_brings_no_fix(toolbox: Toolbox, add: Add) -> None:
    await add(**WAY)
    query = "start up another database and migrate its tables"
    assert [each.fits for each in (await retrieve(toolbox, query)).memories] == ["unlikely"]
    assert (await retrieve(toolbox, query, unasked=Unasked())).memories == ()
    await add(**WAY | {"tags": ()})
    assert len((await retrieve(toolbox, query, unasked=Unasked())).memories) == 1


async def test_what_an_agent_or_a_model_wrote_is_a_strategy_whatever_its_tags(toolbox: Toolbox, add: Add) -> None:
    shown = await add(**OPEN, provenance=Provenance(distiller="agent"))
    assert [each.item.id for each in (await retrieve(toolbox, "shipctl migrate")).memories] == [shown]


async def test_an_open_problem_is_not_shown(toolbox: Toolbox, add: Add) -> None:
    await add(**OPEN)
    query = "shipctl migrate could not reach the ledger at all"
    assert (await retrieve(toolbox, query, unasked=Unasked())).memories == ()
    assert [each.fits for each in (await retrieve(toolbox, query)).memories] == ["unlikely"]


async def test_a_fix_says_how_often_it_worked_and_one_that_mostly_did_not_is_left_out(
    toolbox: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await add(**WAY)
    for worked, shown in ((3, True), (1, False)):

        async def known_fixes(scope: object, *, beside: object, worked: int = worked) -> list[KnownFix]:
            return [KnownFix("a", known, worked, 4)]

        monkeypatch.setattr(toolbox.store, "known_fixes", known_fixes)
        found = await retrieve(toolbox, "shipctl must release the shop", unasked=Unasked())
        assert [each.item.id for each in found.memories] == [known] * shown
        assert ("(worked 3 of 4 times)" in found.preamble) is shown


async def test_a_word_is_a_name_only_where_many_that_have_it_name_it(toolbox: Toolbox, add: Add) -> None:
    """In a bank about code, every word is somewhere in quotation marks."""
    for at, verb in enumerate(("Open", "Close", "Copy", "Lock", "Move")):
        await add(f"{verb} the file {at}", f"{verb} the file and log it.")
    quoted = await add("Set the kind", 'kind = "file" stands for all that is no folder.')
    named = await add("Lease the lane", '1. Ask the "harbourmaster" first.')
    half = await add("Rise before dawn", "1. The `bellringer` rises.")
    await add("Noon is quiet", "1. At noon the bellringer sleeps.")
    for prompt, called in (
        ("Bake a file of sourdough bread overnight", set[str]()),
        ('Bake sourdough bread overnight of the sort "file"', {quoted}),
        ("Bake sourdough bread overnight for the harbourmaster of Oslo", {named}),
        ("Bake sourdough bread overnight for the bellringer of Oslo", {half}),
    ):
        found = await retrieve(toolbox, prompt, unasked=Unasked())
        assert {each.item.id for each in found.memories} & {quoted, named, half} == called, prompt


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
    assert found.reason == "2 of 2 memories (project 'shop' and global) fit; 1 left out, contradicted by " \
        "a stronger one"  # fmt: skip


async def test_of_two_that_are_unlikely_to_fit_both_come_and_the_surer_says_that_the_other_differs(
    toolbox: Toolbox, add: Add
) -> None:
    surer = await add(*DO, confidence=0.8)
    other = await add(*NOT, confidence=0.5)
    found = await retrieve(toolbox, "how is the climate of Peru in spring")
    assert {(each.item.id, each.fits, each.contradicts) for each in found.memories} == {
        (surer, "unlikely", (NOT[0],)),
        (other, "unlikely", ()),
    }
    assert f'Another note says otherwise: "{NOT[0]}"' in found.preamble


async def contradict(toolbox: Toolbox, one: str, other: str) -> None:
    """Link two memories as contradictory, as a model's answer does."""
    links = (MemoryLink(src_id=other, dst_id=one, relation="contradicts", weight=0.9),)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", NOW, (), links))


async def test_what_fits_stays_and_says_that_what_is_unlikely_to_differs(toolbox: Toolbox, add: Add) -> None:
    one = await add("Copy the schema before the tests of the shop")
    other = await add("Feed the llamas of the mountain village at noon", confidence=0.9)
    await contradict(toolbox, one, other)
    first, second = (await retrieve(toolbox, "tests of the shop and their schema")).memories
    assert (first.item.id, first.fits, first.contradicts) == (one, "likely", (second.item.title,))
    assert (second.item.id, second.fits, second.contradicts) == (other, "unlikely", ())


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
    await contradict(toolbox, one, other)
    (memory,) = (await retrieve(toolbox, query)).memories
    assert memory.item.id == one


async def test_a_briefing_holds_one_of_two_and_says_that_another_differs(toolbox: Toolbox, add: Add) -> None:
    await add(*DO, confidence=0.7)
    await add("Ask before a release")
    new = await add(*NOT, confidence=0.7)
    items = await toolbox.store.get_memories((toolbox.scope,), [new])
    await link_contradictions(toolbox, {each.item.id: each.vector for each in await prepare(toolbox, items)}, "run_1")

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
    await link_contradictions(toolbox, {each.item.id: each.vector for each in await prepare(toolbox, items)}, "run_1")
    assert await toolbox.store.memory_links(toolbox.readable, [each.id for each in items]) == []
    assert len((await retrieve(toolbox, f"{DO[0]}, and: {text[0]}")).memories) == 2
