"""Durable work: what is queued, who works on it, how it ended."""

from typing import Literal

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Scope, Timestamp

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]


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
    error: str | None = None
