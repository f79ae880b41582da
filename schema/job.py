"""Durable work: what is queued, who works on it, how it ended."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]

LEARN = "learn"
"""The kind of job that hooks queue: learn from one task of a transcript or, without `task_id`, from all its tasks."""

WITHDRAW = "measure_memories"
"""Kind and key of the job that checks which memories do harm: at most one is queued. Older banks hold this value."""

JobAction = Literal["status", "result", "cancel", "resume", "list"]
"""What a caller may request for one job, or for all."""


class Progress(Model):
    """How far a piece of work has come."""

    done: int = Field(ge=0)
    total: int | None = Field(default=None, ge=0)
    """None: not known."""
    message: str = ""


Report: TypeAlias = Callable[[Progress], Awaitable[None]]
"""Reports how far a piece of work has come."""


class Job(Model):
    """One row of the job table."""

    id: str
    scope: Scope
    kind: str
    """`learn` (a task of a transcript), `consolidate` …"""
    key: str
    """At most one job of a scope, kind and key is queued: a newer one updates it or is dropped."""
    payload: dict[str, JsonValue] = Field(default_factory=dict)
    status: JobStatus = "queued"
    attempts: int = Field(default=0, ge=0)
    run_after: Timestamp
    created_at: Timestamp
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    worker: str | None = None
    result: dict[str, JsonValue] | None = None
    """What the job returned; while it runs, its progress."""
    error: str | None = None
    person_id: str | None = None
    """The person for whom the job is done; None: the bank's own user."""

    @property
    def progress(self) -> Progress | None:
        """How far the job has come while it runs; None when nothing was reported."""
        reported = (self.result or {}).get("progress") if self.status == "running" else None
        return None if reported is None else Progress.model_validate(reported)


class JobEnd(NamedTuple):
    """How a worker leaves a job."""

    status: JobStatus
    """`queued`: the job is put back into the queue."""
    result: Mapping[str, JsonValue] | None = None
    error: str | None = None
    run_after: datetime | None = None
    """A job that is put back is not started before this moment."""
    tried: bool = True
    """Whether the attempt counts."""
