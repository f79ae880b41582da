"""Tools from lists of functions in JSON: of MCP, of OpenAI, plain JSON schemas; it runs none of them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.sources.files import Format, Group, read_files

READER = "json_tools-1"
MAX_BYTES = 20_000_000
MAX_TOOLS = 10_000
MAX_PARAMETERS = 200
MAX_DEPTH = 4
"""So deep the parameters of a parameter are named."""

_SCHEMA_KEYS = ("inputSchema", "input_schema", "parameters")


def read_json_tools(root: Path, *, allows: Callable[[str], bool] | None = None) -> Iterator[Group]:
    """Yield one group for each JSON file, `root` itself or those below it; its tools are the passages.

    In a folder a file that is no list of functions, or that `allows` (given its path) refuses, is left alone.
    """
    yield from read_files(root, Format(READER, frozenset({".json"}), MAX_BYTES, looks_like_tools, parse_tools), allows)


def looks_like_tools(data: bytes) -> bool:
    """Whether a file's bytes are functions with parameters: much else has a name and a description."""
    try:
        return any(_has_schema(entry) for entry in _entries(parse_json(data)))
    except InputError:
        return False


def parse_tools(group: str, data: bytes) -> list[Passage]:
    """Return the tools of a JSON file in their order. Raises `InputError` when it has none."""
    entries = _entries(parse_json(data))
    if not entries:
        raise InputError(
            f"{group} holds no functions: a list of objects with name, description and parameters is wanted"
        )
    return passages_of(group, entries)


def passages_of(group: str, entries: Sequence[Mapping[str, Any]], *, kind: SourceKind = "tool") -> list[Passage]:
    """Return one passage for each description of a tool; raises `InputError` when there are more than 10,000."""
    if len(entries) > MAX_TOOLS:
        raise InputError(f"{group} has {len(entries):,} tools: {MAX_TOOLS:,} are the most")
    return [_passage(group, position, entry, kind) for position, entry in enumerate(entries)]


def parse_json(data: bytes) -> Any:
    """Return the JSON of a file. Raises `InputError` for what is none."""
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON: {str(error)[:200] or 'it is nested too deep'}") from None


def described_parameters(schema: object, depth: int = MAX_DEPTH) -> str:
    """Return the parameters of a JSON schema as lines `name (type, required): description`, those within named a.b."""
    lines: list[str] = []
    _describe(schema, "", depth, lines)
    return "\n".join(lines)


def text_of(value: object) -> str:
    """Return a value that should be a text, as one."""
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> dict[str, Any]:
    """Return a value that should be an object, as one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a value that should be a list, as one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _entries(document: Any) -> list[dict[str, Any]]:
    """Return the descriptions of functions in a document, unwrapped; nothing when it is something else."""
    if isinstance(document, dict):
        found = mapping_of(cast(object, document))
        listed = next((list_of(found[key]) for key in ("tools", "functions") if key in found), None)
        candidates = [found] if listed is None else listed
    else:
        candidates = list_of(document)
    entries = [_unwrapped(mapping_of(each)) for each in candidates]
    return entries if entries and all(_is_function(each) for each in entries) else []


def _unwrapped(entry: dict[str, Any]) -> dict[str, Any]:
    return mapping_of(entry["function"]) if isinstance(entry.get("function"), dict) else entry


def _is_function(entry: Mapping[str, Any]) -> bool:
    name = text_of(entry.get("name")) or text_of(entry.get("title"))
    return bool(name.strip()) and ("description" in entry or _has_schema(entry))


def _has_schema(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(entry.get(key), dict) for key in (*_SCHEMA_KEYS, "properties"))


def _passage(group: str, position: int, entry: Mapping[str, Any], kind: SourceKind) -> Passage:
    schema = next((mapping_of(entry[key]) for key in _SCHEMA_KEYS if isinstance(entry.get(key), dict)), None)
    if schema is None:
        schema = dict(entry) if "properties" in entry else {}
    name = text_of(entry.get("name")) or text_of(entry.get("title"))
    shown = text_of(entry.get("title"))
    about = text_of(entry.get("description"))
    data: dict[str, JsonValue] = {"input_schema": schema} if schema else {}
    return Passage(
        kind=kind,
        group=group,
        position=position,
        title=name.strip()[:1000],
        description="\n".join(part for part in (shown if shown != name else "", about) if part),
        content=described_parameters(schema),
        data=data,
    )


def _describe(schema: object, prefix: str, depth: int, lines: list[str]) -> None:
    found = mapping_of(schema)
    required = {name for name in list_of(found.get("required")) if isinstance(name, str)}
    for name, part in mapping_of(found.get("properties")).items():
        if len(lines) >= MAX_PARAMETERS:
            return
        field = mapping_of(part)
        kind = _kind(field) + (", required" if name in required else "")
        choices = [str(each)[:60] for each in list_of(field.get("enum"))[:20]]
        about = [text_of(field.get("description")), f"one of {', '.join(choices)}" if choices else ""]
        lines.append(f"{prefix}{name} ({kind}): {' '.join(part for part in about if part)}".rstrip(": "))
        if depth > 1:
            _describe(field, f"{prefix}{name}.", depth - 1, lines)
            _describe(field.get("items"), f"{prefix}{name}[].", depth - 1, lines)


def _kind(field: Mapping[str, Any]) -> str:
    kind = field.get("type")
    if isinstance(kind, list):
        return " or ".join(str(each) for each in list_of(cast(object, kind)))
    return kind if isinstance(kind, str) else "any"
