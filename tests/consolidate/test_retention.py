"""Retention: old data other than memories is removed in short batches, and what pointed at it says so."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from made_tasks import done, ran, said, saw

from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import RetentionSettings, Settings
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.jobs.handlers import long_handlers
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.tools.consolidate.upkeep import RETENTION, queue_retention_when_due, remove_old
from swarm_memory.tools.credit.metrics import memory_effect
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.manage import memory_history
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.records import RETAINED, BankEvent
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.tool_memory.log import log_tool_calls
from tests.consolidate.kept_bank import ADVICE, SHOP, Kept, opened

WORDS = "the zebra configuration of the shop"
CALL = ReportedCall(tool_name="search", input={"query": WORDS}, output="nothing", success=True, call_id="c1")


def task(**fields: Any) -> Trajectory:
    """Return a task that ends well, with words that can be found wherever they are stored."""
    failure = "Exit code 1\nE sqlite3.OperationalError: no such table: orders\n1 failed in 0.02s"
    steps = (
        ran("pytest -q"),
        saw(failure),
        ran("python -m shop.migrate"),
        saw("migrated shop_test.db: 1 table"),
        ran("pytest -q"),
        saw("2 passed in 0.01s"),
        said(f"Done: {WORDS} is right."),
    )
    return done(*steps, task=f"Make {WORDS} pass its tests.", **fields)


async def fill(kept: Kept) -> tuple[str, str]:
    """Learn from a task, retrieve, and log a call, all now; return the ids of the memory and its trajectory."""
    kept.clock.at = datetime.now(UTC)  # what the bank writes by itself carries the real time
    learned = await learn(kept.toolbox, task())
    await retrieve(kept.toolbox, WORDS)
    await kept.store.recorder.settle()
    await log_tool_calls(kept.toolbox, [CALL])
    (item,) = learned.stored
    return item.id, learned.trajectory_id


def everything(kept: Kept) -> str:
    return json.dumps(kept.rows(), default=str)


async def test_what_is_old_goes_and_the_memory_that_came_of_it_stays(kept: Kept, tmp_path: Path) -> None:
    memory, trajectory = await fill(kept)
    before = await kept.item(memory)
    history = await memory_history(kept.toolbox, memory)
    assert WORDS in everything(kept)
    kept.clock.forward(days=366)
    assert await queue_retention_when_due(kept.toolbox)
    await Worker(kept.toolbox, {}, {RETENTION: long_handlers(tmp_path)[RETENTION]}).work_off_due()
    (job,) = await kept.store.list_jobs(SHOP, ("completed",), 9)
    assert job.result is not None
    assert {kind for kind, number in job.result.items() if number} == set(RETAINED)
    assert WORDS not in everything(kept), "a way out names nothing of the task that it came from, and stays"
    await remove_old(kept.toolbox)  # the job itself, which ended at the real time
    assert not await queue_retention_when_due(kept.toolbox)
    assert await kept.item(memory) == before
    assert await memory_history(kept.toolbox, memory) == history
    found = await kept.store.get_trajectory(SHOP, trajectory)
    assert found is not None
    assert (found[0].task, found[0].steps) == ("(removed: older than retention.trajectories_days)", ())
    assert found[1] is not None
    assert (found[1].label, found[1].reasons) == ("Success", ())
    assert (await kept.store.inspect()).sound


async def test_what_was_removed_is_neither_learned_credited_nor_counted_again(kept: Kept) -> None:
    memory, _ = await fill(kept)
    sure = (await kept.item(memory)).confidence
    kept.clock.forward(days=366)
    await remove_old(kept.toolbox)
    again = await learn(kept.toolbox, task())
    assert (again.status, again.credited) == ("already_learned", ())
    assert (await kept.item(memory)).confidence == sure
    assert (await log_tool_calls(kept.toolbox, [CALL])).logged == 0
    (tool,) = await kept.store.tool_memory.memories(SHOP, None)
    assert (tool.totals.calls, tool.totals.kept) == (1, 0)
    assert await memory_effect(kept.toolbox) is None, "the outcome of a task lasts as long as its figures"


async def test_what_is_young_stays_and_nothing_is_queued(kept: Kept) -> None:
    await fill(kept)
    kept.clock.forward(days=364)
    before = kept.rows()
    assert not await queue_retention_when_due(kept.toolbox)
    assert not any((await remove_old(kept.toolbox)).values())
    assert kept.rows() == before


async def test_zero_days_keep_for_ever_and_each_kind_has_its_own(tmp_path: Path) -> None:
    chosen = RetentionSettings(trajectories_days=0, events_days=0, metrics_days=30, tool_calls_days=0)
    async with opened(tmp_path, settings=Settings(retention=chosen)) as kept:
        _, trajectory = await fill(kept)
        kept.clock.forward(days=31)
        removed = await remove_old(kept.toolbox)
        assert removed.keys() == {"metrics"}
        assert removed["metrics"] >= 1
        found = await kept.store.get_trajectory(SHOP, trajectory)
        assert found is not None
        assert found[0].steps


async def test_a_task_that_was_gone_on_with_keeps_all_its_trajectories(kept: Kept) -> None:
    _, trajectory = await fill(kept)
    kept.clock.forward(days=366)
    later = task()
    longer = later.model_copy(update={"steps": (*later.steps, said("And more.").model_copy(update={"id": "s8"}))})
    await learn(kept.toolbox, longer)
    assert (await remove_old(kept.toolbox))["trajectories"] == 0
    found = await kept.store.get_trajectory(SHOP, trajectory)
    assert found is not None
    assert found[0].steps


async def test_learning_queues_it_once_and_the_status_says_after_how_many_days_each_kind_goes(kept: Kept) -> None:
    await fill(kept)
    kept.clock.forward(days=366)
    for number in range(2):
        await learn(kept.toolbox, task(task_id=f"new-{number}"))
    jobs = await kept.store.list_jobs(SHOP, ("queued",), 9)
    assert [job.kind for job in jobs if job.kind == RETENTION] == [RETENTION]
    said = (await memory_status(kept.toolbox)).retention
    assert said.startswith("trajectories after 365 days, events after 365 days, ")


async def test_other_writers_write_between_its_batches(kept: Kept) -> None:
    await kept.store.add_event(SHOP, BankEvent("task.noted", kept.clock.now() - timedelta(days=400)))
    copied = "INSERT INTO events (scope_id, type, data, created_at) SELECT scope_id, type, data, created_at FROM events"
    for count in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 76):
        await kept.store.write(lambda connection, most=count: connection.execute(f"{copied} LIMIT {most}").rowcount)
    seen: list[int] = []

    async def report(progress: Progress) -> None:
        seen.append(progress.done)
        await kept.store.add_event(SHOP, BankEvent("written.meanwhile", kept.clock.now()))

    assert (await remove_old(kept.toolbox, report))["events"] == 1_100
    assert seen == [500, 1_000, 1_100]
    assert len(await kept.store.events_of_kind(SHOP, "written.meanwhile", 9)) == 3


async def test_another_project_in_the_same_bank_keeps_what_it_has(kept: Kept) -> None:
    await fill(kept)
    kept.clock.forward(days=366)
    await remove_old(kept.toolbox.in_project("other"))
    assert WORDS in everything(kept)


async def test_what_happened_to_a_memory_stays_with_it_and_goes_once_it_is_forgotten(kept: Kept) -> None:
    kept.clock.at = datetime.now(UTC)
    memory = await kept.add(*ADVICE[0])
    kept.clock.forward(days=366)
    assert (await remove_old(kept.toolbox))["events"] == 0
    await kept.store.forget([SHOP], [memory])
    assert (await remove_old(kept.toolbox))["events"] >= 2
    assert memory not in everything(kept)


async def test_a_young_audit_trail_is_not_read_to_its_end(kept: Kept) -> None:
    values = {"scope_id": 1, "before": "2026-01-01", "outcome": "task.outcome", "limit": 1}
    query = f"EXPLAIN QUERY PLAN {queries('retention')['old_events']}"
    plan = await kept.store.read(lambda bank: bank.execute(query, values).fetchall())
    looks = [line.split(maxsplit=1)[1] for *_, line in plan if line.startswith(("SEARCH", "SCAN"))]
    assert looks[:2] == ["e USING INTEGER PRIMARY KEY (rowid<?)", "events"]
    assert not any("ORDER BY" in line for *_, line in plan)
