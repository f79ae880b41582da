"""What a hook of a coding agent tells."""

import json
import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


def _given(value: Any) -> Any:
    """Return None for an empty string: what a host's template gives for a field that its event does not have."""
    return None if value == "" else value


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < math.inf else None


def _flag(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _parsed(value: Any) -> Any:
    """Read JSON that a template turned into a string; any other text stays what it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return _given(value)
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


OptionalText = Annotated[str | None, BeforeValidator(_given)]
Structure = Annotated[JsonValue, BeforeValidator(_parsed)]


class HookEvent(BaseModel):
    """One event. Unknown keys are ignored; what the event does not have is None, or an empty string in a template."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    hook_event_name: str = Field(max_length=100)
    session_id: OptionalText = None
    transcript_path: OptionalText = None
    prompt: OptionalText = None
    tool_name: OptionalText = None
    tool_input: Structure = None
    tool_response: Structure = None
    tool_use_id: OptionalText = None
    error: OptionalText = None
    duration_ms: Annotated[float | None, BeforeValidator(_number)] = None
    is_interrupt: Annotated[bool, BeforeValidator(_flag)] = False
