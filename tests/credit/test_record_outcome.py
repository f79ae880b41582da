"""The credit rule; and a task's outcome reaches exactly the memories that it had, once, on a real bank."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_bank import DRIVER
from made_tasks import NOW, STEPS, Shop, done, opened, ran, said, verdict

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.trajectory import Label, Usage, Verdict
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.tools.credit.outcome import record_outcome, task_figures
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.trajectory.reading import read

FOLLOWED = ran("cp config/test.example.toml config/test.toml && python -m shop.migrate")
AGENT = Verdict(label="Success", confidence=0.9, judge="agent")


async def test_exactly_the_injected_memories_are_credited_and_used_ones_most(shop: Shop) -> None:
    used, unused, other = await shop.add(), await shop.add("Ask first", "1. Ask."), await shop.add("Else", "1. Else.")
    await shop.inject(used, unused)
    record = await shop.outcome("Success", done(FOLLOWED))
    assert [(credit.memory_id, credit.method) for credit in record.credits] == [(used, "overlap"), (unused, "none")]
    assert await shop.confidence(used, unused, other) == pytest.approx([0.55, 0.5125, 0.5])
    assert (record.status, record.arm, record.used) == ("credited", "memory", 1)


async def test_a_failure_takes_half_as_much(shop: Shop) -> None:
    memory = await shop.add()
    await shop.inject(memory)
    await shop.outcome("Failure", done(said(f"I followed [{memory}].")))
    assert await shop.confidence(memory) == pytest.approx([0.475])
    (event,) = await shop.history(memory)
    told = event.data
    assert (told["task_id"], told["label"], told["method"], told["to"]) == ("t1", "Failure", "cited", 0.475)


async def test_an_undecided_task_credits_nothing_and_is_counted(shop: Shop) -> None:
    memory = await shop.add()
    await shop.inject(memory)
    record = await shop.outcome("Undecided", done(FOLLOWED))
    assert (record.status, record.used) == ("undecided", 1)
    assert await shop.confidence(memory) == [0.5]
    assert await shop.history(memory) == []
    assert [each.label for each in await shop.toolbox.store.list_outcomes(shop.toolbox.scope)] == ["Undecided"]


async def test_memories_that_the_transcript_names_are_credited_too(shop: Shop) -> None:
    memory = await shop.add()
    record = await shop.outcome(
        "Success", done(FOLLOWED, injected_memory_ids=(memory, "rm_01JXYZABCD0000000000000001"))
    )
    assert [credit.memory_id for credit in record.credits] == [memory]
    assert await shop.confidence(memory) == pytest.approx([0.55])


async def test_what_a_retrieval_gave_is_found_before_it_is_written_behind(shop: Shop) -> None:
    await shop.add("Mend the failing tests of the shop")
    found = await retrieve(shop.toolbox, "mend the failing tests of the shop", task_id="t1")
    record = await shop.outcome("Success", done(said("Done.")))
    assert [credit.memory_id for credit in record.credits] == [each.item.id for each in found.memories]


async def test_a_call_made_before_the_memory_was_retrieved_is_no_use_of_it(shop: Shop) -> None:
    memory = await shop.add()
    await shop.inject(memory, at=NOW + timedelta(minutes=9))
    command = "cp config/test.example.toml config/test.toml && python -m shop.migrate"
    record = await shop.outcome("Success", done(ran(command, minute=1)))
    assert [credit.method for credit in record.credits] == ["none"]


async def test_many_at_once_credit_once(shop: Shop, tmp_path: Path) -> None:
    memory = await shop.add()
    await shop.inject(memory)
    await shop.toolbox.store.injections(shop.toolbox.scope, "t1")
    other = await open_store(tmp_path / "memory.db", sqlite=DRIVER, embedder=shop.toolbox.embedder)
    try:
        beside = Shop(replace(shop.toolbox, store=other))
        records = await asyncio.gather(*(each.outcome("Success", done(FOLLOWED)) for each in (shop, beside) * 4))
    finally:
        await other.close()
    assert sorted(record.status for record in records) == ["already_credited"] * 7 + ["credited"]
    assert await shop.confidence(memory) == pytest.approx([0.55])


async def test_a_longer_version_of_the_task_replaces_the_former_credit(shop: Shop) -> None:
    first, second = await shop.add(confidence=0.99), await shop.add("Ask first", "1. Ask.")
    await shop.inject(first)
    await shop.outcome("Success", done(FOLLOWED))
    assert await shop.confidence(first) == [1.0]
    await shop.inject(second)
    await shop.outcome("Failure", done(FOLLOWED, said("It broke again.")))
    assert await shop.confidence(first, second) == pytest.approx([0.965, 0.49375])
    await shop.outcome("Undecided", done(FOLLOWED, said("It broke again."), said("Who knows.")))
    assert await shop.confidence(first, second) == pytest.approx([0.99, 0.5])
    assert len(await shop.toolbox.store.list_outcomes(shop.toolbox.scope)) == 1
    assert [event.data.get("taken_back") for event in await shop.history(first)] == [
        None,
        pytest.approx(0.01),
        pytest.approx(-0.025),
    ]


async def test_a_label_that_somebody_gave_stays_and_use_is_seen_again(shop: Shop) -> None:
    memory = await shop.add()
    await shop.inject(memory)
    blind = await shop.outcome("Failure", given=True)
    assert ([credit.method for credit in blind.credits], blind.digest) == (["none"], "")
    seen = await shop.outcome("Success", done(FOLLOWED))
    assert (seen.label, seen.given, [credit.method for credit in seen.credits]) == ("Failure", True, ["overlap"])
    assert await shop.confidence(memory) == pytest.approx([0.475])
    assert (await shop.outcome("Success", done(FOLLOWED), given=True)).label == "Success"
    assert await shop.confidence(memory) == pytest.approx([0.55])


async def test_a_task_does_not_credit_what_it_taught_itself(shop: Shop) -> None:
    own = await shop.add(task_id="t1")
    await shop.inject(own)
    record = await shop.outcome("Success", done(FOLLOWED))
    assert (record.status, record.credits, record.arm) == ("nothing_injected", (), "nothing_fitted")
    assert await shop.confidence(own) == [0.5]


async def test_global_memories_are_credited_and_those_of_others_are_not(shop: Shop) -> None:
    shared = await shop.add(scope=Scope(project="*"))
    foreign = await shop.add(scope=Scope(project="bakery"))
    await shop.inject(shared, foreign)
    assert [credit.memory_id for credit in (await shop.outcome("Success", done(FOLLOWED))).credits] == [shared]


async def test_a_forgotten_memory_is_left_out_of_a_later_version(shop: Shop) -> None:
    memory = await shop.add()
    await shop.inject(memory)
    await shop.outcome("Success", done(FOLLOWED))
    await shop.toolbox.store.forget(shop.toolbox.scope.readable(), [memory])
    assert (await shop.outcome("Failure", done(FOLLOWED, said("No.")))).credits == ()


async def test_learning_credits_by_itself_and_a_second_time_changes_nothing(shop: Shop) -> None:
    memory = await shop.add()
    trajectory = done(FOLLOWED, said(f"Done, with [{memory}]."), injected_memory_ids=(memory,))
    assert (await learn(shop.toolbox, trajectory, agent_verdict=AGENT)).credited == (memory,)
    assert await shop.confidence(memory) == pytest.approx([0.55])
    assert (await learn(shop.toolbox, trajectory, agent_verdict=AGENT)).credited == ()
    assert await shop.confidence(memory) == pytest.approx([0.55])


async def test_learning_an_earlier_version_again_does_not_replace_the_later_outcome(shop: Shop) -> None:
    memory = await shop.add()
    short = done(FOLLOWED, injected_memory_ids=(memory,))
    await learn(shop.toolbox, short, agent_verdict=AGENT)
    longer = done(FOLLOWED, said("It broke."), injected_memory_ids=(memory,))
    await learn(shop.toolbox, longer, agent_verdict=AGENT.model_copy(update={"label": "Failure"}))
    await learn(shop.toolbox, short, agent_verdict=AGENT)
    assert await shop.confidence(memory) == pytest.approx([0.475])


async def test_what_was_injected_is_credited_and_not_reinforced_beside(shop: Shop) -> None:
    memory = await shop.add()
    trajectory = done(FOLLOWED, injected_memory_ids=(memory,))
    same = MemoryDraft(title="Prepare the test configuration", content=STEPS)
    assert (await learn(shop.toolbox, trajectory, agent_verdict=AGENT, agent_drafts=[same])).reinforced == (memory,)
    assert await shop.confidence(memory) == pytest.approx([0.55])


async def test_an_outcome_without_a_trajectory_takes_the_one_that_was_learned_from(shop: Shop) -> None:
    memory = await shop.add()
    await learn(shop.toolbox, done(FOLLOWED, injected_memory_ids=(memory,)), agent_verdict=AGENT)
    assert [credit.method for credit in (await shop.outcome("Failure", given=True)).credits] == ["overlap"]
    assert await shop.confidence(memory) == pytest.approx([0.475])


def test_the_figures_of_a_task_are_its_calls_tokens_and_time() -> None:
    usage = Usage(input_tokens=1000, output_tokens=200, cache_creation_tokens=3000, cache_read_tokens=50_000)
    ended = NOW + timedelta(seconds=90)
    trajectory = done(said("a"), FOLLOWED, FOLLOWED, usage=usage, started_at=NOW, ended_at=ended, dropped_steps=10)
    figures = task_figures(read(trajectory))
    assert (figures.steps, figures.tokens, figures.duration_s) == (7, 4200, 90)
    unknown = task_figures(read(done(said("a"), said("b"))))
    assert (unknown.steps, unknown.tokens, unknown.duration_s) == (2, None, None)


def test_an_outcome_that_an_earlier_release_wrote_is_read() -> None:
    text = (
        '{"task_id": "t1", "digest": "", "label": "Failure", "judge": "agent", "weight": 0.5, "arm": "memory",'
        ' "figures": {"steps": 3, "repeats": 1, "cost_usd": 0.2}, "at": "2026-03-02T12:00:00Z", "figure": 7}'
    )
    record = OutcomeRecord.model_validate_json(text)
    assert (record.label, record.figures.steps) == ("Failure", 3)


LABELS = st.sampled_from(get_args(Label))


@given(
    start=st.floats(0.2, 0.8), outcomes=st.lists(st.tuples(st.integers(0, 2), LABELS), max_size=6), again=st.booleans()
)
@settings(max_examples=12)
async def test_a_memory_ends_where_the_last_outcome_of_each_task_puts_it(
    start: float, outcomes: list[tuple[int, Label]], again: bool
) -> None:
    with TemporaryDirectory() as folder:
        async with opened(Path(folder)) as shop:
            memory = await shop.add(confidence=round(start, 6))
            for number in range(3):
                await shop.inject(memory, task_id=f"t{number}")
            for number, label in outcomes * (2 if again else 1):
                trajectory = done(FOLLOWED, task_id=f"t{number}")
                await record_outcome(shop.toolbox, f"t{number}", verdict(label), trajectory)
            last = dict(outcomes)
            (confidence,) = await shop.confidence(memory)
    change = sum({"Success": 0.05, "Failure": -0.025, "Undecided": 0.0}[label] for label in last.values())
    assert confidence == pytest.approx(round(start, 6) + change)
