"""Memories that say the same: near pairs among many, which one is kept, and what is not a duplicate."""

import math
import random
import struct
from array import array
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import numpy as np
import pytest
from clock import NOW
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scripted_runs import Script

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.consolidate import pairs
from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.consolidate.pairs import MAX_PARTNERS, NEAREST, near_pairs
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.embed import with_indexes
from tests.consolidate.kept_bank import ADVICE, MIGRATIONS, Kept, own_bank

SUBJECTS = (
    "migrations test database suite", "retry rate limit backoff jitter", "shell variables quotes spaces",
    "stack trace frame exception", "node version nvmrc pipeline", "date clock timezone midnight",
    "browser fixture teardown screenshot", "index foreign key cascade", "cache header etag expiry",
    "docker image layer context", "webhook signature payload secret", "csv encoding delimiter header",
)  # fmt: skip


def _sentence(subject: str, draw: random.Random) -> str:
    words = subject.split()
    draw.shuffle(words)
    return f"Look at the {words[0]} and the {words[1]} before the {words[2]} and {words[3]}"


async def test_the_best_is_kept_and_the_other_is_archived_with_a_link_and_a_reason(kept: Kept) -> None:
    worse, better, *_ = await kept.add_all(ADVICE)
    await kept.store.set_status([kept.toolbox.scope], [worse, better], "archived", "made again")
    worse = await kept.add(*ADVICE[0], confidence=0.4)
    better = await kept.add(*ADVICE[1], confidence=0.6)
    done = await consolidate(kept.toolbox)
    assert [(each.id, each.kept) for each in done.merged] == [(worse, better)]
    archived = await kept.item(worse)
    assert archived.status == "archived"
    assert archived.status_reason == f"duplicate of {better} ({done.merged[0].similarity:.2f})"
    (link,) = await kept.links(worse)
    assert (link.src_id, link.dst_id, link.relation) == (worse, better, "duplicate_of")
    assert link.weight == done.merged[0].similarity >= kept.toolbox.embedder.duplicate_cosine
    assert await kept.status(better) == "active"


async def test_use_counts_more_than_confidence_and_time_counts_too_for_who_is_kept(kept: Kept) -> None:
    used = await kept.add(*ADVICE[0], confidence=0.4, usage_count=6, last_used=NOW)
    unused = await kept.add(*ADVICE[1], confidence=0.7)
    assert [each.kept for each in (await consolidate(kept.toolbox)).merged] == [used]
    await kept.store.forget([kept.toolbox.scope], [used, unused])
    stale = await kept.add(*ADVICE[0], created_at=NOW - timedelta(days=89))
    fresh = await kept.add(*ADVICE[1])
    assert [(each.id, each.kept) for each in (await consolidate(kept.toolbox)).merged] == [(stale, fresh)]


RUN_IT = "1. Run it in the root of the repository.\n2. Read the first error."


@pytest.mark.parametrize(
    ("content", "titles"),
    [
        ("1. Run them before the tests.", (MIGRATIONS, f"Do not {MIGRATIONS.lower()}")),
        (RUN_IT, ("Check the exit code of `ruff`", "Check the exit code of `mypy`")),
        (RUN_IT, ("Handle a status of 404 from the server", "Handle a status of 503 from the server")),
        ("1. Look which version the build asks for.", ("Use python 3.11 to build", "Use python 3.12 to build")),
        ("1. Run pip.\n2. Read what it printed.", ("Trust the exit code of pip", "Ignore the exit code of pip")),
        ("1. Wheels come from the index.", ("Take the wheel of numpy", "Never take the wheel of numpy")),
    ],
    ids=["opposites", "commands", "numbers", "versions", "antonyms", "a warning"],
)
async def test_of_titles_that_say_another_matter_none_is_a_duplicate(
    kept: Kept, content: str, titles: tuple[str, str]
) -> None:
    await kept.add_all([(title, content) for title in titles])
    assert (await consolidate(kept.toolbox, full=True)).merged == ()


async def test_neither_is_a_guardrail_one_of_a_strategy_nor_what_another_project_has(kept: Kept) -> None:
    await kept.add(*ADVICE[0], outcome="Success")
    await kept.add(*ADVICE[0], outcome="Failure")
    elsewhere = kept.toolbox.in_project("elsewhere")
    await kept.add(*ADVICE[0], scope=elsewhere.scope)
    for toolbox in (kept.toolbox, elsewhere):
        assert (await consolidate(toolbox, full=True)).merged == ()


async def test_the_setting_goes_before_the_embedders_own_threshold(kept: Kept) -> None:
    await kept.add_all(ADVICE[:2])
    for threshold, merged in ((0.999, 0), (None, 1)):
        retrieve = kept.settings.retrieve.model_copy(update={"duplicate_threshold": threshold})
        kept.settings = kept.settings.model_copy(update={"retrieve": retrieve})
        assert len((await consolidate(kept.toolbox, dry_run=True, full=True)).merged) == merged


async def test_learning_knows_a_memory_by_the_rule_by_which_consolidation_merges(kept: Kept) -> None:
    known = await kept.add(*ADVICE[0])
    drafts = [MemoryDraft(title=title, description="", content=content) for title, content in ADVICE[1:3]]
    trajectory = Script("Make the tests pass.").say("They pass.").done()
    result = await learn(kept.toolbox, trajectory, agent_verdict=Verdict.by_agent("Success"), agent_drafts=drafts)
    assert result.reinforced == (known,)
    assert [item.title for item in result.stored] == [ADVICE[2][0]], "its opposite is new"
    assert (await consolidate(kept.toolbox, full=True)).merged == ()


async def test_vectors_of_a_language_the_embedder_does_not_know_prove_nothing(kept: Kept) -> None:
    first = "运行测试之前先应用数据库迁移\n然后启动测试套件并检查结果。"
    other = "在命令行脚本中给每个变量加上双引号\n避免空格造成拆分。"
    await kept.add_all([("数据库迁移", first), ("变量加引号", other)])
    again = await kept.add("数据库迁移", first)
    done = await consolidate(kept.toolbox, full=True)
    assert [each.id for each in done.merged] == [again]


async def test_every_member_is_near_the_kept_one_itself(kept: Kept) -> None:
    words = ["cache", "token", "retry", "queue", "index", "view", "branch", "merge", "lock", "file", "port", "test"]
    chain = [" ".join([*words[: 12 - step], *(f"{word}s twice" for word in words[12 - step :])]) for step in range(10)]
    await kept.add_all([("Mind these", f"1. Check {each}.") for each in chain])
    done = await consolidate(kept.toolbox, full=True)
    kept_ids = {each.kept for each in done.merged}
    assert done.merged
    assert kept_ids <= await kept.active()
    for each in done.merged:
        one, other = await kept.item(each.id), await kept.item(each.kept)
        vectors = await kept.toolbox.embedder.embed_documents([one.embedding_text, other.embedding_text])
        assert sum(a * b for a, b in zip(*vectors, strict=True)) >= 0.79  # 8-bit vectors decide


async def test_one_that_others_were_archived_for_stays(kept: Kept) -> None:
    await kept.add(*ADVICE[0])
    kept_id = await kept.add(*ADVICE[1], confidence=0.6)
    await consolidate(kept.toolbox)
    better = await kept.add(*ADVICE[0], confidence=0.9, usage_count=50, last_used=NOW)
    done = await consolidate(kept.toolbox)
    assert [(each.id, each.kept) for each in done.merged] == [(better, kept_id)]


async def test_what_is_undone_is_as_it_was_and_what_a_person_restored_is_not_archived_again(kept: Kept) -> None:
    worse = await kept.add(*ADVICE[0], confidence=0.4)
    await kept.add(*ADVICE[1], confidence=0.6)
    undone = await undo_consolidation(kept.toolbox, (await consolidate(kept.toolbox)).run_id)
    assert (undone.restored, undone.links_removed, undone.skipped) == (1, 1, ())
    assert (await kept.item(worse)).status_reason is None
    assert await kept.links(worse) == []
    await consolidate(kept.toolbox, full=True)
    await kept.store.set_status([kept.toolbox.scope], [worse], "active", "restored")
    assert (await consolidate(kept.toolbox, full=True)).merged == ()


async def test_a_run_compares_only_what_is_new_unless_it_is_full(kept: Kept) -> None:
    await kept.add_all(ADVICE[3:])
    assert (await consolidate(kept.toolbox)).compared == 3
    statistics = await kept.store.statistics(kept.toolbox.scope, kept.toolbox.embedder.name)
    assert statistics.new_since_consolidation == 0
    twin = await kept.add(*ADVICE[3])
    done = await consolidate(kept.toolbox)
    assert (done.compared, [each.id for each in done.merged]) == (1, [twin])
    assert (await consolidate(kept.toolbox, full=True)).compared == 3


async def test_a_crowd_of_copies_shrinks_to_one(kept: Kept) -> None:
    await kept.add_all(
        [(MIGRATIONS, f"1. Apply pending migrations to the test database{'.' * (at % 7)}") for at in range(90)]
    )
    done = await consolidate(kept.toolbox, full=True)
    assert len(done.merged) == 89
    assert len(await kept.active()) == 1


async def test_the_words_of_a_memory_are_read_once_however_many_it_is_compared_with(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def counted(text: str) -> frozenset[str]:
        read.append(text)
        return frozenset(text.split())

    monkeypatch.setattr(pairs, "words_of", counted)
    for number in range(8):
        await kept.add(f"Import {number}", "1. Read the file in parts.\n2. Check each part.")
    assert not (await consolidate(kept.toolbox)).merged
    assert 1 < len(read) == len(set(read))


async def test_the_incremental_way_finds_what_the_full_way_finds(kept: Kept) -> None:
    await kept.add_all(ADVICE)
    by_neighbours = await consolidate(kept.toolbox, dry_run=True)
    all_with_all = await consolidate(kept.toolbox, dry_run=True, full=True)
    assert by_neighbours.merged == all_with_all.merged
    assert [each.link for each in by_neighbours.related] == [each.link for each in all_with_all.related]


async def test_memories_without_a_vector_are_named_and_left_alone(kept: Kept) -> None:
    first = await kept.add(*ADVICE[0])
    item = (await kept.item(first)).model_copy(update={"id": "rm_01JZZZZZZZZZZZZZZZZZZZZZZZ"})
    await kept.store.add_memories([with_indexes(item, None)], kept.toolbox.embedder.name)
    done = await consolidate(kept.toolbox, full=True)
    assert done.merged == ()
    assert any("1 memory without a vector" in notice for notice in done.notices)


@settings(max_examples=10)
@given(st.integers(0, 2**16), st.sets(st.integers(0, len(SUBJECTS) - 1), min_size=2, max_size=6))
async def test_near_copies_are_found_and_unrelated_memories_stay(seed: int, chosen: set[int]) -> None:
    draw, originals = random.Random(seed), dict[str, str]()
    async with own_bank() as kept:
        for place in sorted(chosen):
            sentence = _sentence(SUBJECTS[place], draw)
            original = await kept.add(sentence, f"1. {sentence}, always.", confidence=0.6)
            copy = await kept.add(f"{sentence}.", f"1. {sentence}, each time.", confidence=0.5)
            originals[copy] = original
        done = await consolidate(kept.toolbox, full=draw.random() < 0.5)
        assert {each.id: each.kept for each in done.merged} == originals
        assert await kept.active() == set(originals.values())


def _rows(count: int, dimensions: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)


def _near(
    directions: Sequence[bytes], floor: float, element: Literal["int8", "float32"] = "float32"
) -> list[tuple[int, int]]:
    return near_pairs(directions, element, floor, lambda done, total: None)[["first", "second"]].tolist()


def _encoded(row: list[float], element: str) -> bytes:
    scale = 127 / max(map(abs, row))
    return (
        array("b", [round(each * scale) for each in row]).tobytes() if element == "int8" else array("f", row).tobytes()
    )


def _by_hand(directions: Sequence[bytes], code: str, floor: float) -> set[tuple[int, int]]:
    rows = [struct.unpack(f"<{len(each) // struct.calcsize(code)}{code}", each) for each in directions]
    found: set[tuple[int, int]] = set()
    for second, one in enumerate(rows):
        for first, other in enumerate(rows[:second]):
            product = math.fsum(a * b for a, b in zip(one, other, strict=True))
            if product / (math.hypot(*one) * math.hypot(*other)) >= floor:
                found.add((first, second))
    return found


@settings(max_examples=25)
@given(st.integers(2, 24), st.integers(0, 2**16), st.floats(0.2, 0.95), st.sampled_from(["int8", "float32"]))
def test_the_exact_comparison_finds_what_a_comparison_by_hand_finds(
    count: int, seed: int, floor: float, element: Literal["int8", "float32"]
) -> None:
    numbers: list[list[float]] = _rows(count, 6, seed).tolist()
    directions = [_encoded(row, element) for row in numbers]
    sure, doubtful = (_by_hand(directions, "b" if element == "int8" else "f", floor + by) for by in (1e-5, -1e-5))
    assert sure <= set(_near(directions, floor, element)) <= doubtful


def test_a_crowd_gives_each_member_a_limited_number_of_partners_and_always_its_leader() -> None:
    rows = _rows(1, 32, 3) + 0.05 * _rows(400, 32, 4)
    by_second: dict[int, list[int]] = {}
    for first, second in _near([row.tobytes() for row in rows], 0.87):
        by_second.setdefault(second, []).append(first)
    assert NEAREST < max(map(len, by_second.values())) <= MAX_PARTNERS
    assert set(by_second) == set(range(1, 400))
    assert all(0 in own for own in by_second.values())
