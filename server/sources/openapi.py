"""Reads an API's operations from its description: OpenAPI 3 in JSON or YAML, or endpoints collected from RapidAPI."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.files import Group, read_bytes, read_files, read_format
from swarm_memory.server.sources.tool_lists import (
    MAX_TOOLS,
    described_parameters,
    list_of,
    mapping_of,
    parse_json,
    text_of,
)
from swarm_memory.tools.guard.redact import redact_start
from swarm_memory.tools.text.cleaning import read_yaml

READER = "openapi-4"
MAX_BYTES = 20_000_000
MAX_RESOLVED = 2_000
"""At most this many parts of schemas are put together for one operation."""
MAX_REF_DEPTH = 6
MAX_NESTING = 40

API_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_EXAMPLES = ("example", "examples")
_SIGNS = ("paths", "endpoints", "parameters")
_FLAGS = ("exclusiveMinimum", "exclusiveMaximum")
"""In OpenAPI 3.0 they are booleans, which a JSON schema does not have there, and are left out."""
_JSON = ("application/json", "*/*", "application/*")
WANTED = "expected OpenAPI 3, or {endpoint: {description, parameters: [{name, type}]}} in JSON"
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
"""Names of Python's types, with those of JSON's."""


def read_openapi(root: Path, *, allows: Callable[[str], bool] | None = None) -> Iterator[Group]:
    """Yield one group for each description, `root` itself or those below it; its operations are the passages.

    In a folder, files that do not describe an API, or that `allows` (given the path) refuses, are skipped.
    """
    return read_files(root, read_format(READER, API_SUFFIXES, MAX_BYTES, looks_like_api, parse_api), allows)


def looks_like_api(data: bytes) -> bool:
    """Whether a file's bytes look like a description of an API at a glance; all of it is read later."""
    head = data[:4_000]
    if any(mark in head for mark in (b"openapi:", b'"openapi"', b"swagger:", b'"swagger"')):
        return True
    with suppress(InputError):
        return b'"parameters"' in data and bool(_endpoints(parse_json(data)))
    return False


def has_api_fragments(path: Path) -> bool:
    """Whether a file that was not read as a description of an API has parts of one: paths, or endpoints' parameters."""
    if not (path.is_file() and path.suffix.lower() in API_SUFFIXES):
        return False
    with suppress(InputError):
        document = mapping_of(_parsed(path.name, read_bytes(path, MAX_BYTES)))
        objects = (document, *map(mapping_of, document.values()))
        return any(isinstance(each.get(key), dict | list) for each in objects for key in _SIGNS)
    return False


def parse_api(group: str, data: bytes) -> list[Passage]:
    """Return the operations of a description in their order. Raises `InputError` when it is not a supported one."""
    document = mapping_of(_parsed(group, data))
    if endpoints := _endpoints(document):
        document = _as_openapi(document, endpoints)
    if str(document.get("openapi", "")).startswith("3."):
        found = [
            Passage(kind="api", group=group, position=position, path=group, **operation)
            for position, operation in enumerate(_operations(document))
        ]
    elif "swagger" in document:
        raise InputError(f"{group} is Swagger {document['swagger']}: convert it to OpenAPI 3 first")
    else:
        raise InputError(f"{group} is not an API description: {WANTED}")
    if len(found) > MAX_TOOLS:
        raise InputError(f"{group} has {len(found):,} operations: at most {MAX_TOOLS:,} are allowed")
    return found


def _parsed(group: str, data: bytes) -> Any:
    if data.lstrip()[:1] in (b"{", b"["):
        return parse_json(data)
    try:
        return read_yaml(data)
    except ValueError as error:
        raise InputError(f"{group} is not valid YAML: {error}") from None


def _endpoints(document: object) -> dict[str, Any]:
    """Return the endpoints of a document in RapidAPI's shape, at its top or under `endpoints`; none for any other."""
    found = mapping_of(mapping_of(document).get("endpoints", document))
    are_all = all(isinstance(mapping_of(each).get("parameters"), list) for each in found.values())
    return {str(name): each for name, each in found.items()} if are_all and "openapi" not in found else {}


def _as_openapi(document: Mapping[str, Any], endpoints: Mapping[str, Any]) -> dict[str, Any]:
    """Return endpoints as OpenAPI: each is called by GET with its parameters in the query, unless it says otherwise."""
    paths: dict[str, Any] = {}
    for name, each in endpoints.items():
        parameters: list[dict[str, Any]] = []
        for given in map(mapping_of, list_of(each["parameters"])):
            kind = text_of(given.get("type")).lower()
            kind = _TYPES.get(kind, kind)
            place = "path" if f"{{{given.get('name')}}}" in name else "query"
            schema = {"type": kind} if kind in _TYPES.values() else {}
            parameters.append({"in": place, **given, "schema": schema})
        operation = {"operationId": name, "description": each.get("description"), "parameters": parameters}
        methods, method = paths.setdefault(f"/{name.lstrip('/')}", {}), str(each.get("method") or "get").lower()
        if method not in _METHODS or method in methods:
            raise InputError(f"{name} cannot be called with {method.upper()}: not a method, or another endpoint's")
        methods[method] = operation
    return {"openapi": "3.1.0", "servers": [{"url": document.get("base_url")}], "paths": paths}


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the content of each operation's passage."""
    for path, item in mapping_of(document.get("paths")).items():
        shared = _References(document).resolved(item)
        for method in _METHODS:
            if isinstance(shared.get(method), dict):
                operation = mapping_of(shared[method])
                parameters = [*list_of(shared.get("parameters")), *list_of(operation.get("parameters"))]
                servers = (list_of(each.get("servers")) for each in (operation, shared, document))
                said = {"parameters": parameters, "servers": next(filter(None, servers), None)}
                yield _operation(document, method.upper(), path, operation | said)


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    references, name = _References(document), f"{method} {path}"
    schema = references.input_schema(operation)
    tags = [text for each in list_of(operation.get("tags")) if (text := text_of(each))]
    about = [text_of(operation.get(key)) for key in ("summary", "description")]
    answers = [
        f"{code}: {text}"
        for code, each in mapping_of(operation.get("responses")).items()
        if (text := text_of(references.resolved(each).get("description")))
    ]
    api = text_of(mapping_of(document.get("info")).get("title"))
    lines = [name, described_parameters(schema), f"of {api}" if api else "", ", ".join(tags), *answers]
    data: dict[str, JsonValue] = {"method": method, "path": path, "input_schema": schema}
    if urls := list(filter(None, (text_of(mapping_of(each).get("url")) for each in list_of(operation["servers"])))):
        data["servers"] = [*urls]
    if operation.get("deprecated") is True:
        data["deprecated"] = True
    return {
        "title": redact_start(text_of(operation.get("operationId")) or name, 1000, pii=False),
        "description": "\n".join(dict.fromkeys(filter(None, about))),
        "content": "\n".join(filter(None, lines)),
        "data": data,
    }


class _References:
    """Resolves the local references of one operation, within limits of depth and number; others become empty."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._left = MAX_RESOLVED

    def resolved(self, value: object) -> dict[str, Any]:
        """Return an object, or the one that it refers to; an empty one if that is not found."""
        found = mapping_of(value)
        for _ in range(MAX_REF_DEPTH):
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            found = mapping_of(self._document if reference.startswith("#/") else None)
            for part in reference[2:].split("/"):
                found = mapping_of(found.get(part.replace("~1", "/").replace("~0", "~")))
        return {}

    def input_schema(self, operation: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return one JSON schema for all that an operation takes: its parameters, and the body as `body`.

        `in` is where each goes: `path`, `query and header` for two of one name, `body` for JSON, or a media type.
        """
        properties: dict[str, JsonValue] = {}
        required: list[JsonValue] = []
        parameters = [self.resolved(each) for each in operation["parameters"]]
        body = self.resolved(operation.get("requestBody"))
        bodies = {
            "body" if media.partition(";")[0].lower() in _JSON else media: mapping_of(each).get("schema")
            for media, each in ((str(key), each) for key, each in mapping_of(body.get("content")).items())
        }
        if bodies:
            place = min(bodies, key=lambda each: (each != "body", not each.endswith("+json")))
            parameters.append({**body, "name": "body", "in": place, "schema": bodies[place], "description": ""})
        for parameter in parameters:
            name, place = text_of(parameter.get("name")), text_of(parameter.get("in"))
            if not name:
                continue
            other = text_of(mapping_of(properties.get(name)).get("in"))
            if other not in ("", place):
                place = f"{other} and {place}"
            field = mapping_of(self._whole(parameter.get("schema"), MAX_REF_DEPTH))
            marks = {"description": text_of(parameter.get("description")), "in": place}
            properties[name] = field | {key: text for key, text in marks.items() if text}
            if parameter.get("required") is True and name not in required:
                required.append(name)
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _whole(self, value: Any, depth: int, level: int = 0) -> Any:
        """Return a schema with its references resolved; what exceeds a limit becomes an empty object."""
        self._left -= 1
        if depth == 0 or level > MAX_NESTING or self._left <= 0:
            return {}
        if isinstance(value, list):
            return [self._whole(each, depth, level + 1) for each in list_of(cast(object, value))]
        if not isinstance(value, dict):
            return value if isinstance(value, str | int | float | bool | None) else str(value)
        below = depth - 1 if "$ref" in value else depth
        found = self.resolved(cast(object, value))
        return {
            str(key): self._whole(part, below, level + 1)
            for key, part in found.items()
            if not (key in _EXAMPLES or (key in _FLAGS and isinstance(part, bool)))
        }
