"""How a reported tool call becomes one that may be kept: text, cleaned, redacted, capped, its tokens counted."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import JsonValue, ValidationError

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import LoggedCall, ToolCall
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.tokens import count_tokens

MAX_CALLS = 1000
"""Calls that may be logged at once."""

MAX_TASK_CHARS, MAX_SCHEMA_CHARS = 500, 4000
_COUNTED_CHARS = 400_000
"""The tokens of a longer text are extrapolated."""


def read_calls(given: Sequence[Mapping[str, JsonValue]]) -> list[LoggedCall]:
    """Return checked calls. Raises `InputError` that names the call and the key to change."""
    if not given:
        raise InputError("calls is empty: give at least one call with tool_name and success")
    if len(given) > MAX_CALLS:
        raise InputError(f"calls has {len(given):,} entries; at most {MAX_CALLS:,} are logged at once")
    return [_read(number, each) for number, each in enumerate(given)]


def _read(number: int, given: Mapping[str, JsonValue]) -> LoggedCall:
    try:
        return LoggedCall.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = fault["msg"]
        if where == "create_time":
            what = "must be ISO 8601 with a zone, such as 2026-05-01T12:00:00Z"
        elif fault["type"] == "extra_forbidden":
            what = f"is not known; known are {', '.join(LoggedCall.model_fields)}"
        raise InputError(f"calls[{number}].{where}: {what}; a call is {{tool_name, input, output, success}}") from error


def kept_call(logged: LoggedCall, scope: Scope, settings: Settings, now: datetime) -> ToolCall:
    """Return a call as it is stored."""
    told, returned = as_text(logged.input), as_text(logged.output)
    limit = settings.tool_memory.max_call_chars
    return ToolCall(
        scope=scope,
        tool_name=clean(logged.tool_name)[:300] or "?",
        input=kept_input(logged.input, settings),
        output=kept_text(returned, settings, limit),
        success=logged.success,
        time_cost_s=logged.time_cost,
        token_cost=_tokens(told) + _tokens(returned) if logged.token_cost is None else logged.token_cost,
        created_at=logged.create_time or now,
        session_id=clean(logged.session_id) if logged.session_id else None,
        task_id=clean(logged.task_id) if logged.task_id else None,
        call_id=clean(logged.call_id) if logged.call_id else None,
        task=kept_text(logged.task, settings, MAX_TASK_CHARS) if logged.task else None,
    )


def kept_schema(logged: LoggedCall, settings: Settings) -> str | None:
    """Return what the tool says of itself as it is stored; None where the caller did not say."""
    text = as_text(logged.tool_schema)
    return kept_text(text, settings, MAX_SCHEMA_CHARS) if text.strip() else None


def kept_text(text: str, settings: Settings, max_chars: int) -> str:
    """Return `text` without secrets, its middle left out. The last cut comes last: it could hide half a secret."""
    bounded = clean(text, 4 * max_chars)
    return clean(redact(bounded, pii=settings.distill.redact_pii).text, max_chars)


def as_text(value: JsonValue) -> str:
    """Return text as it is and anything else as JSON; nothing for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kept_input(value: JsonValue, settings: Settings) -> str:
    """Return arguments as they are stored: of JSON that is too long, long texts are shortened before all of it is."""
    max_chars = settings.tool_memory.max_call_chars
    text = kept_text(as_text(value), settings, max_chars)
    if isinstance(value, str) or value is None or len(as_text(value)) <= max_chars:
        return text
    shortened = json.dumps(_shortened(value, max_chars // 8), ensure_ascii=False)
    return kept_text(shortened, settings, max_chars)


def _shortened(value: JsonValue, max_chars: int) -> JsonValue:
    """Shorten every text within; it is redacted while it is still longer, so that no cut leaves half a secret."""
    if isinstance(value, str):
        return shorten(redact(clean(value, 16 * max_chars)).text, max_chars)
    if isinstance(value, dict):
        return {name: _shortened(part, max_chars) for name, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, max_chars) for part in value[:50]]
    return value


def _tokens(text: str) -> int:
    counted = count_tokens(text[:_COUNTED_CHARS])
    return counted if len(text) <= _COUNTED_CHARS else counted * len(text) // _COUNTED_CHARS
