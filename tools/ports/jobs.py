"""What durable work needs: a queue of jobs that outlives processes. No adapter is known here."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.job import JobStatus

WITHDRAW = "measure_memories"
"""The kind of the job that looks which memories harm, and its key: at most one waits. Its value is in older banks."""

LEARN = "learn"
"""The kind of the jobs that hooks queue: learn from one task of a transcript, or, without `task_id`, from all."""


class JobEnd(NamedTuple):
    """How a worker leaves a job."""

    status: JobStatus
    """`queued`: it is put back."""
    result: Mapping[str, JsonValue] | None = None
    error: str | None = None
    run_after: datetime | None = None
    """One that is put back is not taken before."""
    tried: bool = True
    """Whether the attempt counts."""
