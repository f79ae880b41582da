"""The job that learns from a host's transcript: from one task of it, or from all. It knows no queue."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Job
from swarm_memory.schema.settings import LearnSettings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_task, read_trajectories
from swarm_memory.server.state_files import checked_transcript
from swarm_memory.server.streaming import in_thread
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox


async def learn_from_job(toolbox: Toolbox, job: Job, *, root: Path) -> Mapping[str, JsonValue]:
    """Learn from what the payload names: `transcript_path`, `session_id` and, for one task only, `task_id`.

    The path must lie in the host's folder of transcripts or below the project's `root`. What was learned before is
    learned no second time. Raises `InputError` when the transcript or the task is not there.
    """
    path, session_id, task_id = (_text(job, name) for name in ("transcript_path", "session_id", "task_id"))
    if path is None:
        raise InputError("the job names no transcript_path")
    checked = Path(checked_transcript(path, root))
    statuses: dict[str, JsonValue] = {}
    stored: list[JsonValue] = []
    async for trajectory in in_thread(lambda: _trajectories(checked, session_id, task_id, toolbox.settings.learn)):
        result = await learn(toolbox, trajectory)
        statuses[result.task_id] = f"{result.status}: {result.verdict.label}"
        stored.extend(item.id for item in result.stored)
    return {"tasks": statuses, "stored": stored}


def _text(job: Job, name: str) -> str | None:
    value = job.payload.get(name)
    return value if isinstance(value, str) and value else None


def _trajectories(
    path: Path, session_id: str | None, task_id: str | None, limits: LearnSettings
) -> Iterator[Trajectory]:
    if task_id is None:
        yield from read_trajectories(path, session_id=session_id, limits=limits)
    else:
        yield read_task(path, task_id, session_id=session_id, limits=limits)
