"""Which argument of a tool is meant by one that it does not have."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from swarm_memory.tools.text.cleaning import one_line

Schema: TypeAlias = dict[str, Any]

_MAX_CHARS = 560

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


def unknown(tool: str, name: str, given: Mapping[str, Any], schema: Schema) -> str:
    """Say which argument is meant by one that the tool does not have; where none is near, which ones could be.

    Near is one of a like name, one that shares words with it in its name or description, and one to whose allowed
    values the given one belongs. What is required and missing is said as well.
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
    if len(meant) == 1:
        also = [f"; missing is {_described(each, fields)}" for each in missing if each not in meant]
        what = fields[meant[0]].get("description", "")
        return one_line(f"{said}did you mean {meant[0]!r}? {what}{''.join(also)}", _MAX_CHARS)
    could_be = [each for each in ranked if each in fit] or ranked
    return one_line(said + "it takes " + ", ".join(_described(each, fields) for each in could_be), _MAX_CHARS)


def _described(name: str, fields: Mapping[str, Schema]) -> str:
    what = fields[name].get("description")
    return f"{name!r} ({what})" if what else repr(name)


def _options_of(field: Schema, schema: Schema) -> list[Schema]:
    """Return what a field may be, without references."""
    options = cast("list[Schema]", field.get("anyOf", [field]))
    return [schema.get("$defs", {}).get(each.get("$ref", "").rpartition("/")[2], each) for each in options]


def _takes(field: Schema, value: object, schema: Schema) -> bool:
    """Whether an argument could take a value; a list takes what could be one of its entries."""
    for option in _options_of(field, schema):
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
    is_allowed = any(value in option["enum"] for option in _options_of(field, schema) if "enum" in option)
    near = (letters if letters >= _ALIKE else 0.0) + shared + is_allowed
    return near if _takes(field, value, schema) else near / 2


def _words(text: str) -> set[str]:
    from swarm_memory.tools.text.tokens import tokenize

    return set(tokenize(_PARTED.sub(" ", text)))
