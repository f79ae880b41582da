"""Typed narrowing of parsed JSON whose shape nobody promised; it knows no format."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias, cast

from pydantic import JsonValue

from swarm_memory.tools.text.cleaning import clean

JsonObject: TypeAlias = dict[str, object]

_MAX_DEPTH = 12
_MAX_ITEMS = 500


def as_object(value: object) -> JsonObject:
    """Return `value` where it is an object, else an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return `value` where it is an array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return `value` where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_bool(value: object) -> bool | None:
    """Return `value` where it is true or false, else None."""
    return value if isinstance(value, bool) else None


def as_count(value: object) -> int:
    """Return `value` where it is a whole number from 0 on that fits in 63 bits, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else 0


def as_time(value: object) -> datetime | None:
    """Return an ISO 8601 time as an aware UTC one (a naive one is taken for UTC), else None."""
    try:
        time = datetime.fromisoformat(as_text(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def bounded_json(value: object, text: Callable[[str], str], depth: int = 0) -> JsonValue:
    """Return `value` as JSON that can be stored: texts through `text`, finite numbers, capped in depth and width."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        items = list(cast("JsonObject", value).items())[:_MAX_ITEMS]
        return {clean(str(key), 200): bounded_json(each, text, depth + 1) for key, each in items}
    return [bounded_json(each, text, depth + 1) for each in as_list(value)[:_MAX_ITEMS]]


def json_size(value: JsonValue) -> int:
    """Return about how many characters `value` has as text."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + json_size(each) for key, each in value.items())
    if isinstance(value, list):
        return sum(map(json_size, value))
    return 8
