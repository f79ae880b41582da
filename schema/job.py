"""Durable work: what is queued, who works on it, how it ended."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]

LEARN = "learn"
"""The kind of the jobs that hooks queue: learn from one task of a transcript, or, without `task_id`, from all."""

WITHDRAW = "measure_memories"
"""The kind of the job that looks which memories harm, and its key: at most one waits. Its value is in older banks."""

JobAction = Literal["status", "result", "cancel", "resume", "list"]
"""What a caller may ask of one job, or of all."""


class Progress(Model):
    """How far a piece of work is."""

    done: int = Field(ge=0)
    total: int | None = Field(default=None, ge=0)
    """None: not known."""
    message: str = ""


Report: TypeAlias = Callable[[Progress], Awaitable[None]]
"""Says how far a piece of work is."""


class Job(Model):
    """One row of the job table."""

    id: str
    scope: Scope
    kind: str
    """`learn` (a task of a transcript), `consolidate` …"""
    key: str
    """Jobs of one kind and key replace each other while they are queued."""
    payload: dict[str, JsonValue] = Field(default_factory=dict)
    status: JobStatus = "queued"
    attempts: int = Field(default=0, ge=0)
    run_after: Timestamp
    created_at: Timestamp
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    worker: str | None = None
    result: dict[str, JsonValue] | None = None
    """What it gave; while it runs, how far it is."""
    error: str | None = None
    person_id: str | None = None
    """For whom it is done; None: for the bank's own user."""

    @property
    def progress(self) -> Progress | None:
        """How far it is while it runs; None when nothing was reported."""
        reported = (self.result or {}).get("progress") if self.status == "running" else None
        return None if reported is None else Progress.model_validate(reported)


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
