"""What is wrong with a value and what is allowed instead, told from the JSON schema that it does not fit."""

from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Schema: TypeAlias = dict[str, Any]

_SHOWN, _MAX_CHARS = 4, 560
"""Faults that are told at once, and characters of them all."""


def faults(error: ValidationError, schema: Schema, within: str = "") -> str:
    """Say of each field that is missing or wrong what it is and what is allowed; the names stand behind `within`."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = dict.fromkeys(_fault(fault, schema, within) for fault in found)
    return at_most(_MAX_CHARS, "; ".join(list(said)[:_SHOWN]))


def _fault(fault: ErrorDetails, schema: Schema, within: str) -> str:
    """Say one fault; what a check of its own says of a value, and what is within one, no schema shows."""
    field, at, rest = _field_at(fault["loc"], schema)
    name, what = within + ".".join(at), told(field, schema)
    if fault["type"] == "missing":
        return f"{name} is missing: {what}"
    if fault["type"] == "extra_forbidden":
        known = ", ".join(name for option in options_of(field, schema) for name in _marked(option))
        return f"{within}{'.'.join((*at, rest[:80]))} is not known; known are {known}"
    if fault["type"] in ("value_error", "assertion_error"):
        return f"{name}: {fault['msg'].partition(', ')[2]}"
    own = f": {fault['msg']}" if rest or fault["type"] == "json_invalid" else ""
    return f"{name.rstrip('.') or 'it'} must be {what}{own}"


def _field_at(loc: Iterable[int | str], schema: Schema) -> tuple[Schema, tuple[str, ...], str]:
    """Return the schema at a place, as far as it is known, the way to it, and the part that is not known."""
    field, way = schema, list[str]()
    for part in loc:
        for option in options_of(field, schema):
            inner = option.get("items") if isinstance(part, int) else option.get("properties", {}).get(part)
            if inner is not None:
                field = cast(Schema, inner)
                way.append(str(part))
                break
        else:
            return field, tuple(way), str(part)
    return field, tuple(way), ""


def _resolved(field: Schema, schema: Schema) -> Schema:
    name = field.get("$ref", "").rpartition("/")[2]
    return schema.get("$defs", {}).get(name, {}) if name else field


def options_of(field: Schema, schema: Schema) -> Iterable[Schema]:
    """Return what a field may be, each resolved; that it may be nothing is left out where it may be something."""
    resolved = _resolved(field, schema)
    options = [_resolved(option, schema) for option in resolved.get("anyOf", [resolved])]
    return [option for option in options if option.get("type") != "null"] or options


def told(field: Schema, schema: Schema) -> str:
    """Say what is allowed in a field, and what it is for."""
    allowed = " or ".join(_allowed(option, schema) for option in options_of(field, schema))
    what = field.get("description")
    return f"{allowed} ({what})" if what else allowed


def _allowed(field: Schema, schema: Schema) -> str:
    if "enum" in field:
        return f"one of {', '.join(map(str, field['enum']))}"
    if "const" in field:
        return str(field["const"])
    match field.get("type"):
        case "integer":
            return f"an integer{_range(field, 'minimum', 'maximum')}"
        case "number":
            return f"a number{_range(field, 'minimum', 'maximum')}"
        case "boolean":
            return "true or false"
        case "string" if field.get("format") == "date-time":
            return "a time in ISO 8601 with a zone, such as 2026-05-01T12:00:00Z"
        case "string":
            return f"a text{_range(field, 'minLength', 'maxLength', ' characters')}"
        case "array":
            items = " or ".join(_allowed(option, schema) for option in options_of(field.get("items", {}), schema))
            return f"a list{_range(field, 'minItems', 'maxItems', ' entries')}, each {items}"
        case "object" if "properties" in field:
            return f"an object with {', '.join(_marked(field))}"
        case "object":
            return "an object"
        case "null":
            return "null"
        case _:
            return "any value"


def _marked(field: Schema) -> Iterable[str]:
    """Return the names of an object's fields, those that may be left out in brackets."""
    required = field.get("required", ())
    return [name if name in required else f"[{name}]" for name in field.get("properties", ())]


def _range(field: Schema, least: str, most: str, unit: str = "") -> str:
    low, high = field.get(least), field.get(most)
    if high is None:
        return f" of at least {low:,}{unit}" if low is not None else ""
    return f" of at most {high:,}{unit}" if low is None else f" {'of' if unit else 'from'} {low:,} to {high:,}{unit}"


def at_most(limit: int, text: str) -> str:
    """Return a text of at most so many characters, cut at a word."""
    return text if len(text) <= limit else f"{text[:limit].rpartition(' ')[0]} …"
