"""Long work as jobs: waited for with real progress, asked for later, cancelled, and gone on with after a restart."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from patience import HANG_S
from pydantic import JsonValue

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.job import Job, JobAction, Progress, Report
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.jobs.control import manage_jobs, run_as_job
from swarm_memory.server.jobs.handlers import CONSOLIDATE, IMPORT, RUN_MATTS, long_handlers
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.server.operations.work import of_job
from swarm_memory.tools.toolbox import Toolbox
from tests.matts.worlds import TASK, Agent, attempt, matts, opened

Result = Mapping[str, JsonValue]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.jobs.worker.REPORT_S", 0.02)
    monkeypatch.setattr("swarm_memory.server.jobs.control.LOOK_S", 0.01)


def counts(upto: int, until: anyio.Event | None = None) -> Callable[[Toolbox, Job, Report], Awaitable[Result]]:
    """A job that counts, and may wait before it ends."""

    async def count(_: Toolbox, job: Job, report: Report) -> Result:
        for done in range(1, upto + 1):
            await report(Progress(done=done, total=upto, message=f"{done} of {upto}"))
        if until is not None:
            await until.wait()
        return {"counted": upto, "given": job.payload.get("given")}

    return count


def worker(tools: Toolbox, **handlers: Any) -> Worker:
    return Worker(tools, {}, handlers)


def given(*trajectories: Trajectory, **fields: Any) -> dict[str, Any]:
    """The payload of a scaling job over attempts that were made before."""
    listed = [each.model_dump(mode="json") for each in trajectories]
    runner = {"kind": "given", "trajectories": listed}
    return {"run_id": new_id(RUN), "task": TASK, "count": len(listed), "runner": runner} | fields


async def unheard(_: Progress) -> None:
    """Nobody listens."""


async def queued(
    tools: Toolbox,
    working: Worker,
    kind: str,
    payload: Mapping[str, JsonValue],
    wait_s: float = 0.0,
    on_progress: Report = unheard,
) -> Job:
    """Queue a job and wait so long for its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swarm_memory.server.jobs.control.WAIT_S", wait_s)
        return await run_as_job(tools, kind, payload, wake=working.wake, on_progress=on_progress)


async def asked(tools: Toolbox, action: JobAction, job_id: str | None) -> Job:
    """Ask for the one job that there is to be."""
    (job,) = await manage_jobs(tools, action, job_id, wake=lambda: None, on_progress=unheard)
    return job


async def test_a_short_job_is_done_within_the_wait_and_reports_its_progress(tmp_path: Path) -> None:
    reported: list[Progress] = []

    async def note(progress: Progress) -> None:
        reported.append(progress)

    release = anyio.Event()
    async with opened(tmp_path) as tools, anyio.create_task_group() as group:
        working = worker(tools, count=counts(4, release))
        group.start_soon(working.run)

        async def let_go_when_reported() -> None:
            while not any(each.done == 4 for each in reported):
                await anyio.lowlevel.checkpoint()
            release.set()

        group.start_soon(let_go_when_reported)
        job = await queued(tools, working, "count", {"given": 1}, 4, note)
        assert (job.status, job.result) == ("completed", {"counted": 4, "given": 1})
        assert job.progress is None
        assert reported[-1] == Progress(done=4, total=4, message="4 of 4")
        group.cancel_scope.cancel()


async def test_a_long_job_gives_its_id_and_is_asked_for_later(tmp_path: Path) -> None:
    release = anyio.Event()
    async with opened(tmp_path) as tools, opened(tmp_path) as other, anyio.create_task_group() as group:
        working = worker(tools, count=counts(3, release))
        group.start_soon(working.run)
        begun = await queued(tools, working, "count", {}, 0.3)
        assert begun.status == "running"
        shown = of_job(await asked(other, "status", begun.id))  # as any process sees it
        assert (shown["status"], shown["done"], shown["total"]) == ("running", 3, 3)
        assert "hint" in shown
        release.set()
        ended = of_job(await asked(tools, "result", begun.id))
        assert (ended["status"], ended["result"]) == ("completed", {"counted": 3, "given": None})
        assert "hint" not in ended
        listed = await asked(tools, "list", None)
        assert (listed.id, listed.status) == (begun.id, "completed")
        group.cancel_scope.cancel()


async def test_a_cancelled_job_stops_soon_and_a_queued_one_never_begins(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools, anyio.create_task_group() as group:
        working = worker(tools, count=counts(1, anyio.Event()))
        waiting = await queued(tools, working, "other", {})
        assert (await asked(tools, "cancel", waiting.id)).status == "cancelled"
        group.start_soon(working.run)
        begun = await queued(tools, working, "count", {}, 0.3)
        for _ in range(2):
            assert (await asked(tools, "cancel", begun.id)).status == "cancelled"
        second = await queued(tools, working, "count", {}, 0.5)
        assert second.status == "running", "the worker is free again"
        group.cancel_scope.cancel()


async def test_a_long_job_does_not_keep_short_ones_waiting(tmp_path: Path) -> None:
    done = anyio.Event()

    async def short(_: Toolbox, __: Job) -> Result:
        done.set()
        return {}

    async with opened(tmp_path) as tools, anyio.create_task_group() as group:
        working = Worker(tools, {"short": short}, {"count": counts(1, anyio.Event())})
        group.start_soon(working.run)
        assert (await queued(tools, working, "count", {}, 0.3)).status == "running"
        assert (await queued(tools, working, "short", {}, 4)).status == "completed"
        assert done.is_set()
        group.cancel_scope.cancel()


async def test_cancelling_a_scaling_job_ends_its_processes_and_its_run(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(60)")
    settings = matts(allowed_commands=[agent.command])
    runner: dict[str, Any] = {"kind": "command", "command": agent.command, "folder": "work"}
    payload: dict[str, Any] = given() | {"count": 1, "runner": runner}
    async with opened(tmp_path, settings) as tools, anyio.create_task_group() as group:
        working = worker(tools, **long_handlers(tmp_path))
        group.start_soon(working.run)
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
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ({"kind": "command"}, "command line"),
        ({"kind": "command", "command": "rm -rf ."}, "allowed_commands"),
        ({"kind": "command", "command": sys.executable, "folder": "../.."}, "within the project"),
        ({"kind": "given"}, "trajectories"),
        ({"kind": "model"}, "payload"),
    ],
)
async def test_a_runner_that_cannot_run_fails_the_job_with_what_to_change(
    tmp_path: Path, runner: dict[str, Any], said: str
) -> None:
    async with opened(tmp_path, Settings()) as tools:
        working = worker(tools, **long_handlers(tmp_path))
        payload: dict[str, Any] = given() | {"count": 1, "runner": runner}
        begun = await queued(tools, working, RUN_MATTS, payload)
        await working.work_off_due()
        job = await asked(tools, "status", begun.id)
        assert (job.status, job.attempts) == ("failed", 1)
        assert said in (job.error or "")


async def test_consolidation_and_imports_are_jobs_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(attempt(("npm test", "vitest: not found", 127), ("npx vitest", "3 passed", 0)).model_dump_json())
    (tmp_path / "broken.jsonl").write_text("no json\n")
    async with opened(tmp_path) as tools:
        working = worker(tools, **long_handlers(tmp_path))
        imported = await queued(tools, working, IMPORT, {"paths": [str(tmp_path)]})
        tidied = await queued(tools, working, CONSOLIDATE, {"dry_run": True})
        await working.work_off_due()
        job = await asked(tools, "status", imported.id)
        result: dict[str, Any] = dict(job.result or {})
        assert (job.status, result["transcripts"]["files"], result["transcripts"]["tasks"]) == ("completed", 1, 1)
        assert list(result["transcripts"]["faults"]) == [str(tmp_path / "broken.jsonl")]
        job = await asked(tools, "status", tidied.id)
        assert job.status == "completed", job.error
        assert (job.result or {})["dry_run"] is True
