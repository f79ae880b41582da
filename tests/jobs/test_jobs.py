"""The worker: durable jobs are done once, resumed after a crash, and yield to whoever is being served."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, AsyncMock

import anyio
import pytest
from clock import SetClock
from counting import SlowEmbedder
from hooked import hooked
from made_items import made_item, put
from made_work import made_job
from patience import HANG_S
from pydantic import JsonValue

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.errors import ConfigError, InputError, QuotaReached, StorageError, StoreBusy
from swarm_memory.schema.job import Job, Progress
from swarm_memory.server.hooks.client import notify_servers
from swarm_memory.server.hooks.listener import _warm  # pyright: ignore
from swarm_memory.server.jobs import worker as jobs
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.jobs.worker import Handler, ProgressReporter, Worker
from swarm_memory.server.location import Location, state_folder
from swarm_memory.server.mirror.mirror import MIRROR
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.storage.engine.files import writer_lock
from swarm_memory.server.switch import pause, resume
from swarm_memory.server.wiring import make_worker, opened_toolbox
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.consolidate.upkeep import RETENTION
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.toolbox import Toolbox

Result = Mapping[str, JsonValue]
ALL = ("queued", "running", "completed", "failed", "cancelled")


def job_of(toolbox: Toolbox, key: str = "k", delay_s: float = 0, **payload: JsonValue) -> Job:
    return made_job(key, datetime.now(UTC) + timedelta(seconds=delay_s), scope=toolbox.scope, payload=payload)


async def only_job(toolbox: Toolbox) -> Job:
    (job,) = await toolbox.store.list_jobs(toolbox.scope, ALL, 10)
    return job


def doing(action: Callable[[Job], Awaitable[Result]]) -> dict[str, Handler]:
    async def handle(_: Toolbox, job: Job) -> Result:
        return await action(job)

    return {"learn": handle}


class Once:
    """Does a job by recording that it was done."""

    def __init__(self) -> None:
        self._done = anyio.Event()

    async def __call__(self, *_: object) -> Result:
        self._done.set()
        return {}

    async def is_done(self) -> None:
        with anyio.fail_after(HANG_S):
            await self._done.wait()


@asynccontextmanager
async def running(worker: Worker) -> AsyncGenerator[None]:
    """Run a worker during the block, which starts when the worker has checked for jobs once and rests."""
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await anyio.wait_all_tasks_blocked()
        yield
        group.cancel_scope.cancel()


async def nothing(_: Job) -> Result:
    return {}


@pytest.mark.parametrize("by", ["a call", "a look now and then", "time"])
async def test_a_resting_worker_wakes_at_a_call_now_and_then_and_when_a_job_falls_due(
    toolbox: Toolbox, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once()
    worker = Worker(toolbox, doing(once))
    if by == "time":
        await toolbox.store.enqueue(job_of(toolbox, delay_s=0.3))
    if by == "a look now and then":
        monkeypatch.setattr(jobs, "RECHECK_S", 0.1)
    async with running(worker):
        if by != "time":
            worker.wake()
            await anyio.wait_all_tasks_blocked()
            await toolbox.store.enqueue(job_of(toolbox))  # as another process does
        if by == "a call":
            worker.wake()
        await once.is_done()


@pytest.mark.parametrize("used_s", [HANG_S, 0.0])
async def test_a_servers_worker_looks_by_itself_only_while_the_server_is_used(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, used_s: float
) -> None:
    monkeypatch.setattr(jobs, "RECHECK_S", 0.02)
    monkeypatch.setattr(jobs, "USED_S", used_s)
    looked = anyio.Event()

    def is_off() -> bool:
        nonlocal looked
        looked.set()
        looked = anyio.Event()
        return False

    worker = Worker(toolbox, doing(nothing), is_off=is_off)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(worker.run, is_served=True))
        await looked.wait()
        with anyio.move_on_after(HANG_S if used_s else 0.5) as rest:
            await looked.wait()
        assert rest.cancelled_caught == (used_s == 0)
        worker.note_use()
        await looked.wait()
        group.cancel_scope.cancel()


async def test_a_worker_of_a_server_at_rest_tries_a_busy_bank_again_soon_and_loses_no_result(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BUSY_S", 0.02)
    monkeypatch.setattr(jobs, "RECHECK_S", HANG_S)
    monkeypatch.setattr(jobs, "USED_S", 0.0)
    for name in ("claim", "finish"):
        effects = chain([StoreBusy("busy")] * 2, repeat(DEFAULT))
        monkeypatch.setattr(toolbox.store, name, AsyncMock(wraps=getattr(toolbox.store, name), side_effect=effects))
    await toolbox.store.enqueue(job_of(toolbox))
    async with anyio.create_task_group() as group:
        group.start_soon(partial(Worker(toolbox, doing(nothing)).run, is_served=True))
        with anyio.fail_after(1.0):
            while (await only_job(toolbox)).status != "completed":
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert (await only_job(toolbox)).attempts == 1


async def test_a_worker_that_is_cancelled_while_it_takes_a_job_puts_it_back(
    toolbox: Toolbox, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    await toolbox.store.enqueue(job_of(toolbox))
    noted = AsyncMock(wraps=toolbox.store.write)
    monkeypatch.setattr(toolbox.store, "write", noted)
    async with anyio.create_task_group() as group:
        with writer_lock(place.database, HANG_S):
            group.start_soon(Worker(toolbox, doing(lambda _: asyncio.sleep(HANG_S, {}))).work_off_due)
            while not noted.called:  # noqa: ASYNC110 - a mock sets no event
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    await toolbox.store.release(toolbox.scope, "", datetime.now(UTC))  # by then, everything that was waiting is written
    assert ((await only_job(toolbox)).status, (await only_job(toolbox)).attempts) == ("queued", 0)


async def test_a_long_job_is_cancelled_though_its_progress_cannot_be_written(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> bool:
        raise StorageError("the disk is full")

    async def endless(_: Toolbox, job: Job, reported: ProgressReporter) -> Result:
        await reported(Progress(done=1))
        assert await toolbox.store.cancel_job(job.scope, job.id)
        await anyio.sleep_forever()
        return {}

    monkeypatch.setattr(jobs, "REPORT_S", 0.02)
    monkeypatch.setattr(toolbox.store, "report", refused)
    await toolbox.store.enqueue(job_of(toolbox))
    with anyio.fail_after(HANG_S):
        assert await Worker(toolbox, {}, {"learn": endless}).work_off_due() == 1
    assert (await only_job(toolbox)).status == "cancelled"


@pytest.mark.parametrize("by", ["pause", "pause everywhere", "the environment", "the setting", "what cannot be read"])
async def test_the_worker_of_a_server_that_is_switched_off_does_no_job(
    toolbox: Toolbox, place: Location, fixed: dict[str, Any], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RECHECK_S", 0.02)
    path = place.root / "session.jsonl"
    path.write_text(json.dumps({"id": "fix-1", "task": fixed["task"], "steps": fixed["steps"]}))
    await toolbox.store.enqueue(job_of(toolbox, transcript_path=str(path)))
    settings = toolbox.settings
    match by:
        case "the environment":
            monkeypatch.setenv("SWARM_MEMORY_DISABLED", "yes")
        case "the setting":
            settings = settings.model_copy(update={"enabled": False})
        case "what cannot be read":
            (state_folder() / "paused").mkdir(parents=True)
        case _:
            pause(None if by.endswith("everywhere") else place.root)
    with anyio.move_on_after(0.5):
        await make_worker(replace(toolbox, settings=settings), place).run()
    assert (await only_job(toolbox)).status == "queued"
    monkeypatch.delenv("SWARM_MEMORY_DISABLED", raising=False)
    shutil.rmtree(state_folder() / "paused", ignore_errors=True)
    resume(None)
    async with running(make_worker(toolbox, place)):
        with anyio.fail_after(HANG_S):
            while (await toolbox.store.list_jobs(toolbox.scope, ("completed",), 9)) == []:
                await anyio.lowlevel.checkpoint()


async def test_a_long_job_keeps_its_lease(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    lease_s = toolbox.settings.jobs.lease_s
    beat, beats, enough = toolbox.store.heartbeat, list[datetime](), anyio.Event()
    stolen: list[Job | None] = []

    async def noted(job_id: str, worker: str, now: datetime) -> bool:
        is_kept = await beat(job_id, worker, now)
        beats.append(now)
        if len(beats) == 2:
            enough.set()
        return is_kept

    async def long(_: Job) -> Result:
        with anyio.fail_after(HANG_S):
            await enough.wait()
        just_before_its_end = beats[-1] + timedelta(seconds=lease_s * 0.9)
        stolen.append(await toolbox.store.claim("a thief", just_before_its_end, lease_s, ("learn",), toolbox.scope))
        return {}

    monkeypatch.setattr(toolbox.store, "heartbeat", noted)
    await toolbox.store.enqueue(job_of(toolbox))
    assert await Worker(toolbox, doing(long)).work_off_due() == 1
    assert stolen == [None]
    assert (await only_job(toolbox)).status == "completed"


@pytest.mark.parametrize("error", [InputError, ConfigError])
async def test_a_wrong_input_or_setting_fails_at_once_and_says_why(
    toolbox: Toolbox, error: type[InputError | ConfigError]
) -> None:
    async def wrong(_: Job) -> Result:
        raise error("the transcript is gone")

    await toolbox.store.enqueue(job_of(toolbox))
    await Worker(toolbox, doing(wrong)).work_off_due()
    job = await only_job(toolbox)
    assert (job.status, job.attempts, job.error) == ("failed", 1, "the transcript is gone")


async def test_what_the_days_quota_refused_is_learned_on_the_next_day(toolbox: Toolbox) -> None:
    async def full(_: Job) -> Result:
        raise QuotaReached(2)

    await toolbox.store.enqueue(job_of(toolbox))
    assert await Worker(toolbox, doing(full)).work_off_due() == 1
    job = await only_job(toolbox)
    assert (job.status, job.attempts) == ("queued", 0)
    assert "learn.max_new_per_day" in (job.error or "")
    assert timedelta(0) < job.run_after - toolbox.clock.now() <= timedelta(days=1)
    assert (job.run_after.hour, job.run_after.minute, job.run_after.second) == (0, 0, 0)
    for _ in range(2 * toolbox.settings.jobs.max_attempts):  # the next turns and the session's end bring it forward
        assert await Worker(toolbox, doing(full)).work_off_all() == 1
    assert (await only_job(toolbox)).status == "queued"


@pytest.mark.parametrize("fault", [StorageError("busy"), RuntimeError("a bug")])
async def test_a_fault_does_not_end_the_worker(toolbox: Toolbox, fault: Exception) -> None:
    async def fail_first(job: Job) -> Result:
        if job.key == "bad":
            raise fault
        return {}

    await toolbox.store.enqueue(job_of(toolbox, "bad"))
    await toolbox.store.enqueue(job_of(toolbox, "good"))
    await Worker(toolbox, doing(fail_first)).work_off_due()
    by_key = {job.key: job for job in await toolbox.store.list_jobs(toolbox.scope, ALL, 10)}
    assert by_key["good"].status == "completed"
    assert by_key["bad"].status == "failed"
    assert by_key["bad"].attempts == (2 if isinstance(fault, StorageError) else 1)
    assert str(fault) in (by_key["bad"].error or "")


async def test_a_job_that_takes_too_long_is_ended(toolbox: Toolbox) -> None:
    jobs = toolbox.settings.jobs.model_copy(update={"timeout_s": 0.1})
    hasty = replace(toolbox, settings=toolbox.settings.model_copy(update={"jobs": jobs}))

    async def endless(_: Job) -> Result:
        await anyio.sleep_forever()
        return {}

    await toolbox.store.enqueue(job_of(toolbox))
    with anyio.fail_after(HANG_S):
        await Worker(hasty, doing(endless)).work_off_due()
    job = await only_job(toolbox)
    assert job.status == "failed"
    assert "longer than 0.1 s" in (job.error or "")


async def test_a_job_of_another_project_is_done_there_and_one_for_its_folder_is_left_to_it(
    toolbox: Toolbox, place: Location
) -> None:
    another = toolbox.in_project("another")
    for kind in (MIRROR, RETENTION, "learn"):
        await another.queue(kind, kind)
    await another.store.add_event(another.scope, BankEvent("noted", datetime(2020, 1, 1, tzinfo=UTC), "old", {}))
    await make_worker(toolbox, place).work_off_all()
    jobs = await toolbox.store.list_jobs(another.scope, ALL, 9)
    assert {job.kind: job.status for job in jobs} == {MIRROR: "queued", RETENTION: "completed", "learn": "queued"}
    assert await another.store.events_of_kind(another.scope, "noted", 9) == []


async def test_a_server_without_a_bank_takes_up_the_work_once_another_process_made_one(
    connected: Callable[[], Any], settings: Any, home: Path, place: Location, fixed: dict[str, Any]
) -> None:
    path = place.root / "s-1.jsonl"
    path.write_text(json.dumps({"id": "fix-1", "task": fixed["task"], "steps": fixed["steps"]}))
    event = {"hook_event_name": "SessionEnd", "session_id": "s-1", "transcript_path": str(path)}
    async with connected():
        assert not place.database.exists()
        async with opened_toolbox(place, settings) as other:
            await hooked(other, event)
            await anyio.to_thread.run_sync(notify_servers, place.root, "s-1")
            with anyio.fail_after(HANG_S):
                while not await other.store.list_jobs(other.scope, ("completed",), 9):
                    await anyio.lowlevel.checkpoint()


async def test_what_failed_is_tried_again_later_and_later(toolbox: Toolbox) -> None:
    async def busy(_: Job) -> Result:
        raise StorageError("busy")

    clock = SetClock()
    limits = toolbox.settings.jobs.model_copy(update={"retry_s": 10.0, "max_attempts": 4})
    held = replace(toolbox, clock=clock, settings=toolbox.settings.model_copy(update={"jobs": limits}))
    await toolbox.store.enqueue(job_of(toolbox).model_copy(update={"run_after": clock.at}))
    worker = Worker(held, doing(busy))
    waits: list[float] = []
    while (job := await only_job(toolbox)).status == "queued":
        waits.append((job.run_after - clock.at).total_seconds())
        clock.at = job.run_after - timedelta(seconds=1)
        assert waits[0] == 0
        assert await worker.work_off_due() == 0
        clock.at = job.run_after
        assert await worker.work_off_due() == 1, "once, and not at once again"
    assert waits == [0, 10, 20, 40]
    assert (job.status, job.attempts, job.error) == ("failed", 4, "busy")


async def test_what_one_lane_queued_the_other_does_at_once(toolbox: Toolbox) -> None:
    once = Once()

    async def queues(job: Job) -> Result:
        await toolbox.store.enqueue(job.model_copy(update={"id": new_id(JOB), "kind": "long"}))
        return {}

    worker = Worker(toolbox, doing(queues), {"long": once})
    async with running(worker):
        await toolbox.store.enqueue(job_of(toolbox))
        worker.wake()
        await once.is_done()


async def never() -> Toolbox:
    raise AssertionError("nothing is opened here")


async def passes(bank: ServedBank) -> bool:
    """Return whether work continues within a few turns of the event loop."""
    going = asyncio.ensure_future(bank.give_way())
    for _ in range(20):
        await asyncio.sleep(0)
    if going.done():
        return True
    going.cancel()
    return False


async def test_work_waits_while_somebody_is_served_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.served_bank.GIVE_WAY_S", 60.0)
    bank = ServedBank(never)
    assert await passes(bank)
    with bank.serving():
        waiting = asyncio.ensure_future(bank.give_way())
        with bank.serving():
            assert not await passes(bank)
        assert not await passes(bank)
        with bank.serving(-1):  # the only caller waits for that work
            assert await passes(bank)
            assert waiting.done()
    await bank.give_way()
    assert await passes(bank)
    monkeypatch.setattr("swarm_memory.server.served_bank.GIVE_WAY_S", 0.0)
    with bank.serving():  # a server that is never at rest
        await bank.give_way()


async def test_a_server_goes_on_though_nothing_can_be_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.hooks.listener.FIRST_LOOK_S", 0.0)
    await _warm(ServedBank(AsyncMock(side_effect=RuntimeError("can't start new thread"))), lambda: True)


async def test_consolidation_does_nothing_while_it_gives_way(toolbox: Toolbox) -> None:
    quiet, asking, asked = asyncio.Event(), asyncio.Event(), 0

    async def give_way() -> None:
        nonlocal asked
        asked += 1
        asking.set()
        await quiet.wait()

    await put(toolbox, made_item("Run the migrations first", scope=toolbox.scope))
    running = asyncio.ensure_future(consolidate(replace(toolbox, give_way=give_way)))
    await asking.wait()
    assert not running.done()
    quiet.set()
    assert (await running).compared == 1
    assert asked > 1


async def test_re_embedding_gives_way_before_every_few_texts(toolbox: Toolbox) -> None:
    for number in range(20):
        await remember(toolbox, f"Case {number}: ask before the upload replaces a file.")
    asked, slow = 0, SlowEmbedder()

    async def give_way() -> None:
        nonlocal asked
        asked += 1

    done = await reembed(replace(toolbox, embedder=slow, give_way=give_way))
    assert (done.embedded, max(slow.batches), asked) == (20, 8, 3)


async def test_a_caller_who_waits_for_the_work_itself_does_not_hold_it_up(
    connected: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.served_bank.FIRST_LOOK_S", 0.0)
    monkeypatch.setattr("swarm_memory.server.served_bank.GIVE_WAY_S", 60.0)
    async with connected() as caller:
        for number in range(3):
            await caller.call("remember", text=f"Case {number}: ask before the upload replaces a file.")
        answer = await caller.call("consolidate_memories", full=True)
    assert answer["status"] == "completed"
