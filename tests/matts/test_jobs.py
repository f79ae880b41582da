"""Long work as jobs: waited for with real progress, queried later, cancelled, and continued after a restart."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from patience import HANG_S
from pydantic import JsonValue

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.job import Job, JobAction, Progress, Report
from swarm_memory.server.jobs.control import manage_jobs, run_as_job
from swarm_memory.server.jobs.handlers import RUN_MATTS, long_handlers
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.server.operations.work import of_job
from swarm_memory.tools.toolbox import Toolbox
from tests.matts.worlds import TASK, Agent, matts, opened

Result = Mapping[str, JsonValue]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.jobs.worker.REPORT_S", 0.02)
    monkeypatch.setattr("swarm_memory.server.jobs.control.LOOK_S", 0.01)


def counts(upto: int, until: anyio.Event | None = None) -> Callable[[Toolbox, Job, Report], Awaitable[Result]]:
    """Return a job that counts, and waits for `until` before it ends."""

    async def count(_: Toolbox, job: Job, report: Report) -> Result:
        for done in range(1, upto + 1):
            await report(Progress(done=done, total=upto, message=f"{done} of {upto}"))
        if until is not None:
            await until.wait()
        return {"counted": upto, "given": job.payload.get("given")}

    return count


@asynccontextmanager
async def at_work(
    tools: Toolbox, long: Mapping[str, Any], short: Mapping[str, Any] | None = None
) -> AsyncGenerator[Worker]:
    """Run a worker for these jobs during the block."""
    working = Worker(tools, short or {}, long)
    async with anyio.create_task_group() as group:
        group.start_soon(working.run)
        yield working
        group.cancel_scope.cancel()


def scaling(command: str) -> dict[str, Any]:
    """Return the payload of a job that lets a command try the task once."""
    runner = {"kind": "command", "command": command, "folder": "work"}
    return {"run_id": new_id(RUN), "task": TASK, "count": 1, "runner": runner}


async def unheard(_: Progress) -> None:
    """Ignore progress."""


async def queued(
    tools: Toolbox,
    working: Worker,
    kind: str,
    payload: Mapping[str, JsonValue],
    wait_s: float = 0.0,
    on_progress: Report = unheard,
) -> Job:
    """Queue a job and wait `wait_s` seconds for its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swarm_memory.server.jobs.control.WAIT_S", wait_s)
        return await run_as_job(tools, kind, payload, wake=working.wake, on_progress=on_progress)


async def asked(tools: Toolbox, action: JobAction, job_id: str | None) -> Job:
    """Manage jobs and return the only one, which must exist."""
    (job,) = await manage_jobs(tools, action, job_id, wake=lambda: None, on_progress=unheard)
    return job


async def test_a_short_job_is_done_within_the_wait_and_reports_its_progress(tools: Toolbox) -> None:
    reported: list[Progress] = []

    async def note(progress: Progress) -> None:
        reported.append(progress)

    release = anyio.Event()
    async with at_work(tools, {"count": counts(4, release)}) as working, anyio.create_task_group() as group:

        async def let_go_when_reported() -> None:
            while not any(each.done == 4 for each in reported):
                await anyio.lowlevel.checkpoint()
            release.set()

        group.start_soon(let_go_when_reported)
        job = await queued(tools, working, "count", {"given": 1}, 4, note)
        assert (job.status, job.result) == ("completed", {"counted": 4, "given": 1})
        assert job.progress is None
        assert reported[-1] == Progress(done=4, total=4, message="4 of 4")


async def test_a_long_job_gives_its_id_and_is_asked_for_later(tools: Toolbox, tmp_path: Path) -> None:
    release = anyio.Event()
    async with opened(tmp_path) as other, at_work(tools, {"count": counts(3, release)}) as working:
        begun = await queued(tools, working, "count", {}, 0.3)
        assert begun.status == "running"
        shown = of_job(await asked(other, "status", begun.id))  # as seen by any process
        assert (shown["status"], shown["done"], shown["total"]) == ("running", 3, 3)
        assert "hint" in shown
        release.set()
        ended = of_job(await asked(tools, "result", begun.id))
        assert (ended["status"], ended["result"]) == ("completed", {"counted": 3, "given": None})
        assert "hint" not in ended
        listed = await asked(tools, "list", None)
        assert (listed.id, listed.status) == (begun.id, "completed")


async def test_a_cancelled_job_stops_soon_and_a_queued_one_never_begins(tools: Toolbox) -> None:
    async with at_work(tools, {"count": counts(1, anyio.Event())}) as working:
        waiting = await queued(tools, working, "other", {})
        assert (await asked(tools, "cancel", waiting.id)).status == "cancelled"
        begun = await queued(tools, working, "count", {}, 0.3)
        for _ in range(2):
            assert (await asked(tools, "cancel", begun.id)).status == "cancelled"
        assert (await queued(tools, working, "count", {}, 0.5)).status == "running", "the worker is free again"


async def test_a_long_job_does_not_keep_short_ones_waiting(tools: Toolbox) -> None:
    done = anyio.Event()

    async def short(_: Toolbox, __: Job) -> Result:
        done.set()
        return {}

    async with at_work(tools, {"count": counts(1, anyio.Event())}, {"short": short}) as working:
        assert (await queued(tools, working, "count", {}, 0.3)).status == "running"
        assert (await queued(tools, working, "short", {}, 4)).status == "completed"
        assert done.is_set()


async def test_cancelling_a_scaling_job_ends_its_processes_and_its_run(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(60)")
    settings = matts(allowed_commands=[agent.command])
    payload = scaling(agent.command)
    async with opened(tmp_path, settings) as tools, at_work(tools, long_handlers(tmp_path)) as working:
        begun = await queued(tools, working, RUN_MATTS, payload)
        cache = Path.home() / ".cache" / "swarm-memory" / "matts" / str(payload["run_id"])
        with anyio.fail_after(HANG_S):
            while not (cache / "1" / "begun").exists():
                await anyio.lowlevel.checkpoint()
            assert (await asked(tools, "cancel", begun.id)).status == "cancelled"
            while cache.exists():
                await anyio.lowlevel.checkpoint()
        run = await tools.store.get_run(tools.scope, str(payload["run_id"]))
        assert run is not None
        assert run.status == "cancelled"


@pytest.mark.parametrize("command", ["rm -rf .", None])
async def test_a_command_that_is_no_longer_allowed_or_given_fails_the_job_with_what_to_change(
    tools: Toolbox, tmp_path: Path, command: str | None
) -> None:
    (tmp_path / "work").mkdir()
    working = Worker(tools, {}, long_handlers(tmp_path))
    begun = await queued(tools, working, RUN_MATTS, scaling(command) if command else {})
    await working.work_off_due()
    job = await asked(tools, "status", begun.id)
    assert (job.status, job.attempts) == ("failed", 1)
    assert ("allowed_commands" if command else "task: Field required") in (job.error or "")
