"""Confidence that decays without use, and memories that nobody used or believes."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from clock import NOW
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.schema.errors import StorageError
from swarm_memory.tools.consolidate import consolidate as consolidation
from swarm_memory.tools.consolidate.consolidate import consolidate, decayed, is_worthless, undo_consolidation
from swarm_memory.tools.consolidate.upkeep import UpkeepRun
from swarm_memory.tools.ports.records import Aging, UpkeepBatch, UpkeepItem
from tests.consolidate.kept_bank import ADVICE, Kept, opened

DAY = timedelta(days=1)


def _item(confidence: float, age_days: float, used_days: float | None = None, uses: int = 0) -> UpkeepItem:
    return UpkeepItem(
        position=1,
        id="rm_01JZZZZZZZZZZZZZZZZZZZZZZZ",
        confidence=confidence,
        usage_count=uses,
        created_at=NOW - age_days * DAY,
        last_used=None if used_days is None else NOW - used_days * DAY,
        status_reason=None,
        version="",
        priority=0,
        direction=None,
    )


def test_confidence_halves_with_each_90_days_without_use_and_less_than_a_day_does_not_count() -> None:
    assert decayed(_item(0.8, 0.9), None, NOW) == decayed(_item(0.8, 90, used_days=0.9, uses=1), None, NOW) == 0.8
    assert decayed(_item(0.8, 90), None, NOW) == pytest.approx(0.4)
    assert decayed(_item(0.8, 180), None, NOW) == pytest.approx(0.2)
    assert decayed(_item(0.8, 400, used_days=90, uses=1), None, NOW) == pytest.approx(0.4)
    assert decayed(_item(0.8, 400, used_days=0, uses=1), None, NOW) == 0.8


moments = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=NOW.tzinfo))


@given(st.floats(0, 1), st.floats(-500, 2000), st.one_of(st.none(), moments), moments)
def test_fading_never_raises_a_confidence_nor_leaves_the_unit(
    confidence: float, age_days: float, since: datetime | None, now: datetime
) -> None:
    assert 0 <= decayed(_item(confidence, age_days), since, now) <= confidence


@given(st.floats(0, 1), st.floats(0, 700), st.floats(1, 300), st.floats(1, 300))
def test_two_steps_fade_as_much_as_one(confidence: float, age: float, first: float, second: float) -> None:
    item = _item(confidence, age)
    halfway = NOW + first * DAY
    at_once = decayed(item, None, halfway + second * DAY)
    once = _item(decayed(item, None, halfway), age)
    assert decayed(once, halfway, halfway + second * DAY) == pytest.approx(at_once, abs=2e-6)
    assert decayed(once, halfway, halfway) == once.confidence


def test_only_what_is_old_and_unused_and_hardly_believed_is_worthless() -> None:
    assert is_worthless(_item(0.9, 181), 0.29, NOW)
    assert not is_worthless(_item(0.9, 179), 0.29, NOW)
    assert not is_worthless(_item(0.9, 181), 0.30, NOW)
    assert not is_worthless(_item(0.9, 181, uses=1), 0.29, NOW)
    assert not is_worthless(_item(0.9, 181, used_days=180), 0.29, NOW)


async def test_a_bank_is_aged_once_for_one_moment_however_often_it_runs(kept: Kept) -> None:
    made = await kept.add(*ADVICE[3], confidence=0.8)
    kept.clock.forward(days=90)
    assert (await consolidate(kept.toolbox)).aged == 1
    assert (await kept.item(made)).confidence == pytest.approx(0.4)
    before = kept.rows()["patterns"]
    assert (await consolidate(kept.toolbox)).aged == 0
    assert (await consolidate(kept.toolbox, full=True)).aged == 0
    assert kept.rows()["patterns"] == before
    for _ in range(9):  # many short steps age as one long one
        kept.clock.forward(days=10)
        await consolidate(kept.toolbox)
    assert (await kept.item(made)).confidence == pytest.approx(0.2, abs=1e-4)


async def test_a_clock_that_was_set_back_ages_nothing_and_loses_nothing(kept: Kept) -> None:
    made = await kept.add(*ADVICE[3], confidence=0.8)
    kept.clock.forward(days=90)
    await consolidate(kept.toolbox)
    kept.clock.forward(days=-60)
    done = await consolidate(kept.toolbox, full=True)
    assert (done.aged, done.pruned) == (0, ())
    kept.clock.forward(days=60)
    assert (await consolidate(kept.toolbox)).aged == 0
    assert (await kept.item(made)).confidence == pytest.approx(0.4)


async def test_what_was_never_used_nor_believed_is_archived_with_the_reason_and_stays_once_it_was_restored(
    kept: Kept,
) -> None:
    doubted = await kept.add(*ADVICE[3], confidence=0.5, created_at=NOW - 200 * DAY)
    used = await kept.add(*ADVICE[4], confidence=0.5, created_at=NOW - 200 * DAY, usage_count=1)
    done = await consolidate(kept.toolbox)
    assert [each.id for each in done.pruned] == [doubted]
    item = await kept.item(doubted)
    assert (item.status, item.status_reason) == ("archived", "never used, confidence 0.11, 200 days old")
    assert await kept.status(used) == "active"
    await kept.store.set_status([kept.toolbox.scope], [doubted], "active", "restored")
    kept.clock.forward(days=1)
    assert (await consolidate(kept.toolbox)).pruned == ()
    assert await kept.status(doubted) == "active"


async def test_undoing_brings_back_the_moment_of_aging_too(kept: Kept) -> None:
    made = await kept.add(*ADVICE[3], confidence=0.8)
    kept.clock.forward(days=90)
    done = await consolidate(kept.toolbox)
    await undo_consolidation(kept.toolbox, done.run_id)
    assert (await kept.item(made)).confidence == 0.8
    await consolidate(kept.toolbox)
    assert (await kept.item(made)).confidence == pytest.approx(0.4)


async def test_items_that_a_cut_off_pass_left_are_faded_to_now_by_the_next_run(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "_PAGE", 2)
    made = await kept.add_all(ADVICE[3:], confidence=0.8)
    kept.clock.forward(days=30)
    written = 0

    async def cut_off(run: Any, *args: Any, **given: Any) -> Any:
        nonlocal written
        written += 1
        if written > 1:
            raise StorageError("killed")
        return await write(run, *args, **given)

    write = UpkeepRun.write
    with monkeypatch.context() as patched:
        patched.setattr(UpkeepRun, "write", cut_off)
        with pytest.raises(StorageError):
            await consolidate(kept.toolbox)
    kept.clock.forward(days=60)
    await consolidate(kept.toolbox)
    assert [(await kept.item(each)).confidence for each in made] == pytest.approx([0.4] * len(made))


async def test_a_pass_that_was_cut_off_goes_on_where_it_was(kept: Kept) -> None:
    first, second = await kept.add_all(ADVICE[3:5], confidence=0.8)
    kept.clock.forward(days=90)
    scope = kept.toolbox.scope
    begun = Aging(at=kept.clock.at, through=1, since=None)
    await kept.store.write_upkeep(scope, UpkeepBatch("run_01CUTOFF", kept.clock.at, aging=(None, begun)))
    done = await consolidate(kept.toolbox)
    assert done.aged == 1
    assert (await kept.item(first)).confidence == 0.8  # the batch that was cut off had passed it without a change
    assert (await kept.item(second)).confidence == pytest.approx(0.4)
    assert (await kept.store.upkeep_state(scope)).aging == Aging(at=kept.clock.at)


async def test_two_runs_at_once_age_every_memory_once(kept: Kept) -> None:
    ids = await kept.add_all(ADVICE[3:], confidence=0.8)
    kept.clock.forward(days=90)
    async with opened(kept.database.parent.parent, clock=kept.clock) as other:
        await asyncio.gather(consolidate(kept.toolbox), consolidate(other.toolbox))
    assert [(await kept.item(each)).confidence for each in ids] == [pytest.approx(0.4)] * 3
