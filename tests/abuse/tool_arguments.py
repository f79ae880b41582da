"""Arguments for any tool, sampled from its published schema: valid, at the limits, beyond them, and of wrong types."""

import random
from collections.abc import Iterator
from typing import Any

EXTREMES: tuple[Any, ...] = (
    *(0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e308),
    *(None, True, False, "", " ", "0", "x" * 30_000, [], {}, [None], [[]], {"": None}, [{}], {"a": {"b": [1]}}),
)
TEXTS = (
    *("fix the flaky date test", "rm_00000000000000000000000000", "shop:1", "active", "python.testing"),
    *("\0", "a\0b", "\u202eabc", "\u200b\u200d", "\x1b[31mred\x1b[0m", "\uffff\ufffe", "\U000e0041"),
    "e" + "\u0301" * 2000,
    *("'; DROP TABLE patterns; --", '" OR 1=1 --', "%", "_", "*", "NEAR(a b)", '"', "a AND", "(", "title:x", "-x"),
    *("../../etc/passwd", "/etc/passwd.jsonl", "~root/x.jsonl", "file:///etc/passwd", "\\\\host\\share\\x.jsonl"),
    *("$(touch owned)", "`touch owned`", "| touch owned", "{{7*7}}", "%s%s%n", "<script>", "🦊" * 50, "\xf1", "^x"),
    "\uff46\uff55\uff4c\uff4c",
)


def sampled(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return arguments for a tool: mostly of the right shape, with a wrong value now and then."""
    fields: dict[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    definitions = schema.get("$defs", {})
    arguments = {
        name: _value(field, definitions, chance)
        for name, field in fields.items()
        if chance.random() < (0.97 if name in required else 0.4)
    }
    if chance.random() < 0.02:
        arguments["unknown_argument"] = 1
    return arguments


def string_fields(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the arguments that take any string, or a list of them."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [field])
        if any(_is_free(option) or _is_free(option.get("items", {})) for option in options):
            yield name


def valid(schema: dict[str, Any], chance: random.Random, **fixed: Any) -> dict[str, Any]:
    """Return arguments of the right shape with a given value in the named places."""
    definitions = schema.get("$defs", {})
    arguments: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        if name in fixed:
            is_list = any(option.get("type") == "array" for option in field.get("anyOf", [field]))
            arguments[name] = [fixed[name]] if is_list else fixed[name]
        elif name in schema.get("required", ()) or chance.random() < 0.3:
            arguments[name] = _right(field, definitions, chance, 0)
    return arguments


def _is_free(field: dict[str, Any]) -> bool:
    return field.get("type") == "string" and "enum" not in field and "const" not in field


def _value(field: dict[str, Any], definitions: dict[str, Any], chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return chance.choice(EXTREMES)
    return _right(field, definitions, chance, 0)


def _right(field: dict[str, Any], definitions: dict[str, Any], chance: random.Random, depth: int) -> Any:
    if "$ref" in field:
        return _right(definitions[field["$ref"].rpartition("/")[2]], definitions, chance, depth)
    if "anyOf" in field:
        return _right(chance.choice(field["anyOf"]), definitions, chance, depth)
    if "enum" in field:
        return chance.choice(field["enum"])
    if "const" in field:
        return field["const"]
    kind = field.get("type")
    if kind == "object" or "properties" in field:
        return _object(field, definitions, chance, depth)
    if kind == "array":
        items = field.get("items", {})
        count = chance.choice((0, 1, 1, 2, 3))
        return [_right(items, definitions, chance, depth + 1) for _ in range(count)]
    return _scalar(field, chance)


def _object(field: dict[str, Any], definitions: dict[str, Any], chance: random.Random, depth: int) -> dict[str, Any]:
    made = {
        name: _right(part, definitions, chance, depth + 1)
        for name, part in field.get("properties", {}).items()
        if name in field.get("required", ()) or chance.random() < 0.5
    }
    if field.get("additionalProperties") is not False and depth < 3:
        made |= {"role": chance.choice(("user", "assistant", "tool")), "content": chance.choice((*TEXTS, *EXTREMES))}
    return made


def _scalar(field: dict[str, Any], chance: random.Random) -> Any:
    match field.get("type"):
        case "integer":
            limits = (field.get("minimum", -3), field.get("maximum", 300), 1)
            return chance.choice((*limits, limits[0] - 1, limits[1] + 1))
        case "number":
            return chance.choice((field.get("minimum", 0), field.get("maximum", 1), 0.5, 1e-320, 7))
        case "boolean":
            return chance.random() < 0.5
        case "string":
            return chance.choice(TEXTS)
        case _:
            return chance.choice((*TEXTS, *EXTREMES))
