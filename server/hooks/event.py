"""What a hook of a coding agent tells."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class HookEvent(BaseModel):
    """One event. Unknown keys are ignored; what the event does not have is None."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    hook_event_name: str = Field(max_length=100)
    session_id: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    tool_name: str | None = None
    tool_input: JsonValue = None
