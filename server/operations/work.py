"""Operations that take long: several attempts at one task, benchmarks, and the jobs that such work becomes."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from swarm_memory.schema.job import Job, JobAction
from swarm_memory.schema.rollout import MAX_ROLLOUTS
from swarm_memory.server.hosts.input import Given, GivenAttempt, read_one
from swarm_memory.server.operations.operation import APPEND, Only, Operation, Positional, Row, Site, row

NONE: dict[str, Any] = {}


async def run_matts(
    site: Site,
    task: Annotated[str, Field(min_length=1, max_length=20_000), Positional("TASK")],
    runner: Annotated[
        Literal["given", "command"], Field(description="given: you already made the attempts; command: run one")
    ],
    attempts: Annotated[
        list[GivenAttempt] | None, Field(max_length=MAX_ROLLOUTS, description="given: yours, in order"), Only.AGENT
    ] = None,
    command: Annotated[str | None, Field(description="One of the user's matts.allowed_commands")] = None,
    check: Annotated[
        str | None, Field(description="Test command run after each attempt; must also be in matts.allowed_commands")
    ] = None,
    folder: Annotated[str, Field(description="Working folder, copied for each attempt (not with given)")] = ".",
    mode: Annotated[
        Literal["parallel", "sequential"], Field(description="sequential: each corrects the last")
    ] = "parallel",
    k: Annotated[int | None, Field(ge=1, le=MAX_ROLLOUTS, description="Rollouts (6) or refinements (3)"), "-k"] = None,
    task_id: Annotated[str | None, Field(max_length=500)] = None,
    given: Annotated[
        list[Path] | None,
        "Compare this finished rollout (a trajectory file) instead of running any; repeatable.",
        "--given PATH",
        Only.USER,
    ] = None,
    run_id: Annotated[str | None, "Resume a run that was interrupted or failed.", Only.USER] = None,
) -> Row:
    """Do a task several times, judge each attempt, and store what tells success from failure.

    Use it for attempts you already made, or when the user asks for several. Returns the best attempt and the memories
    stored; after 45 s, a job_id to poll with `job`.
    """
    from swarm_memory.server.jobs.handlers import RUN_MATTS, check_runner, with_attempts
    from swarm_memory.server.runners.build import MattsJob, RunnerSpec

    toolbox = await site.toolbox()
    who = RunnerSpec(kind="given" if given else runner, command=command, check=check, folder=folder)
    asked = MattsJob(task=task, mode=mode, count=k, task_id=task_id, runner=who)
    if given:
        made = [await read_one(Given(str(file), folders=site.folders)) for file in given]
        changed = {"runner": who.model_copy(update={"trajectories": tuple(made)}), "count": k or len(made)}
        asked = asked.model_copy(update=changed)
    else:
        asked = await with_attempts(toolbox, asked, attempts or ())
    if run_id is not None:
        asked = asked.model_copy(update={"run_id": run_id})
    check_runner(toolbox, asked, site.root)
    return await site.work(RUN_MATTS, asked.model_dump(mode="json"), asked.run_id)


async def run_benchmark(
    site: Site,
    suite: Annotated[
        str | None, Field(description="retrieval, tool-memory, performance, learning"), Positional("[SUITE]")
    ] = None,
    options: Annotated[dict[str, Any], Field(description="Its options: dataset, path, limit …")] = NONE,
    out: Annotated[Path | None, "The results file.", Only.USER] = None,
) -> Row:
    """Run a benchmark of this memory, only when the user asks.

    Returns tables or a job_id; without arguments, what each suite costs.
    """
    from swarm_memory.server.benchmark.job import BENCHMARK, brief, checked_payload, list_suites
    from swarm_memory.server.benchmark.running import run_benchmark as run

    toolbox = await site.toolbox()
    if suite is None and not options:
        return {"suites": list_suites(), "hint": "nothing was run: call again with a suite"}
    if site.is_users:
        done, file = await run(toolbox, Path.cwd(), suite or "retrieval", options, report=site.report, out=out)
        return brief(done, file)
    return await site.work(BENCHMARK, checked_payload(suite or "retrieval", options))


def of_job(job: Job) -> Row:
    """Return one job."""
    progress = job.progress
    return row(
        job_id=job.id,
        kind=job.kind,
        status=job.status,
        done=progress.done if progress else None,
        total=progress.total if progress else None,
        message=(progress.message or None) if progress else None,
        result=job.result if job.status == "completed" else None,
        error=job.error,
        hint=None if job.ended_at else "not done yet: call job with action result and this job_id",
    )


async def job(
    site: Site,
    action: Annotated[JobAction, Field(description="result waits up to 45 s for the end")],
    job_id: Annotated[str | None, Field(description="Or run_id; not for list")] = None,
) -> Row:
    """Check, wait for, cancel or resume a long-running job, or list jobs. Resuming keeps finished work."""
    from swarm_memory.server.jobs.control import manage_jobs

    with site.waiting():
        found = await manage_jobs(await site.toolbox(), action, job_id, wake=site.wake, on_progress=site.report)
    return {"jobs": [of_job(each) for each in found]}


SCALE = Operation(run_matts, "Scale a task", APPEND | {"open_world_hint": True}, "admin")
MEASURE = Operation(run_benchmark, "Run a benchmark", APPEND, "admin")
JOB = Operation(
    job,
    "Manage jobs",
    APPEND,
    {"status": "write", "result": "write", "list": "write", "cancel": "review", "resume": "review"},
)
