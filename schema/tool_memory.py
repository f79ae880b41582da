"""One use of a tool, as it was logged."""

from pydantic import Field

from swarm_memory.schema.base import Model, Scope, Timestamp


class ToolCall(Model):
    """One call of a tool; input and output are redacted and capped before they get here."""

    scope: Scope
    tool_name: str = Field(min_length=1, max_length=300)
    input: str = ""
    """The arguments as JSON text."""
    output: str = ""
    success: bool
    time_cost_s: float | None = Field(default=None, ge=0)
    token_cost: int | None = Field(default=None, ge=0)
    created_at: Timestamp
    session_id: str | None = None
    task_id: str | None = None
    call_id: str | None = None
    """The host's id of the call: the same call logged twice is one row."""
