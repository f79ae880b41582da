"""What is remembered of a running host session between its hooks: the task it is at."""

from pydantic import Field

from swarm_memory.schema.base import Model, Scope, Timestamp


class HostSession(Model):
    """One row for each session of a coding agent."""

    session_id: str = Field(min_length=1, max_length=200)
    scope: Scope
    transcript_path: str | None = None
    task_id: str | None = None
    """The task that is being worked on."""
    task: str = ""
    """Its first prompt, redacted."""
    task_number: int = Field(default=0, ge=0)
    """How many tasks the session has begun."""
    updated_at: Timestamp
