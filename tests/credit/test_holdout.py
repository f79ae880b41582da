"""Which tasks are held out, and that they get nothing."""

import pytest
from hooked import hooked
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import Shop, done, said

from swarm_memory.tools.credit.harm import is_held_out
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.retrieve import OUTSIDE_HOLDOUT, retrieve

QUERY = "prepare the test configuration of the shop"
SESSION = "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": QUERY}


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_the_share_of_held_out_tasks_is_near_the_rate(rate: float) -> None:
    share = sum(is_held_out(f"task-{number}", rate) for number in range(20_000)) / 20_000
    assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 20_000) ** 0.5)


def test_the_split_never_changes() -> None:
    assert [number for number in range(40) if is_held_out(f"task-{number}", 0.1)] == [4, 8, 12, 23]


@given(st.text(max_size=60), st.floats(0, 1), st.floats(0, 1))
def test_who_is_held_out_stays_so_when_the_rate_rises(task_id: str, rate: float, other: float) -> None:
    low, high = sorted((rate, other))
    assert is_held_out(task_id, low) <= is_held_out(task_id, high)
    assert is_held_out(task_id, 0.0) is False
    assert is_held_out(task_id, 1.0) is True


def test_the_tasks_of_one_session_go_together_and_sessions_do_not() -> None:
    sessions = [f"{number:08x}-93c1-4d21-8a57-5d1f0a2b3c4d" for number in range(200)]
    split = [{is_held_out(f"{session}:{task}", 0.5) for task in (1, 2, 3, "agent-7")} for session in sessions]
    assert all(len(each) == 1 for each in split)
    assert 60 < sum(True in each for each in split) < 140


async def test_a_held_out_task_gets_nothing_and_what_was_found_is_recorded(shop: Shop) -> None:
    memory = await shop.add()
    held = shop.set(holdout_rate=1.0)
    found = await retrieve(held.toolbox, QUERY, task_id="t1")
    assert (found.memories, found.preamble, found.nearest) == ((), "", None)
    assert found.reason is not None
    assert "held out" in found.reason
    kept = await shop.toolbox.store.injections(shop.toolbox.scope, "t1")
    assert (kept.given, kept.withheld, kept.held_out) == ({}, (memory,), True)
    (item,) = await shop.toolbox.store.get_memories(shop.toolbox.scope.readable(), [memory])
    assert (item.usage_count, item.last_used) == (0, None)


async def test_a_retrieval_that_names_no_task_is_not_withheld_and_says_so(shop: Shop) -> None:
    memory = await shop.add()
    found = await retrieve(shop.set(holdout_rate=1.0).toolbox, QUERY)
    assert [each.item.id for each in found.memories] == [memory]
    assert found.notices == (OUTSIDE_HOLDOUT,)
    assert (await retrieve(shop.toolbox, QUERY)).notices == ()


async def test_a_held_out_prompt_gets_no_notes_and_its_outcome_says_so(shop: Shop) -> None:
    memory = await shop.add()
    held = shop.set(holdout_rate=1.0)
    assert await hooked(held.toolbox, PROMPT) == {}
    record = await held.outcome("Success", done(said("ok"), task_id=f"{SESSION}:1"), task_id=f"{SESSION}:1")
    assert (record.arm, record.randomised, record.credits) == ("held_out", True, ())
    assert await shop.confidence(memory) == [0.5]


async def test_without_a_hold_out_the_same_prompt_gets_its_notes(shop: Shop) -> None:
    memory = await shop.add()
    answer = await hooked(shop.toolbox, PROMPT)
    assert memory in str(answer)
    record = await shop.outcome("Success", done(said("ok"), task_id=f"{SESSION}:1"), task_id=f"{SESSION}:1")
    assert (record.arm, record.randomised) == ("memory", False)


async def test_a_held_out_task_for_which_nothing_fits_is_not_compared(shop: Shop) -> None:
    held = shop.set(holdout_rate=1.0)
    await retrieve(held.toolbox, QUERY, task_id="t1")
    record = await held.outcome("Success", done(said("ok")))
    assert (record.arm, record.randomised) == ("nothing_fitted", False)


async def test_a_held_out_task_is_learned_from_all_the_same(shop: Shop) -> None:
    held = shop.set(holdout_rate=1.0)
    result = await learn(held.toolbox, done(said("ok")))
    assert result.status == "nothing_new"
    assert [each.task_id for each in await shop.toolbox.store.list_outcomes(shop.toolbox.scope)] == ["t1"]
