"""What a tool's arguments are and may be, told from its schema: for one that is missing, wrong, or not known."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Schema: TypeAlias = dict[str, Any]

_SHOWN_FAULTS, _MAX_CHARS = 4, 560
_LIKELY = 0.6
"""How near an argument must be to be the one that is meant; else those are named that could be."""

_ALIKE = 0.65
"""Names of which less is alike have nothing to do with each other."""

_PARTED = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
"""Where the words of a name part."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def invalid(error: ValidationError, schema: Schema) -> str:
    """Say of each argument that is missing or wrong what it is and what is allowed."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = dict.fromkeys(_fault(fault, schema) for fault in faults)
    return _cut("; ".join(list(told)[:_SHOWN_FAULTS]))


def unknown(tool: str, name: str, given: Mapping[str, Any], schema: Schema) -> str:
    """Say which argument is meant by one that the tool does not have; where none is near, which ones could be.

    Near is one of a like name, one that shares words with it in its name or description, and one to whose allowed
    values the given one belongs. What is required and missing is told as well.
    """
    fields: dict[str, Schema] = schema.get("properties", {})
    if not fields:
        return f"{tool} takes no arguments, and no {name[:80]!r}"
    free = {each: field for each, field in fields.items() if each not in given} or fields
    near = {each: _nearness(name, given[name], each, field, schema) for each, field in free.items()}
    fit = [each for each, field in free.items() if _takes(field, given[name], schema)]
    ranked = sorted(free, key=lambda each: -near[each])
    missing = [each for each in schema.get("required", ()) if each not in given]
    if near[ranked[0]] >= _LIKELY:
        meant = ranked[:1]
    else:
        meant = fit if len(fit) == 1 else [each for each in missing if each in fit]
    said = f"{tool} takes no argument {name[:80]!r}: "
    if len(meant) != 1:
        could_be = [each for each in ranked if each in fit] or ranked
        if len(could_be) > _SHOWN_FAULTS:
            return _cut(said + "it takes " + ", ".join(_briefly(each, fields) for each in could_be))
        return _cut(said + "it takes " + "; ".join(_named(each, fields, schema) for each in could_be))
    also = [f"; missing is {_named(each, fields, schema)}" for each in missing if each not in meant]
    return _cut(f"{said}did you mean {meant[0]!r}? It is {_told(fields[meant[0]], schema)}{''.join(also)}")


def _briefly(name: str, fields: Mapping[str, Schema]) -> str:
    what = fields[name].get("description")
    return f"{name} ({what})" if what else name


def _named(name: str, fields: Mapping[str, Schema], schema: Schema) -> str:
    return f"{name}: {_told(fields[name], schema)}"


def _takes(field: Schema, value: object, schema: Schema) -> bool:
    """Whether an argument could take a value; a list takes what could be one of its entries."""
    for option in _options(field, schema):
        kinds = _KINDS.get(option.get("type", ""), (object,))
        if isinstance(value, kinds) and not (isinstance(value, bool) and int in kinds):
            return "enum" not in option or value in option["enum"]
        if option.get("type") == "array" and _takes(option.get("items", {}), value, schema):
            return True
    return False


def _nearness(name: str, value: object, known: str, field: Schema, schema: Schema) -> float:
    name = name[:80]
    words, own, described = _words(name), _words(known), _words(field.get("description", ""))
    letters = difflib.SequenceMatcher(None, name.lower(), known.lower()).ratio()
    shared = sum(1.0 if word in own else 0.5 * (word in described) for word in words) / max(1, len(words))
    is_allowed = any(value in option["enum"] for option in _options(field, schema) if "enum" in option)
    near = (letters if letters >= _ALIKE else 0.0) + shared + is_allowed
    return near if _takes(field, value, schema) else near / 2


def _words(text: str) -> set[str]:
    from swarm_memory.tools.text.tokens import tokenize

    return set(tokenize(_PARTED.sub(" ", text)))


def _fault(fault: ErrorDetails, schema: Schema) -> str:
    """Say one fault; what no schema shows, a check of its own or a place within a value, is told by its message."""
    field, at, rest = _field_at(fault["loc"], schema)
    name, what = ".".join(at), _told(field, schema)
    if fault["type"] == "missing":
        return f"{name} is missing: {what}"
    if fault["type"] == "extra_forbidden":
        return f"{name} takes no {rest[:80]!r}: it is {what}"
    is_own = rest or fault["type"] in ("value_error", "assertion_error")
    return f"{name} must be {what}" + (f": {fault['msg']}" if is_own else "")


def _field_at(loc: Iterable[int | str], schema: Schema) -> tuple[Schema, tuple[str, ...], str]:
    """Return the schema at a place, as far as it is known, the way to it, and the part that is not known."""
    field, way = schema, list[str]()
    for part in loc:
        for option in _options(field, schema):
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


def _options(field: Schema, schema: Schema) -> Iterable[Schema]:
    resolved = _resolved(field, schema)
    return [_resolved(option, schema) for option in resolved.get("anyOf", [resolved])]


def _told(field: Schema, schema: Schema) -> str:
    """Say what is allowed in a field, and what it is for."""
    allowed = " or ".join(_allowed(option, schema) for option in _options(field, schema))
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
        case "string":
            return f"a text{_range(field, 'minLength', 'maxLength', ' characters')}"
        case "array":
            items = " or ".join(_allowed(option, schema) for option in _options(field.get("items", {}), schema))
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
    return [name if name in required else f"[{name}]" for name in field["properties"]]


def _range(field: Schema, least: str, most: str, unit: str = "") -> str:
    low, high = field.get(least), field.get(most)
    if high is None:
        return f" of at least {low:,}{unit}" if low is not None else ""
    return f" of at most {high:,}{unit}" if low is None else f" {'of' if unit else 'from'} {low:,} to {high:,}{unit}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS].rpartition(' ')[0]} …"
