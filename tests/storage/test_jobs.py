"""Durable work in a real bank, on every rung: replaced while queued, leased while running, ended once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.job import Job

T0 = datetime(2026, 5, 1, tzinfo=UTC)
KINDS = ("learn",)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def job(here: Scope) -> Any:
    def made(key: str = "k", run_after: datetime = T0, **fields: Any) -> Job:
        given: dict[str, Any] = {"id": new_id("job"), "scope": here, "kind": "learn"} | fields
        return Job(key=key, run_after=run_after, created_at=T0, **given)

    return made


async def test_a_queued_job_is_replaced_by_a_later_one_of_its_key(open_bank: Any, here: Scope, job: Any) -> None:
    first, later = job(payload={"n": 1}), job(run_after=at(9), payload={"n": 2})
    async with open_bank() as store:
        assert await store.enqueue(first) == first.id
        assert await store.enqueue(later) == first.id
        assert await store.enqueue(job(scope=Scope(project="there"))) != first.id
        assert await store.enqueue(job(kind="consolidate")) != first.id
        (queued,) = [each for each in await store.list_jobs(here, ["queued"], 9) if each.kind == "learn"]
        assert (queued.payload, queued.run_after, queued.created_at) == ({"n": 2}, at(9), T0)
        assert await store.next_due(KINDS, 60) == T0
        assert await store.next_due(("other",), 60) is None


async def test_the_oldest_due_job_is_taken_and_none_before_its_time(open_bank: Any, job: Any) -> None:
    async with open_bank() as store:
        late, early = job("late", at(5)), job("early", at(1))
        await store.enqueue(late)
        await store.enqueue(early)
        await store.enqueue(job("other", at(0), kind="consolidate"))
        assert await store.claim("w", at(0.5), 60, KINDS) is None
        taken = await store.claim("w", at(6), 60, KINDS)
        assert taken is not None
        assert (taken.id, taken.status, taken.worker, taken.attempts) == (early.id, "running", "w", 1)
        assert taken.started_at == at(6)
        assert (await store.claim("w", at(6), 60, KINDS)).id == late.id
        assert await store.claim("w", at(6), 60, KINDS) is None


async def test_many_workers_take_each_job_once(open_bank: Any, job: Any) -> None:
    async with open_bank() as one, open_bank() as two:
        ids = {await one.enqueue(job(f"k{number}")) for number in range(12)}
        taken = await asyncio.gather(
            *(store.claim(f"w{number}", at(1), 60, KINDS) for number in range(10) for store in (one, two))
        )
    assert sorted(each.id for each in taken if each) == sorted(ids)


async def test_a_job_whose_worker_fell_silent_is_taken_over(open_bank: Any, job: Any) -> None:
    async with open_bank() as store:
        await store.enqueue(job())
        taken = await store.claim("dead", at(0), 10, KINDS)
        assert await store.heartbeat(taken.id, "dead", at(8))
        assert await store.claim("new", at(17), 10, KINDS) is None
        again = await store.claim("new", at(18), 10, KINDS)
        assert (again.id, again.worker, again.attempts) == (taken.id, "new", 2)
        assert not await store.heartbeat(taken.id, "dead", at(19))
        assert not await store.finish(taken.id, "dead", "completed", {"n": 1}, None)
        assert await store.finish(taken.id, "new", "completed", {"n": 2}, None)
        assert not await store.finish(taken.id, "new", "failed", None, "twice")
        (ended,) = await store.list_jobs(job().scope, ["completed"], 9)
        assert (ended.result, ended.error, ended.worker) == ({"n": 2}, None, "new")
        assert ended.ended_at is not None


async def test_a_job_that_is_put_back_is_taken_again_unless_a_later_one_stands_for_it(
    open_bank: Any, here: Scope, job: Any
) -> None:
    async with open_bank() as store:
        await store.enqueue(job())
        taken = await store.claim("w", at(1), 60, KINDS)
        assert await store.finish(taken.id, "w", "queued", None, "try later")
        again = await store.claim("w", at(1), 60, KINDS)
        assert (again.id, again.attempts, again.error) == (taken.id, 2, "try later")
        newer = job()
        await store.enqueue(newer)
        assert await store.finish(taken.id, "w", "queued", None, "try later")
        assert [each.id for each in await store.list_jobs(here, ["queued"], 9)] == [newer.id]
        assert [each.id for each in await store.list_jobs(here, ["cancelled"], 9)] == [taken.id]
        assert (await store.statistics(here, "numbers")).jobs == {"queued": 1, "cancelled": 1}


async def test_queued_jobs_are_brought_forward_by_the_start_of_their_key(open_bank: Any, here: Scope, job: Any) -> None:
    async with open_bank() as store:
        for key, seconds in (("s1:1", 90), ("s1:2", 1), ("s10:1", 90), ("s%:1", 90)):
            await store.enqueue(job(key, at(seconds)))
        assert await store.release(here, "s1:", at(5)) == 1
        assert await store.release(here, "s%", at(5)) == 1
        assert await store.release(Scope(project="there"), "", at(0)) == 0
        due = {each.key: each.run_after for each in await store.list_jobs(here, ["queued"], 9)}
        assert due == {"s1:1": at(5), "s1:2": at(1), "s10:1": at(90), "s%:1": at(5)}
