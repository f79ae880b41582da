"""Automatic consolidation, queued once when enough is new and never waited for; and consolidation by its command."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scripted_runs import Script

from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.server.cli.commands.bank import consolidate
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.jobs.handlers import CONSOLIDATE, long_handlers
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.tools.consolidate.upkeep import WHOLE_BANK, queue_when_due
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.memories.transfer import import_memories
from tests.consolidate.kept_bank import ADVICE, Kept

EVERY = ("queued", "running", "completed", "failed", "cancelled")


async def _jobs(kept: Kept) -> list[Any]:
    return await kept.store.list_jobs(kept.toolbox.scope, EVERY, 20)


async def _fill(kept: Kept, count: int = 20) -> list[str]:
    return await kept.add_all([(f"Look at part {at} of the log", f"1. Open page {at}.") for at in range(count)])


async def test_it_is_queued_once_enough_is_new_however_often_it_is_due(kept: Kept) -> None:
    await _fill(kept, 19)
    assert not await queue_when_due(kept.toolbox)
    assert await _jobs(kept) == []
    await kept.add(*ADVICE[3])
    for _ in range(3):
        assert await queue_when_due(kept.toolbox)
    (job,) = await _jobs(kept)
    assert (job.kind, job.key, job.status) == (CONSOLIDATE, WHOLE_BANK, "queued")
    taken = await kept.store.claim("w", kept.clock.now(), 60, (CONSOLIDATE,), kept.toolbox.scope)
    assert taken is not None
    assert await queue_when_due(kept.toolbox)
    assert [each.id for each in await _jobs(kept)] == [taken.id], "none is queued beside the one that runs"


async def test_a_failed_one_that_waits_for_its_next_try_is_not_hurried(kept: Kept) -> None:
    await _fill(kept)
    await queue_when_due(kept.toolbox)
    (job,) = await _jobs(kept)
    await kept.store.claim("w", kept.clock.now(), 60, (CONSOLIDATE,), kept.toolbox.scope)
    later = kept.clock.now().replace(hour=23)
    await kept.store.finish(job.id, "w", JobEnd("queued", error="busy", run_after=later))
    await queue_when_due(kept.toolbox)
    (job,) = await _jobs(kept)
    assert (job.run_after, job.attempts) == (later, 1)


async def test_the_worker_does_it_and_the_status_tells(kept: Kept, tmp_path: Path) -> None:
    worse = await kept.add(*ADVICE[0], confidence=0.4)
    await kept.add(*ADVICE[1], confidence=0.6)
    await _fill(kept, 18)
    await queue_when_due(kept.toolbox)
    told = (await memory_status(kept.toolbox)).consolidation
    assert told.startswith("20 new memories; runs by itself at 20; job_")
    assert told.endswith(" queued")
    worker = Worker(kept.toolbox, {}, long_handlers(tmp_path))
    assert await worker.work_off_due() == 1
    assert (await kept.item(worse)).status == "archived"
    assert not await queue_when_due(kept.toolbox)
    assert [row[2] for row in kept.rows()["events"]].count("consolidation.finished") == 1
    told = (await memory_status(kept.toolbox)).consolidation
    assert told == "0 new memories; runs by itself at 20; last run 2026-05-01 12:00 UTC"


async def test_learning_and_importing_queue_it(kept: Kept) -> None:
    item = await kept.item(await kept.add(*ADVICE[3]))
    await kept.store.forget([kept.toolbox.scope], [item.id])
    await _fill(kept, 19)
    imported = await import_memories(kept.toolbox, [json.dumps(item.model_dump(mode="json"))])
    assert imported.added == 1
    (job,) = await _jobs(kept)
    assert await kept.store.cancel_job(kept.toolbox.scope, job.id)
    trajectory = Script("Look at the log.").say("I looked at it.").done()
    result = await learn(kept.toolbox, trajectory, agent_verdict=Verdict.by_agent("Success"))
    assert result.consolidation_due
    assert [job.status for job in await _jobs(kept)] == ["queued", "cancelled"]


async def test_a_new_memory_is_compared_also_when_the_newest_one_was_forgotten(kept: Kept) -> None:
    from swarm_memory.tools.consolidate.consolidate import consolidate

    first = await kept.add(*ADVICE[0])
    newest = await kept.add(*ADVICE[3])
    await consolidate(kept.toolbox)
    await kept.store.forget([kept.toolbox.scope], [newest])
    copy = await kept.add(*ADVICE[1], confidence=0.1)
    statistics = await kept.store.statistics(kept.toolbox.scope, kept.toolbox.embedder.name)
    assert statistics.new_since_consolidation == 1
    done = await consolidate(kept.toolbox)
    assert [(each.id, each.kept) for each in done.merged] == [(copy, first)]


Command = Callable[..., Result]


@pytest.fixture
async def command(tmp_path: Path, kept: Kept) -> Command:
    """The command, run in the project of a bank that has two memories that say the same."""
    now = datetime.now(UTC)
    await kept.add(*ADVICE[0], confidence=0.4, created_at=now)
    await kept.add(*ADVICE[1], confidence=0.6, created_at=now)
    invocation = Invocation(tmp_path, {"storage.project": "shop"})
    return lambda *arguments: CliRunner().invoke(consolidate, arguments, obj=invocation)


def test_a_dry_run_a_run_and_its_undoing_by_command(command: Command) -> None:
    def answer(*arguments: str) -> dict[str, Any]:
        return json.loads(command(*arguments, "--json").stdout)

    shown = answer("--dry-run")
    assert len(shown["merged"]) == 1
    done = answer()
    assert done["merged"] == shown["merged"]
    assert answer("--full")["merged"] == []
    assert answer("--undo", done["run_id"])["restored"] == 1
    assert len(answer("--full")["merged"]) == 1


def test_people_see_what_happened_and_how_to_take_it_back(command: Command) -> None:
    shown = command("--dry-run").output
    assert "dry run: yes" in shown
    assert "merged:" in shown
    assert "--undo" not in shown
    done = command().output
    assert "merged:" in done
    run_id = done.split("--undo ")[1].split()[0]
    assert "restored: 1" in command("--undo", run_id).output
    assert "cannot be combined with dry_run or full" in str(command("--undo", "run_01JXYZ", "--full").exception)
