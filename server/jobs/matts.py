"""The attempts that an agent gives to be compared, read and cleaned before they are queued."""

from collections.abc import Sequence

import anyio.to_thread

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import MAX_ROLLOUTS
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hosts.input import Given, GivenAttempt, read_one
from swarm_memory.server.runners.build import MattsJob
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.toolbox import Toolbox


async def with_attempts(toolbox: Toolbox, asked: MattsJob, attempts: Sequence[GivenAttempt]) -> MattsJob:
    """Return the request with the attempts in its runner. Raises `InputError` for what cannot be read."""
    if not asked.task.strip():
        raise InputError("task is empty: say what is to be done")
    if len(attempts) > MAX_ROLLOUTS:
        raise InputError(f"{len(attempts)} attempts were given: at most {MAX_ROLLOUTS} are compared")
    trajectories = tuple([await _trajectory(toolbox, asked, each) for each in attempts])
    verdicts = {number: _verdict(each) for number, each in enumerate(attempts, 1) if each.verdict is not None}
    runner, count = asked.runner.model_copy(update={"trajectories": trajectories, "verdicts": verdicts}), asked.count
    if runner.kind == "given":
        count = len(attempts) if asked.mode == "parallel" else max(1, len(attempts) - 1)
    return asked.model_copy(update={"runner": runner, "count": count})


async def _trajectory(toolbox: Toolbox, asked: MattsJob, given: GivenAttempt) -> Trajectory:
    """Return an attempt as it may be written into a job's row."""
    read = await read_one(Given(None, asked.task, given.steps, asked.task_id), toolbox.settings.learn)
    return await anyio.to_thread.run_sync(archivable, read, toolbox.settings)


def _verdict(given: GivenAttempt) -> Verdict:
    label = given.verdict or "Undecided"
    return Verdict(label=label, confidence=0.0 if label == "Undecided" else given.confidence, judge="agent")
