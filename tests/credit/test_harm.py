"""Which tasks are held out; which memories are suspected, rested at random and withdrawn, and which are not."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from random import Random

import pytest
from clock import SetClock
from hooked import hooked
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import NOW, Shop, done, said

from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.outcome import Credit, OutcomeRecord
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.consolidate.consolidate import undo_consolidation
from swarm_memory.tools.consolidate.upkeep import WithdrawResult, withdraw_harmful
from swarm_memory.tools.credit.harm import (
    CLEARED_BY,
    FEWEST_FAILURES,
    TRIAL,
    MemoryTally,
    TaskTally,
    is_held_out,
    is_hidden,
)
from swarm_memory.tools.memories.decide import keep, to_review
from swarm_memory.tools.retrieve.retrieve import retrieve


def outcome(task_id: str, label: Label, shown: Sequence[str] = (), rested: Sequence[str] = ()) -> OutcomeRecord:
    return OutcomeRecord(
        task_id=task_id,
        digest="",
        label=label,
        judge="evidence",
        arm="memory",
        credits=tuple(Credit(memory_id=each, method="none", change=0) for each in shown),
        rested=tuple(rested),
        at=NOW,
    )


def lived(with_it: float, without: float, others: float, tasks: int, seed: int = 0) -> MemoryTally:
    """Return the record of the memory `m` after `tasks` tasks of its subject, or once it proved harmful."""
    rng, known, seen = Random(seed), TaskTally(), 0
    for number in count():
        task_id, is_own, record = f"{seed}-{number}", rng.random() < 0.3, known.records.get("m", MemoryTally())
        if record.harmful or seen == tasks:
            return record
        seen += is_own
        is_rested = is_own and record.resting and is_hidden(task_id, "m")
        chance = (without if is_rested else with_it) if is_own else others
        label: Label = "Success" if rng.random() < chance else "Failure"
        known.count(outcome(task_id, label, ("m",) * (is_own and not is_rested), ("m",) * is_rested))
    raise AssertionError


def test_a_memory_that_costs_forty_points_is_found_and_one_that_helps_is_not() -> None:
    assert sum(lived(0.3, 0.7, 0.7, 60, seed).harmful for seed in range(20)) >= 14
    assert not any(lived(0.8, 0.6, 0.7, 200, seed).harmful for seed in range(20))
    assert sum(lived(0.4, 0.2, 0.8, 200, seed).harmful for seed in range(20)) <= 1


def test_a_memory_is_kept_back_where_its_tasks_mostly_fail_and_not_where_they_end_like_the_others() -> None:
    known = TaskTally()
    for number in range(100):
        known.count(outcome(f"t{number}", "Failure" if number % 4 < 1 else "Success", ("m",) if number % 2 else ()))
    assert not known.records["m"].resting
    known = TaskTally()
    for number in range(20):
        known.count(outcome(f"t{number}", "Failure", ("m",) if number % 2 else ()))
    assert known.records["m"].resting


def test_a_trial_counts_only_what_chance_decided_after_it_had_begun() -> None:
    known = TaskTally()
    for number in range(6):
        known.count(outcome(f"before{number}", "Failure", ("m",)))
    record = known.records["m"]
    assert (record.resting, record.tried) == (True, 0)
    kept, shown = ([f"t{n}" for n in range(99) if is_hidden(f"t{n}", "m") is rested] for rested in (True, False))
    known.count(outcome(kept[0], "Success", (), ("m",)))
    assert record.tried == 0
    known.count(outcome(kept[1], "Success", (), ("m",)))
    known.count(outcome(shown[0], "Failure", ("m",)))
    assert (record.tried, record.against) == (2, 2)
    known.count(outcome(kept[2], "Failure", ("m",)))
    assert record.tried == 2, "shown against the lot"
    known.count(outcome(shown[1], "Undecided", ("m",)))
    assert record.tried == 2


def test_a_memory_is_cleared_where_tasks_do_as_well_with_it_and_is_left_alone_for_long() -> None:
    record = MemoryTally()
    for _ in range(FEWEST_FAILURES):
        record.count(failed=True, shown=True, at_random=True, expected=0.1)
    assert record.resting
    for turn in range(CLEARED_BY + 1):
        record.count(failed=turn % 2 == 0, shown=turn % 2 == 1, at_random=True, expected=0.1)
    assert (record.resting, record.harmful) == (False, False)
    for _ in range(FEWEST_FAILURES):
        record.count(failed=True, shown=True, at_random=True, expected=0.1)
    assert not record.resting


def test_the_tasks_of_one_session_count_once() -> None:
    known, session = TaskTally(), "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
    for number in range(9):
        known.count(outcome(f"{session}:{number}", "Failure", ("m",)))
    assert known.records["m"].tasks == 1


@pytest.mark.parametrize("helps", [0, 1])
def test_a_memory_that_changes_nothing_is_withdrawn_in_few_trials_and_one_that_helps_in_fewer(helps: int) -> None:
    def harmful(rng: Random) -> bool:
        record = MemoryTally(resting=True, is_tried=True)
        while record.resting:
            against = rng.random() < 0.5 - 0.05 * helps
            shown = rng.random() < 0.5
            record.count(failed=against is shown, shown=shown, at_random=True, expected=0.5)
        assert record.tried <= TRIAL
        return record.harmful

    rng = Random(7)
    assert sum(harmful(rng) for _ in range(400)) / 400 < (0.06 if helps else 0.15)


async def live(shop: Shop, memory_id: str, tasks: int, *, begin: int = 0) -> WithdrawResult:
    """Do tasks that fail with a memory and succeed without it; check each one after its end."""
    done = await withdraw_harmful(shop.toolbox)
    for number in range(begin, begin + tasks):
        task_id = f"task-{number}"
        assert isinstance(shop.toolbox.clock, SetClock)
        shop.toolbox.clock.at = NOW + timedelta(minutes=number + 1)
        found = await retrieve(shop.toolbox, "prepare the test configuration of the shop", task_id=task_id)
        is_shown = memory_id in {each.item.id for each in found.memories}
        await shop.outcome("Failure" if is_shown else "Success", task_id=task_id)
        done = await withdraw_harmful(shop.toolbox)
        if done.withdrawn:
            break
    return done


async def test_what_harms_rests_from_every_other_task_and_is_withdrawn_and_undone(shop: Shop) -> None:
    harmful = await shop.add()
    done = await live(shop, harmful, 40)
    assert done.withdrawn == (harmful,)
    (item,) = await shop.toolbox.store.get_memories([shop.toolbox.scope], [harmful])
    assert item.status == "archived"
    assert (item.status_reason or "").startswith("tasks did better without it: ")
    rested = [each for each in await shop.toolbox.store.list_outcomes(shop.toolbox.scope) if each.rested]
    assert {each.rested for each in rested} == {(harmful,)}
    assert all(is_hidden(each.task_id, harmful) and each.label == "Success" for each in rested)
    await undo_consolidation(shop.toolbox, done.run_id)
    assert (await live(shop, harmful, 2, begin=50)).withdrawn == ()


async def test_what_rests_is_not_listed_as_a_session_starts_whose_first_task_goes_without_it(shop: Shop) -> None:
    moment = "Preparing the configuration."
    agents = Provenance(distiller="agent")
    tried = await shop.add(description=moment, provenance=agents)
    await live(shop, tried, 8)
    assert (await shop.toolbox.store.trials(shop.toolbox.scope)).resting == {tried}
    listed = dict[bool, set[bool]]()
    for number in range(12):
        event = {"hook_event_name": "SessionStart", "session_id": f"s{number}", "source": "startup"}
        listed.setdefault(is_hidden(f"s{number}:1", tried), set()).add(moment in str(await hooked(shop.toolbox, event)))
    assert listed == {True: {False}, False: {True}}


async def test_the_users_own_word_is_never_kept_back_but_put_before_the_user(shop: Shop) -> None:
    said = await shop.add(provenance=Provenance(distiller="user"))
    for number in range(12):
        await shop.outcome("Success", task_id=f"other-{number}")
    done = await live(shop, said, 20)
    assert (done.withdrawn, done.trials.resting) == ((), frozenset())
    counts, kind, (card,) = await to_review(shop.toolbox)
    assert (counts["failing"], kind, card.item.id) == (1, "failing", said)
    assert card.reason == "20 of 20 tasks that were shown it failed, where 33% would be expected"
    await keep(shop.toolbox, said, "failing")
    assert (await live(shop, said, 1, begin=20)).trials.doubted == {}


QUERY = "prepare the test configuration of the shop"
SESSION = "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": QUERY}


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_the_share_of_held_out_tasks_is_near_the_rate(rate: float) -> None:
    share = sum(is_held_out(f"task-{number}", rate) for number in range(2_000)) / 2_000
    assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 2_000) ** 0.5)


def test_the_split_never_changes() -> None:
    assert [number for number in range(40) if is_held_out(f"task-{number}", 0.1)] == [4, 8, 12, 23]


@given(st.text(max_size=60), st.floats(0, 1), st.floats(0, 1))
def test_who_is_held_out_stays_so_when_the_rate_rises(task_id: str, rate: float, other: float) -> None:
    low, high = sorted((rate, other))
    assert is_held_out(task_id, low) <= is_held_out(task_id, high)
    assert is_held_out(task_id, 0.0) is False
    assert is_held_out(task_id, 1.0) is True


def test_the_tasks_of_one_session_go_together_and_sessions_do_not() -> None:
    sessions = [name.format(n) for n in range(100) for name in ("{:08x}-93c1-4d21-8a57-5d1f0a2b3c4d", "ses_{:08x}")]
    split = [{is_held_out(f"{session}:{task}", 0.5) for task in (1, 2, 3, "agent-7")} for session in sessions]
    assert all(len(each) == 1 for each in split)
    assert 60 < sum(True in each for each in split) < 140


async def test_a_held_out_task_gets_nothing_and_what_was_found_is_recorded(shop: Shop) -> None:
    memory = await shop.add()
    held = shop.set(holdout_rate=1.0)
    found = await retrieve(held.toolbox, QUERY, task_id="t1")
    assert (found.memories, found.preamble) == ((), "")
    assert "held out" in (found.reason or "")
    kept = await shop.toolbox.store.injections(shop.toolbox.scope, "t1")
    assert (kept.given, kept.withheld, kept.held_out) == ({}, (memory,), True)
    (item,) = await shop.toolbox.store.get_memories(shop.toolbox.scope.readable(), [memory])
    assert (item.usage_count, item.last_used) == (0, None)


async def test_a_retrieval_that_names_no_task_is_not_withheld_and_says_so(shop: Shop) -> None:
    memory = await shop.add()
    found = await retrieve(shop.set(holdout_rate=1.0).toolbox, QUERY)
    assert [each.item.id for each in found.memories] == [memory]
    assert found.notices == (
        "no task_id was given: tasks are being held out, but this retrieval takes no part in that",
    )
    assert (await retrieve(shop.toolbox, QUERY)).notices == ()


async def test_a_held_out_prompt_gets_no_notes_and_its_outcome_says_so(shop: Shop) -> None:
    memory = await shop.add()
    held = shop.set(holdout_rate=1.0)
    assert await hooked(held.toolbox, PROMPT) == {}
    record = await held.outcome("Success", done(said("ok"), task_id=f"{SESSION}:1"), task_id=f"{SESSION}:1")
    assert (record.arm, record.randomised, record.credits) == ("held_out", True, ())
    assert await shop.confidence(memory) == [0.5]


async def test_a_held_out_task_for_which_nothing_fits_is_not_compared(shop: Shop) -> None:
    held = shop.set(holdout_rate=1.0)
    await retrieve(held.toolbox, QUERY, task_id="t1")
    record = await held.outcome("Success", done(said("ok")))
    assert (record.arm, record.randomised) == ("nothing_fitted", False)
