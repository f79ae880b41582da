"""A run as a whole: previewed, undone, repeated, next to another run, cut off anywhere."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest
from clock import NOW
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import FULL

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.server.storage.store import Store
from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.ports.memories import MemoryFilter
from tests.consolidate.kept_bank import ADVICE, EVERY_STATUS, MIGRATIONS, SHOP, Kept, figures, opened, own_bank

QUERY = "run the migrations before the tests"


async def _fill(kept: Kept, draw: random.Random) -> None:
    """Fill a bank with duplicates, contradictions, a doubtful newcomer, and memories that decay or are archived."""
    texts = [*ADVICE, *ADVICE[:1], *ADVICE[3:5]]
    draw.shuffle(texts)
    for title, content in texts:
        await kept.add(
            title,
            content,
            confidence=round(draw.uniform(0.05, 0.9), 3),
            usage_count=(uses := draw.choice((0, 0, 1, 5))),
            last_used=NOW - timedelta(days=draw.randrange(90)) if uses else None,
            created_at=NOW - timedelta(days=draw.randrange(100, 400)),
            outcome=draw.choice(("Success", "Success", "Failure")),
        )
    await kept.add(f"Never {MIGRATIONS.lower()}", "1. Never run the migrations before the tests.", confidence=0.7)


@asynccontextmanager
async def filled(seed: int) -> AsyncGenerator[Kept]:
    """Open a new bank filled by `_fill`."""
    async with own_bank() as kept:
        await _fill(kept, random.Random(seed))
        yield kept


@settings(max_examples=3)
@given(st.integers(0, 2**20), st.booleans())
async def test_a_dry_run_says_what_the_run_then_does_and_a_second_run_does_nothing_more(seed: int, full: bool) -> None:
    async with filled(seed) as kept:
        before = kept.rows()
        shown = await consolidate(kept.toolbox, dry_run=True, full=full)
        assert kept.rows() == before
        assert figures(await consolidate(kept.toolbox, full=full)) == figures(shown)
        after = kept.rows()
        assert after != before
        again = await consolidate(kept.toolbox, full=full)
        assert (again.merged, again.related, again.pruned, again.aged) == ((), (), (), 0)
        for table in ("patterns", "pattern_links", "meta", "pattern_embeddings"):
            assert kept.rows()[table] == after[table]


@settings(max_examples=2)
@given(st.integers(0, 2**20), st.integers(1, 2))
async def test_undoing_all_runs_restores_what_the_bank_shows_byte_for_byte(seed: int, runs: int) -> None:
    async with filled(seed) as kept:
        before, links = await kept.shown(QUERY, "api 429"), kept.rows()["pattern_links"]
        for _ in range(runs):
            await consolidate(kept.toolbox, full=True)
            kept.clock.forward(days=30)
        assert await kept.shown(QUERY, "api 429") != before
        kept.clock.at = NOW
        for run_id in kept.runs():
            assert (await undo_consolidation(kept.toolbox, run_id)).skipped == ()
        assert await kept.shown(QUERY, "api 429") == before
        assert kept.rows()["pattern_links"] == links


async def test_undoing_twice_changes_nothing_more_and_an_unknown_run_is_refused(kept: Kept) -> None:
    await _fill(kept, random.Random(3))
    done = await consolidate(kept.toolbox)
    assert (await undo_consolidation(kept.toolbox, done.run_id)).restored > 0
    before = await kept.shown(QUERY)
    again = await undo_consolidation(kept.toolbox, done.run_id)
    assert (again.restored, again.links_removed) == (0, 0)
    assert await kept.shown(QUERY) == before
    with pytest.raises(NotFoundError, match="no consolidation"):
        await undo_consolidation(kept.toolbox, new_id(RUN))
    with pytest.raises(NotFoundError):
        await undo_consolidation(kept.toolbox.in_project("elsewhere"), done.run_id)


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_what_was_changed_or_forgotten_after_the_run_is_left_alone_and_named(
    kept: Kept, is_forgotten: bool
) -> None:
    worse = await kept.add(*ADVICE[0], confidence=0.4)
    await kept.add(*ADVICE[1], confidence=0.6)
    done = await consolidate(kept.toolbox)
    (event,) = [each for each in await kept.store.memory_history([SHOP], worse) if each.kind.endswith(".archived")]
    assert event.data["run_id"] == done.run_id
    assert str(event.data["reason"]).startswith("duplicate of rm_")
    if is_forgotten:
        await kept.store.forget([SHOP], [worse])
    else:
        await kept.store.set_status([SHOP], [worse], "quarantined", "looks odd")
    assert (await undo_consolidation(kept.toolbox, done.run_id)).skipped == (worse,)
    left = await kept.store.get_memories([SHOP], [worse])
    assert [item.status for item in left] == ([] if is_forgotten else ["quarantined"])


async def test_an_empty_bank_is_in_order(kept: Kept) -> None:
    done = await consolidate(kept.toolbox, full=True)
    assert (done.compared, done.merged, done.aged) == (0, (), 0)
    assert (await undo_consolidation(kept.toolbox, done.run_id)).restored == 0


async def test_progress_never_goes_back_and_ends_at_the_total(kept: Kept) -> None:
    await _fill(kept, random.Random(5))
    seen: list[tuple[int, int]] = []
    await consolidate(kept.toolbox, full=True, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


async def test_the_counter_of_new_memories_begins_again_and_counts_what_came_meanwhile(kept: Kept) -> None:
    @dataclass
    class Meanwhile(_Watched):
        async def before(self, name: str) -> None:
            if name == "write_upkeep" and not self.calls.count("write_upkeep") > 1:
                await kept.add(*ADVICE[4])

    await kept.add_all([*ADVICE[:2], ADVICE[3]])
    await consolidate(replace(kept.toolbox, store=Meanwhile(kept.store).store))
    statistics = await kept.store.statistics(SHOP, kept.toolbox.embedder.name)
    assert statistics.new_since_consolidation == 1


@dataclass
class _Watched:
    """A store where something happens before each call."""

    inner: Store
    calls: list[str] = field(default_factory=list[str])

    async def before(self, name: str) -> None:
        """Do what is to happen before a call."""

    @property
    def store(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        function = getattr(self.inner, name)

        async def called(*args: Any, **given: Any) -> Any:
            self.calls.append(name)
            await self.before(name)
            return await function(*args, **given)

        return called


@dataclass
class _Cut(_Watched):
    """Cancels the calling task at call number `at`, which is still made."""

    at: int = 0

    async def before(self, name: str) -> None:
        if len(self.calls) == self.at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()


async def _check_whole(kept: Kept) -> None:
    """Check the bank: the file is sound, every active memory is in its indexes, every link has both ends."""
    active = await kept.store.list_memories([SHOP], MemoryFilter(limit=500))
    statistics = await kept.store.statistics(SHOP, kept.toolbox.embedder.name)
    assert statistics.memories["active"] == len(active) == statistics.embedded[kept.toolbox.embedder.name]
    for item in active:
        vector = (await kept.toolbox.embedder.embed_queries([item.embedding_text]))[0]
        near = await kept.store.nearest([SHOP], kept.toolbox.embedder.name, vector, 50)
        assert item.id in [each for each, _ in near]
    assert (await kept.store.inspect()).sound


async def test_a_run_that_is_cancelled_at_any_of_its_calls_can_be_continued_and_undone() -> None:
    whole: str | None = None
    for at in range(1, 40, 1 if FULL else 3):
        async with filled(8) as kept:
            initial = await kept.shown(QUERY)
            cut = _Cut(kept.store, at=at)
            task = asyncio.create_task(consolidate(replace(kept.toolbox, store=cut.store), full=True))
            await asyncio.wait([task])
            if not task.cancelled():
                assert at > 8
                break
            await kept.store.release(SHOP, "none", NOW)  # writes nothing, but waits until what was cut off is written
            await _check_whole(kept)
            await consolidate(kept.toolbox, full=True)
            await _check_whole(kept)
            end = str(sorted((item.title, item.status, item.confidence) for item in await _all(kept)))
            whole = whole or end
            assert end == whole
            for run_id in kept.runs():
                assert (await undo_consolidation(kept.toolbox, run_id)).skipped == ()
            assert await kept.shown(QUERY) == initial


async def test_an_undo_that_is_cancelled_at_any_of_its_calls_can_be_repeated() -> None:
    for at in range(1, 40):
        async with filled(8) as kept:
            initial = await kept.shown(QUERY)
            done = await consolidate(kept.toolbox, full=True)
            cut = _Cut(kept.store, at=at)
            task = asyncio.create_task(undo_consolidation(replace(kept.toolbox, store=cut.store), done.run_id))
            await asyncio.wait([task])
            if not task.cancelled():
                assert at > 3
                break
            await undo_consolidation(kept.toolbox, done.run_id)
            assert await kept.shown(QUERY) == initial


@settings(max_examples=2)
@given(st.integers(0, 2**20))
async def test_two_runs_at_once_leave_one_of_each_and_both_can_be_undone(seed: int) -> None:
    async with filled(seed) as kept:
        before = await kept.shown(QUERY)
        async with opened(kept.database.parent.parent) as other:
            await asyncio.gather(consolidate(kept.toolbox, full=True), consolidate(other.toolbox, full=True))
        await _check_whole(kept)
        again = await consolidate(kept.toolbox, full=True, dry_run=True)
        assert (again.merged, again.pruned, again.aged) == ((), (), 0)
        archived = [item for item in await _all(kept) if (item.status_reason or "").startswith("duplicate of")]
        active = await kept.active()
        gone = {item.id for item in await _all(kept)} - active
        for item in archived:
            kept_id = str(item.status_reason).split()[2]
            assert kept_id in active or kept_id in gone - {each.id for each in archived}
        for run_id in kept.runs():
            await undo_consolidation(kept.toolbox, run_id)
        assert await kept.shown(QUERY) == before


async def _all(kept: Kept) -> list[Any]:
    return list(await kept.store.list_memories([SHOP], EVERY_STATUS))
