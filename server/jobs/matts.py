"""What a caller asks of scaling as a job's payload: read and cleaned before it is queued."""

from collections.abc import Sequence

import anyio.to_thread

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import MAX_ROLLOUTS, ScalingMode, ToolName
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hosts.input import Given, GivenAttempt, read_one
from swarm_memory.server.jobs.long_jobs import MattsRequest
from swarm_memory.server.runners.build import RunnerKind, RunnerSpec
from swarm_memory.tools.guard.archive import archivable
from swarm_memory.tools.toolbox import Toolbox


async def matts_request(
    toolbox: Toolbox,
    *,
    task: str,
    runner: RunnerKind,
    mode: ScalingMode = "parallel",
    count: int | None = None,
    command: str | None = None,
    check: str | None = None,
    folder: str | None = None,
    tools: Sequence[ToolName] = (),
    attempts: Sequence[GivenAttempt] = (),
    task_id: str | None = None,
    run_id: str | None = None,
) -> MattsRequest:
    """Return the request. Raises `InputError` for what cannot be read; `long_jobs.check_runner` checks who runs it."""
    if not task.strip():
        raise InputError("task is empty: say what is to be done")
    if len(attempts) > MAX_ROLLOUTS:
        raise InputError(f"{len(attempts)} attempts were given: at most {MAX_ROLLOUTS} are compared")
    trajectories = [await _trajectory(toolbox, task, task_id, each) for each in attempts]
    spec = RunnerSpec(
        kind=runner,
        command=command,
        check=check,
        folder=folder,
        tools=tuple(tools),
        trajectories=tuple(trajectories),
        verdicts={number: _verdict(each) for number, each in enumerate(attempts, 1) if each.verdict is not None},
    )
    if runner == "given":
        count = len(attempts) if mode == "parallel" else max(1, len(attempts) - 1)
    return MattsRequest(run_id=run_id or new_id(RUN), task=task, task_id=task_id, mode=mode, count=count, runner=spec)


async def _trajectory(toolbox: Toolbox, task: str, task_id: str | None, given: GivenAttempt) -> Trajectory:
    """Return an attempt as it may be written into a job's row."""
    read = await read_one(Given(None, task, given.steps, task_id), toolbox.settings.learn)
    return await anyio.to_thread.run_sync(archivable, read, toolbox.settings)


def _verdict(given: GivenAttempt) -> Verdict:
    label = given.verdict or "Undecided"
    return Verdict(label=label, confidence=0.0 if label == "Undecided" else given.confidence, judge="agent")
