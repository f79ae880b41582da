"""Get checked JSON out of a model's text, which is untrusted.

Slips of form that can mean only one thing are read as what they mean: `success` for `Success`, `"0.9"` for a number,
one reason where a list of them is wanted, a comma too many. Nothing is guessed: a text with two different answers, a
duplicate key or a missing end is refused with a reason that can be sent back to the model.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic import JsonValue

MAX_CHARS = 200_000
"""A longer text is refused unread."""
MAX_DEPTH = 64
"""Levels of nested arrays and objects; Python's own parser gives up at about 1,000 with a RecursionError."""
MAX_STARTS = 50
"""How many places in a text are tried as the beginning of an object: this keeps the search linear."""

MAY_BE_MISSING = frozenset({"analysis", "not_when", "domain", "tags"})
"""Keys that are requested but that an answer can do without: what a model thinks before it answers, and what only
refines the answer. A missing one is read as empty."""

JsonObject: TypeAlias = dict[str, JsonValue]

_THOUGHT = "think|thinking|thought|thoughts|reasoning"
_OPENED, _CLOSED = re.compile(rf"\s*<(?:{_THOUGHT})>"), re.compile(rf"</(?:{_THOUGHT})>")
_COMMAS = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*(?:"|\Z)|,(?=\s*[}\]])', re.DOTALL)
"""Strings, which stay, and commas before the end of an object or an array, which do not."""

_FENCE = re.compile(r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_MARKS = re.compile(r'["\\{}\[\]]')
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INT64 = 2**63
_TOO_DEEP = f"The JSON is nested more than {MAX_DEPTH} levels deep."


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why a text is no answer; `reason` is one sentence that quotes nothing of the answer but names of keys."""

    reason: str


class _Refused(ValueError):
    """JSON that parses and must not be used."""


def parse_json(text: str) -> JsonValue | ParseFailure:
    """Parse a text that is JSON as a whole.

    Refused: NaN and infinities (also as 1e999), integers beyond 64 bits, a duplicate key in an object, more than
    `MAX_DEPTH` levels. NUL and lone surrogates, which SQLite or UTF-8 does not take, become U+FFFD.
    """
    if len(text) > MAX_CHARS:
        return ParseFailure(f"The text has more than {MAX_CHARS:,} characters.")
    try:
        return _storable(_DECODER.decode(text), MAX_DEPTH)
    except RecursionError:
        return ParseFailure(_TOO_DEEP)
    except _Refused as error:
        return ParseFailure(str(error))
    except json.JSONDecodeError as error:
        return ParseFailure(f"It is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.")


def json_or_none(text: str) -> object:
    """Return a text's JSON value; None where the text is not JSON, or is nested too deeply."""
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None


def parse_object(text: str, schema: Mapping[str, JsonValue] | None = None) -> JsonObject | ParseFailure:
    """Return the one JSON object of a model's text: bare, fenced or with prose around it, after any thoughts.

    With `schema` (JSON schema without references) only objects that are valid by it count, once slips of form are
    mended. Keys that the schema does not have are dropped where it forbids others. Several equal objects count as one;
    several different ones are refused.
    """
    if len(text) > MAX_CHARS:
        return ParseFailure(f"The answer has more than {MAX_CHARS:,} characters.")
    if not text.lstrip().startswith("{"):  # what comes after the thoughts: nothing if they never ended
        text = _CLOSED.split(text)[-1]
        text = "" if _OPENED.match(text) else text
    rest = text.strip()
    if not rest:
        return ParseFailure("The answer is empty.")
    problem = ParseFailure("The answer contains no JSON object.")
    found: list[JsonObject] = []
    for candidate in _candidates(rest):
        value = parse_json(candidate)
        if isinstance(value, ParseFailure):
            mended = parse_json(_COMMAS.sub(lambda comma: "" if comma[0] == "," else comma[0], candidate))
            value = value if isinstance(mended, ParseFailure) else mended
        checked = _check(value, schema)
        if isinstance(checked, ParseFailure):
            problem = checked
        elif checked not in found:
            found.append(checked)
    if len(found) > 1:
        return ParseFailure("The answer contains several different JSON objects; there must be exactly one.")
    return found[0] if found else problem


def _candidates(text: str) -> Iterator[str]:
    """Yield what may be the object: the fenced blocks, else each balanced pair of braces, which may be the whole."""
    fenced = [] if text.startswith("{") else [block.strip() for block in _FENCE.findall(text)]
    if objects := [block for block in fenced if block.startswith("{")]:
        yield from objects
        return
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            return
        end = _object_end(text, start)
        yield text[start:end]
        start = text.find("{", start + 1 if end is None else end)


def _object_end(text: str, start: int) -> int | None:
    """Return where the object that begins at `start` is closed; None if it is not."""
    depth, in_string, position = 0, False, start
    while mark := _MARKS.search(text, position):
        position, sign = mark.end(), mark.group()
        if sign == "\\":
            position += 1 if in_string else 0
        elif sign == '"':
            in_string = not in_string
        elif not in_string:
            depth += 1 if sign in "{[" else -1
            if depth == 0:
                return position
            if depth > MAX_DEPTH:
                return len(text)  # too deep: nothing inside it may be taken for the answer
    return None


def _small_int(literal: str) -> int:
    if len(literal) > 20 or not -_INT64 <= (number := int(literal)) < _INT64:
        raise _Refused("An integer has more than 64 bits.")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _Refused("A key appears twice in one object.")
    return result


_DECODER = json.JSONDecoder(parse_int=_small_int, object_pairs_hook=_unique_keys)


def _storable(value: JsonValue, levels: int) -> JsonValue:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused("A number is not finite.")
    if isinstance(value, list | dict) and levels == 0:
        raise _Refused(_TOO_DEEP)
    if isinstance(value, list):
        return [_storable(part, levels - 1) for part in value]
    if isinstance(value, dict):
        return {_UNSTORABLE.sub("\ufffd", key): _storable(part, levels - 1) for key, part in value.items()}
    return value


def _check(value: JsonValue | ParseFailure, schema: Mapping[str, JsonValue] | None) -> JsonObject | ParseFailure:
    if isinstance(value, ParseFailure):
        return value
    if not isinstance(value, dict):
        return ParseFailure("The answer must be a JSON object.")
    if schema is None:
        return value
    from jsonschema import Draft202012Validator, exceptions

    meant = cast("JsonObject", _meant(value, schema))
    errors = Draft202012Validator(schema).iter_errors(meant)  # pyright: ignore[reportUnknownMemberType]
    error = cast("Any", exceptions).best_match(errors)
    if error is None:
        return meant
    place = ".".join(str(part)[:50] for part in error.absolute_path)
    where = f"`{place}`" if place else "the top level"
    limit = json.dumps(error.validator_value, default=str)[:200]  # jsonschema's own message quotes the answer
    return ParseFailure(f"At {where}: it must satisfy {error.validator}: {limit}.")


def _meant(value: JsonValue, schema: Mapping[str, Any]) -> JsonValue:
    """Return a value in the form that the schema wants, where it can mean only one thing; else as it is."""
    kind = schema.get("type")
    if kind == "array":
        listed = value if isinstance(value, list) else [] if value is None else [value]
        return [_meant(part, schema.get("items", {})) for part in listed]
    if isinstance(value, dict):
        known = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
        for key in MAY_BE_MISSING.intersection(schema.get("required", ())):
            if value.get(key) is None:
                value = {**value, key: [] if known[key].get("type") == "array" else ""}
        closed = schema.get("additionalProperties") is False
        return {key: _meant(part, known.get(key, {})) for key, part in value.items() if key in known or not closed}
    return _meant_by(value, kind, schema.get("enum", ())) if isinstance(value, str) else value


def _meant_by(text: str, kind: str | None, options: Sequence[JsonValue]) -> JsonValue:
    """Return the number, boolean or option that a string stands for; the string itself if there is none."""
    plain = text.strip().casefold()
    if kind in ("number", "integer"):
        number = parse_json(plain)
        return number if isinstance(number, int | float) and not isinstance(number, bool) else text
    if kind == "boolean":
        return {"true": True, "false": False}.get(plain, text)
    alike = [option for option in options if isinstance(option, str) and option.casefold() == plain]
    return alike[0] if len(alike) == 1 else text
